//! Environments: one live row for a piece of work, limits that hold, changes that are fenced.

use super::{at, codebase, conversation, environment, issue, new_environment, on_each_engine};
use futures::future::join_all;
use treewarden::{
    model::*,
    store::{EnvironmentFilter, Inserted, NewSession, Store},
};
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_work_gets_the_same_environment() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let wishes = (0..8).map(|_| {
            let (store, new) = (store.clone(), new_environment(&app, 5));
            tokio::spawn(async move { store.insert_environment(new, 25, at(0)).await.unwrap() })
        });
        let outcomes: Vec<_> = join_all(wishes).await.into_iter().map(Result::unwrap).collect();
        let created: Vec<_> = outcomes.iter().filter(|outcome| matches!(outcome, Inserted::Created(_))).collect();
        assert_eq!(created.len(), 1);
        let Inserted::Created(made) = created[0] else { unreachable!() };
        assert_eq!(made.state, EnvironmentState::Creating);
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Inserted::Exists(made.clone())).count(), 7);
        assert_eq!(store.find_live_environment(app.id, &issue(5)).await.unwrap(), Some(made.clone()));
    })
    .await;
}

/// BR-175: two of three used, five more at once. The limit is each codebase's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_limit_is_never_passed() {
    on_each_engine(async |store| {
        for round in 0..5 {
            let app = codebase(&store, round, &format!("acme/app{round}")).await;
            for number in [1, 2] {
                environment(&store, &app, number).await;
            }
            let wishes = (10..15).map(|number| {
                let (store, new) = (store.clone(), new_environment(&app, number));
                tokio::spawn(async move { store.insert_environment(new, 3, at(0)).await.unwrap() })
            });
            let outcomes: Vec<_> = join_all(wishes).await.into_iter().map(Result::unwrap).collect();
            assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Inserted::Created(_))).count(), 1);
            assert_eq!(outcomes.iter().filter(|outcome| **outcome == Inserted::LimitReached { live: 3 }).count(), 4);
        }
    })
    .await;
}

/// What may happen to the worktrees of a codebase, by the number of the work.
#[derive(Clone, Copy, Debug)]
enum Step {
    Make(i64),
    /// Its creation, or whatever was under way, is over.
    Settle(i64),
    /// Its removal begins, which still counts.
    Leave(i64),
    Remove(i64),
}

/// Whatever happens in whatever order, one after the other as a model says, or all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_order_of_creations_and_removals_passes_the_limit() {
    use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
    let step = prop_oneof![
        4 => (0..6_i64).prop_map(Step::Make),
        1 => (0..6_i64).prop_map(Step::Settle),
        1 => (0..6_i64).prop_map(Step::Leave),
        3 => (0..6_i64).prop_map(Step::Remove),
    ];
    let orders = (1..5_u32, proptest::collection::vec(step, 1..40));
    let mut runner = TestRunner::deterministic();
    let orders: Vec<_> = (0..24).map(|_| orders.new_tree(&mut runner).unwrap().current()).collect();
    on_each_engine(async |store| {
        for (round, (limit, steps)) in orders.iter().enumerate() {
            let app = codebase(&store, round as i64, &format!("acme/app{round}")).await;
            let mut live = std::collections::BTreeSet::new();
            for step in steps {
                let made = taken(&store, &app, *limit, *step).await;
                match (*step, made) {
                    (Step::Make(number), Some(Inserted::Created(_))) => {
                        assert!(live.len() < *limit as usize && live.insert(number), "{steps:?}");
                    }
                    (Step::Make(number), Some(Inserted::Exists(_))) => assert!(live.contains(&number), "{steps:?}"),
                    (Step::Make(number), Some(Inserted::LimitReached { live: many })) => {
                        assert!(!live.contains(&number) && many == *limit && live.len() == many as usize, "{steps:?}");
                    }
                    (Step::Remove(number), _) => drop(live.remove(&number)),
                    (Step::Settle(_) | Step::Leave(_), _) => {}
                    (Step::Make(_), other) => panic!("{other:?}"),
                }
                assert_eq!(store.live_environments(Some(app.id)).await.unwrap().len(), live.len(), "{steps:?}");
            }
            let at_once = steps.iter().map(|step| {
                let (store, app, limit, step) = (store.clone(), app.clone(), *limit, *step);
                tokio::spawn(async move {
                    taken(&store, &app, limit, step).await;
                    store.live_environments(Some(app.id)).await.unwrap().len()
                })
            });
            for seen in join_all(at_once).await {
                assert!(seen.unwrap() <= *limit as usize, "{steps:?}");
            }
        }
    })
    .await;
}

