//! Part `cleanup`: a scheduled pass over many environments of one repository, and a look at every one of them, beside
//! what scripts do for each worktree: `git branch --merged`, `git status --porcelain`, `git log -1`. In turns, in one
//! run.
//!
//! Each environment has a worktree with all files, and a branch with a commit of its own. One in twenty is done with:
//! squashed into the base, or stale. The passes are those of the running service, as dry runs, so that all rounds meet
//! the same; the last one is real. In each round the base has moved, so that no comparison with it is remembered. What
//! files held is remembered for a day where nothing happens, as in any service that runs: the first pass, which looks
//! at all of them, is printed by itself.

use super::{median, timed};
use secrecy::ExposeSecret;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};
use treewarden::{
    app::Service,
    config::{Config, Flags},
    demo::github::{Standin, StandinOptions},
    model::*,
    orchestrator::sweep::Pass,
    store::{Inserted, NewEnvironment, Store},
};

const REPOSITORY: &str = "octo/many";
const FILES: usize = 2_000;
const ROUNDS: usize = 5;
/// Of so many environments one is done with.
const ONE_IN: usize = 20;
/// Long past what makes one stale.
const LONG_AGO: Duration = Duration::from_secs(100 * 86_400);
const AS_SCRIPTS: [&[&str]; 3] = [&["branch", "--merged", "origin/main"], &["status", "--porcelain"], &["log", "-1"]];

pub async fn measure() {
    for environments in [100, 1_000] {
        passes(environments).await;
    }
}

async fn passes(environments: usize) {
    let root = std::env::temp_dir().join(format!("treewarden-bench-{}-{environments}", std::process::id()));
    std::fs::create_dir_all(&root).expect("a directory");
    let standin = Standin::start(StandinOptions::new(root.join("github"))).await.expect("the stand-in");
    let texts: Vec<(String, String)> =
        (0..FILES).map(|i| (format!("dir{}/file{i}.txt", i % 50), format!("{i}\n").repeat(20))).collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let repository = standin.create_repository(REPOSITORY, &files).await.expect("a repository");
    standin.set_permission(REPOSITORY, "ann", Permission::Write).expect("a permission");
    let origin = root.join(format!("github/repositories/{repository}.git"));
    let service = Service::start(&settings(&root, &standin, environments)).await.expect("the service");
    standin.set_webhook(
        &format!("http://{}/webhooks/github", service.address),
        secrecy::SecretString::from(super::SECRET),
    );
    // The first mention clones.
    let issue = standin.open_issue(REPOSITORY, "ann", "Measure", "").expect("an issue");
    standin.comment(REPOSITORY, "ann", issue, &format!("@{} go", standin.app_slug())).expect("a comment");
    let store = service.orchestrator.store().clone();
    let first = first_environment(&store).await;
    let canonical = root.join("home/repos").join(format!("{REPOSITORY}.git"));
    let worktrees = worktrees(&store, &canonical, &origin, &first, environments).await;

    let (mut ours, mut looks, mut scripts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut faster, mut refreshed, mut first_pass) = (Vec::new(), Vec::new(), 0.0);
    for round in 0..=ROUNDS {
        move_base(&origin, round);
        let pass = pass(&service, Trigger::Schedule, true).await;
        move_base(&origin, ROUNDS + 1 + round);
        let look = self::pass(&service, Trigger::Panel, true).await;
        let naive: f64 = worktrees.iter().map(|worktree| as_scripts(worktree)).sum();
        // The first round fills the caches of all of them.
        if round == 0 {
            first_pass = pass;
        } else {
            ours.push(pass);
            looks.push(look);
            scripts.push(naive);
            faster.push(naive / pass);
            refreshed.push(naive / look);
        }
    }
    let real = pass(&service, Trigger::Schedule, false).await;
    let report = store.list_reports(1).await.expect("a report").remove(0);
    let removed = report.lines.iter().filter(|line| matches!(line.result, ReportResult::Removed(_))).count();
    assert_eq!(removed, environments / ONE_IN, "{report:?}");
    println!(
        "a scheduled pass over {environments:>4} environments:   {:>8.1} ms  ({FILES} files each)",
        median(&mut ours)
    );
    println!(
        "  three git commands for each, in turn:   {:>8.1} ms  ({:.1} times as long)",
        median(&mut scripts),
        median(&mut faster)
    );
    println!(
        "  a look at the files of each of them:    {:>8.1} ms  (in {:.1} of its times)",
        median(&mut looks),
        median(&mut refreshed)
    );
    let scripts = median(&mut scripts);
    println!(
        "  the first pass after a start:           {first_pass:>8.1} ms  (in {:.1} of its times)",
        scripts / first_pass
    );
    println!(
        "  the pass that removes {removed:>2} of them:       {real:>8.1} ms  (in {:.1} of its times)",
        scripts / real
    );
    service.stop().await;
    standin.stop();
    let _ = std::fs::remove_dir_all(&root);
}

