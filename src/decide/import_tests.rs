//! Tests of `import`: places and rows in all their forms, and what no rows may lead to.

use super::*;
use proptest::prelude::*;

fn row(columns: &[(&'static str, &str)]) -> OldRow {
    OldRow(columns.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
}

fn hello() -> RepositoryFacts {
    RepositoryFacts {
        host: Host::Github { id: RepositoryId(1), installation: InstallationId(7) },
        name: "octo/hello".parse().unwrap(),
        default_branch: BranchName::new("main").ok(),
    }
}

fn usable_at(path: &str, branch: Option<&str>) -> Place {
    let branch = branch.and_then(|branch| BranchName::new(branch).ok());
    Place::Usable { repository: RepositoryId(1), path: path.into(), branch, unclean: false }
}

fn facts(places: &[(&str, Place)]) -> Facts {
    Facts {
        now: Timestamp::from_unix(1_800_000_000),
        web_host: "github.com".to_owned(),
        repositories: [("octo/hello".to_owned(), Ok(hello()))].into(),
        local: BTreeMap::new(),
        threads: BTreeMap::new(),
        places: places.iter().map(|(path, place)| ((*path).to_owned(), place.clone())).collect(),
    }
}

fn old(stage: OldStage, conversations: Vec<OldRow>) -> OldData {
    let codebases = vec![row(&[("id", "c"), ("repository_url", "https://github.com/octo/hello")])];
    OldData { stage, codebases, conversations, environments: vec![], sessions: vec![] }
}

fn thread(id: &str, number: i64, more: &[(&'static str, &str)]) -> OldRow {
    let name = format!("octo/hello#{number}");
    let own = [("id", id), ("platform_type", "github"), ("platform_conversation_id", &name), ("codebase_id", "c")];
    row(&[&own[..], more].concat())
}

#[test]
fn threads_that_share_a_path_share_its_environment() {
    let path = [("isolation_env_id", "/w/issue-42")];
    let mut pull = thread("b", 99, &path);
    pull.0.insert("updated_at", "2030-01-01 00:00:00".to_owned());
    let old = old(OldStage::Providers, vec![thread("a", 43, &path), pull]);
    let choice = choose(&old, &facts(&[("/w/issue-42", usable_at("/w/issue-42", Some("issue-42")))]));
    let [environment] = &choice.plan.environments[..] else { panic!("{choice:#?}") };
    assert_eq!(environment.work.to_string(), "issue-42", "the branch says what it was made for");
    assert_eq!(environment.last_activity_at.to_string(), "2030-01-01T00:00:00Z");
    let here = PlaceImport::Environment("/w/issue-42".into());
    assert!(choice.plan.conversations.iter().all(|conversation| conversation.place == here));
}

#[test]
fn a_place_that_cannot_be_used_is_a_note_and_the_thread_comes_without_it() {
    let branch = BranchName::new("issue-1").ok();
    let other =
        Place::Usable { repository: RepositoryId(2), path: "/w".into(), branch: branch.clone(), unclean: false };
    let path = "/w".to_owned();
    let elsewhere = |fetched: &[(i64, Probe<bool>)]| Place::Elsewhere {
        branch: branch.clone(),
        fetched: fetched.iter().map(|(id, answer)| (RepositoryId(*id), answer.clone())).collect(),
    };
    let stays = |fetched| Skip::WorkStays { path: path.clone(), branch: branch.clone(), fetched };
    for (place, why) in [
        (Place::Nothing, Skip::WorktreeGone(path.clone())),
        (Place::NoWorktree, Skip::NoWorktree(path.clone())),
        (Place::Link, Skip::Link(path.clone())),
        (elsewhere(&[(1, Probe::Known(true)), (2, Probe::Known(false))]), stays(Probe::Known(true))),
        (elsewhere(&[(1, Probe::Known(false)), (2, Probe::Known(true))]), stays(Probe::Known(false))),
        (elsewhere(&[(1, Probe::Unknown("?".into()))]), stays(Probe::Unknown("?".into()))),
        (
            elsewhere(&[(2, Probe::Known(false))]),
            stays(Probe::Unknown("its repository was never fetched here".to_owned())),
        ),
        (Place::Broken(RepositoryId(2)), Skip::OtherRepository(path.clone())),
        (
            Place::AtHome { repository: RepositoryId(1), branch: branch.clone() },
            Skip::AtHome { path: path.clone(), branch: branch.clone() },
        ),
        (Place::AtHome { repository: RepositoryId(2), branch: None }, Skip::OtherRepository(path.clone())),
        (
            Place::OnDefault(BranchName::new("main").unwrap()),
            Skip::OtherBranch { path: path.clone(), branch: BranchName::new("main").unwrap() },
        ),
        (Place::Outside, Skip::Outside(path.clone())),
        (Place::Locked("mine".into()), Skip::Locked { path: path.clone(), why: "mine".into() }),
        (Place::Unclear("?".into()), Skip::Unclear { path: path.clone(), why: "?".into() }),
        (usable_at("/w", None), Skip::Detached(path.clone())),
        (other, Skip::OtherRepository(path.clone())),
        (
            usable_at("/w", Some("a\u{202e}b")),
            Skip::OtherBranch { path: path.clone(), branch: BranchName::new("a\u{202e}b").unwrap() },
        ),
    ] {
        for stage in [OldStage::Paths, OldStage::Providers] {
            let column = if stage == OldStage::Paths { "worktree_path" } else { "isolation_env_id" };
            let choice = choose(&old(stage, vec![thread("a", 1, &[(column, "/w")])]), &facts(&[("/w", place.clone())]));
            assert_eq!(choice.plan.conversations[0].place, PlaceImport::Nothing);
            assert_eq!(choice.notes, [Some(why.clone())]);
            assert!(choice.plan.environments.is_empty());
        }
    }
}

#[test]
fn a_broken_worktree_waits_with_its_reason() {
    let (path, facts) = ("/w".to_owned(), facts(&[("/w", Place::Broken(RepositoryId(1)))]));
    let mut rows = old(OldStage::Environments, vec![thread("a", 1, &[("isolation_env_id", "e")])]);
    let columns = [("id", "e"), ("codebase_id", "c"), ("workflow_type", "issue"), ("workflow_id", "1")];
    rows.environments = vec![row(&[&columns[..], &[("working_path", "/w"), ("status", "active")]].concat())];
    let with_path = |stage, column| old(stage, vec![thread("a", 1, &[(column, "/w")])]);
    for old in [rows, with_path(OldStage::Paths, "worktree_path"), with_path(OldStage::Providers, "isolation_env_id")] {
        let choice = choose(&old, &facts);
        assert_eq!(choice.plan.conversations[0].place, PlaceImport::Legacy("/w".into()), "{:?}", old.stage);
        assert_eq!(choice.notes, [Some(Skip::Broken(path.clone()))]);
        assert!(choice.plan.environments.is_empty());
    }
    let again = waiting(Some(&waits(None)), "/w", &Place::Broken(RepositoryId(1)));
    assert!(matches!(&again, Waiting::Doubtful(why) if why.contains("damaged")), "{again:?}");
}

#[test]
fn a_path_alone_waits_and_a_container_is_none_of_ours() {
    let facts = facts(&[("/w", usable_at("/w", Some("issue-1")))]);
    let paths = choose(&old(OldStage::Paths, vec![thread("a", 1, &[("worktree_path", "/w")])]), &facts);
    assert_eq!(paths.plan.conversations[0].place, PlaceImport::Legacy("/w".into()));
    let legacy = [("isolation_env_id_legacy", "/w")];
    let environments = choose(&old(OldStage::Environments, vec![thread("a", 1, &legacy)]), &facts);
    assert_eq!(environments.plan.conversations[0].place, PlaceImport::Legacy("/w".into()));
    let container = [("isolation_env_id", "/w"), ("isolation_provider", "container")];
    let container = choose(&old(OldStage::Providers, vec![thread("a", 1, &container)]), &facts);
    assert_eq!(container.notes, [Some(Skip::OtherProvider("container".to_owned()))]);
}

#[test]
fn an_environment_that_is_not_in_the_database_is_said() {
    let lost = choose(&old(OldStage::Environments, vec![thread("a", 1, &[("isolation_env_id", "e")])]), &facts(&[]));
    assert_eq!(lost.notes, [Some(Skip::NoEnvironmentRow("e".to_owned()))]);
}

#[test]
fn the_newest_active_session_of_a_conversation_is_taken() {
    let mut old = old(OldStage::Providers, vec![thread("a", 1, &[("isolation_env_id", "/w")])]);
    let session = |id: &str, at: &str| {
        row(&[
            ("id", id),
            ("conversation_id", "A"),
            ("assistant_session_id", id),
            ("ai_assistant_type", "claude"),
            ("active", "t"),
            ("started_at", at),
        ])
    };
    old.sessions = vec![
        session("old", "2025-01-01"),
        session("mid", "2025-01-01 10:00:00+00"),
        session("new", "2025-01-02T00:00:00Z"),
    ];
    old.sessions[0].0.insert("started_at", "2024-01-01T00:00:00Z".to_owned());
    let choice = choose(&old, &facts(&[("/w", usable_at("/w", Some("issue-1")))]));
    assert_eq!(choice.plan.sessions.iter().map(|session| &*session.external_id).collect::<Vec<_>>(), ["new"]);
    assert_eq!(choice.skipped.len(), 2, "{:?}", choice.skipped);
}

#[test]
fn a_repository_on_this_machine_is_a_codebase_by_its_path() {
    let host = Host::Local { path: "/srv/hello".into() };
    let id = host.repository();
    assert!(id.0 < 0 && id != Host::Local { path: "/srv/other".into() }.repository());
    let name: RepoName = "_local/hello".parse().unwrap();
    let mut facts = facts(&[("/w", Place::Usable { repository: id, path: "/w".into(), branch: None, unclean: false })]);
    facts.local.insert("/srv/hello".to_owned(), Ok(RepositoryFacts { host, name, default_branch: None }));
    facts.local.insert("/srv/gone".to_owned(), Err("nothing is there".to_owned()));
    let mut old = old(OldStage::Paths, vec![]);
    old.codebases = vec![
        row(&[("id", "c"), ("default_cwd", "/srv/hello")]),
        row(&[("id", "d"), ("repository_url", "file:///srv/hello"), ("default_cwd", "/elsewhere")]),
        row(&[("id", "e"), ("default_cwd", "/srv/gone")]),
        row(&[("id", "f")]),
    ];
    let chat = [("id", "a"), ("platform_type", "slack"), ("platform_conversation_id", "C1"), ("codebase_id", "c")];
    old.conversations = vec![row(&chat)];
    assert_eq!(local_repositories(&old, "github.com"), BTreeSet::from(["/srv/gone".into(), "/srv/hello".into()]));
    let choice = choose(&old, &facts);
    assert_eq!(choice.plan.codebases.len(), 2);
    let ThreadImport::Held { repository, .. } = &choice.plan.conversations[0].thread else { panic!("{choice:?}") };
    assert_eq!(*repository, Some(id));
    let skips: Vec<_> = choice.skipped.iter().map(|(name, why)| (name.id.as_str(), why.clone())).collect();
    let gone = Skip::NoRepository { path: "/srv/gone".to_owned(), why: "nothing is there".to_owned() };
    assert_eq!(skips, [("e", gone), ("f", Skip::NoAddress)]);
}

#[test]
fn what_may_be_a_forks_waits_for_its_thread() {
    let place = usable_at("/w", Some("pr-9-review"));
    let path = [("isolation_env_id", "/w")];
    let choice = choose(&old(OldStage::Providers, vec![thread("a", 9, &path)]), &facts(&[("/w", place.clone())]));
    assert_eq!(choice.plan.conversations[0].place, PlaceImport::Legacy("/w".into()));
    assert!(choice.plan.environments.is_empty());

    let mut rows = old(OldStage::Environments, vec![thread("a", 9, &[("isolation_env_id", "e")])]);
    let columns = [("id", "e"), ("codebase_id", "c"), ("workflow_type", "review"), ("workflow_id", "9")];
    let more = [("working_path", "/w"), ("branch_name", "pr-9-review"), ("status", "active")];
    rows.environments = vec![row(&[&columns[..], &more].concat())];
    let choice = choose(&rows, &facts(&[("/w", place)]));
    assert_eq!(choice.plan.conversations[0].place, PlaceImport::Legacy("/w".into()));
    assert!(matches!(&choice.skipped[..], [(_, Skip::ForksBranch { .. })]), "{choice:?}");
}

#[test]
fn what_is_uncommitted_is_told_of() {
    let branch = BranchName::new("issue-1").ok();
    let place = Place::Usable { repository: RepositoryId(1), path: "/w".into(), branch, unclean: true };
    let path = [("isolation_env_id", "/w")];
    let choice = choose(&old(OldStage::Providers, vec![thread("a", 1, &path)]), &facts(&[("/w", place)]));
    assert_eq!((choice.plan.environments.len(), choice.unclean), (1, BTreeSet::from(["/w".into()])));
}

fn waits(pull: Option<Probe<PullHead>>) -> Waits {
    Waits {
        work: Work { kind: WorkKind::Issue, id: "1".to_owned() },
        repository: Some(RepositoryId(1)),
        has_environment: false,
        pull,
        bases: vec![BranchName::new("next").unwrap()],
        created_at: Timestamp::from_unix(1),
        last_activity_at: Timestamp::from_unix(2),
    }
}

#[test]
fn a_waiting_path_becomes_an_environment_where_a_first_use_would_make_it_one() {
    let on = |branch: &str, pull| waiting(Some(&waits(pull)), "/w", &usable_at("/w", Some(branch)));
    let head = |takes_results| {
        let (head, base) = (BranchName::new("feature/x").unwrap(), BranchName::new("main").unwrap());
        Some(Probe::Known(PullHead { head, base, takes_results }))
    };
    for (branch, pull) in [("by-hand", None), ("feature/x", head(true))] {
        let Waiting::Ready(environment, false) = on(branch, pull) else { panic!("{branch}") };
        assert_eq!((environment.branch.as_str(), environment.path.to_str()), (branch, Some("/w")));
        assert!(environment.metadata.migrated && environment.metadata.foreign_branch);
        assert_eq!(environment.metadata.adopted_from, Some(AdoptedFrom::Legacy));
    }
    for (branch, pull) in [("next", None), ("pr-9-review", None), ("a`b", None), ("by-hand", head(true))] {
        assert!(matches!(on(branch, pull), Waiting::Hopeless(Skip::OtherBranch { .. })), "{branch}");
    }
    for pull in [head(false), Some(Probe::Unknown("GitHub is away".to_owned()))] {
        assert!(matches!(on("feature/x", pull), Waiting::Doubtful(_)));
    }
}

#[test]
fn a_waiting_path_is_forgotten_only_for_sure() {
    let here = waits(None);
    let here = Some(&here);
    let good = usable_at("/w", Some("x"));
    assert!(matches!(waiting(here, "/w", &good), Waiting::Ready(_, false)));
    assert_eq!(waiting(None, "/w", &good), Waiting::Hopeless(Skip::Forgotten));
    let settled = Waits { has_environment: true, ..waits(None) };
    assert_eq!(waiting(Some(&settled), "/w", &good), Waiting::Hopeless(Skip::Settled));
    let homeless = Waits { repository: None, ..waits(None) };
    assert_eq!(waiting(Some(&homeless), "/w", &good), Waiting::Hopeless(Skip::NoCodebase));
    assert_eq!(waiting(here, "/w", &Place::Unclear("?".into())), Waiting::Doubtful("?".into()));
    assert_eq!(waiting(here, "/w", &Place::Locked("x".into())), Waiting::Doubtful("x".into()));
    assert_eq!(waiting(here, "/w", &Place::Nothing), Waiting::Hopeless(Skip::WorktreeGone("/w".into())));
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("github".into()),
        Just("telegram".into()),
        Just("octo/hello#1".into()),
        Just("octo/hello#2".into()),
        Just("/w".into()),
        Just("c".into()),
        Just("a".into()),
        Just("active".into()),
        Just("issue".into()),
        Just("https://github.com/octo/hello".into()),
        "\\PC{0,12}",
    ]
}

fn any_rows() -> impl Strategy<Value = Vec<OldRow>> {
    const COLUMNS: [&str; 16] = [
        "id",
        "platform_type",
        "platform_conversation_id",
        "codebase_id",
        "worktree_path",
        "isolation_env_id",
        "isolation_env_id_legacy",
        "isolation_provider",
        "workflow_type",
        "workflow_id",
        "working_path",
        "status",
        "conversation_id",
        "assistant_session_id",
        "ai_assistant_type",
        "repository_url",
    ];
    let columns = proptest::collection::btree_map(proptest::sample::select(&COLUMNS[..]), any_text(), 0..12);
    proptest::collection::vec(columns.prop_map(OldRow), 0..6)
}

proptest! {
    #[test]
    fn every_row_is_taken_or_skipped_and_no_place_is_invented(
        codebases in any_rows(), conversations in any_rows(), environments in any_rows(), sessions in any_rows(),
        stage in proptest::sample::select(vec![OldStage::Paths, OldStage::Providers, OldStage::Environments]),
    ) {
        let old = OldData { stage, codebases, conversations, environments, sessions };
        let choice = choose(&old, &facts(&[("/w", usable_at("/w", Some("issue-1")))]));
        let skipped = |table| choice.skipped.iter().filter(|(name, _)| name.table == table).count();
        let plan = &choice.plan;
        let rows = plan.codebases.iter().filter(|codebase| codebase.row.is_some()).count();
        prop_assert_eq!(rows + skipped(OldTable::Codebases), old.codebases.len());
        prop_assert_eq!(plan.conversations.len() + skipped(OldTable::Conversations), old.conversations.len());
        prop_assert_eq!(plan.sessions.len() + skipped(OldTable::Sessions), old.sessions.len());
        prop_assert_eq!(plan.conversations.len(), choice.notes.len());
        for environment in &plan.environments {
            prop_assert_eq!(environment.path.to_str(), Some("/w"));
        }
    }
}
