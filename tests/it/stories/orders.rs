//! Deliveries come in any order, and more than once: the end is the same.

use crate::support::world::{ANN, REPO, World};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use std::collections::BTreeSet;
use treewarden::model::*;

const ORDERS: usize = 4;

/// What people can see of it afterwards.
#[derive(Debug, PartialEq, Eq)]
struct End {
    /// Each work with its state and branch, and how many threads use it.
    environments: BTreeSet<(String, EnvironmentState, String, usize)>,
    branches: BTreeSet<String>,
    /// Head branches of the pull requests, and the files that they bring.
    pulls: BTreeSet<(String, BTreeSet<String>)>,
    runs: Vec<RunState>,
    receipts: usize,
    /// In each thread, the comments by what they are about.
    comments: Vec<(i64, Vec<String>)>,
}

/// Nothing of it arrives before all of it has happened; then each arrives once or more often, in the order that is drawn.
async fn told(runner: &mut TestRunner) -> End {
    let world = World::new().await;
    world.standin.faults().drop_deliveries(1_000);
    let (one, two, done) = (world.issue(), world.issue(), world.issue());
    world.ask(one, "write this down");
    world.ask(two, "add a greeting");
    world.ask(two, "add a note");
    world.ask(two, "/worktree pin");
    world.ask(done, "add a greeting");
    world.standin.close(REPO, ANN, done).unwrap();
    let pull = world.pull_from("feature/x", "").await;
    world.ask(pull, "add a note");
    world.standin.settled().await;
    world.standin.faults().clear();

    let sent: Vec<i64> = world.standin.deliveries().iter().map(|delivery| delivery.id).collect();
    let twice = sent.iter().flat_map(|id| [*id, *id]).collect::<Vec<_>>();
    let (shuffled, times) = (Just(twice).prop_shuffle(), 0..sent.len());
    let (mut order, left_out) = (shuffled, times).new_tree(runner).unwrap().current();
    // Some come once only.
    for id in &sent[..left_out] {
        let again = order.iter().rposition(|other| other == id).unwrap();
        order.remove(again);
    }
    for id in &order {
        world.standin.redeliver(*id).unwrap();
    }
    world.settle().await;

    let mut environments = BTreeSet::new();
    for environment in world.all_environments().await {
        let users = world.store().conversations_of(environment.id).await.unwrap().len();
        environments.insert((environment.work.to_string(), environment.state, environment.branch.to_string(), users));
    }
    let mut pulls = BTreeSet::new();
    for pull in world.standin.pulls(REPO).unwrap() {
        let mut files = BTreeSet::new();
        for file in ["GREETING.md", "NOTES.md", "start.txt"] {
            if world.remote_file(&pull.head_branch, file).await.is_some() {
                files.insert(file.to_owned());
            }
        }
        pulls.insert((pull.head_branch, files));
    }
    let comments = [one, two, done, pull].into_iter().map(|number| {
        let own = world.standin.comments(REPO, number).unwrap().into_iter().filter(|comment| comment.via_app);
        let kinds = own.map(|comment| {
            let marker =
                comment.body.lines().find_map(|line| line.strip_prefix("<!-- treewarden:")).unwrap_or_default();
            marker.split('/').next().unwrap_or_default().to_owned()
        });
        let mut kinds: Vec<String> = kinds.collect();
        kinds.sort();
        (number, kinds)
    });
    let end = End {
        comments: comments.collect(),
        environments,
        branches: world.standin.branches(REPO).await.unwrap().into_iter().collect(),
        pulls,
        runs: world.run_states().await,
        receipts: world.store().list_receipts(10).await.unwrap().len(),
    };
    world.end().await;
    end
}

#[tokio::test]
async fn any_order_and_any_repetition_comes_to_the_same_end() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let first = told(&mut runner).await;
    assert_eq!(first.runs, [RunState::Succeeded; 5], "{first:?}");
    for _ in 1..ORDERS {
        assert_eq!(told(&mut runner).await, first);
    }
}