/// Takes one step, as it may be taken while others are; the answer to a creation.
async fn taken(store: &Store, codebase: &Codebase, limit: u32, step: Step) -> Option<Inserted> {
    let number = match step {
        Step::Make(number) => {
            return Some(store.insert_environment(new_environment(codebase, number), limit, at(0)).await.unwrap());
        }
        Step::Settle(number) | Step::Leave(number) | Step::Remove(number) => number,
    };
    let mut row = store.find_live_environment(codebase.id, &issue(number)).await.unwrap()?;
    let written = match step {
        Step::Make(_) | Step::Remove(_) => store.destroy_environment(&row, None, at(1)).await,
        Step::Settle(_) | Step::Leave(_) => {
            let leaves = matches!(step, Step::Leave(_));
            row.state = if leaves { EnvironmentState::Removing } else { EnvironmentState::Active };
            store.update_environment(&row).await
        }
    };
    // Somebody else may have been first.
    assert!(written.map_or_else(|error| error.is_conflict(), |_| true));
    None
}

#[tokio::test]
async fn a_branch_and_a_path_belong_to_one_piece_of_work() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let first = environment(&store, &app, 5).await;
        let mut same_branch = new_environment(&app, 6);
        same_branch.branch = first.branch.clone();
        let outcome = store.insert_environment(same_branch, 25, at(0)).await.unwrap();
        assert_eq!(outcome, Inserted::BranchTaken(first.clone()));
        let mut same_path = new_environment(&app, 6);
        same_path.path = first.path.clone();
        assert_eq!(store.insert_environment(same_path, 25, at(0)).await.unwrap(), Inserted::BranchTaken(first));
    })
    .await;
}

/// BR-167, BR-168: what is over holds no key and is not written again.
#[tokio::test]
async fn a_destroyed_environment_is_succeeded_as_often_as_needed() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let mut former: Vec<Environment> = Vec::new();
        for round in 0..3 {
            let live = environment(&store, &app, 5).await;
            assert!(former.iter().all(|old| old.id != live.id));
            former.push(store.destroy_environment(&live, None, at(round)).await.unwrap());
        }
        let live = environment(&store, &app, 5).await;
        for old in &former {
            assert_eq!(store.load_environment(old.id).await.unwrap().as_ref(), Some(old), "history stays as it was");
        }
        assert_eq!(store.live_environments(Some(app.id)).await.unwrap(), [live]);
    })
    .await;
}

#[tokio::test]
async fn only_the_first_of_two_writers_is_heard() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let read = environment(&store, &app, 5).await;
        let mut changed = read.clone();
        changed.state = EnvironmentState::Active;
        changed.start = Some(CommitSha::new(&"b".repeat(40)).unwrap());
        changed.pinned = true;
        changed.metadata.kept_because = vec!["pinned".to_owned(), "nul \0 byte".to_owned()];
        let written = store.update_environment(&changed).await.unwrap();
        assert_eq!(written.version, read.version + 1);
        assert_eq!((written.state, written.pinned, &written.start), (EnvironmentState::Active, true, &changed.start));
        assert_eq!(written.metadata.kept_because[1], "nul \u{FFFD} byte");
        assert!(store.update_environment(&changed).await.unwrap_err().is_conflict());
        assert!(store.destroy_environment(&read, None, at(2)).await.unwrap_err().is_conflict());
        // Activity is no change of facts.
        store.touch_environment(read.id, at(9)).await.unwrap();
        store.touch_environment(read.id, at(3)).await.unwrap();
        let touched = store.load_environment(read.id).await.unwrap().unwrap();
        assert_eq!((touched.version, touched.last_activity_at), (written.version, at(9)));
        let gone = store.destroy_environment(&written, None, at(10)).await.unwrap();
        assert!(store.update_environment(&gone).await.unwrap_err().is_conflict());
        assert!(store.destroy_environment(&gone, None, at(11)).await.unwrap_err().is_conflict());
    })
    .await;
}

