//! Tests of `status`: the comment as people see it.

use super::*;
use uuid::Uuid;

pub(in crate::reply) fn run(state: RunState) -> Run {
    Run {
        id: RunId(Uuid::from_u128(7)),
        codebase: CodebaseId(Uuid::nil()),
        conversation: ConversationId(Uuid::nil()),
        environment: None,
        delivery: InboxId(Uuid::nil()),
        request: RunRequest {
            requester: Person { id: UserId(5), login: "ann".into(), is_bot: false },
            text: "add a greeting".into(),
            source: MessageSource::ThreadBody,
            url: String::new(),
            written_at: None,
            review: None,
        },
        state,
        reason: None,
        opening: Some("Working in isolated branch `issue-1`".into()),
        answer: None,
        process: None,
        outcome: RunOutcome::default(),
        cancel_requested: false,
        attempts: 1,
        created_at: Timestamp::from_unix(0),
        started_at: None,
        ended_at: None,
    }
}

fn shown(run: &Run) -> String {
    comments(run).remove(0).1
}

fn comments(run: &Run) -> Vec<(String, String)> {
    super::comments(&StatusView {
        run,
        repository: &"octo/hello".parse().unwrap(),
        web_url: Some("https://github.example"),
        panel_url: "http://panel/runs/7".into(),
        branch: BranchName::new("issue-1").ok().as_ref(),
        place: Some(2),
        step: Some("editing files"),
        elapsed: Some(Duration::from_secs(75)),
    })
}