fn settings(root: &Path, standin: &Standin, environments: usize) -> Config {
    let stamps = root.join("stamps");
    std::fs::create_dir_all(&stamps).expect("a directory");
    let agent = format!("'{}' --stamp '{}'", std::env::current_exe().expect("this").display(), stamps.display());
    let (app, key) = (standin.app_id().to_string(), standin.private_key_pem().expose_secret().to_owned());
    let limit = (environments + 1).to_string();
    let values = [
        ("TREEWARDEN_LISTEN", "127.0.0.1:0"),
        ("TREEWARDEN_LOG", "error"),
        ("TREEWARDEN_SANDBOX", "off"),
        ("TREEWARDEN_AGENT_COMMAND", &agent),
        ("MAX_WORKTREES_PER_CODEBASE", &limit),
        ("GITHUB_API_URL", &standin.api_url()),
        ("GITHUB_WEB_URL", &standin.web_url()),
        ("GITHUB_APP_ID", &app),
        ("GITHUB_APP_PRIVATE_KEY", &key),
        ("GITHUB_WEBHOOK_SECRET", super::SECRET),
    ];
    let value = |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let flags = Flags { home: Some(root.join("home")), ..Flags::default() };
    Config::load(&flags, value, |path| std::fs::read_to_string(path)).expect("settings")
}

async fn first_environment(store: &Store) -> Environment {
    loop {
        let mut live = store.live_environments(None).await.expect("rows");
        if let Some(first) = live.pop().filter(|first| first.state == EnvironmentState::Active) {
            return first;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Worktrees with a commit each, their rows, and what was merged of them. The first environment is not among them.
async fn worktrees(
    store: &Store,
    canonical: &Path,
    origin: &Path,
    first: &Environment,
    environments: usize,
) -> Vec<PathBuf> {
    let now = Timestamp::new(chrono::Utc::now());
    let mut stream = String::new();
    for number in 0..environments {
        let at = if is_stale(number) { now.minus(LONG_AGO) } else { now };
        let branch = format!("refs/heads/many-{number}");
        commit(&mut stream, &branch, From::Other("refs/remotes/origin/main"), &format!("work/{number}.txt"), at);
    }
    import(canonical, &stream);
    let mut worktrees = Vec::new();
    for number in 0..environments {
        let branch = format!("many-{number}");
        let path = first.path.with_file_name(&branch);
        let mut git = git_in(canonical);
        git.args(["worktree", "add", "-q", "--lock", "--reason", "treewarden"]).arg(&path).arg(&branch);
        timed(&mut git);
        let new = NewEnvironment {
            codebase: first.codebase,
            work: Work { kind: WorkKind::Task, id: branch.clone() },
            branch: BranchName::new(&branch).expect("a name"),
            path: path.clone(),
            base: first.base.clone(),
            provider: first.provider.clone(),
            metadata: EnvironmentMetadata::default(),
        };
        let made_at = if is_stale(number) { now.minus(LONG_AGO) } else { now };
        let inserted = store.insert_environment(new, u32::MAX, made_at).await.expect("a row");
        let Inserted::Created(made) = inserted else { panic!("something is in the way of {branch}") };
        let active = Environment { state: EnvironmentState::Active, start: first.start.clone(), ..made };
        store.update_environment(&active).await.expect("a row");
        worktrees.push(path);
    }
    // The remote has what is merged of them.
    let (mut merged, later) = (String::new(), now.plus(Duration::from_secs(60)));
    for (place, number) in (0..environments).step_by(ONE_IN).filter(|number| !is_stale(*number)).enumerate() {
        // The next ones go on from there.
        let from = if place == 0 { From::Branch } else { From::Before };
        commit(&mut merged, "refs/heads/main", from, &format!("work/{number}.txt"), later);
    }
    import(origin, &merged);
    worktrees
}

fn is_stale(number: usize) -> bool {
    number.is_multiple_of(3 * ONE_IN)
}

/// What a commit comes after.
enum From<'a> {
    /// The branch as the repository has it.
    Branch,
    /// The commit before it in the stream.
    Before,
    Other(&'a str),
}

/// A commit that writes one file, for `git fast-import`.
fn commit(stream: &mut String, branch: &str, from: From<'_>, file: &str, at: Timestamp) {
    let from = match from {
        From::Branch => format!("from {branch}^0\n"),
        From::Before => String::new(),
        From::Other(other) => format!("from {other}^0\n"),
    };
    let text = format!("{file}\n");
    write!(
        stream,
        "commit {branch}\ncommitter Ann <ann@example.org> {} +0000\ndata 1\n.\n{from}M 100644 inline {file}\ndata {}\n{text}\n",
        at.unix(),
        text.len()
    )
    .expect("memory");
}

fn move_base(origin: &Path, round: usize) {
    let mut stream = String::new();
    let now = Timestamp::new(chrono::Utc::now());
    commit(&mut stream, "refs/heads/main", From::Branch, &format!("round/{round}.txt"), now);
    import(origin, &stream);
}

fn import(repository: &Path, stream: &str) {
    let mut import =
        git_in(repository).args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().expect("git runs");
    std::io::Write::write_all(import.stdin.as_mut().expect("its input"), stream.as_bytes()).expect("git reads");
    drop(import.stdin.take());
    assert!(import.wait().expect("git ends").success());
}

fn git_in(directory: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(directory);
    git
}

/// What the pass itself took, as its report says.
async fn pass(service: &Service, trigger: Trigger, dry_run: bool) -> f64 {
    let report = service.orchestrator.pass(&Pass::everywhere(trigger, dry_run, "bench")).await.expect("a pass");
    report.ended_at.since(report.started_at).as_secs_f64() * 1e3
}

fn as_scripts(worktree: &Path) -> f64 {
    AS_SCRIPTS.iter().map(|arguments| timed(git_in(worktree).args(*arguments).stdout(Stdio::null()))).sum()
}
