//! `cargo bench`: the product's own measures, on real parts. The service runs as a process of its own, on SQLite with
//! `synchronous=FULL`, against the stand-in for GitHub; everything is on loopback and bounded.
//!
//! `cargo bench -- <part>…` measures some parts only. `main` prints: deliveries accepted per second, each one row synced to
//! disk, with p50 and p99 at 16 connections; the time from a webhook to the agent's start in a ready worktree, beside plain
//! `git worktree add` and beside a clone for each job in the same round; thirty mentions at once, beside thirty plain
//! additions; the answer to a command while runs are live; the choice of an environment among 1,000; resident memory idle
//! and after 10,000 deliveries; `/status` among 1,000 worktrees. `intake`, `cleanup`, `removal`, `missed`: see there. [`soak`] runs only where it is named:
//! it does what people do at random, and kills.

mod cleanup;
mod intake;
mod missed;
#[path = "../../tests/it/support/postgres.rs"]
mod postgres;
mod removal;
mod soak;

use secrecy::{ExposeSecret, SecretString};
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use treewarden::{
    decide::branches::Branches,
    decide::resolve::{Candidate, Choice, Found, Holds, LinkedCandidate, Remote, ResolveFacts, Stray, resolve},
    demo::github::{Standin, StandinOptions},
    model::*,
    store::{Inserted, NewCodebase, NewEnvironment, Store},
};

const REPOSITORY: &str = "octo/hello";
const CONNECTIONS: usize = 16;
const DELIVERIES: usize = 10_000;
const ROUNDS: usize = 15;
const FILES: usize = 2_000;
/// A small history: commits, and files each of them rewrites.
const COMMITS: usize = 500;
const REWRITTEN: usize = 20;
const SECRET: &str = "bench-secret";
/// Mentions that come at once, in a repository of this many files.
const AT_ONCE: usize = 30;
const LARGE: &str = "octo/large";
const LARGE_FILES: usize = 10_000;
/// Live runs while commands are answered: as many as there may be.
const LIVE: usize = 4;
/// In the task: the agent is to stay.
const STAY: &str = "stay";
const COMMANDS: usize = 18;
const QUICK: [&str; 6] =
    ["/help", "/status", "/worktree list", "/worktree orphans", "/worktree pin", "/worktree unpin"];
/// From one comment of the bot's to the next question: the pace that GitHub is given is not what is measured.
const REST: Duration = Duration::from_millis(1_200);
const ENVIRONMENTS: u32 = 1_000;
const LINKS: u32 = 3;
const STRAYS: usize = 20;
const CROWDED: &str = "octo/crowded";

