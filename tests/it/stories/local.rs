//! What people and scripts on this machine say, with GitHub and without.

use crate::support::{
    postgres::Database,
    world::{ANN, REPO, World, git},
};
use serde_json::{Value, json};
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use std::path::{Path, PathBuf};
use treewarden::{demo::github::MergeMethod, model::*};

pub(super) const ON: (&str, &str) = ("TREEWARDEN_LOCAL", "on");

/// Speaks as a script on this machine does.
pub(super) struct Script {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Script {
    pub(super) fn new(home: &Path) -> Self {
        let door: Value = serde_json::from_slice(&std::fs::read(home.join("local.json")).unwrap()).unwrap();
        let text = |field: &str| door[field].as_str().unwrap().to_owned();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { http, url: format!("{}/local/messages", text("url")), token: text("token") }
    }

    async fn post(&self, message: Value) -> (u16, Value) {
        let answer = self.http.post(&self.url).bearer_auth(&self.token).json(&message).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    pub(super) async fn say(&self, conversation: &str, codebase: &str, text: &str) -> String {
        let message = json!({"conversation": conversation, "codebase": codebase, "text": text});
        let (status, answer) = self.post(message).await;
        assert_eq!(status, 202, "{answer}");
        answer["id"].as_str().unwrap().to_owned()
    }

    async fn read(&self, conversation: &str, after: i64) -> Value {
        let query = [("conversation", conversation.to_owned()), ("after", after.to_string())];
        let answer = self.http.get(&self.url).bearer_auth(&self.token).query(&query).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.json().await.unwrap()
    }

    /// All texts of the service in a conversation.
    async fn answers(&self, conversation: &str) -> Vec<String> {
        let seen = self.read(conversation, 0).await;
        let all = seen["messages"].as_array().unwrap().iter().filter(|one| one["author"] == "treewarden");
        all.map(|one| one["text"].as_str().unwrap().to_owned()).collect()
    }

    pub(super) async fn last(&self, conversation: &str) -> String {
        self.answers(conversation).await.pop().unwrap_or_else(|| panic!("nothing was said in {conversation}"))
    }

    async fn close(&self, conversation: &str) {
        let request = self.http.delete(&self.url).query(&[("conversation", conversation)]);
        assert_eq!(request.bearer_auth(&self.token).send().await.unwrap().status(), 202);
    }
}

/// A repository of Ann's on this machine, with one commit on `main`, and hooks that must never run.
pub(super) fn repository(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(&path).unwrap();
    git(&path, &["init", "--quiet", "--initial-branch=main"]);
    std::fs::write(path.join("README.md"), "# tools\n").unwrap();
    git(&path, &["add", "."]);
    git(&path, &["commit", "--quiet", "-m", "Begin"]);
    for hook in ["pre-receive", "update", "post-receive", "post-update", "reference-transaction"] {
        let file = path.join(".git/hooks").join(hook);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, format!("#!/bin/sh\ntouch '{}'\n", dir.join("hook-ran").display())).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    path
}

fn tip(repository: &Path, branch: &str) -> String {
    git(repository, &["for-each-ref", "--format=%(objectname)", &format!("refs/heads/{branch}")])
}

pub(super) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

async fn met(world: &World) {
    // The service knows a repository once something was heard of it.
    let issue = world.issue();
    world.ask(issue, "/help");
    world.settle().await;
}

#[tokio::test]
async fn a_message_leads_to_a_pull_request_like_a_mention() {
    let world = World::with(&[ON]).await;
    met(&world).await;
    let script = Script::new(&world.home());
    let id = script.say("chat", REPO, "add a greeting").await;
    world.settle().await;

    let environment = world.environment().await;
    assert_eq!(environment.work, Work { kind: WorkKind::Thread, id: "chat".to_owned() });
    assert_eq!(environment.branch.as_str(), "thread-31e06f7d");
    let seen = script.read("chat", 0).await;
    assert_eq!((&seen["busy"], &seen["state"], &seen["codebase"]), (&json!(false), &json!("open"), &json!(REPO)));
    let messages = seen["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!((&messages[0]["id"], &messages[0]["author"]), (&json!(id), &json!("local")));
    assert_eq!((&messages[0]["text"], &messages[0]["run"]), (&json!("add a greeting"), &json!("succeeded")));
    assert_eq!(messages[1]["answers"], json!(id));
    let status = messages[1]["text"].as_str().unwrap();
    assert!(status.starts_with("✅ **Done** for `local`") && !status.contains("<!--"), "{status}");
    assert!(status.contains("Working in isolated branch `thread-31e06f7d`"), "{status}");
    let pull = world.pull_of("thread-31e06f7d");
    assert!(status.contains(&format!("pull request #{}", pull.number)), "{status}");
    assert!(pull.draft && !pull.body.contains("Fixes") && !pull.body.contains('#'), "{}", pull.body);
    assert_eq!(pull.title, "add a greeting");
    assert!(pull.body.ends_with("Requested on the machine of the service (thread-31e06f7d)"), "{}", pull.body);
    let commit = git(&world.canonical().await, &["log", "-1", "--format=%an %b", "thread-31e06f7d"]);
    assert!(!commit.contains("Co-authored-by") && commit.contains("thread-31e06f7d"), "{commit}");

    // The same message is edited in place; whoever read up to a number gets what is new.
    let after = seen["after"].as_i64().unwrap();
    script.say("chat", REPO, "add a note").await;
    world.settle().await;
    let later = script.read("chat", after).await;
    let later: Vec<&str> =
        later["messages"].as_array().unwrap().iter().map(|one| one["text"].as_str().unwrap()).collect();
    assert_eq!(later.len(), 2);
    assert!(later[1].contains("pull request"), "{later:?}");
    assert_eq!(world.pull_of("thread-31e06f7d").commits.len(), 2);
    let prompt = world.runs().await.pop().unwrap().id;
    let prompt = std::fs::read_to_string(world.home().join(format!("runs/{prompt}.prompt"))).unwrap();
    assert!(prompt.contains("what was said before") && prompt.contains("> add a greeting"), "{prompt}");
    assert_eq!(prompt.matches("add a note").count(), 1, "the task is no background: {prompt}");
    assert!(world.page("/runs").await.contains("chat"));
    assert!(world.page("/deliveries").await.contains("local chat"));
    world.end().await;
}

#[tokio::test]
async fn commands_are_answered_and_threads_share_worktrees_by_name() {
    let world = World::with(&[ON]).await;
    let issue = world.worked_issue("add a greeting").await;
    let script = Script::new(&world.home());
    let ask = async |conversation: &str, words: &str| {
        script.say(conversation, REPO, words).await;
        world.settle().await;
        script.last(conversation).await
    };
    assert!(ask("chat", "/help").await.starts_with("Say what is to be done"));
    assert!(ask("chat", "/status").await.contains("1 worktree of 25"));
    assert!(ask("chat", "/worktree link issue-1").await.contains("**issue-1** on branch `issue-1`"));
    script.say("chat", REPO, "add a note").await;
    world.settle().await;
    assert_eq!(world.pull_of("issue-1").commits.len(), 2);
    assert_eq!(world.environments().await.len(), 1);

    // Another conversation goes on where a third one works, by either of its names.
    script.say("deep thought", REPO, "write this down").await;
    world.settle().await;
    let named = Work { kind: WorkKind::Thread, id: "deep thought".to_owned() }.to_string();
    for words in [format!("/worktree link {named}"), format!("/worktree link {}", named.to_uppercase())] {
        assert!(ask("chat", &words).await.contains(&format!("**{named}** on branch `{named}`")), "{words}");
    }
    let task = ask("chat", "/worktree create Add dark mode!").await;
    assert!(task.contains("**task-add-dark-mode** on branch `task-add-dark-mode`"), "{task}");
    let again = ask("chat", "/worktree create add  DARK mode").await;
    assert!(again.starts_with("This thread goes on in the worktree **task-add-dark-mode**"), "{again}");
    let taken = ask("chat", "/worktree create add-dark-mode").await;
    assert!(taken.contains("There is a worktree called task-add-dark-mode already"), "{taken}");
    // An issue may go on there, too.
    world.ask(issue, "/worktree link task-add-dark-mode");
    world.settle().await;
    assert!(world.answer(issue).contains("**task-add-dark-mode**"), "{}", world.answer(issue));
    let list = ask("chat", "/worktree list").await;
    for name in ["issue-1", &named, "task-add-dark-mode"] {
        assert!(list.contains(&format!("**{name}** `{name}`")), "{name} in {list}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_conversation_without_github_has_every_command() {
    let world = World::with(&[ON]).await;
    let prefix = [(REPO_SETTINGS_FILE, Some("branch_prefix: work/\n"))];
    world.standin.push_commit(REPO, ANN, "main", "Settings", &prefix).await.unwrap();
    met(&world).await;
    let script = Script::new(&world.home());
    let ask = async |words: &str| {
        script.say("chat", REPO, words).await;
        world.settle().await;
        script.last("chat").await
    };
    // What Treewarden names begins as the settings say, and what a person names does not.
    assert!(ask("note one").await.contains("Working in isolated branch `work/thread-31e06f7d`"));
    let place = world.environment().await.path;
    let task = ask("/worktree create Add dark mode!").await;
    assert!(task.contains("**task-add-dark-mode** on branch `work/task-add-dark-mode`"), "{task}");
    assert!(ask("/worktree remove").await.starts_with("🧹"));
    assert!(ask("/worktree create dark").await.contains("**task-dark** on branch `dark`"));
    assert!(ask("/worktree remove task-dark").await.starts_with("🧹"));
    assert!(ask("/worktree link thread-31e06f7d").await.contains("on branch `work/thread-31e06f7d`"));

    assert!(ask("/worktree pin").await.contains("is pinned: cleanup leaves it alone"));
    assert!(world.environment().await.pinned);
    assert!(ask("/worktree unpin").await.contains("is no longer pinned"));
    let orphans = ask("/worktree orphans").await;
    assert!(orphans.contains("`work/thread-31e06f7d`") && orphans.contains("All of them are mine."), "{orphans}");
    assert!(ask("/reset").await.starts_with("The agent has forgotten this thread"));
    assert!(ask("/stauts").await.contains("Did you mean `/status`?"));
    assert!(ask("/stop").await.contains("No run is live or queued"));

    std::fs::write(place.join("precious.txt"), "precious\n").unwrap();
    let kept = ask("/worktree remove").await;
    assert!(kept.contains("uncommitted work: 1 untracked file") && place.exists(), "{kept}");
    let gone = ask("/worktree remove --force").await;
    assert!(gone.starts_with("🧹") && !place.exists(), "{gone}");
    // Its work is called by a hash, which nothing but its branch shows, and that behind a prefix.
    let back = ask("/worktree restore thread-31e06f7d").await;
    assert!(back.contains("is there again, as it was"), "{back}");
    assert_eq!(std::fs::read_to_string(world.environment().await.path.join("precious.txt")).unwrap(), "precious\n");

    for kind in ["merged", "stale"] {
        assert!(
            ask(&format!("/worktree cleanup {kind}"))
                .await
                .contains(&format!("No worktree of this repository is {kind}"))
        );
    }
    assert!(ask("note two").await.starts_with("✅"));
    let notes = world.remote_file("work/thread-31e06f7d", "NOTES.md").await.unwrap();
    let files = [("NOTES.md", Some(&*notes)), ("precious.txt", Some("precious\n"))];
    world.standin.push_commit(REPO, ANN, "main", "By hand", &files).await.unwrap();
    let would = ask("/worktree cleanup merged --dry-run").await;
    assert!(would.starts_with("- `work/thread-31e06f7d` would be removed"), "{would}");
    let removed = ask("/worktree cleanup merged").await;
    assert!(removed.starts_with("- `work/thread-31e06f7d` was removed"), "{removed}");
    assert!(world.environments().await.is_empty());
    world.end().await;
}

#[tokio::test]
async fn closing_a_conversation_forgets_what_was_said_and_never_work() {
    let world = World::with(&[ON]).await;
    met(&world).await;
    let script = Script::new(&world.home());
    script.say("kept", REPO, "add a greeting").await;
    script.say("merged", REPO, "write this down").await;
    world.settle().await;
    let named = |id: &str| Work { kind: WorkKind::Thread, id: id.to_owned() }.to_string();
    let (kept, merged) = (named("kept"), named("merged"));
    let live = world.environments().await;
    let of = |branch: &str| live.iter().find(|one| one.branch.as_str() == branch).unwrap().clone();
    std::fs::write(of(&kept).path.join("half.txt"), "half\n").unwrap();
    let pull = world.pull_of(&merged);
    world.merge(pull.number, MergeMethod::Squash).await;
    script.close("kept").await;
    script.close("merged").await;
    world.settle().await;

    let told = script.answers("kept").await;
    assert_eq!(told.len(), 1, "what was said before is forgotten: {told:?}");
    assert!(told[0].contains("you have uncommitted changes"), "{told:?}");
    assert_eq!(world.environment().await.branch.as_str(), kept);
    let told = script.answers("merged").await;
    assert!(told.len() == 1 && told[0].starts_with("🧹 The worktree was removed"), "{told:?}");
    assert!(world.store().receipt_of(of(&merged).id).await.unwrap().unwrap().details.branch_deleted);
    assert!(!of(&merged).path.exists());
    assert_eq!(script.read("kept", 0).await["state"], "closed");
    // A command that only tells leaves it closed; one that gives it a worktree opens it, so that the worktree stays.
    script.say("merged", REPO, "/status").await;
    world.settle().await;
    assert_eq!(script.read("merged", 0).await["state"], "closed");
    script.say("merged", REPO, "/worktree create wip").await;
    world.settle().await;
    assert_eq!(script.read("merged", 0).await["state"], "open");
    let world = world.restart(|_| ()).await;
    world.settle().await;
    world.pass().await;
    assert!(world.environments().await.iter().any(|one| one.branch.as_str() == "wip"));
    let script = Script::new(&world.home());
    script.close("merged").await;
    world.settle().await;
    // Whoever speaks there again goes on there.
    script.say("kept", REPO, "write this down").await;
    world.settle().await;
    assert_eq!(script.read("kept", 0).await["state"], "open");
    assert_eq!(world.environment().await.branch.as_str(), kept);
    assert_eq!(world.remote_file(&kept, "half.txt").await.as_deref(), Some("half\n"));
    let (status, told) =
        script.post(json!({"conversation": "kept", "codebase": text(&world.home()), "text": "x"})).await;
    assert!(status == 422 && told["error"].as_str().unwrap().contains("no git repository"), "{told}");
    world.end().await;
}

#[tokio::test]
async fn messages_survive_a_restart_and_come_once() {
    let world = World::with(&[ON, ("MAX_CONCURRENT_RUNS", "1")]).await;
    met(&world).await;
    let script = Script::new(&world.home());
    let message = json!({"conversation": "chat", "codebase": REPO, "text": "note one agent:sleep=1", "id": "a"});
    assert_eq!(script.post(message.clone()).await.0, 202);
    script.say("chat", REPO, "note two").await;
    let world = world.restart(|_| ()).await;
    let script = Script::new(&world.home());
    assert_eq!(script.post(message).await.1["status"], "duplicate");
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Succeeded; 2]);
    assert_eq!(script.answers("chat").await.len(), 2);
    world.end().await;
}

/// The service dies when the answer is written down and the end of its delivery is not.
#[tokio::test]
async fn a_command_that_was_answered_before_a_crash_is_not_carried_out_again() {
    let world = World::with(&[ON]).await;
    met(&world).await;
    let script = Script::new(&world.home());
    script.say("chat", REPO, "/worktree create wip").await;
    world.settle().await;
    let before = script.answers("chat").await;
    let file = SqliteConnectOptions::new().filename(world.home().join("treewarden.db"));
    let unfinished = "UPDATE inbox SET state = 'received', finished_at = NULL WHERE event = 'local' AND state = 'done'";
    let mut database = file.connect().await.unwrap();
    let rows = sqlx::query(unfinished).execute(&mut database).await.unwrap().rows_affected();
    assert_eq!(rows, 1);
    let world = world.restart(|_| ()).await;
    world.settle().await;
    assert_eq!(Script::new(&world.home()).answers("chat").await, before);
    world.end().await;
}

#[tokio::test]
async fn a_secret_that_somebody_says_goes_no_further() {
    let world = World::with(&[ON]).await;
    let tools = repository(&world.dir.path().join("people"), "tools");
    let script = Script::new(&world.home());
    let (secret, token) = ("a secret of the story", "ghs_0123456789abcdef");
    script.say("chat", text(&tools), &format!("note {secret} and {token}")).await;
    script.say("other", text(&tools), &format!("/{secret} {token}")).await;
    world.settle().await;
    let run = world.runs().await.remove(0);
    let mut shown = vec![script.read("chat", 0).await.to_string(), script.read("other", 0).await.to_string()];
    for page in ["/", "/runs", &format!("/runs/{}", run.id), "/environments", "/deliveries", "/audit"] {
        shown.push(world.page(page).await);
    }
    let branch = world.environment().await.branch;
    let message = git(&tools, &["log", "-1", "--format=%B", branch.as_str()]);
    assert!(message.contains("[redacted]"), "{message}");
    shown.push(message);
    for text in shown {
        assert!(!text.contains(secret) && !text.contains(token), "{text}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_run_is_stopped_from_this_machine() {
    let world = World::with(&[ON]).await;
    met(&world).await;
    let script = Script::new(&world.home());
    script.say("chat", REPO, "agent:sleep=600").await;
    world.until_agent_works().await;
    assert_eq!(script.read("chat", 0).await["busy"], true);
    script.say("chat", REPO, "/stop").await;
    world.settle().await;
    assert_eq!(world.run_states().await, [RunState::Cancelled]);
    assert!(script.answers("chat").await.iter().any(|text| text.contains("Stopping 1 run")));
    world.end().await;
}

/// Without a word to GitHub: the stand-in fails the story when it is asked for anything it does not have.
#[tokio::test]
async fn a_repository_on_this_machine_gets_its_work_as_a_branch() {
    let world = World::with(&[ON]).await;
    let people = world.dir.path().join("people");
    let tools = repository(&people, "tools");
    let script = Script::new(&world.home());
    let branch = Work { kind: WorkKind::Thread, id: "chat".to_owned() }.to_string();
    script.say("chat", text(&tools), "add a greeting").await;
    world.settle().await;

    let status = script.last("chat").await;
    let pushed = tip(&tools, &branch);
    assert!(status.starts_with("✅ **Done**"), "{status}");
    assert!(status.contains(&format!("`{branch}` is at `{}` in the repository itself", &pushed[..7])), "{status}");
    assert!(!status.contains("pull request") && !status.contains("http://127.0.0.1:0"), "{status}");
    assert_eq!(git(&tools, &["status", "--porcelain"]), "", "nothing of theirs was touched");
    assert_eq!(git(&tools, &["branch", "--show-current"]), "main");
    let environment = world.environment().await;
    assert_eq!(environment.base.as_ref().map(BranchName::as_str), Some("main"));
    let codebases = world.store().list_codebases().await.unwrap();
    assert_eq!(codebases.len(), 1);
    assert_eq!(codebases[0].host, Host::Local { path: tools.canonicalize().unwrap() });
    assert_eq!(codebases[0].name.to_string(), "_local/tools");
    assert!(world.standin.pulls(REPO).unwrap().is_empty());
    assert!(!people.join("hook-ran").exists(), "hooks of theirs do not run");
    let page = world.page("/environments").await;
    assert!(page.contains("_local/tools") && page.contains(&branch), "{page}");

    // What they have checked out stays as it is, and the work is kept.
    git(&tools, &["checkout", "--quiet", &branch]);
    script.say("chat", text(&tools), "add a note").await;
    world.settle().await;
    let status = script.last("chat").await;
    assert!(status.starts_with("⚠️ **Done, but not delivered**"), "{status}");
    assert!(status.contains("not pushed: the branch is checked out in the repository it would go to"), "{status}");
    assert_eq!(tip(&tools, &branch), pushed);
    git(&tools, &["checkout", "--quiet", "main"]);
    script.say("chat", text(&tools), "write this down").await;
    world.settle().await;
    assert!(script.last("chat").await.starts_with("✅ **Done**"), "{}", script.last("chat").await);
    assert_eq!(git(&tools, &["rev-list", "--count", &format!("main..{branch}")]), "3");

    // Merged by hand, closed, gone.
    git(&tools, &["merge", "--quiet", "--no-ff", "--no-edit", &branch]);
    script.close("chat").await;
    world.settle().await;
    let told = script.last("chat").await;
    assert!(told.contains(&format!("`{branch}` is merged into `main`")), "{told}");
    assert!(world.environments().await.is_empty() && !environment.path.exists());
    assert!(!tip(&tools, &branch).is_empty(), "their branch is theirs");
    world.end().await;
}

/// BR-028, BR-029, BR-036: nobody can be asked, and what is in the base counts: no longer where it was taken out again, and not
/// where its lines are others by now.
#[tokio::test]
async fn what_was_merged_by_hand_goes_and_what_is_not_in_the_base_stays() {
    const MERGED: [(&str, &str); 3] = [
        ("merge", "`merge` is merged into `main`"),
        ("squash", "everything `squash` changes is in `main`"),
        ("rebase", "everything `rebase` changes is in `main`"),
    ];
    const KEPT: [&str; 3] = ["fresh", "reverted", "changed-again"];
    let world = World::with(&[ON]).await;
    let tools = repository(&world.dir.path().join("people"), "tools");
    let script = Script::new(&world.home());
    for name in MERGED.map(|(name, _)| name).into_iter().chain(KEPT) {
        script.say("chat", text(&tools), &format!("/worktree create {name}")).await;
        world.settle().await;
        if name == "fresh" {
            continue;
        }
        let path = world.environments().await.into_iter().find(|live| live.branch.as_str() == name).unwrap().path;
        let file = format!("{name}.txt");
        let commit = |place: &Path, words: &str| {
            std::fs::write(place.join(&file), words).unwrap();
            git(place, &["add", "."]);
            git(place, &["commit", "--quiet", "-m", words]);
        };
        commit(&path, "one");
        commit(&path, "two");
        git(&tools, &["fetch", "--quiet", text(&path), "HEAD"]);
        match name {
            "merge" => drop(git(&tools, &["merge", "--quiet", "--no-ff", "--no-edit", "FETCH_HEAD"])),
            "rebase" => {
                git(&tools, &["commit", "--quiet", "--allow-empty", "-m", "Meanwhile"]);
                git(&tools, &["cherry-pick", "HEAD..FETCH_HEAD"]);
            }
            _ => {
                git(&tools, &["merge", "--quiet", "--squash", "FETCH_HEAD"]);
                git(&tools, &["commit", "--quiet", "-m", name]);
            }
        }
        match name {
            "reverted" => drop(git(&tools, &["revert", "--no-edit", "HEAD"])),
            "changed-again" => commit(&tools, "other lines"),
            _ => {}
        }
    }
    let report = world.pass().await;
    world.settle().await;
    let result = |name: &str| &report.lines.iter().find(|line| line.branch == name).unwrap().result;
    for (name, proof) in MERGED {
        assert_eq!(*result(name), ReportResult::Removed(proof.to_owned()), "{name}");
    }
    let still = ReportResult::Kept(vec!["work goes on: it is neither merged nor stale".to_owned()]);
    for name in KEPT {
        assert_eq!(*result(name), still, "{name}");
    }
    let mut live: Vec<_> = world.environments().await.into_iter().map(|one| one.branch.to_string()).collect();
    live.sort();
    assert_eq!(live, ["changed-again", "fresh", "reverted"]);
    world.end().await;
}

/// Such a merge leaves no commit of its own, and there is no GitHub to ask.
#[tokio::test]
async fn a_fast_forward_of_the_base_is_a_merge() {
    let world = World::with(&[ON]).await;
    let tools = repository(&world.dir.path().join("people"), "tools");
    let script = Script::new(&world.home());
    let named = |id: &str| Work { kind: WorkKind::Thread, id: id.to_owned() }.to_string();
    let live = async || world.environments().await.into_iter().map(|one| one.branch.to_string()).collect::<Vec<_>>();
    let say = async |chat: &str, words: &str| {
        script.say(chat, text(&tools), words).await;
        world.settle().await;
        script.last(chat).await
    };
    say("open", "note one").await;
    say("merged", "note two").await;
    git(&tools, &["merge", "--quiet", "--ff-only", &named("merged")]);
    world.pass().await;
    world.settle().await;
    assert_eq!(live().await, [named("open")]);
    let told = script.last("merged").await;
    assert!(told.contains(&format!("`{0}` is merged into `main`", named("merged"))), "{told}");
    let kept = world.environment().await.metadata.kept_because.concat();
    assert!(kept.contains("neither merged nor stale"), "{kept}");

    // What only follows the base has nothing to merge, whatever was on it before.
    git(&tools, &["branch", "--force", &named("open"), "main"]);
    say("open", "agent:noop").await;
    world.pass().await;
    assert_eq!(live().await, [named("open")]);
    assert_eq!(tip(&tools, &named("open")), tip(&tools, "main"));

    // What is asked for after the merge begins at the base.
    say("open", "note three").await;
    git(&tools, &["merge", "--quiet", "--ff-only", &named("open")]);
    let status = say("open", "note four").await;
    assert!(status.contains(&format!("`{}` was merged already", named("open"))), "{status}");
    let next = format!("{}-2", named("open"));
    assert_eq!(live().await, [next.as_str()]);
    git(&tools, &["merge", "--quiet", "--ff-only", &next]);
    script.close("open").await;
    world.settle().await;
    let told = script.last("open").await;
    assert!(told.contains(&format!("`{next}` is merged into `main`")), "{told}");
    assert!(live().await.is_empty());
    world.end().await;
}

#[tokio::test]
async fn what_people_committed_there_meanwhile_is_never_overwritten() {
    let world = World::with(&[ON]).await;
    let tools = repository(&world.dir.path().join("people"), "tools");
    let script = Script::new(&world.home());
    let branch = Work { kind: WorkKind::Thread, id: "chat".to_owned() }.to_string();
    script.say("chat", text(&tools), "add a greeting").await;
    world.settle().await;
    git(&tools, &["checkout", "--quiet", &branch]);
    std::fs::write(tools.join("theirs.txt"), "theirs\n").unwrap();
    git(&tools, &["add", "."]);
    git(&tools, &["commit", "--quiet", "-m", "Theirs"]);
    git(&tools, &["checkout", "--quiet", "main"]);
    let theirs = tip(&tools, &branch);
    script.say("chat", text(&tools), "write this down").await;
    world.settle().await;
    assert!(script.last("chat").await.starts_with("✅ **Done**"), "{}", script.last("chat").await);
    assert!(world.environment().await.path.join("theirs.txt").exists(), "it was taken in");
    git(&tools, &["merge-base", "--is-ancestor", &theirs, &branch]);
    // A branch that they rewrote stays as they left it, with new work on top.
    git(&tools, &["branch", "--force", &branch, "main"]);
    script.say("chat", text(&tools), "note three").await;
    world.settle().await;
    assert_eq!(git(&tools, &["log", "--format=%s", &branch]), "Note three\nBegin");
    let status = script.last("chat").await;
    assert!(status.contains("was rewritten on the remote"), "{status}");
    world.end().await;
}

#[tokio::test]
async fn work_starts_from_what_is_checked_out_or_not_at_all() {
    let world = World::with(&[ON]).await;
    let people = world.dir.path().join("people");
    let empty = people.join("empty");
    git(&world.home(), &["init", "--quiet", text(&empty)]);
    let tools = repository(&people, "tools");
    git(&tools, &["checkout", "--quiet", "--detach"]);
    let script = Script::new(&world.home());
    script.say("empty", text(&empty), "add a greeting").await;
    script.say("chat", text(&tools), "add a greeting").await;
    world.settle().await;
    let told = script.last("empty").await;
    assert!(told.contains("has no commits yet"), "{told}");
    let told = script.last("chat").await;
    assert!(told.contains("none is checked out in it") && told.contains("Nothing was created"), "{told}");
    git(&tools, &["checkout", "--quiet", "-b", "next"]);
    script.say("chat", text(&tools), "add a greeting").await;
    world.settle().await;
    assert!(script.last("chat").await.starts_with("✅ **Done**"), "{}", script.last("chat").await);
    assert_eq!(world.environment().await.base.as_ref().map(BranchName::as_str), Some("next"));
    world.end().await;
}

/// The path somebody is at may be any worktree of a repository, or lie deep within it.
#[tokio::test]
async fn a_path_leads_to_the_repository_itself() {
    let world = World::with(&[ON]).await;
    met(&world).await;
    let people = world.dir.path().join("people");
    let tools = repository(&people, "My Tools");
    let linked = people.join("linked");
    git(&tools, &["worktree", "add", "--quiet", "-b", "side", text(&linked)]);
    std::fs::create_dir_all(linked.join("deep/down")).unwrap();
    std::os::unix::fs::symlink(&linked, people.join("link")).unwrap();
    let bare = people.join("bare.git");
    git(&people, &["clone", "--quiet", "--bare", text(&tools), text(&bare)]);
    let script = Script::new(&world.home());
    for (conversation, path) in
        [("a", tools.clone()), ("b", linked.clone()), ("c", linked.join("deep/down")), ("d", people.join("link"))]
    {
        script.say(conversation, text(&path), "/status").await;
        world.settle().await;
        let seen = script.read(conversation, 0).await;
        assert_eq!(seen["codebase"], "_local/My-Tools", "{}", path.display());
    }
    script.say("e", text(&bare), "add a greeting").await;
    world.settle().await;
    assert_eq!(script.read("e", 0).await["codebase"], "_local/bare");
    assert!(script.last("e").await.starts_with("✅"), "{}", script.last("e").await);
    let main = tools.canonicalize().unwrap();
    let codebases = world.store().list_codebases().await.unwrap();
    let here: Vec<_> = codebases.iter().filter(|one| one.host == Host::Local { path: main.clone() }).collect();
    assert_eq!((codebases.len(), here.len()), (3, 1));
    // Work begins from the branch that is checked out in the repository itself.
    script.say("a", text(&linked), "add a greeting").await;
    world.settle().await;
    let live = world.environments().await;
    let own = live.iter().find(|one| one.codebase == here[0].id).unwrap();
    assert_eq!(own.base.as_ref().map(BranchName::as_str), Some("main"));
    // From within a worktree of the service's own, the repository it was made for is meant.
    script.say("f", text(&own.path), "/status").await;
    world.settle().await;
    assert_eq!(script.read("f", 0).await["codebase"], "_local/My-Tools");
    // One conversation is about one repository.
    let (status, told) = script.post(json!({"conversation": "a", "codebase": REPO, "text": "x"})).await;
    assert_eq!(status, 409);
    assert!(told["error"].as_str().unwrap().contains("is about _local/My-Tools"), "{told}");
    // And what is refused leaves nothing: no repository is known by it.
    let new = people.join("never-taken");
    let made = std::process::Command::new("git").args(["init", "-q"]).arg(&new).status().unwrap();
    assert!(made.success());
    let (status, told) = script.post(json!({"conversation": "a", "codebase": text(&new), "text": "x"})).await;
    assert!(status == 409 && told["error"].as_str().unwrap().contains("is about _local/My-Tools"), "{told}");
    assert_eq!(world.store().list_codebases().await.unwrap().len(), codebases.len());
    // One that was moved away says so, and is found again.
    let away = people.join("away");
    std::fs::rename(&tools, &away).unwrap();
    let (status, _) = script.post(json!({"conversation": "a", "text": "add a note"})).await;
    assert_eq!(status, 202);
    world.settle().await;
    assert!(script.last("a").await.contains("There is no repository at"), "{}", script.last("a").await);
    // A person may still say that a worktree is to go: its branch stays.
    script.post(json!({"conversation": "a", "text": "/worktree remove"})).await;
    world.settle().await;
    assert!(script.last("a").await.starts_with("🧹 The worktree was removed"), "{}", script.last("a").await);
    std::fs::rename(&away, &tools).unwrap();
    script.say("a", text(&tools), "add a note").await;
    world.settle().await;
    assert!(script.last("a").await.starts_with("✅"), "{}", script.last("a").await);
    world.end().await;
}

#[tokio::test]
async fn the_same_on_postgresql() {
    let Some(database) = Database::create().await else { return };
    let world = World::with(&[ON, ("DATABASE_URL", &database.url)]).await;
    let tools = repository(&world.dir.path().join("people"), "tools");
    let script = Script::new(&world.home());
    script.say("chat", text(&tools), "add a greeting").await;
    script.say("other", text(&tools), "write this down").await;
    world.settle().await;
    for conversation in ["chat", "other"] {
        assert!(script.last(conversation).await.starts_with("✅ **Done**"), "{}", script.last(conversation).await);
    }
    script.close("chat").await;
    world.settle().await;
    assert_eq!(script.answers("chat").await.len(), 1);
    world.end().await;
    database.drop().await;
}

#[tokio::test]
async fn nobody_is_let_in_while_it_is_switched_off() {
    let world = World::new().await;
    let url = format!("http://{}/local/messages?conversation=x", world.service.address);
    assert_eq!(reqwest::get(url).await.unwrap().status(), 404);
    assert!(!world.home().join("local.json").exists());
    world.end().await;
}

#[tokio::test]
async fn a_shared_worktree_goes_with_the_last_of_its_conversations() {
    for order in [["one", "two"], ["two", "one"]] {
        let world = World::with(&[ON]).await;
        met(&world).await;
        let script = Script::new(&world.home());
        script.say("one", REPO, "add a greeting").await;
        world.settle().await;
        let environment = world.environment().await;
        script.say("two", REPO, "/worktree link thread-one").await;
        script.say("two", REPO, "write this down").await;
        world.settle().await;
        assert_eq!(world.environment().await.id, environment.id, "{:?}", script.answers("two").await);

        let [first, last] = order;
        script.close(first).await;
        world.settle().await;
        assert_eq!((world.environment().await.id, environment.path.exists()), (environment.id, true), "{first}");
        world.pass().await;
        script.say(last, REPO, "add a note").await;
        world.settle().await;
        assert!(script.last(last).await.starts_with("✅ **Done**"), "{}", script.last(last).await);
        assert_eq!(world.environment().await.id, environment.id);
        script.close(last).await;
        world.settle().await;
        assert!(world.environments().await.is_empty() && !environment.path.exists(), "{last}");
        assert!(script.last(last).await.starts_with("🧹"), "{}", script.last(last).await);
        world.end().await;
    }
}

#[tokio::test]
async fn an_issues_worktree_stays_while_a_conversation_here_uses_it() {
    let world = World::with(&[ON]).await;
    let issue = world.worked_issue("add a greeting").await;
    let environment = world.environment().await;
    let script = Script::new(&world.home());
    script.say("chat", REPO, &format!("/worktree link issue-{issue}")).await;
    world.settle().await;
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    assert_eq!((world.environment().await.id, environment.path.exists()), (environment.id, true));
    script.say("chat", REPO, "add a note").await;
    world.settle().await;
    assert_eq!(world.environment().await.id, environment.id);
    script.close("chat").await;
    world.settle().await;
    assert!(world.environments().await.is_empty() && !environment.path.exists());
    assert!(world.local_tip(&format!("issue-{issue}")).await.is_some());
    world.end().await;
}
