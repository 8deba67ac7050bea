//! Tests of `access`: each event by itself, any order of them, and what a look tells and does not.

use super::*;
use proptest::prelude::*;
use uuid::Uuid;

const ALL: [Said; 8] = [
    Said::Granted,
    Said::Suspended,
    Said::Uninstalled,
    Said::Added,
    Said::Removed,
    Said::Of(Fate::Archived),
    Said::Of(Fate::Unarchived),
    Said::Of(Fate::Deleted),
];

#[test]
fn each_event_says_why_and_undoes_only_its_like() {
    for (before, said, now) in [
        (Reach::Whole, Said::Suspended, Reach::Suspended),
        (Reach::Suspended, Said::Granted, Reach::Whole),
        (Reach::NotSelected, Said::Granted, Reach::NotSelected),
        (Reach::NotSelected, Said::Suspended, Reach::NotSelected),
        (Reach::NotSelected, Said::Added, Reach::Whole),
        (Reach::Whole, Said::Removed, Reach::NotSelected),
        (Reach::Whole, Said::Uninstalled, Reach::Uninstalled),
        (Reach::Uninstalled, Said::Removed, Reach::Uninstalled),
        (Reach::Uninstalled, Said::Added, Reach::Whole),
        (Reach::Whole, Said::Of(Fate::Archived), Reach::Archived),
        (Reach::Archived, Said::Of(Fate::Unarchived), Reach::Whole),
        (Reach::Suspended, Said::Of(Fate::Unarchived), Reach::Suspended),
        (Reach::Archived, Said::Added, Reach::Archived),
        (Reach::Lost, Said::Granted, Reach::Whole),
        (Reach::NameTaken, Said::Granted, Reach::NameTaken),
    ] {
        assert_eq!(after(before, said), now, "{before} {said:?}");
    }
}

/// GitHub tells of a deletion twice, in whatever order.
#[test]
fn a_deleted_repository_stays_deleted() {
    for events in [[Said::Of(Fate::Deleted), Said::Removed], [Said::Removed, Said::Of(Fate::Deleted)]] {
        assert_eq!(events.into_iter().fold(Reach::Whole, after), Reach::Deleted);
    }
}

fn place(reach: Reach) -> KnownPlace {
    KnownPlace {
        codebase: CodebaseId(Uuid::nil()),
        repository: RepositoryId(1),
        installation: InstallationId(7),
        name: "octo/hello".parse().unwrap(),
        reach,
    }
}

fn seen(name: &str, archived: bool) -> SeenRepository {
    SeenRepository { id: RepositoryId(1), name: name.parse().unwrap(), default_branch: None, archived }
}

fn installation(id: i64, suspended: bool, repositories: Probe<Vec<SeenRepository>>) -> SeenInstallation {
    SeenInstallation { id: InstallationId(id), suspended, repositories }
}

#[test]
fn a_look_tells_what_no_event_told() {
    let (codebase, hello) = (CodebaseId(Uuid::nil()), seen("octo/hello", false));
    let there = |id, seen: &SeenRepository| installation(id, false, Probe::Known(vec![seen.clone()]));
    let empty = |id, suspended| installation(id, suspended, Probe::Known(Vec::new()));
    let reached = |id, seen: &SeenRepository| {
        vec![Change::Reached { codebase, installation: InstallationId(id), seen: seen.clone() }]
    };
    let lost = |reach| vec![Change::Lost { codebase, reach }];
    let (renamed, archived) = (seen("octo/hi", false), seen("octo/hello", true));
    for (reach, installations, changes) in [
        (Reach::Whole, vec![there(7, &hello)], Vec::new()),
        (Reach::NotSelected, vec![there(7, &hello)], reached(7, &hello)),
        (Reach::Whole, vec![there(7, &renamed)], reached(7, &renamed)),
        (Reach::Whole, vec![empty(7, false), there(8, &hello)], reached(8, &hello)),
        (Reach::Whole, vec![there(7, &archived)], reached(7, &archived)),
        (Reach::Archived, vec![there(7, &archived)], Vec::new()),
        (Reach::Archived, vec![there(7, &hello)], reached(7, &hello)),
        (Reach::Whole, vec![empty(7, false)], lost(Reach::NotSelected)),
        (Reach::Whole, vec![empty(7, true)], lost(Reach::Suspended)),
        (Reach::Whole, vec![empty(8, false)], lost(Reach::Uninstalled)),
        (Reach::Suspended, vec![empty(7, true)], Vec::new()),
        (Reach::NotSelected, vec![empty(7, true)], Vec::new()),
        (Reach::Deleted, vec![], Vec::new()),
    ] {
        assert_eq!(compare(&[place(reach)], &installations), changes, "{reach} {installations:?}");
    }
}

fn any_reach() -> impl Strategy<Value = Reach> {
    (0..Reach::ALL.len()).prop_map(|at| Reach::ALL[at])
}

proptest! {
    #[test]
    fn what_is_not_known_loses_nothing(reach in any_reach(), own: bool, other: bool) {
        let unknown = || Probe::Unknown("no answer".to_owned());
        let mut installations = vec![installation(9, false, unknown())];
        installations.extend(own.then(|| installation(7, false, Probe::Known(Vec::new()))));
        installations.extend(other.then(|| installation(8, false, unknown())));
        prop_assert_eq!(compare(&[place(reach)], &installations), Vec::new());
    }

    /// Whatever events came, late, twice or never: one look ends the doubt about what is reached.
    #[test]
    fn after_any_events_one_look_says_what_is_so(events in prop::collection::vec(0..ALL.len(), 0..8), archived: bool) {
        let before = events.into_iter().fold(Reach::Whole, |reach, at| after(reach, ALL[at]));
        let hello = seen("octo/hello", archived);
        let there = [installation(7, false, Probe::Known(vec![hello.clone()]))];
        let so = if archived { Reach::Archived } else { Reach::Whole };
        let changes = compare(&[place(before)], &there);
        prop_assert_eq!(changes.is_empty(), before == so);
        let (codebase, installation) = (CodebaseId(Uuid::nil()), InstallationId(7));
        let reached = Change::Reached { codebase, installation, seen: hello };
        prop_assert!(changes.iter().all(|change| *change == reached));
    }
}