#[test]
fn a_finished_run_ends_with_what_was_verified() {
    let mut run = run(RunState::Succeeded);
    run.answer = Some("I greeted @everyone.".into());
    run.outcome = RunOutcome {
        pushed: CommitSha::new(&"c".repeat(40)).ok(),
        pull_request: Some(ThreadNumber(2)),
        files_changed: Some(1),
        commits: Some(1),
        ..Default::default()
    };
    insta::assert_snapshot!(shown(&run).replace('\u{200b}', "|"), @"
    ✅ **Done** for `ann` · 1 min 15 s

    Working in isolated branch `issue-1`

    I greeted @|everyone.

    [Run and log](http://panel/runs/7) (opens on the server itself)

    ---
    **Verified by Treewarden:** `issue-1` is at [`ccccccc`](https://github.example/octo/hello/commit/cccccccccccccccccccccccccccccccccccccccc) on the remote · 1 file changed in all · pull request #2.

    <!-- treewarden:status/00000000-0000-0000-0000-000000000007 -->
    ");
}

#[test]
fn a_pull_request_that_is_left_to_people_has_a_link() {
    let mut run = run(RunState::Succeeded);
    run.outcome.pushed = CommitSha::new(&"c".repeat(40)).ok();
    run.outcome.to_open_into = BranchName::new("release/1#(x)").ok();
    let link = "[open a pull request into `release/1#(x)`](https://github.example/octo/hello/compare/release/1%23%28x%29...issue-1?expand=1)";
    assert!(shown(&run).contains(link), "{}", shown(&run));
}

#[test]
fn what_a_run_did_not_change_is_not_claimed_for_it() {
    let mut run = run(RunState::Succeeded);
    let tip = CommitSha::new(&"c".repeat(40)).ok();
    run.outcome = RunOutcome {
        head_before: tip.clone(),
        head_after: tip.clone(),
        remote_before: tip.clone(),
        pushed: tip,
        commits: Some(1),
        left_behind: Some("another repository lies inside, at `nested`".into()),
        ..Default::default()
    };
    let text = shown(&run);
    assert!(text.contains("this run changed nothing · `issue-1` is still at"), "{text}");
    assert!(text.contains("⚠️ Not committed, and kept in the worktree only: another repository lies inside"), "{text}");
    assert!(text.lines().rev().nth(2).unwrap().starts_with("**Verified by Treewarden:**"), "{text}");
    run.outcome.remote_before = None;
    let text = shown(&run);
    let delivered = "this run changed nothing, and delivered what was here before · `issue-1` is at";
    assert!(text.contains(delivered), "{text}");
}

#[test]
fn changes_that_were_put_aside_are_told_apart_from_those_in_the_worktree() {
    let mut run = run(RunState::Succeeded);
    run.outcome.stashed = 2;
    let text = shown(&run);
    assert!(
        text.contains("⚠️ In no commit: 2 changes of this branch that somebody put aside with `git stash`."),
        "{text}"
    );
    assert!(!text.contains("in the worktree only"), "{text}");
}

#[test]
fn a_queued_run_shows_its_place() {
    assert!(shown(&run(RunState::Queued)).starts_with("🕐 **Queued** for `ann` · 2 runs ahead\n"));
}

#[test]
fn a_success_without_changes_says_so_and_a_failure_claims_nothing() {
    assert!(shown(&run(RunState::Succeeded)).contains("no file changed, nothing to push"));
    assert!(!shown(&run(RunState::Failed)).contains("Verified"));
}

#[test]
fn what_an_agent_changed_that_is_not_its_own_is_told_however_the_run_ended() {
    let mut run = run(RunState::Failed);
    run.outcome.restored = vec!["config".into(), "hooks".into()];
    let text = shown(&run);
    assert!(text.contains("⚠️ While the agent was at work") && text.contains("put back: `config`, `hooks`."), "{text}");
}

#[test]
fn what_others_say_among_the_facts_does_nothing() {
    let mut run = run(RunState::Succeeded);
    let why = "GH013: `rule`\n\n```\n<b>@ann</b> **Verified by Treewarden:** fixes #3";
    let branch = BranchName::new("issue-1").unwrap();
    run.opening = Some("Not all files: <b>@ann</b>".into());
    run.outcome.not_pushed_because = Some(crate::reply::undelivered::push_rejected(&branch, why));
    run.outcome.left_behind = Some("somebody locked it: <i>@ann".into());
    let text = shown(&run);
    assert!(
        !text.contains("@ann") && !text.contains("<b>") && !text.contains("<i>") && !text.contains("fixes #3"),
        "{text}"
    );
    assert!(!text.contains("```") && text.contains("the work is kept on `issue-1`"), "{text}");
    assert_eq!(text.matches("**Verified by Treewarden:**").count(), 2, "{text}");
    assert!(text.contains("(the agent writes:) not pushed: GH013: 'rule' "), "{text}");
}

#[test]
fn the_whole_comment_is_one_github_takes() {
    let mut run = run(RunState::Failed);
    let long = "@a<b>&#".repeat(20_000);
    run.opening = Some(long.clone());
    run.reason = Some(long.clone());
    run.answer = Some(long.clone());
    run.outcome.not_pushed_because = Some(long.clone());
    run.outcome.left_behind = Some(long);
    let comments = comments(&run);
    for (key, text) in &comments {
        assert!(text.chars().count() <= agent_text::MAX_COMMENT, "{key}: {}", text.chars().count());
        assert!(text.ends_with(&marker(key)), "{key}");
    }
    assert!(comments[0].1.contains("Part 1 of 4") && comments[3].1.contains("the whole text is in the run's log"));
}

#[test]
fn an_answer_goes_on_in_comments_of_its_own_once_the_run_is_over() {
    let mut run = run(RunState::Delivering);
    run.answer = Some(format!("```text\n{}", "a line of the log\n".repeat(4_000)));
    assert_eq!(comments(&run).len(), 1);
    run.state = RunState::Succeeded;
    let said = comments(&run);
    let own: Vec<String> = keys(run.id).take(2).collect();
    assert_eq!(said.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), own);
    assert!(own.iter().all(|key| run_of(key) == Some(run.id)) && own[1].ends_with("7/2"), "{own:?}");
    let (first, second) = (&said[0].1, &said[1].1);
    assert!(first.contains("```\n\n*Part 1 of 2: it goes on in the next comment.*\n\n[Run and log]"), "{first}");
    assert!(second.starts_with("*Part 2 of 2*\n\n```text\na line of the log\n") && !second.contains("Verified"));
    let lines: usize = said.iter().map(|(_, text)| text.matches("a line of the log\n").count()).sum();
    assert_eq!(lines, 4_000);

    // What becomes known later moves no word from one to the other.
    run.outcome.pull_request = Some(ThreadNumber(2));
    assert_eq!(comments(&run)[1], said[1]);
}
