//! Tests of `check`: the check run as people see it.

use super::super::status::tests::run as test_run;
use super::*;
use std::time::Duration;

fn shown(run: &Run) -> CheckRun {
    let branch = BranchName::new("feature/x").unwrap();
    let view = StatusView {
        run,
        repository: &"octo/hello".parse().unwrap(),
        web_url: Some("https://github.example"),
        panel_url: "http://panel/runs/7".into(),
        branch: Some(&branch),
        place: None,
        step: Some("editing files"),
        elapsed: Some(Duration::from_secs(75)),
    };
    render(&view, "treewarden", CommitSha::new(&"a".repeat(40)).unwrap())
}

#[test]
fn a_live_run_says_how_it_is_stopped_and_the_same_in_every_stage() {
    let live = shown(&test_run(RunState::Running));
    assert_eq!((live.conclusion, live.title.as_str()), (None, "🤖 Working on the request of ann"));
    insta::assert_snapshot!(live.summary, @"
    Working in isolated branch `issue-1`

    To stop it, write `@treewarden /stop` in a comment, or use the run's page. What is done so far is kept. The comment in the conversation says how far it is.
    ");
    assert_eq!(live.actions.iter().map(|action| action.button).collect::<Vec<_>>(), [Button::Stop]);
    assert_eq!(shown(&test_run(RunState::Delivering)), live);
}

#[test]
fn one_that_is_over_says_what_was_verified() {
    let mut run = test_run(RunState::Succeeded);
    run.outcome.pushed = CommitSha::new(&"c".repeat(40)).ok();
    run.outcome.files_changed = Some(1);
    let over = shown(&run);
    assert_eq!(over.title, "✅ Done for ann · 1 min 15 s");
    insta::assert_snapshot!(over.summary, @"
    Working in isolated branch `issue-1`

    The answer is in the comment of this run in the conversation.

    ---
    **Verified by Treewarden:** `feature/x` is at [`ccccccc`](https://github.example/octo/hello/commit/cccccccccccccccccccccccccccccccccccccccc) on the remote · 1 file changed in all.
    ");
    assert_eq!(over.actions.iter().map(|action| action.button).collect::<Vec<_>>(), [Button::Retry, Button::CleanUp]);
}

#[test]
fn what_came_of_a_run_has_a_word_of_githubs() {
    let words: Vec<_> = RunState::ALL.iter().map(|state| shown(&test_run(*state)).conclusion).collect();
    use Conclusion::*;
    let over = [Success, Failure, Cancelled, TimedOut, Neutral].map(Some);
    assert_eq!(words, [[None; 4].as_slice(), &over].concat());
    let mut kept = test_run(RunState::Succeeded);
    kept.outcome.not_pushed_because = Some("the push was refused".into());
    assert_eq!(shown(&kept).conclusion, Some(Neutral));
}

#[test]
fn buttons_are_as_short_as_github_wants_them() {
    for button in Button::ALL {
        let CheckAction { label, description, .. } = action(*button);
        assert!(label.chars().count() <= 20 && description.chars().count() <= 40, "{label}: {description}");
        assert!(button.as_str().len() <= 20);
    }
}

#[test]
fn a_key_names_its_run() {
    let run = RunId(uuid::Uuid::from_u128(7));
    let pushed = CommitSha::new(&"c".repeat(40)).unwrap();
    assert_eq!((run_of(&key(run)), run_of(&key_of_pushed(run, &pushed))), (Some(run), Some(run)));
    assert_eq!(run_of(&status::key(run)), None);
}
