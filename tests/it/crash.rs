//! `kill -9` at every effect: a story of some acts, told again and again with the service killed at the first, second,
//! third, … effect of each act and started again, always with the same end.
//!
//! The service runs in a process of its own: this test binary, told to run only [`child`]. There a tracing layer counts
//! the events that mark effects and ends the process with SIGKILL at the chosen one; shipping code knows nothing of it.

mod story;

use crate::support::{
    postgres::Database,
    world::{ANN, HASTE, REPO},
};
use futures::StreamExt;
use std::{
    fs,
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};
use story::{End, Story};
use tracing::{Event, Subscriber};
use tracing_subscriber::{Layer, filter::LevelFilter, layer::Context, layer::SubscriberExt, util::SubscriberInitExt};
use treewarden::{
    app::Service,
    config::{Config, Flags},
    demo::github::{MergeMethod, OpenPull},
    model::*,
    telemetry::field::EFFECT,
};

/// In the child's environment: the file that says how many effects it has left, and where it writes its address and its
/// effects.
const FUSE: &str = "CRASH_TEST_FUSE";
const DIARY: &str = "CRASH_TEST_DIARY";
/// The first effect to die at, and the distance to the next. Usually some of the effects are tried, in a minute or so; with
/// a step of 1 all of them, in about five; of the stories that are told with a stride (below), each third or fourth.
const FROM: &str = "CRASH_TEST_FROM";
const STEP: &str = "CRASH_TEST_STEP";
/// The greatest number of effects an act may have; more would mean that it never ends.
const MOST: usize = 200;
const AT_ONCE: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);
/// For how long a pass that begins by itself is waited for.
const NEXT_PASS: Duration = Duration::from_secs(4);
const LOOK_AGAIN: Duration = Duration::from_millis(15);

/// Notes each effect, and kills the process at the one at which its fuse is burnt down.
struct Bomb {
    fuse: PathBuf,
    diary: PathBuf,
    /// One effect at a time.
    noted: Mutex<usize>,
}

impl<S: Subscriber> Layer<S> for Bomb {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != EFFECT {
            return;
        }
        let mut words = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            words.push_str(&format!(" {}={value:?}", field.name()));
        });
        let mut noted = self.noted.lock().unwrap();
        *noted += 1;
        note(&self.diary, &format!("effect {noted}{words}"));
        let mut fuse = Fuse::open(&self.fuse);
        match fuse.left() {
            // The next start is to live.
            Some(1) => {
                fuse.lay(0);
                let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            }
            Some(left) if left > 1 => fuse.lay(left - 1),
            _ => {}
        }
    }
}

/// The file that says how many effects are left, held against the other process that writes it. 0 is a fuse that is burnt
/// down; an empty file is none.
struct Fuse(fs::File);

impl Fuse {
    fn open(path: &Path) -> Self {
        let file = fs::File::options().create(true).truncate(false).read(true).write(true).open(path).unwrap();
        file.lock().unwrap();
        Self(file)
    }

    fn left(&self) -> Option<usize> {
        let mut text = [0; 20];
        let read = self.0.read_at(&mut text, 0).unwrap();
        str::from_utf8(&text[..read]).unwrap().parse().ok()
    }

    fn lay(&mut self, left: usize) {
        self.0.set_len(0).unwrap();
        self.0.write_all_at(left.to_string().as_bytes(), 0).unwrap();
    }
}

