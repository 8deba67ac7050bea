//! The command runner with real processes: what they get, what is kept of them, and that they end.

use crate::support::alone::{peak, ran_alone};
use secrecy::SecretString;
use std::{fs, os::unix::fs::PermissionsExt, path::Path, path::PathBuf, time::Duration, time::Instant};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use treewarden::agent::{
    AgentError, AgentEvent, AgentRunner, CommandRunner, Limits, Outcome, TurnEnd, TurnSpec, process, work_env,
};
use treewarden::model::{AgentProcess, BranchName, RunId, ThreadNumber};
use treewarden::telemetry::Redactor;
use uuid::Uuid;

/// Long enough for any machine; reached only when something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// A place for one turn of an agent that is a shell script.
struct Bench {
    dir: TempDir,
    spec: TurnSpec,
    runner: CommandRunner,
    cancel: CancellationToken,
}

impl Bench {
    fn new(script: &str) -> Self {
        Self::with_env(script, vec![("PATH", std::env::var("PATH").unwrap())])
    }

    fn with_env(script: &str, env: Vec<(&str, String)>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().join("tree");
        fs::create_dir(&cwd).unwrap();
        let spec = TurnSpec {
            run: RunId(Uuid::now_v7()),
            cwd,
            state_dir: dir.path().join("state/agent"),
            prompt: "the prompt\n".to_owned(),
            defaults: treewarden::agent::name_env("warden[bot]", "bot@example.org"),
            env: Vec::new(),
            limits: Limits { wall: PATIENCE, output_bytes: 1024 * 1024, grace: PATIENCE },
            log: dir.path().join("runs/one.log"),
        };
        let secret = SecretString::from("sesame-open-sesame");
        let env = env.into_iter().map(|(name, value)| (name.to_owned(), SecretString::from(value))).collect();
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        let runner = CommandRunner::new(argv, env, Redactor::new([&secret]));
        Self { dir, spec, runner, cancel: CancellationToken::new() }
    }

    async fn try_run(&self) -> (Result<TurnEnd, AgentError>, Vec<AgentEvent>) {
        let (sender, mut receiver) = mpsc::channel(64);
        let end = self.runner.run(self.spec.clone(), sender, self.cancel.clone()).await;
        let mut events = Vec::new();
        while let Ok(event) = receiver.try_recv() {
            events.push(event);
        }
        (end, events)
    }

    async fn run(&self) -> TurnEnd {
        self.try_run().await.0.unwrap()
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.spec.log).unwrap_or_default()).into_owned()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.spec.cwd.join(name)
    }

    /// The process whose id the script wrote to `name`.
    fn pid(&self, name: &str) -> i32 {
        fs::read_to_string(self.file(name)).unwrap().trim().parse().unwrap()
    }
}

/// Whether the process is there and not just waiting to be reaped by whoever inherited it.
fn alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "still waiting until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn not_empty(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}

#[tokio::test]
async fn git_has_a_name_to_commit_in_unless_the_settings_give_another() {
    let names = "git var GIT_AUTHOR_IDENT; git var GIT_COMMITTER_IDENT";
    let bench = Bench::new(names);
    assert_eq!(bench.run().await.answer.matches("warden[bot] <bot@example.org>").count(), 2);
    let path = std::env::var("PATH").unwrap();
    let bench = Bench::with_env(names, vec![("PATH", path), ("GIT_AUTHOR_NAME", "Our Agent".to_owned())]);
    assert!(bench.run().await.answer.starts_with("Our Agent <bot@example.org>"));
}