#[tokio::test]
async fn destroying_ends_everything_that_hangs_on_it() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let env = environment(&store, &app, 5).await;
        let thread = conversation(&store, &app, 5).await;
        store.set_conversation_environment(thread.id, Some(env.id), at(1)).await.unwrap();
        let new = NewSession {
            conversation: thread.id,
            environment: env.id,
            agent: "claude".to_owned(),
            external_id: "s-1".to_owned(),
        };
        let session = store.open_session(new.clone(), at(1)).await.unwrap();
        assert_eq!(store.live_session(thread.id, env.id).await.unwrap(), Some(session.clone()));
        assert!(store.open_session(new, at(1)).await.unwrap_err().is_conflict());
        let details = ReceiptDetails { proof: "merged".to_owned(), bytes_freed: Some(9), ..ReceiptDetails::default() };
        let receipt = Some((Trigger::ThreadClosed, details.clone()));
        let gone = store.destroy_environment(&env, receipt, at(2)).await.unwrap();
        assert_eq!((gone.state, gone.destroyed_at), (EnvironmentState::Destroyed, Some(at(2))));
        assert_eq!(store.load_conversation(thread.id).await.unwrap().unwrap().environment, None);
        assert_eq!(store.live_session(thread.id, env.id).await.unwrap(), None);
        assert!(!store.close_session(session.id, "again", at(3)).await.unwrap());
        let receipt = store.receipt_of(env.id).await.unwrap().unwrap();
        assert_eq!((receipt.trigger, &receipt.details), (Trigger::ThreadClosed, &details));
        assert_eq!(store.list_receipts(10).await.unwrap(), [receipt]);
    })
    .await;
}

/// Nobody would find what lies in the trash.
#[tokio::test]
async fn a_removal_that_has_begun_ends_with_a_receipt_only() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let env = environment(&store, &app, 5).await;
        let removing = Environment { state: EnvironmentState::Removing, ..env };
        let removing = store.update_environment(&removing).await.unwrap();
        assert!(store.destroy_environment(&removing, None, at(2)).await.unwrap_err().is_conflict());
        let receipt = Some((Trigger::Command, ReceiptDetails::default()));
        store.destroy_environment(&removing, receipt, at(2)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_went_for_a_request_is_found_by_it_in_whatever_order_their_ids_are() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        // An hour's step of a clock lies between them, either way.
        let (early, late) = (Uuid::from_u128(1), Uuid::from_u128(u128::MAX - 1));
        for (number, delivery) in [(1, early), (2, late)] {
            let env = environment(&store, &app, number).await;
            let details = ReceiptDetails { asked_in: Some(InboxId(delivery)), ..ReceiptDetails::default() };
            let gone = store.destroy_environment(&env, Some((Trigger::Command, details)), at(2)).await.unwrap();
            let receipts = store.receipts_for(InboxId(delivery)).await.unwrap();
            assert_eq!(receipts.iter().map(|receipt| receipt.environment).collect::<Vec<_>>(), [gone.id]);
        }
        assert_eq!(store.receipts_for(InboxId(Uuid::from_u128(7))).await.unwrap(), []);
    })
    .await;
}