fn note(diary: &Path, line: &str) {
    let mut file = fs::File::options().create(true).append(true).open(diary).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The service that is killed; started by the test below, and nothing at all otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process of the crash test, which starts it itself"]
async fn child() {
    let (Ok(fuse), Ok(diary)) = (std::env::var(FUSE), std::env::var(DIARY)) else { return };
    let bomb = Bomb { fuse: fuse.into(), diary: diary.clone().into(), noted: Mutex::new(0) };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let ours = tracing_subscriber::filter::Targets::new().with_target("treewarden", LevelFilter::DEBUG);
    tracing_subscriber::registry().with(bomb).with(lines).with(ours).init();
    let config = Config::from_process(&Flags::default()).unwrap();
    let config = Config { pacing: HASTE, ..config };
    let service = Service::start(&config).await.unwrap();
    note(Path::new(&diary), &format!("listening {}", service.address));
    std::future::pending::<()>().await;
}

impl Story {
    /// Ann gives a command; it is answered once, whatever comes between the two.
    async fn command(&mut self, number: i64, words: &str) -> String {
        let before = self.answers(number).len();
        self.standin.comment(REPO, ANN, number, &format!("@{} {words}", self.standin.app_slug())).unwrap();
        self.settle().await;
        let mut answers = self.answers(number);
        assert_eq!(answers.len(), before + 1, "{answers:?}\n{}", self.account());
        answers.pop().unwrap()
    }

    fn answers(&self, number: i64) -> Vec<String> {
        let comments = self.own_comments(number).into_iter();
        comments.filter(|body| body.contains("<!-- treewarden:answer/")).collect()
    }

    /// A command takes a worktree away, and says so whatever comes between the two.
    async fn tell_of_a_command(&mut self) -> End {
        let issue = self.standin.open_issue(REPO, ANN, "Two chapters", "Write them.").unwrap();
        self.ask(issue, "write chapter-one").await;
        self.act().await;
        let answer = self.command(issue, "/worktree remove").await;
        assert!(answer.starts_with("🧹 The worktree was removed"), "{answer}\n{}", self.account());
        self.end().await
    }

    /// Ann presses a button below the newest check run.
    async fn press(&mut self, button: &str) {
        let check = self.standin.check_runs(REPO).unwrap().pop().unwrap();
        self.standin.press(REPO, ANN, check.id, Some(button)).unwrap();
        self.settle().await;
    }

    /// A run on a pull request is asked for again by one button, and its worktree taken away by another.
    async fn tell_of_buttons(&mut self) -> End {
        self.standin.push_commit(REPO, ANN, "feature/x", "Begin", &[("zero.txt", Some("zero\n"))]).await.unwrap();
        let pull = OpenPull { title: "A chapter", head: "feature/x", ..OpenPull::default() };
        let pull = self.standin.open_pull(REPO, ANN, pull).await.unwrap();
        self.ask(pull, "write chapter-one").await;
        self.act().await;
        self.press("retry").await;
        // Killed while the agent was at work; its check run has the same buttons.
        if self.newest_run().await.state == RunState::Interrupted {
            self.press("retry").await;
        }
        assert_eq!(self.newest_run().await.state, RunState::Succeeded, "{}", self.account());
        self.act().await;
        self.press("clean_up").await;
        let answers = self.answers(pull);
        assert_eq!(answers.len(), 1, "{answers:?}\n{}", self.account());
        assert!(answers[0].starts_with("🧹 The worktree was removed"), "{answers:?}\n{}", self.account());
        self.end().await
    }

    /// A worktree with files that git ignores goes, and comes back with them.
    async fn tell_of_ignored_files(&mut self) -> End {
        let ignore = [(".gitignore", Some("*.log\n"))];
        self.standin.push_commit(REPO, ANN, "main", "Ignore", &ignore).await.unwrap();
        let issue = self.standin.open_issue(REPO, ANN, "Two chapters", "Write them.").unwrap();
        self.ask(issue, "write chapter-one").await;
        let note = self.store().live_environments(None).await.unwrap().remove(0).path.join("debug.log");
        fs::write(&note, "notes of hours").unwrap();
        self.act().await;
        let answer = self.command(issue, "/worktree remove").await;
        assert!(answer.contains("a file that git ignores goes to the trash"), "{answer}\n{}", self.account());
        self.act().await;
        let answer = self.command(issue, &format!("/worktree restore issue-{issue}")).await;
        assert!(answer.contains("This thread goes on in the worktree"), "{answer}\n{}", self.account());
        assert_eq!(fs::read_to_string(&note).unwrap_or_default(), "notes of hours", "{}", self.account());
        self.end().await
    }

    /// A worktree with something uncommitted goes by force, and comes back.
    async fn tell_of_the_trash(&mut self) -> End {
        let issue = self.standin.open_issue(REPO, ANN, "Two chapters", "Write them.").unwrap();
        self.ask(issue, "write chapter-one").await;
        let path = self.store().live_environments(None).await.unwrap().remove(0).path;
        let half = [("one.txt", "half of chapter one\r\n"), ("two.txt", "two"), ("odd \"name\"", "odd")];
        for (name, text) in half {
            fs::write(path.join(name), text).unwrap();
        }
        self.act().await;
        let answer = self.command(issue, "/worktree remove --force").await;
        assert!(answer.contains("What was not committed is kept until"), "{answer}\n{}", self.account());
        assert!(!path.exists(), "{}", self.account());
        self.act().await;
        let answer = self.command(issue, &format!("/worktree restore issue-{issue}")).await;
        assert!(answer.contains("This thread goes on in the worktree"), "{answer}\n{}", self.account());
        for (name, text) in half {
            let there = fs::read_to_string(path.join(name)).unwrap_or_default();
            assert_eq!(there, text, "{name}\n{}", self.account());
        }
        self.end().await
    }

    /// The run that brings a repository over its soft mark has its worktree give up a cache.
    async fn tell_of_a_reclaim(&mut self) -> End {
        let ignore = [(".gitignore", Some("target/\n"))];
        self.standin.push_commit(REPO, ANN, "main", "Ignore", &ignore).await.unwrap();
        let issue = self.standin.open_issue(REPO, ANN, "Two chapters", "Write them.").unwrap();
        self.ask(issue, "write chapter-one").await;
        let path = self.in_the_end(|live| live.metadata.disk.is_some()).await.path;
        fs::create_dir(path.join("target")).unwrap();
        fs::write(path.join("target/CACHEDIR.TAG"), vec![7; 2 * story::SOFT_MARK]).unwrap();
        self.act().await;
        self.ask(issue, "now chapter-two").await;
        self.in_the_end(|live| !live.path.join("target").exists()).await;
        // In this order: a row that was read before says nothing of what has gone since.
        self.in_the_end(|live| live.metadata.reclaiming.is_none()).await;
        assert!(path.join("one.txt").exists() && path.join("two.txt").exists(), "{}", self.account());
        let audit = self.store().list_audit(100).await.unwrap();
        assert!(audit.iter().any(|entry| entry.action == "environment.reclaimed"), "{}", self.account());
        self.end().await
    }

    /// The one environment, when it has come so far in the background.
    async fn in_the_end(&mut self, is_so: impl Fn(&Environment) -> bool) -> Environment {
        let begun = tokio::time::Instant::now();
        let (deadline, mut again, mut pause) = (begun + 2 * PATIENCE, begun + NEXT_PASS, NEXT_PASS);
        loop {
            self.settle().await;
            // After a kill the pass may have come while a run was live; the next one comes with a start.
            if self.killed.contains(&true) && tokio::time::Instant::now() >= again {
                self.start_again().await;
                // On a busy machine a pass may take longer than the first pause.
                pause *= 2;
                again = tokio::time::Instant::now() + pause;
            }
            let live = self.store().live_environments(None).await.unwrap().remove(0);
            if is_so(&live) {
                return live;
            }
            assert!(tokio::time::Instant::now() < deadline, "{live:?}\n{}", self.account());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// A worktree of ours lost its row, and its work was merged. A command about all that is merged takes it away.
    async fn tell_of_an_orphan(&mut self) -> End {
        let issue = self.standin.open_issue(REPO, ANN, "Two chapters", "Write them.").unwrap();
        self.ask(issue, "think about it").await;
        self.standin.push_commit(REPO, ANN, "left", "Left", &[("left.txt", Some("left\n"))]).await.unwrap();
        let pull = OpenPull { title: "A chapter", head: "left", ..OpenPull::default() };
        let pull = self.standin.open_pull(REPO, ANN, pull).await.unwrap();
        self.standin.merge(REPO, ANN, pull, MergeMethod::Merge).await.unwrap();
        self.settle().await;
        let place = self.leave_over("left").await;
        self.act().await;
        // After a kill the start's own pass may be at it already.
        self.command(issue, "/worktree cleanup merged").await;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while place.exists() || self.store().live_environments(None).await.unwrap().len() > 1 {
            assert!(tokio::time::Instant::now() < deadline, "{}", self.account());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        self.settle().await;
        self.end().await
    }

    /// A command makes a worktree, and says so.
    async fn tell_of_creation(&mut self) -> End {
        let issue = self.standin.open_issue(REPO, ANN, "Two chapters", "Write them.").unwrap();
        self.settle().await;
        self.act().await;
        self.command(issue, "/worktree create feature/y").await;
        self.act().await;
        self.ask(issue, "write chapter-one").await;
        let live = self.store().live_environments(None).await.unwrap();
        assert_eq!(live.len(), 1, "{live:?}\n{}", self.account());
        assert_eq!(live[0].branch.as_str(), "feature/y", "{}", self.account());
        self.end().await
    }

    /// A stranger's pull request is approved, worked on, gets a commit that is approved, too, and is closed.
    async fn tell_of_a_fork(&mut self) -> End {
        let fork = self.standin.fork(REPO, "bob").await.unwrap();
        let mut pull = None;
        for (file, words, made) in
            [("far.txt", "write chapter-one", "one.txt"), ("later.txt", "now chapter-two", "two.txt")]
        {
            self.act().await;
            self.standin.push_commit(&fork, "bob", "patch", file, &[(file, Some("far\n"))]).await.unwrap();
            let number = match pull {
                Some(number) => number,
                None => {
                    let pull = OpenPull { title: "A chapter", head: "bob:patch", ..OpenPull::default() };
                    self.standin.open_pull(REPO, "bob", pull).await.unwrap()
                }
            };
            pull = Some(number);
            self.settle().await;
            let head = self.standin.pull(REPO, number).unwrap().head_sha;
            self.act().await;
            self.command(number, &format!("/approve {head}")).await;
            self.act().await;
            self.ask(number, words).await;
            let live = self.store().live_environments(None).await.unwrap();
            assert_eq!(live.len(), 1, "{live:?}\n{}", self.account());
            for file in [file, made] {
                assert!(live[0].path.join(file).exists(), "{file} is not there\n{}", self.account());
            }
        }
        let pull = pull.unwrap();
        self.act().await;
        self.standin.close(REPO, ANN, pull).unwrap();
        self.settle().await;
        self.end().await
    }

    /// Nothing comes of an issue; its worktree makes way for a pull request of Ann's own that closes it.
    async fn tell_of_making_way(&mut self) -> End {
        let issue = self.standin.open_issue(REPO, ANN, "Two chapters", "Write them.").unwrap();
        self.ask(issue, "think about it").await;
        self.standin.push_commit(REPO, ANN, "feature/x", "Begin", &[("zero.txt", Some("zero\n"))]).await.unwrap();
        let body = format!("Closes #{issue}");
        let pull = OpenPull { title: "A chapter", body: &body, head: "feature/x", ..OpenPull::default() };
        let pull = self.standin.open_pull(REPO, ANN, pull).await.unwrap();
        self.settle().await;
        self.act().await;
        self.ask(pull, "write chapter-two").await;
        self.no_doubled_comments(&[issue, pull]).await;
        let store = self.store();
        let live = store.live_environments(None).await.unwrap();
        assert_eq!(live.len(), 1, "{live:?}\n{}", self.account());
        let users = store.conversations_of(live[0].id).await.unwrap();
        assert_eq!(users.len(), 2, "both threads are tied: {users:?}\n{}", self.account());
        // A run that was interrupted has been asked for anew, as another request.
        let told = self.own_comments(pull).iter().any(|body| body.contains("held nothing of its own"));
        assert!(told, "{:?}\n{}", self.own_comments(pull), self.account());
        self.end().await
    }

    /// An issue stays open when its work is merged into another branch than the default one, and goes on at the newest base.
    async fn tell_of_going_on(&mut self) -> End {
        self.standin.push_commit(REPO, ANN, "dev", "Dev", &[("dev.txt", Some("dev\n"))]).await.unwrap();
        let settings = [(REPO_SETTINGS_FILE, Some("base: dev\n"))];
        self.standin.push_commit(REPO, ANN, "main", "Settings", &settings).await.unwrap();
        let issue = self.standin.open_issue(REPO, ANN, "Two chapters", "Write them.").unwrap();
        self.ask(issue, "write chapter-one").await;
        let pull = self.standin.pulls(REPO).unwrap()[0].number;
        self.standin.set_draft(REPO, ANN, pull, false).unwrap();
        self.standin.merge(REPO, ANN, pull, MergeMethod::Squash).await.unwrap();
        self.settle().await;
        self.act().await;
        self.ask(issue, "now chapter-two").await;
        let comments = self.own_comments(issue);
        let told = |words: &str| comments.iter().any(|body| body.contains(words));
        let went = told("All that was on `issue-1` is merged, so its worktree was removed.");
        assert!(went && told("`issue-1` was merged already"), "{comments:?}\n{}", self.account());
        self.end().await
    }

    /// An issue becomes a pull request, which gets a second commit and is merged.
    async fn tell(&mut self) -> End {
        self.act().await;
        let issue = self.standin.open_issue(REPO, ANN, "Two chapters", "Write them.").unwrap();
        self.ask(issue, "write chapter-one").await;
        let pulls = self.standin.pulls(REPO).unwrap();
        assert_eq!(pulls.len(), 1, "{pulls:?}\n{}", self.account());
        let pull = pulls[0].number;
        self.act().await;
        self.ask(pull, "now chapter-two").await;
        self.act().await;
        self.standin.set_draft(REPO, ANN, pull, false).unwrap();
        self.standin.merge(REPO, ANN, pull, MergeMethod::Squash).await.unwrap();
        self.settle().await;
        self.no_doubled_comments(&[issue, pull]).await;
        let end = self.end().await;
        assert!(end.local_refs.is_empty(), "{end:?}\n{}", self.account());
        end
    }
}

fn merged(end: &End) {
    assert_eq!(end.pulls, [("issue-1".to_owned(), true, false)]);
    assert_eq!((end.receipts, end.worktrees, end.succeeded), (1, 1, 2), "{end:?}");
    assert!(end.directories.is_empty() && end.local_refs.is_empty(), "{end:?}");
    assert_eq!(end.environments, [EnvironmentState::Destroyed]);
}

/// BR-148: what was claimed and not done is done by the next start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_effect_it_comes_to_the_same_end() {
    killed_everywhere(None, 1, merged, Story::tell).await;
}

/// The same effects; what may differ is how much of each the database had written down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_effect_it_comes_to_the_same_end_on_postgresql() {
    let Some(database) = Database::create().await else { return };
    killed_everywhere(Some(&database), 4, merged, Story::tell).await;
    database.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_during_a_command_it_gives_the_same_answer() {
    let removed = |end: &End| assert_eq!((end.receipts, end.worktrees, end.succeeded), (1, 1, 1), "{end:?}");
    killed_everywhere(None, 1, removed, Story::tell_of_a_command).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_once_a_button_was_pressed_it_does_so_once() {
    let pressed = |end: &End| {
        assert_eq!((end.receipts, end.worktrees, end.succeeded), (1, 1, 2), "{end:?}");
        assert_eq!(end.branches, ["feature/x", "main"]);
    };
    killed_everywhere(None, 2, pressed, Story::tell_of_buttons).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_uncommitted_work_goes_and_comes_back_it_is_all_there() {
    let back = |end: &End| {
        assert_eq!((end.receipts, end.worktrees, end.succeeded), (1, 2, 1), "{end:?}");
        assert_eq!(end.local_refs, ["refs/heads/issue-1"]);
    };
    killed_everywhere(None, 2, back, Story::tell_of_the_trash).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_an_orphan_goes_it_is_gone_in_the_end_with_a_receipt() {
    let gone = |end: &End| {
        assert_eq!((end.receipts, end.worktrees, end.succeeded), (1, 2, 1), "{end:?}");
        assert_eq!(end.local_refs, ["refs/heads/issue-1", "refs/heads/left"], "whose branch it is, nobody knows");
    };
    killed_everywhere(None, 1, gone, Story::tell_of_an_orphan).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_a_cache_is_reclaimed_it_is_gone_in_the_end_and_nothing_else() {
    let reclaimed = |end: &End| {
        assert_eq!((end.receipts, end.worktrees, end.succeeded), (0, 2, 2), "{end:?}");
    };
    killed_everywhere(None, 3, reclaimed, Story::tell_of_a_reclaim).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_ignored_files_go_and_come_back_they_are_all_there() {
    let back = |end: &End| {
        assert_eq!((end.receipts, end.worktrees, end.succeeded), (1, 2, 1), "{end:?}");
        assert!(end.directories == ["issue-1"], "{end:?}");
    };
    killed_everywhere(None, 2, back, Story::tell_of_ignored_files).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_a_command_makes_a_worktree_it_makes_one() {
    let made = |end: &End| {
        assert_eq!((end.receipts, end.worktrees, end.succeeded), (0, 2, 1), "{end:?}");
        assert_eq!(end.local_refs, ["refs/heads/feature/y"]);
    };
    killed_everywhere(None, 3, made, Story::tell_of_creation).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_effect_of_a_forks_pull_request_it_comes_to_the_same_end() {
    let reviewed = |end: &End| {
        assert_eq!((end.receipts, end.worktrees, end.succeeded), (1, 1, 2), "{end:?}");
        assert_eq!(end.branches, ["main"], "nothing is pushed");
        assert_eq!(end.local_refs, ["refs/heads/pr-1-review"]);
    };
    killed_everywhere(None, 3, reviewed, Story::tell_of_a_fork).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_a_worktree_makes_way_it_comes_to_the_same_end() {
    let made_way = |end: &End| {
        assert_eq!((end.receipts, end.worktrees, end.succeeded), (1, 2, 2), "{end:?}");
        assert_eq!(end.local_refs, ["refs/heads/feature/x"]);
    };
    killed_everywhere(None, 2, made_way, Story::tell_of_making_way).await;
}

/// Whatever there is to tell of the old worktree and the new one is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_once_work_was_merged_its_thread_hears_what_became_of_it() {
    let went_on = |end: &End| {
        assert_eq!((end.receipts, end.worktrees, end.succeeded), (1, 2, 2), "{end:?}");
    };
    killed_everywhere(None, 3, went_on, Story::tell_of_going_on).await;
}

/// Tells the story undisturbed, whose end is to be `right`, and then with a kill at each effect, or at each `stride`th, of
/// its acts. Effects may come in another order, and a few more or fewer; until one story gets through unharmed.
async fn killed_everywhere(
    database: Option<&Database>,
    stride: usize,
    right: impl Fn(&End),
    tell: impl AsyncFn(&mut Story) -> End,
) {
    let url = database.map(|database| database.url.as_str());
    let mut undisturbed = Story::begin(0, url).await;
    let expected = tell(&mut undisturbed).await;
    let mut effects = undisturbed.effects_of_acts();
    assert!(undisturbed.killed.iter().all(|killed| !killed));
    println!("undisturbed:\n{}", undisturbed.account());
    right(&expected);
    drop(undisturbed);

    let number =
        |name: &str, usual: usize| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (first, step) = (number(FROM, 1), number(STEP, 9).max(stride));
    let tell = &tell;
    let stories = futures::stream::iter((first..MOST).step_by(step)).map(|bomb| async move {
        // A story of its own needs a database of its own.
        let own = match database {
            Some(_) => Database::create().await,
            None => None,
        };
        let mut story = Story::begin(bomb, own.as_ref().map(|own| own.url.as_str())).await;
        let end = tell(&mut story).await;
        let told = (bomb, story.killed.clone(), end, story.account(), story.effects_of_acts());
        drop(story);
        if let Some(own) = own {
            own.drop().await;
        }
        told
    });
    let mut stories = std::pin::pin!(stories.buffered(AT_ONCE));
    let mut covered = vec![0; effects.len()];
    while let Some((bomb, killed, end, account, unharmed)) = stories.next().await {
        assert_eq!(end, expected, "killed at effect {bomb} of the acts {killed:?}\n{account}");
        if !killed.contains(&true) {
            // Told under the same load as those before it, which makes effects of its own.
            effects = unharmed;
            break;
        }
        for (covered, _) in covered.iter_mut().zip(&killed).filter(|(_, killed)| **killed) {
            *covered = bomb;
        }
    }
    println!("killed in each act at effects {first} to {covered:?}, always the same end ({effects:?} undisturbed)");
    for (covered, effects) in covered.iter().zip(&effects) {
        // The last few are answers that nobody waits for, and a story that takes longer says more about where it is.
        assert!(
            covered + step + 10 + effects / 4 >= *effects && covered + 1 < MOST,
            "only up to {covered} of {effects}"
        );
    }
}