#[tokio::test]
async fn the_prompt_goes_in_and_the_answer_comes_out() {
    let bench = Bench::new("cat; pwd; echo noise >&2; echo edited > file");
    let end = bench.run().await;
    assert_eq!((end.outcome, end.exit), (Outcome::Done, Some(0)));
    assert_eq!(end.answer, format!("the prompt\n{}\n", bench.spec.cwd.display()));
    assert!(bench.log().contains("the prompt\n") && bench.log().contains("noise\n"));
    assert!(bench.file("file").exists());
    assert_eq!(fs::read_to_string(bench.spec.log.with_extension("prompt")).unwrap(), "the prompt\n");
    for file in [bench.spec.log.clone(), bench.spec.log.with_extension("prompt")] {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
}

/// Nobody has to live on to feed it: whoever ends between its start and its first look, it finds all of the prompt.
#[tokio::test]
async fn the_prompt_is_whole_before_there_is_a_process() {
    let mut bench = Bench::new("stat -L -c '%F of %s, %a' /proc/self/fd/0; readlink /proc/self/fd/0; cat");
    bench.spec.prompt = format!("{}sesame-open-sesame\n", "word\n".repeat(200_000));
    let answer = bench.run().await.answer;
    let file = bench.spec.log.with_extension("prompt");
    let whole = bench.spec.prompt.replace("sesame-open-sesame", "[redacted]");
    assert_eq!(fs::read_to_string(&file).unwrap(), whole, "what it is told is what is kept");
    let about = format!("regular file of {}, 600\n{}\nword\n", whole.len(), file.display());
    assert!(answer.starts_with(&about) && answer.ends_with("word\n[redacted]\n"), "{}", &answer[..200]);
    // One that cannot be written is no turn, rather than half of one.
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let (end, events) = bench.try_run().await;
    assert!(matches!(end, Err(AgentError::NotPrepared { .. })) && events.is_empty(), "{end:?}");
}

#[tokio::test]
async fn the_environment_is_cleared() {
    let mut bench = Bench::with_env("/usr/bin/env", vec![("MODEL", "m-1".to_owned()), ("HOME", "/root".to_owned())]);
    bench.spec.env = work_env(
        &"octo/hello".parse().unwrap(),
        Some(ThreadNumber(42)),
        &BranchName::new("issue-42").unwrap(),
        Some(&BranchName::new("main").unwrap()),
    );
    let answer = bench.run().await.answer;
    // PWD, SHLVL, OLDPWD and _ are the shell's own doing.
    let shell = ["PWD", "OLDPWD", "SHLVL", "_"];
    let mut lines: Vec<&str> =
        answer.lines().filter(|line| !shell.contains(&line.split_once('=').unwrap_or_default().0)).collect();
    lines.sort_unstable();
    let expected = format!(
        "GIT_AUTHOR_EMAIL=bot@example.org\nGIT_AUTHOR_NAME=warden[bot]\nGIT_COMMITTER_EMAIL=bot@example.org\n\
         GIT_COMMITTER_NAME=warden[bot]\nHOME={}\nLANG=C.UTF-8\nMODEL=m-1\nPATH=/usr/local/bin:/usr/bin:/bin\nTERM=dumb\nTREEWARDEN_BASE=main\n\
         TREEWARDEN_BRANCH=issue-42\nTREEWARDEN_ISSUE=42\nTREEWARDEN_REPO=octo/hello\nTREEWARDEN_RUN_ID={}",
        bench.spec.state_dir.display(),
        bench.spec.run,
    );
    assert_eq!(lines.join("\n"), expected);
}

#[tokio::test]
async fn start_and_statuses_are_told() {
    let bench =
        Bench::new("echo '::status reading' >&2; echo '::status not here'; printf '::status te' >&2; echo sting >&2");
    let (end, events) = bench.try_run().await;
    assert_eq!(end.unwrap().answer, "::status not here\n");
    assert!(
        matches!(events[0], AgentEvent::Started(AgentProcess { group, start_ticks }) if group > 1 && start_ticks > 0)
    );
    assert_eq!(events[1..], ["reading", "testing"].map(|text| AgentEvent::Status(text.to_owned())));
}

#[tokio::test]
async fn the_log_can_be_followed_while_the_agent_works() {
    let bench = Bench::new("echo first; while [ ! -e go ]; do sleep 0.02; done; echo second");
    let follow = async {
        until("the first line is in the log", || bench.log() == "first\n").await;
        fs::write(bench.file("go"), "").unwrap();
    };
    let (end, ()) = tokio::join!(bench.run(), follow);
    assert_eq!((end.answer.as_str(), bench.log().as_str()), ("first\nsecond\n", "first\nsecond\n"));
}

#[tokio::test]
async fn secrets_reach_neither_answer_nor_log_nor_status() {
    let bench = Bench::new(
        "printf 'key sesame-op'; sleep 0.05; echo 'en-sesame ghs_0123456789abcdef'; echo '::status sesame-open-sesame' >&2; \
         echo 'fatal: sesame-open-sesame' >&2; exit 3",
    );
    let (end, events) = bench.try_run().await;
    let end = end.unwrap();
    assert_eq!(end.answer, "key [redacted] [redacted]\n");
    assert_eq!(end.outcome, Outcome::Failed("the agent ended with exit code 3: fatal: [redacted]".to_owned()));
    assert_eq!(events[1..], [AgentEvent::Status("[redacted]".to_owned())]);
    assert!(!bench.log().contains("sesame") && !bench.log().contains("0123"), "{}", bench.log());
}

#[tokio::test]
async fn failing_keeps_the_output() {
    let end = Bench::new("echo partly; echo why >&2; echo '::status last' >&2; exit 7").run().await;
    assert_eq!((end.answer.as_str(), end.exit), ("partly\n", Some(7)));
    assert_eq!(end.outcome, Outcome::Failed("the agent ended with exit code 7: why".to_owned()));
    let end = Bench::new("kill -SEGV $$").run().await;
    assert_eq!((end.outcome, end.exit), (Outcome::Failed("the agent was ended by signal 11".to_owned()), None));
}

#[tokio::test]
async fn saying_nothing_is_allowed() {
    let bench = Bench::new("true");
    let end = bench.run().await;
    assert_eq!((end.outcome, end.answer.as_str()), (Outcome::Done, ""));
    assert_eq!(bench.log(), "");
}

#[tokio::test]
async fn closing_the_input_early_is_no_failure() {
    let mut bench = Bench::new("exec <&-; echo done");
    bench.spec.prompt = "x".repeat(4 * 1024 * 1024);
    let end = bench.run().await;
    assert_eq!((end.outcome, end.answer.as_str()), (Outcome::Done, "done\n"));
}

#[tokio::test]
async fn binary_output_becomes_text() {
    let end = Bench::new(r"printf 'a\000\377\033[31mb\n'; head -c 100000 /dev/urandom").run().await;
    assert!(end.answer.starts_with("a\u{fffd}b\n"), "{:?}", &end.answer[..20]);
    assert!(!end.answer.contains(['\0', '\u{1b}']));
}

#[tokio::test]
async fn the_time_limit_ends_the_whole_group() {
    let mut bench = Bench::new("sleep 300 & echo $! > child; echo started; wait");
    bench.spec.limits.wall = Duration::from_millis(500);
    let end = bench.run().await;
    assert_eq!((end.outcome, end.answer.as_str(), end.exit), (Outcome::TimedOut, "started\n", None));
    assert!(!alive(bench.pid("child")));
}

#[tokio::test]
async fn cancelling_ends_it_and_keeps_what_was_said() {
    let bench = Bench::new("trap 'echo bye; exit 0' TERM; echo hello; echo $$ > pid; while :; do sleep 0.02; done");
    let cancel = async {
        until("the agent works", || not_empty(&bench.file("pid"))).await;
        bench.cancel.cancel();
    };
    let (end, ()) = tokio::join!(bench.run(), cancel);
    assert_eq!((end.outcome, end.answer.as_str()), (Outcome::Cancelled, "hello\nbye\n"));
    // Cancelled before it began: no process at all.
    fs::remove_file(bench.file("pid")).unwrap();
    assert_eq!(bench.run().await.outcome, Outcome::Cancelled);
    assert!(!bench.file("pid").exists());
}

#[tokio::test]
async fn an_agent_that_ignores_the_request_to_end_is_killed() {
    let mut bench = Bench::new("trap '' TERM; echo $$ > pid; while :; do sleep 0.02; done");
    bench.spec.limits.grace = Duration::from_millis(200);
    let cancel = async {
        until("the agent works", || not_empty(&bench.file("pid"))).await;
        bench.cancel.cancel();
    };
    let (end, ()) = tokio::join!(bench.run(), cancel);
    assert_eq!((end.outcome, end.exit), (Outcome::Cancelled, None));
    assert!(!alive(bench.pid("pid")));
}

#[tokio::test]
async fn a_child_that_keeps_the_output_open_does_not_hold_up_the_answer() {
    let bench = Bench::new("sleep 300 & echo $! > child; echo answer");
    let start = Instant::now();
    let end = bench.run().await;
    assert_eq!((end.outcome, end.answer.as_str()), (Outcome::Done, "answer\n"));
    assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
    assert!(!alive(bench.pid("child")));
}

#[tokio::test]
async fn a_child_that_left_the_group_is_found_and_killed() {
    let bench = Bench::new(
        "setsid sh -c 'echo $$ > child; sleep 300' & while [ ! -s child ]; do sleep 0.02; done; echo answer",
    );
    let end = bench.run().await;
    assert_eq!((end.outcome, end.answer.as_str()), (Outcome::Done, "answer\n"));
    assert!(!alive(bench.pid("child")));
}

#[tokio::test]
async fn giving_up_on_a_turn_kills_what_left_the_group_too() {
    let bench = Bench::new("setsid sh -c 'echo $$ > child; sleep 300' & sleep 300");
    tokio::select! {
        _ = bench.run() => panic!("the agent ended"),
        () = until("the agent works", || not_empty(&bench.file("child"))) => {}
    }
    let child = bench.pid("child");
    until("what left the group is gone", || !alive(child)).await;
}

#[tokio::test]
async fn giving_up_on_a_turn_kills_it() {
    let bench = Bench::new("echo $$ > pid; sleep 300");
    tokio::select! {
        _ = bench.run() => panic!("the agent ended"),
        () = until("the agent works", || not_empty(&bench.file("pid"))) => {}
    }
    let pid = bench.pid("pid");
    until("the agent is gone", || !alive(pid)).await;
}

#[tokio::test]
async fn a_gigabyte_of_output_needs_little_memory_and_little_disk() {
    if ran_alone("agent::a_gigabyte_of_output_needs_little_memory_and_little_disk") {
        return;
    }
    let bench = Bench::new(
        "echo begin; yes 0123456789012345678901234567890123456789012345678901234567890 | head -c 1G; echo; echo end",
    );
    let before = peak();
    let end = bench.run().await;
    let grown = (peak() - before) / 1024;
    assert_eq!(end.outcome, Outcome::Done);
    assert!(end.answer.starts_with("begin\n0123") && end.answer.ends_with("\nend\n"));
    assert!(end.answer.contains("bytes left out") && end.answer.len() < 400_000);
    let log = bench.log();
    assert!(log.starts_with("begin\n0123") && log.ends_with("\nend\n") && log.contains("bytes left out"));
    assert!(log.len() < 1024 * 1024 + 100, "{}", log.len());
    assert!(grown < 100 * 1024, "{grown} KiB");
}

#[tokio::test]
async fn only_the_very_process_is_ended_after_a_crash() {
    let bench = Bench::new("echo $$ > pid; sleep 300");
    let (sender, mut receiver) = mpsc::channel(4);
    let check = async {
        let Some(AgentEvent::Started(process)) = receiver.recv().await else { panic!("not started") };
        let other = AgentProcess { start_ticks: process.start_ticks + 1, ..process };
        assert!(!process::end_leftover(other));
        assert!(!process::end_leftover(AgentProcess { start_ticks: 0, ..process }));
        assert!(alive(process.group));
        assert!(process::end_leftover(process));
        process
    };
    let (end, process) = tokio::join!(bench.runner.run(bench.spec.clone(), sender, bench.cancel.clone()), check);
    assert_eq!(end.unwrap().outcome, Outcome::Failed("the agent was ended by signal 9".to_owned()));
    assert!(!process::end_leftover(process));
    assert!(!process::end_leftover(AgentProcess { group: 1, start_ticks: 1 }));
    assert!(!process::end_leftover(AgentProcess { group: -1, start_ticks: 1 }));
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let bench = Bench::new("true");
    let missing = CommandRunner::new(vec!["no-such-agent".to_owned()], Vec::new(), Redactor::new([]));
    let (sender, _receiver) = mpsc::channel(1);
    let error = missing.run(bench.spec.clone(), sender, CancellationToken::new()).await.unwrap_err();
    insta::assert_snapshot!(error, @r#"the agent's program "no-such-agent" was not found; check TREEWARDEN_AGENT_COMMAND and PATH"#);
    let mut gone = Bench::new("true");
    gone.spec.cwd = gone.dir.path().join("gone");
    assert!(matches!(gone.try_run().await.0, Err(AgentError::NoWorktree { .. })));
}

#[tokio::test]
async fn a_second_turn_is_appended_to_the_log() {
    let bench = Bench::new("echo turn");
    bench.run().await;
    bench.run().await;
    assert_eq!(bench.log(), "turn\nturn\n");
}

#[tokio::test]
async fn what_was_to_be_forgotten_is_deleted_by_the_next_start() {
    let homes = tempfile::tempdir().unwrap();
    let id = "0197d4a0-0000-7000-8000-000000000001";
    let aside = homes.path().join(format!("{id}.forgotten-{id}"));
    for directory in [aside.join("memory"), homes.path().join(id), homes.path().join(format!("{id}.forgotten-not"))] {
        fs::create_dir_all(directory).unwrap();
    }
    treewarden::agent::clear_forgotten(homes.path().to_owned()).await;
    assert!(!aside.exists());
    assert_eq!(fs::read_dir(homes.path()).unwrap().count(), 2, "homes stay");
    treewarden::agent::clear_forgotten(homes.path().join("nowhere")).await;
}