/// However many there are of which the name is a part.
#[tokio::test]
async fn a_name_finds_its_own_work_and_branch_only() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let other = codebase(&store, 2, "acme/other").await;
        environment(&store, &other, 1).await;
        let first = environment(&store, &app, 1).await;
        store.destroy_environment(&first, None, at(1)).await.unwrap();
        for number in [1, 10, 11, 2] {
            environment(&store, &app, number).await;
        }
        let mut named = store.find_live_environment(app.id, &issue(2)).await.unwrap().unwrap();
        let now = store.find_live_environment(app.id, &issue(1)).await.unwrap().unwrap();
        named.branch = BranchName::new("Other/Issue-11").unwrap();
        store.update_environment(&named).await.unwrap();
        let found = async |name: &str| {
            let found = store.environments_called(app.id, name).await.unwrap();
            found.into_iter().map(|one| one.id).collect::<Vec<_>>()
        };
        assert_eq!(found("Issue-1").await, [now.id, first.id], "work and branch are one row");
        assert_eq!(found("other/issue-11").await, [named.id]);
        assert!(found("issue").await.is_empty() && found("issue-%").await.is_empty());
        let of_work = store.environments_of(app.id, &issue(1)).await.unwrap();
        assert_eq!(of_work.into_iter().map(|one| one.id).collect::<Vec<_>>(), [now.id, first.id]);
    })
    .await;
}

#[tokio::test]
async fn pages_find_by_part_of_a_name() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        for number in [5, 15, 6] {
            environment(&store, &app, number).await;
        }
        let gone = store.find_live_environment(app.id, &issue(15)).await.unwrap().unwrap();
        store.destroy_environment(&gone, None, at(1)).await.unwrap();
        let found = async |live_only, search: &str| {
            let filter = EnvironmentFilter { codebase: Some(app.id), live_only, search: search.to_owned() };
            let rows = store.list_environments(&filter, 10, 0).await.unwrap();
            rows.into_iter().map(|row| row.work.id).collect::<Vec<_>>()
        };
        assert_eq!(found(false, "").await, ["6", "15", "5"]);
        assert_eq!(found(false, "ISSUE-5").await, ["5"]);
        assert_eq!(found(false, "5").await, ["15", "5"]);
        assert_eq!(found(true, "5").await, ["5"]);
        assert!(found(false, "%").await.is_empty() && found(false, "_").await.is_empty());
        let mut named = store.find_live_environment(app.id, &issue(6)).await.unwrap().unwrap();
        named.branch = BranchName::new("修复/Ärger").unwrap();
        store.update_environment(&named).await.unwrap();
        for search in ["Ärger", "ärger", "ÄRGER", "复/"] {
            assert_eq!(found(true, search).await, ["6"], "{search}");
        }
        let filter = EnvironmentFilter::default();
        assert_eq!(store.list_environments(&filter, 1, 1).await.unwrap()[0].work.id, "15");
    })
    .await;
}

#[tokio::test]
async fn a_size_is_remembered_beside_what_others_write() {
    on_each_engine(async |store| {
        let app = codebase(&store, 1, "acme/app").await;
        let before = environment(&store, &app, 5).await;
        let used = |bytes| DiskUse { bytes, whole: true, at: at(1) };
        // Whoever read the row before goes on undisturbed, and knows nothing of the size.
        store.remember_disk_use(before.id, used(7)).await.unwrap();
        let remembered = store.load_environment(before.id).await.unwrap().unwrap();
        assert_eq!((remembered.metadata.disk, remembered.version), (Some(used(7)), before.version));
        let mut pinned = before.clone();
        pinned.pinned = true;
        let pinned = store.update_environment(&pinned).await.unwrap();
        // Both at once: nothing that was written is lost, whoever comes first.
        for round in 0..20 {
            let mut row = store.load_environment(pinned.id).await.unwrap().unwrap();
            row.metadata.kept_because = vec![round.to_string()];
            let (size, written) =
                tokio::join!(store.remember_disk_use(row.id, used(round)), store.update_environment(&row));
            size.unwrap();
            assert_eq!(written.unwrap().version, row.version + 1);
            let now = store.load_environment(row.id).await.unwrap().unwrap();
            assert_eq!(now.metadata.kept_because, [round.to_string()]);
            assert!(now.pinned);
        }
    })
    .await;
}