fn main() -> ExitCode {
    if let Some(code) = soak::as_agent() {
        return code;
    }
    let mut args = std::env::args().skip(1);
    // As the agent: writes down when it was started, and is done.
    if args.next().as_deref() == Some("--stamp") {
        let dir = PathBuf::from(args.next().expect("a directory"));
        let issue = std::env::var("TREEWARDEN_ISSUE").expect("the issue's number");
        std::fs::write(dir.join(issue), now_nanos().to_string()).expect("the stamp is written");
        let task = std::io::read_to_string(std::io::stdin()).expect("the prompt");
        if task.lines().any(|line| line.trim() == STAY) {
            std::thread::sleep(Duration::from_secs(600));
        }
        println!("stamped");
        return ExitCode::SUCCESS;
    }
    if std::env::args().any(|arg| arg == "--help") {
        println!(
            "cargo bench [-- <part>…]: main, intake, cleanup, removal, missed; or soak [--environments=] [--minutes=] [--seed=]"
        );
        return ExitCode::SUCCESS;
    }
    // Cargo adds `--bench`; what else is named are the parts that are wanted.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let is_named = |name: &str| wanted.iter().any(|part| part == name);
    let is_wanted = |name: &str| wanted.is_empty() || is_named(name);
    if is_wanted("main") {
        runtime.block_on(measure());
    }
    if is_wanted("intake") {
        runtime.block_on(intake::measure());
    }
    if is_wanted("cleanup") {
        runtime.block_on(cleanup::measure());
    }
    if is_wanted("removal") {
        runtime.block_on(removal::measure());
    }
    if is_wanted("missed") {
        runtime.block_on(missed::measure());
    }
    // It takes many minutes, and measures nothing.
    let sound = !is_named("soak") || runtime.block_on(soak::all(&soak::Plan::from_args()));
    // Nothing the stand-in still waits for keeps the bench from ending.
    runtime.shutdown_background();
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn now_nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_nanos()
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// The service as its users run it.
struct Service {
    child: Child,
    address: String,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Service {
    fn start(home: &Path, stamps: &Path, standin: &Standin) -> Self {
        Self::start_on(home, stamps, standin, None)
    }

    /// With this database; absent for the file in its home.
    fn start_on(home: &Path, stamps: &Path, standin: &Standin, database: Option<&str>) -> Self {
        let port = free_port();
        let address = format!("127.0.0.1:{port}");
        let agent = format!("'{}' --stamp '{}'", std::env::current_exe().expect("this").display(), stamps.display());
        let child = Command::new(env!("CARGO_BIN_EXE_treewarden"))
            .arg("serve")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TREEWARDEN_HOME", home)
            .env("TREEWARDEN_LISTEN", &address)
            .env("TREEWARDEN_LOG", "error")
            .env("TREEWARDEN_SANDBOX", "off")
            .env("TREEWARDEN_AGENT_COMMAND", agent)
            .env("MAX_WORKTREES_PER_CODEBASE", "1000")
            .env("GITHUB_API_URL", standin.api_url())
            .env("GITHUB_WEB_URL", standin.web_url())
            .env("GITHUB_APP_ID", standin.app_id().to_string())
            .env("GITHUB_APP_PRIVATE_KEY", standin.private_key_pem().expose_secret())
            .env("GITHUB_WEBHOOK_SECRET", SECRET)
            .envs(database.map(|url| ("DATABASE_URL", url)))
            .stdout(Stdio::null())
            .spawn()
            .expect("the service starts");
        Self { child, address }
    }

    async fn ready(&self) {
        let client = reqwest::Client::new();
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let answer = client.get(format!("http://{}/readyz", self.address)).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            assert!(Instant::now() < deadline, "the service is not ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until every delivery that was accepted is dealt with.
    async fn settled(&self) {
        let client = reqwest::Client::new();
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let answer = client.get(format!("http://{}/metrics", self.address)).send().await.expect("metrics");
            let text = answer.text().await.expect("metrics");
            let mut depths = text.lines().filter(|line| line.starts_with("treewarden_queue_depth{"));
            if depths.all(|line| line.ends_with(" 0")) {
                return;
            }
            assert!(Instant::now() < deadline, "deliveries are left over");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What one of its metrics says; 0 where nothing was counted.
    async fn metric(&self, name: &str) -> f64 {
        let answer = reqwest::get(format!("http://{}/metrics", self.address)).await.expect("metrics");
        let text = answer.text().await.expect("metrics");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_default()
    }

    /// Resident memory in MB.
    fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or_default() / 1024.0
    }
}

async fn measure() {
    let root = std::env::temp_dir().join(format!("treewarden-bench-{}", std::process::id()));
    let stamps = root.join("stamps");
    std::fs::create_dir_all(&stamps).expect("a directory");
    let standin = Standin::start(StandinOptions::new(root.join("github"))).await.expect("the stand-in");
    let texts: Vec<(String, String)> =
        (0..FILES).map(|i| (format!("dir{}/file{i}.txt", i % 50), format!("{i}\n").repeat(200))).collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let repository = standin.create_repository(REPOSITORY, &files).await.expect("a repository");
    standin.set_permission(REPOSITORY, "ann", Permission::Write).expect("a permission");
    let origin = root.join(format!("github/repositories/{repository}.git"));
    write_history(&origin);
    let service = Service::start(&root.join("home"), &stamps, &standin);
    service.ready().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    println!("memory, idle:                       {:>8.1} MB", service.memory());

    worktrees(&root, &stamps, &origin, &standin, &service).await;
    webhooks(&service, repository, standin.installation_id(REPOSITORY).expect("an installation")).await;
    service.settled().await;
    println!("memory, after {DELIVERIES} deliveries:   {:>8.1} MB", service.memory());
    many_at_once(&root, &stamps, &standin).await;
    commands(&stamps, &standin).await;
    println!("memory, after {AT_ONCE} worktrees at once:  {:>8.1} MB", service.memory());
    choices(&root).await;
    status(&root, &stamps, &standin).await;
    standin.stop();
    drop(service);
    let _ = std::fs::remove_dir_all(&root);
}

/// In turns, from the same commit: webhook to agent start; plain `git worktree add`; a clone of its own, as tools without
/// a shared repository make it, over the kindest transport there is.
async fn worktrees(root: &Path, stamps: &Path, origin: &Path, standin: &Standin, service: &Service) {
    standin.set_webhook(&format!("http://{}/webhooks/github", service.address), SecretString::from(SECRET));
    let (mut ours, mut plain, mut beyond, mut cloned) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let issue = standin.open_issue(REPOSITORY, "ann", "Measure", "").expect("an issue");
        standin.settled().await;
        tokio::time::sleep(REST).await;
        let sent = now_nanos();
        let mention = format!("@{} go", standin.app_slug());
        standin.comment(REPOSITORY, "ann", issue, &mention).expect("a comment");
        let started = stamp_of(stamps, issue).await;
        let canonical = root.join("home/repos").join(format!("{REPOSITORY}.git"));
        let plain_time = timed(
            Command::new("git")
                .arg("-C")
                .arg(&canonical)
                .args(["worktree", "add", "-q", "--no-track", "-b", &format!("plain{round}")])
                .arg(root.join(format!("plain{round}")))
                .arg("refs/remotes/origin/main"),
        );
        // Clones stay until the end: a file system may be slow to make files where many were just deleted, and whoever
        // comes next, which is the service, would pay for it.
        let clone = root.join(format!("clone{round}"));
        let url = format!("file://{}", origin.display());
        let clone_time = timed(Command::new("git").args(["clone", "-q", &url]).arg(&clone));
        // The first round clones the repository.
        if round > 0 {
            let time = (started - sent) as f64 / 1e6;
            ours.push(time);
            plain.push(plain_time);
            beyond.push(time - plain_time);
            cloned.push(clone_time);
        }
    }
    println!("webhook to agent start, median:     {:>8.1} ms  ({FILES} files)", median(&mut ours));
    println!("plain git worktree add, median:     {:>8.1} ms  (same rounds)", median(&mut plain));
    println!("beyond git worktree add, median:    {:>8.1} ms", median(&mut beyond));
    println!(
        "a clone for each job, median:       {:>8.1} ms  (same rounds, {COMMITS} commits, file://)",
        median(&mut cloned)
    );
}

/// From the first of many mentions to the start of the last one's agent, beside as many additions by git alone, one after
/// the other.
async fn many_at_once(root: &Path, stamps: &Path, standin: &Standin) {
    let texts: Vec<(String, String)> =
        (0..LARGE_FILES).map(|i| (format!("dir{}/file{i}.txt", i % 100), format!("{i}\n").repeat(50))).collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    standin.create_repository(LARGE, &files).await.expect("a repository");
    standin.set_permission(LARGE, "ann", Permission::Write).expect("a permission");
    let mention = format!("@{} go", standin.app_slug());
    let _ = std::fs::remove_dir_all(stamps);
    std::fs::create_dir_all(stamps).expect("a directory");
    let issue = || standin.open_issue(LARGE, "ann", "Measure", "").expect("an issue");
    // The first one clones.
    let first = issue();
    standin.comment(LARGE, "ann", first, &mention).expect("a comment");
    stamp_of(stamps, first).await;
    let issues: Vec<i64> = (0..AT_ONCE).map(|_| issue()).collect();
    standin.settled().await;
    let sent = now_nanos();
    for issue in &issues {
        standin.comment(LARGE, "ann", *issue, &mention).expect("a comment");
    }
    let mut last = 0;
    for issue in &issues {
        last = last.max(stamp_of(stamps, *issue).await);
    }
    let canonical = root.join("home/repos").join(format!("{LARGE}.git"));
    let plain: f64 = (0..AT_ONCE)
        .map(|number| {
            let mut git = Command::new("git");
            git.arg("-C").arg(&canonical).args(["worktree", "add", "-q", "--no-track", "-b", &format!("many{number}")]);
            timed(git.arg(root.join(format!("many{number}"))).arg("refs/remotes/origin/main"))
        })
        .sum();
    let ours = (last - sent) as f64 / 1e6;
    println!("{AT_ONCE} mentions at once, to the last start: {ours:>5.0} ms  ({LARGE_FILES} files)");
    println!("{AT_ONCE} times git worktree add, in turn:     {plain:>5.0} ms  ({:.2} times as long)", ours / plain);
}

/// From a command's webhook to its answer on GitHub, while as many runs are live as there may be.
async fn commands(stamps: &Path, standin: &Standin) {
    let say = |issue: i64, words: &str| {
        standin.comment(LARGE, "ann", issue, &format!("@{} {words}", standin.app_slug())).expect("a comment")
    };
    let issues: Vec<i64> =
        (0..LIVE).map(|_| standin.open_issue(LARGE, "ann", "Measure", "").expect("an issue")).collect();
    for issue in &issues {
        say(*issue, STAY);
        stamp_of(stamps, *issue).await;
    }
    standin.settled().await;
    let (mut times, mut slowest) = (Vec::new(), ("", 0.0));
    for command in QUICK {
        let mut own = Vec::new();
        for round in 0..COMMANDS / QUICK.len() {
            own.push(answered(standin, LARGE, issues[round % LIVE], command).await);
        }
        times.extend(&own);
        let median = median(&mut own);
        if median > slowest.1 {
            slowest = (command, median);
        }
    }
    for issue in &issues {
        say(*issue, "/stop");
    }
    standin.settled().await;
    println!(
        "a command's answer, median:         {:>8.1} ms  ({LIVE} runs live; slowest, {}: {:.1} ms)",
        median(&mut times),
        slowest.0,
        slowest.1
    );
}

/// From the webhook of a command to its answer on GitHub, in milliseconds.
async fn answered(standin: &Standin, repository: &str, issue: i64, command: &str) -> f64 {
    let answers = || standin.comments(repository, issue).expect("comments").iter().filter(|c| c.via_app).count();
    tokio::time::sleep(REST).await;
    let before = answers();
    let begun = Instant::now();
    standin.comment(repository, "ann", issue, &format!("@{} {command}", standin.app_slug())).expect("a comment");
    while answers() == before {
        assert!(begun.elapsed() < Duration::from_secs(120), "no answer");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let time = begun.elapsed().as_secs_f64() * 1e3;
    standin.settled().await;
    time
}

/// `/status` in a repository with as many worktrees as it may have: when they are counted, and as they were counted just
/// before. Git adds them, and their rows are written beside the service.
async fn status(root: &Path, stamps: &Path, standin: &Standin) {
    standin.create_repository(CROWDED, &[("README.md", "# crowded\n")]).await.expect("a repository");
    standin.set_permission(CROWDED, "ann", Permission::Write).expect("a permission");
    let _ = std::fs::remove_dir_all(stamps);
    std::fs::create_dir_all(stamps).expect("a directory");
    let issue = standin.open_issue(CROWDED, "ann", "Measure", "").expect("an issue");
    standin.comment(CROWDED, "ann", issue, &format!("@{} go", standin.app_slug())).expect("a comment");
    stamp_of(stamps, issue).await;
    standin.settled().await;
    let store =
        Store::open(&format!("sqlite://{}", root.join("home/treewarden.db").display())).await.expect("a database");
    let codebases = store.list_codebases().await.expect("rows");
    let codebase = codebases.into_iter().find(|codebase| codebase.name.to_string() == CROWDED).expect("a row");
    let first = store.live_environments(Some(codebase.id)).await.expect("rows").remove(0);
    let now = Timestamp::new(chrono::Utc::now());
    for number in 1..ENVIRONMENTS {
        let branch = format!("many-{number}");
        let path = first.path.with_file_name(&branch);
        let mut git = Command::new("git");
        git.arg("-C").arg(root.join("home/repos").join(format!("{CROWDED}.git")));
        git.args(["worktree", "add", "-q", "--no-track", "--lock", "--reason", "treewarden", "-b", &branch]);
        timed(git.arg(&path).arg("refs/remotes/origin/main"));
        let new = NewEnvironment {
            codebase: codebase.id,
            work: Work { kind: WorkKind::Task, id: branch.clone() },
            branch: BranchName::new(&branch).expect("a name"),
            path,
            base: first.base.clone(),
            provider: first.provider.clone(),
            metadata: EnvironmentMetadata::default(),
        };
        let Inserted::Created(made) = store.insert_environment(new, ENVIRONMENTS, now).await.expect("a row") else {
            panic!("something is in the way of {branch}");
        };
        let active = Environment { state: EnvironmentState::Active, start: first.start.clone(), ..made };
        store.update_environment(&active).await.expect("a row");
    }
    store.close().await;
    let counted = answered(standin, CROWDED, issue, "/status").await;
    let mut remembered = Vec::new();
    for _ in 0..COMMANDS {
        remembered.push(answered(standin, CROWDED, issue, "/status").await);
    }
    let told = standin.comments(CROWDED, issue).expect("comments").pop().expect("an answer").body;
    assert!(told.contains(&ENVIRONMENTS.to_string()), "{told}");
    println!(
        "/status among {ENVIRONMENTS} worktrees:        {counted:>8.1} ms  (counted; {:.1} ms in the half minute after)",
        median(&mut remembered)
    );
}

/// The rows a choice rests on, and the choice, without git and GitHub.
async fn choices(root: &Path) {
    let url = format!("sqlite://{}", root.join("choices.db").display());
    let store = Store::open(&url).await.expect("a database");
    store.migrate().await.expect("a schema");
    let now = Timestamp::from_unix(1_772_323_200);
    let main = BranchName::new("main").expect("a name");
    let new = NewCodebase {
        github_id: RepositoryId(1),
        installation: InstallationId(1),
        name: REPOSITORY.parse().expect("a name"),
        default_branch: Some(main.clone()),
        reached: true,
    };
    let codebase = store.upsert_codebase(new, now).await.expect("a row");
    let work = |number: u32| Work { kind: WorkKind::Issue, id: number.to_string() };
    for number in 0..ENVIRONMENTS {
        let new = NewEnvironment {
            codebase: codebase.id,
            work: work(number),
            branch: BranchName::new(&format!("issue-{number}")).expect("a name"),
            path: root.join(format!("choices/issue-{number}")),
            base: Some(main.clone()),
            provider: "worktree".to_owned(),
            metadata: EnvironmentMetadata::default(),
        };
        store.insert_environment(new, ENVIRONMENTS, now).await.expect("a row");
    }
    let candidate = async |work: &Work| {
        let environment = store.find_live_environment(codebase.id, work).await.expect("an answer");
        environment.map(|environment| Candidate { environment, validity: Probe::Known(Validity::Valid) })
    };
    let stray = |number: usize| Stray {
        path: root.join(format!("elsewhere/{number}")),
        at_place: false,
        branch: BranchName::new(&format!("by-hand-{number}")).ok(),
        validity: Probe::Known(Validity::Valid),
        foreign_lock: Probe::Known(None),
        holds: Probe::Known(Holds::Nothing),
    };
    let strays: Vec<Stray> = (0..STRAYS).map(stray).collect();
    let mut times = Vec::new();
    for number in 0..2 * ENVIRONMENTS {
        let begun = Instant::now();
        // The second half has none of its own, and is linked to work that has, which cannot be shared.
        let own = candidate(&work(number)).await;
        let links: Vec<Work> = (0..LINKS).map(|link| work((number + link) % ENVIRONMENTS)).collect();
        let mut linked = Vec::new();
        for link in links.iter().filter(|_| own.is_none()) {
            let candidate = candidate(link).await.expect("it has one");
            linked.push(LinkedCandidate { candidate, contains_head: Probe::Known(false), may_make_way: false });
        }
        let shares = RepoSettings { share_linked: ShareLinked::Never, ..RepoSettings::default() };
        let choice = resolve(&ResolveFacts {
            work: work(number),
            pull: None,
            default_branch: Some(main.clone()),
            remote: Remote::WithDefault,
            settings: shares,
            named_base_exists: false,
            current: None,
            legacy: None,
            same_work: own,
            strays: strays.clone(),
            linked,
            branches: Branches::default(),
            made_way: None,
            links,
            links_unknown: false,
        });
        assert!(match choice.choice {
            Choice::Use { found, .. } => number < ENVIRONMENTS && found == Found::SameWork,
            Choice::Create(place) => number >= ENVIRONMENTS && place.not_shared.is_some(),
            _ => false,
        });
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    println!(
        "a choice among {ENVIRONMENTS} environments:   {:>8.2} ms  (median; rows and decision, half of them with {LINKS} links and {STRAYS} strays)",
        median(&mut times)
    );
}

/// When the agent of an issue was started.
async fn stamp_of(stamps: &Path, issue: i64) -> u128 {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let stamp = std::fs::read_to_string(stamps.join(issue.to_string())).ok();
        if let Some(at) = stamp.and_then(|text| text.parse().ok()) {
            return at;
        }
        assert!(Instant::now() < deadline, "the agent was not started");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Commits on `main` whose contents hardly compress, packed as a server keeps them.
fn write_history(repository: &Path) {
    let mut stream = String::new();
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    for commit in 0..COMMITS {
        stream +=
            &format!("commit refs/heads/main\ncommitter Ann <ann@example.org> {} +0000\n", 1_700_000_000 + commit);
        stream += "data 1\n.\n";
        if commit == 0 {
            stream += "from refs/heads/main^0\n";
        }
        for file in 0..REWRITTEN {
            let number = (commit * REWRITTEN + file) % FILES;
            let mut text = String::new();
            for _ in 0..100 {
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                text += &format!("{noise:016x}\n");
            }
            stream += &format!("M 100644 inline dir{}/file{number}.txt\ndata {}\n{text}\n", number % 50, text.len());
        }
    }
    let git = || {
        let mut git = Command::new("git");
        git.arg("-C").arg(repository);
        git
    };
    let mut import = git().args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().expect("git runs");
    std::io::Write::write_all(import.stdin.as_mut().expect("its input"), stream.as_bytes()).expect("git reads");
    drop(import.stdin.take());
    assert!(import.wait().expect("git ends").success());
    assert!(git().args(["repack", "-q", "-a", "-d"]).status().expect("git runs").success());
}

/// Runs a command; answers with milliseconds.
fn timed(command: &mut Command) -> f64 {
    let begun = Instant::now();
    assert!(command.status().expect("git runs").success());
    begun.elapsed().as_secs_f64() * 1e3
}

/// Signed deliveries that somebody has to look at and that lead to nothing, as fast as they are accepted.
async fn webhooks(service: &Service, repository: i64, installation: i64) {
    let kind = intake::Kind::Closed;
    let bodies = (0..DELIVERIES).map(|number| kind.body((REPOSITORY, repository), installation, number)).collect();
    let url = format!("http://{}/webhooks/github", service.address);
    let intake::Burst { rate, p50, p99 } = intake::burst(&url, kind, bodies, CONNECTIONS).await;
    println!(
        "deliveries accepted, {CONNECTIONS} connections: {rate:>7.0} /s   (one synced row each, handled meanwhile)"
    );
    println!("  p50 {p50:.1} ms, p99 {p99:.1} ms");
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
