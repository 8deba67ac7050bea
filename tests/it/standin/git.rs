//! Git over HTTP, pull requests that follow pushes, and merges.

use super::{REPO, Stage, text};
use serde_json::{Value, json};
use std::io::Write;
use treewarden::demo::github::{Fault, MergeMethod, OpenPull, Refusal};

#[tokio::test]
async fn a_push_moves_the_pull_request_before_the_client_hears_of_it() {
    let stage = Stage::new().await;
    let token = stage.token(json!({})).await;
    let clone = stage.clone(&token).await;
    let git = async |arguments: &[&str]| {
        let output = stage.git(&clone, &token, arguments).await;
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    git(&["checkout", "-q", "-b", "issue-1"]).await;
    // More than git puts into one request, so that the body comes in chunks.
    let noise: Vec<u8> = (0..3_000_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    std::fs::write(clone.join("big.bin"), noise).unwrap();
    git(&["add", "."]).await;
    git(&["commit", "-q", "-m", "Big"]).await;
    git(&["push", "-q", "origin", "HEAD"]).await;
    let first = git(&["rev-parse", "HEAD"]).await;
    let pull = OpenPull { title: "Work", head: "issue-1", ..OpenPull::default() };
    let number = stage.standin.open_pull(REPO, "ann", pull).await.unwrap();
    assert_eq!(stage.standin.pull(REPO, number).unwrap().head_sha, first);

    git(&["commit", "-q", "--allow-empty", "-m", "More"]).await;
    git(&["push", "-q", "origin", "HEAD"]).await;
    let second = git(&["rev-parse", "HEAD"]).await;
    let seen = stage.standin.pull(REPO, number).unwrap();
    assert_eq!((seen.head_sha.as_str(), seen.commits.len()), (second.as_str(), 2));
    git(&["fetch", "-q", "origin", &format!("refs/pull/{number}/head")]).await;
    assert_eq!(git(&["rev-parse", "FETCH_HEAD"]).await, second);

    let refs = git(&["ls-remote", "-q", "origin"]).await;
    let names: Vec<&str> = refs.lines().filter_map(|line| line.split('\t').nth(1)).collect();
    assert_eq!(names, ["HEAD", "refs/heads/issue-1", "refs/heads/main", "refs/pull/1/head"]);

    git(&["push", "-q", "origin", "--delete", "issue-1"]).await;
    assert!(!stage.standin.pull(REPO, number).unwrap().open, "a pull request ends with its branch");
}

#[tokio::test]
async fn pushes_need_the_right_and_respect_protection() {
    let stage = Stage::new().await;
    let reader = stage.token(json!({ "permissions": { "contents": "read" } })).await;
    let writer = stage.token(json!({})).await;
    let clone = stage.clone(&reader).await;
    stage.git(&clone, &reader, &["commit", "-q", "--allow-empty", "-m", "x"]).await;
    let refused = stage.git(&clone, &reader, &["push", "origin", "HEAD:refs/heads/x"]).await;
    assert!(text(&refused.stderr).contains("403"), "{}", text(&refused.stderr));
    let anonymous = stage.git(&clone, "nonsense", &["ls-remote", "origin"]).await;
    assert!(!anonymous.status.success());

    stage.standin.protect_branch(REPO, "main", true).await.unwrap();
    let refused = stage.git(&clone, &writer, &["push", "--porcelain", "origin", "HEAD:refs/heads/main"]).await;
    assert!(text(&refused.stdout).contains("[remote rejected]"), "{}", text(&refused.stdout));
    assert!(text(&refused.stderr).contains("GH006"), "{}", text(&refused.stderr));
    let hidden = stage.git(&clone, &writer, &["push", "origin", "HEAD:refs/pull/9/head"]).await;
    assert!(!hidden.status.success());

    std::fs::create_dir_all(clone.join(".github/workflows")).unwrap();
    std::fs::write(clone.join(".github/workflows/ci.yml"), "on: push\n").unwrap();
    stage.git(&clone, &writer, &["add", "."]).await;
    stage.git(&clone, &writer, &["commit", "-q", "-m", "Workflow"]).await;
    let refused = stage.git(&clone, &writer, &["push", "origin", "HEAD:refs/heads/ci"]).await;
    assert!(text(&refused.stderr).contains("without `workflows` permission"), "{}", text(&refused.stderr));
    assert_eq!(stage.standin.branches(REPO).await.unwrap(), ["main"]);
}

#[tokio::test]
async fn a_renamed_repository_can_be_fetched_by_its_old_name() {
    let stage = Stage::new().await;
    let token = stage.token(json!({})).await;
    let clone = stage.clone(&token).await;
    stage.standin.rename_repository(REPO, "hullo").unwrap();
    let fetched = stage.git(&clone, &token, &["ls-remote", "origin"]).await;
    assert!(fetched.status.success(), "{}", text(&fetched.stderr));
}

#[tokio::test]
async fn compressed_requests_are_understood() {
    let stage = Stage::new().await;
    let token = stage.token(json!({})).await;
    let question = "0014command=ls-refs\n00010014ref-prefix HEAD\n0000";
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(question.as_bytes()).unwrap();
    let url = format!("{}/git-upload-pack", stage.standin.clone_url(REPO));
    let request = stage.http.post(url).basic_auth("x-access-token", Some(token)).header("git-protocol", "version=2");
    let request = request.header("content-type", "application/x-git-upload-pack-request");
    let answer = request.header("content-encoding", "gzip").body(gzip.finish().unwrap()).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let tip = stage.standin.branch_tip(REPO, "main").await.unwrap().unwrap();
    assert!(text(&answer.bytes().await.unwrap()).contains(&format!("{tip} HEAD")));
}

#[tokio::test]
async fn git_faults_strike_once() {
    let stage = Stage::new().await;
    let token = stage.token(json!({})).await;
    let clone = stage.clone(&token).await;
    stage.standin.faults().inject(None, "/octo/hello.git/", 1, Fault::Status(500));
    assert!(!stage.git(&clone, &token, &["fetch", "origin"]).await.status.success());
    assert!(stage.git(&clone, &token, &["fetch", "origin"]).await.status.success());

    // The push is done although its answer breaks off.
    stage.git(&clone, &token, &["commit", "-q", "--allow-empty", "-m", "x"]).await;
    stage.standin.faults().inject(Some("POST"), "/octo/hello.git/git-receive-pack", 1, Fault::CutAfterApplying);
    assert!(!stage.git(&clone, &token, &["push", "origin", "HEAD:refs/heads/x"]).await.status.success());
    let head = text(&stage.git(&clone, &token, &["rev-parse", "HEAD"]).await.stdout);
    assert_eq!(stage.standin.branch_tip(REPO, "x").await.unwrap(), Some(head));
}

/// A pull request with two commits that fixes a new issue, while `main` has moved on; returns both numbers.
async fn divided(stage: &Stage, branch: &str) -> (i64, i64) {
    let issue = stage.standin.open_issue(REPO, "ann", "Greet", "").unwrap();
    let (one, two) = (format!("{branch}-1.txt"), format!("{branch}-2.txt"));
    stage.standin.push_commit(REPO, "ann", branch, "One", &[(&one, Some("1\n"))]).await.unwrap();
    stage.standin.push_commit(REPO, "ann", branch, "Two", &[(&two, Some("2\n"))]).await.unwrap();
    let later = format!("{branch}-main.txt");
    stage.standin.push_commit(REPO, "octo", "main", "Meanwhile", &[(&later, Some("m\n"))]).await.unwrap();
    let body = format!("Fixes #{issue}");
    let pull = OpenPull { title: "Greeting", body: &body, head: branch, ..OpenPull::default() };
    (stage.standin.open_pull(REPO, "ann", pull).await.unwrap(), issue)
}

#[tokio::test]
async fn all_three_merges_are_real_and_close_the_issue() {
    let stage = Stage::new().await;
    let kinds = [(MergeMethod::Merge, 2, "3"), (MergeMethod::Squash, 1, "1"), (MergeMethod::Rebase, 1, "2")];
    for (method, parents, new_commits) in kinds {
        let branch = format!("{method:?}").to_lowercase();
        let (pull, issue) = divided(&stage, &branch).await;
        let before = stage.standin.branch_tip(REPO, "main").await.unwrap().unwrap();
        let commit = stage.standin.merge(REPO, "octo", pull, method).await.unwrap();
        assert_eq!(stage.standin.branch_tip(REPO, "main").await.unwrap(), Some(commit.clone()));
        let seen = stage.standin.pull(REPO, pull).unwrap();
        assert_eq!((seen.open, seen.merged_as), (false, Some(commit.clone())));
        assert!(!stage.standin.issue(REPO, issue).unwrap().open);
        let dir = stage.standin.git_dir(REPO).unwrap();
        let ask = async |arguments: &[&str]| text(&stage.git(&dir, "", arguments).await.stdout);
        assert_eq!(ask(&["rev-parse", &format!("{commit}^@")]).await.lines().count(), parents, "{method:?}");
        assert_eq!(ask(&["rev-list", "--count", &format!("{before}..{commit}")]).await, new_commits, "{method:?}");
        for file in [format!("{branch}-1.txt"), format!("{branch}-2.txt"), format!("{branch}-main.txt")] {
            assert!(stage.standin.file(REPO, "main", &file).await.unwrap().is_some(), "{method:?} {file}");
        }
        assert_eq!(stage.standin.branch_tip(REPO, &branch).await.unwrap(), Some(seen.head_sha), "the branch stays");
    }
}

#[tokio::test]
async fn conflicts_drafts_and_moved_heads_are_not_merged() {
    let stage = Stage::new().await;
    stage.standin.push_commit(REPO, "ann", "work", "Work", &[("README.md", Some("ours\n"))]).await.unwrap();
    let pull = OpenPull { title: "Work", head: "work", draft: true, ..OpenPull::default() };
    let number = stage.standin.open_pull(REPO, "ann", pull).await.unwrap();
    let merge = || stage.standin.merge(REPO, "octo", number, MergeMethod::Squash);
    assert!(matches!(merge().await, Err(Refusal::NotAllowed(_))), "a draft");
    stage.standin.set_draft(REPO, "ann", number, false).unwrap();
    let stale = json!({ "sha": "0".repeat(40), "merge_method": "squash" });
    let token = stage.token(json!({})).await;
    let path = format!("/repos/{REPO}/pulls/{number}/merge");
    assert_eq!(stage.call("PUT", &path, &token, Some(stale)).await.0, 409);
    stage.standin.push_commit(REPO, "octo", "main", "Other", &[("README.md", Some("theirs\n"))]).await.unwrap();
    assert!(!stage.standin.pull(REPO, number).unwrap().mergeable);
    assert!(matches!(merge().await, Err(Refusal::NotAllowed(_))), "a conflict");
    assert!(stage.standin.pull(REPO, number).unwrap().open);
}

#[tokio::test]
async fn a_merge_pushed_by_hand_counts_as_merged() {
    let stage = Stage::new().await;
    stage.standin.push_commit(REPO, "ann", "work", "Work", &[("a.txt", Some("a\n"))]).await.unwrap();
    let pull = OpenPull { title: "Work", head: "work", ..OpenPull::default() };
    let number = stage.standin.open_pull(REPO, "ann", pull).await.unwrap();
    let token = stage.standin.user_token("octo");
    let clone = stage.clone(&token).await;
    let pushed = stage.git(&clone, &token, &["push", "-q", "origin", "origin/work:refs/heads/main"]).await;
    assert!(pushed.status.success(), "{}", text(&pushed.stderr));
    let seen = stage.standin.pull(REPO, number).unwrap();
    assert_eq!((seen.open, seen.merged_as), (false, Some(seen.head_sha)));
}

#[tokio::test]
async fn a_pull_request_outlives_its_fork() {
    let stage = Stage::new().await;
    let fork = stage.standin.fork(REPO, "fay").await.unwrap();
    assert_eq!(fork, "fay/hello");
    stage.standin.push_commit(&fork, "fay", "patch", "Patch", &[("p.txt", Some("p\n"))]).await.unwrap();
    let pull = OpenPull { title: "Patch", head: "fay:patch", ..OpenPull::default() };
    let number = stage.standin.open_pull(REPO, "fay", pull).await.unwrap();
    let moved = stage.standin.push_commit(&fork, "fay", "patch", "More", &[("q.txt", Some("q\n"))]).await.unwrap();
    let token = stage.token(json!({})).await;
    let path = format!("/repos/{REPO}/pulls/{number}");
    let (_, seen) = stage.call("GET", &path, &token, None).await;
    assert_eq!((&seen["head"]["sha"], &seen["head"]["repo"]["fork"]), (&json!(moved), &json!(true)));
    stage.standin.delete_repository(&fork).await.unwrap();
    let (_, seen) = stage.call("GET", &path, &token, None).await;
    assert_eq!((&seen["head"]["repo"], &seen["head"]["label"]), (&Value::Null, &json!("fay:patch")));
    let clone = stage.clone(&token).await;
    let fetched = stage.git(&clone, &token, &["fetch", "-q", "origin", &format!("refs/pull/{number}/head")]).await;
    assert!(fetched.status.success(), "{}", text(&fetched.stderr));
}
