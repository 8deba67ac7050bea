//! `treewarden say`, to a service without GitHub and to one with it.

use super::*;
use crate::support::world::git;
use std::path::PathBuf;

/// A home, and a repository of somebody's on this machine; no GitHub anywhere.
struct Here {
    dir: TempDir,
}

impl Here {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let here = Self { dir };
        let tools = here.tools();
        std::fs::create_dir(&tools).unwrap();
        git(&tools, &["init", "--quiet", "--initial-branch=main"]);
        std::fs::write(tools.join("README.md"), "# tools\n").unwrap();
        git(&tools, &["add", "."]);
        git(&tools, &["commit", "--quiet", "-m", "Begin"]);
        here
    }

    fn tools(&self) -> PathBuf {
        self.dir.path().join("tools")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = treewarden(arguments, &self.dir.path().join("home"));
        command.env("TREEWARDEN_LISTEN", "127.0.0.1:0").env("TREEWARDEN_LOG", "warn");
        command.current_dir(self.tools());
        command
    }

    async fn serve(&self) -> Serving {
        self.serve_with(&[]).await
    }

    async fn serve_with(&self, settings: &[(&str, &str)]) -> Serving {
        let mut command = self.command(&["serve"]);
        command.env("TREEWARDEN_LOCAL", "on").env("TREEWARDEN_SANDBOX", "off");
        command.env("TREEWARDEN_AGENT_COMMAND", format!("'{PROGRAM}' demo-agent")).envs(settings.iter().copied());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        while !said.last().is_some_and(|line: &String| line.starts_with("Panel")) {
            said.push(timeout(PATIENCE, lines.next_line()).await.expect("it does not start").unwrap().unwrap());
        }
        let url = said[0].strip_prefix("Treewarden listens on ").expect(&said[0]).to_owned();
        assert!(said.iter().any(|line| line.contains("repositories on this machine only")), "{said:?}");
        assert!(said.iter().any(|line| line.contains("treewarden say")), "{said:?}");
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Serving { process, url }
    }

    async fn say(&self, arguments: &[&str]) -> (bool, String, String) {
        let arguments: Vec<&str> = ["say"].into_iter().chain(arguments.iter().copied()).collect();
        let output = output_of(self.command(&arguments)).await;
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    }
}

#[tokio::test]
async fn somebody_without_github_gets_work_done() {
    let here = Here::new();
    let serving = here.serve().await;
    let (well, answer, progress) = here.say(&["add a greeting"]).await;
    assert!(well && answer.starts_with("✅ **Done** for `local`"), "{answer}{progress}");
    assert!(answer.contains("in the repository itself") && !answer.contains("<!--"), "{answer}");
    let conversation = progress.split_whitespace().nth(1).unwrap().trim_end_matches(';').to_owned();
    assert!(progress.contains(&format!("treewarden say --conversation {conversation}")), "{progress}");
    let branches = git(&here.tools(), &["for-each-ref", "--format=%(refname:short)", "refs/heads/thread-*"]);
    assert_eq!(branches.lines().count(), 1, "{branches}");
    let author = git(&here.tools(), &["log", "-1", "--format=%an <%ae> %b", &branches]);
    assert!(author.starts_with("treewarden <treewarden@localhost>") && !author.contains("Co-authored"), "{author}");

    // No quotes are needed, nor is a mention, which some are used to.
    for words in [&["/status"][..], &["@treewarden", "/status"], &["@treewarden /status"]] {
        let (well, answer, progress) = here.say(&[&["--conversation", &conversation], words].concat()).await;
        assert!(well && answer.contains(&format!("on branch `{branches}`")), "{words:?}: {answer}");
        assert_eq!(progress, "", "what is said at once is said once");
    }
    let (well, answer, _) = here.say(&["--conversation", &conversation, "/worktree", "list"]).await;
    assert!(well && answer.contains(&branches), "{answer}");
    for name in [format!("_local/tools#{conversation}"), format!("_local/tools#{branches}"), branches.clone()] {
        let shown = output_of(here.command(&["env", "show", &name])).await;
        assert!(text(&shown.stdout).contains(&format!("work      {branches}")), "{name}: {}", text(&shown.stderr));
    }
    let (well, answer, _) = here.say(&["--conversation", &conversation, "agent:fail"]).await;
    assert!(!well && answer.starts_with("❌ **Failed**"), "{answer}");
    // From standard input, without waiting; the name of the conversation is all that is printed.
    let tools = here.tools();
    let mut command =
        here.command(&["say", "--conversation", "mine", "--codebase", tools.to_str().unwrap(), "--no-wait", "-"]);
    command.current_dir(here.dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut input = process.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut input, "add a note".as_bytes()).await.unwrap();
    drop(input);
    let output = timeout(PATIENCE, process.wait_with_output()).await.unwrap().unwrap();
    assert_eq!((output.status.success(), text(&output.stdout).as_str()), (true, "mine\n"));
    let (well, answer, _) = here.say(&["--conversation", "mine", "--codebase", "../tools", "write this down"]).await;
    assert!(well && answer.matches("✅").count() == 1, "what answers others is not shown: {answer}");
    let mut waiting = here.command(&["say", "--conversation", "mine", "agent:sleep=600"]);
    let waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let store =
        Store::open(&format!("sqlite://{}", here.dir.path().join("home/treewarden.db").display())).await.unwrap();
    until("an agent at work", || async {
        runs(&store).await.iter().any(|run| run.state == RunState::Running && run.process.is_some()).then_some(())
    })
    .await;
    store.close().await;
    // Ctrl-C ends the waiting only.
    let id = i32::try_from(waiting.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
    let output = timeout(PATIENCE, waiting.wait_with_output()).await.unwrap().unwrap();
    let told = text(&output.stderr);
    assert!(output.status.code() == Some(130) && told.contains("what was asked goes on"), "{output:?}");
    let (well, answer, _) = here.say(&["--conversation", "mine", "/stop"]).await;
    assert!(well && answer.starts_with("Stopping 1 run"), "{answer}");
    let (well, answer, _) = here.say(&["--close", "--conversation", "mine"]).await;
    assert!(well && answer.contains("The conversation mine is closed"), "{answer}");

    for (arguments, why) in [
        (&["--codebase", "octo/hello", "x"][..], "octo/hello is not a repository that Treewarden knows"),
        (&["--codebase", "elsewhere", "x"], "There is no directory elsewhere here"),
        (&["--codebase", "/", "x"], "(`treewarden say`: `--codebase PATH`, or go there)"),
        (&["--conversation", "mine", "  "], "there is no text"),
        (&["--close", "--conversation", "none"], "there is no conversation none"),
    ] {
        let (well, answer, told) = here.say(arguments).await;
        assert!(!well && answer.is_empty() && told.contains(why), "{why}: {answer}{told}");
    }
    // Without a repository, a new conversation is about the one of the current directory, also when it is given a name.
    let (well, answer, told) = here.say(&["--conversation", "new", "x"]).await;
    assert!(well && answer.contains("Working in isolated branch"), "{answer}{told}");
    let shown = text(&output_of(here.command(&["env", "show", "_local/tools#new"])).await.stdout);
    let worktree = shown.lines().find_map(|line| line.strip_prefix("path      ")).expect(&shown);
    std::fs::write(Path::new(worktree).join("notes.txt"), "not committed").unwrap();
    let (well, answer, told) = here.say(&["--close", "--conversation", "new"]).await;
    assert!(well && answer.contains("is closed") && answer.contains("uncommitted"), "{answer}{told}");
    // GitHub is nobody here.
    let http = reqwest::Client::new();
    let answer = http.post(format!("{}/webhooks/github", serving.url)).body("{}").send().await.unwrap();
    assert_eq!(answer.status(), 404);
    assert_eq!(serving.get("/readyz").await.0, 200);
    serving.stop().await;

    let (well, _, told) = here.say(&["--conversation", "mine", "x"]).await;
    assert!(!well && told.contains("No service runs on ") && told.contains("TREEWARDEN_LOCAL=on"), "{told}");
    // What was done stays: the next start goes on with it.
    let serving = here.serve().await;
    let (well, answer, _) = here.say(&["--conversation", &conversation, "add a note"]).await;
    assert!(well && answer.starts_with("✅"), "{answer}");
    serving.stop().await;
    let doctor = output_of(here.command(&["doctor"]).env("TREEWARDEN_LOCAL", "on")).await;
    assert!(text(&doctor.stdout).contains("repositories on this machine need none"), "{}", text(&doctor.stdout));
    let cleaned = output_of(here.command(&["cleanup"]).env("TREEWARDEN_LOCAL", "on")).await;
    assert!(cleaned.status.success(), "{}", text(&cleaned.stderr));
}

#[tokio::test]
async fn what_is_refused_is_said_and_is_no_success() {
    let here = Here::new();
    let serving = here.serve_with(&[("TREEWARDEN_ALLOW", "* = @ann:7")]).await;
    for words in ["/status", "add a greeting"] {
        let (well, answer, _) = here.say(&["--conversation", "mine", words]).await;
        assert!(!well && answer.contains("leave this to people with a login on GitHub"), "{words}: {answer}");
        assert_eq!(answer.matches("Nothing was run").count(), 1, "{answer}");
    }
    serving.stop().await;
}

#[tokio::test]
async fn what_opens_the_door_is_told_to_nobody() {
    let here = Here::new();
    let file = here.dir.path().join("home/local.json");
    let agent = format!("cat '{}'", file.display());
    let serving = here.serve_with(&[("TREEWARDEN_AGENT_COMMAND", agent.as_str())]).await;
    let door: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let (well, answer, _) = here.say(&["read what you can"]).await;
    assert!(well && answer.contains("[redacted]"), "{answer}");
    assert!(!answer.contains(door["token"].as_str().unwrap()), "{answer}");
    serving.stop().await;
}

/// Between the program and the service: passes everything on, but the first answer.
async fn forgetful(service: &str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let service = service.strip_prefix("http://").unwrap().to_owned();
    tokio::spawn(async move {
        let mut lost = false;
        while let Ok((mut caller, _)) = listener.accept().await {
            let mut behind = tokio::net::TcpStream::connect(&service).await.unwrap();
            if !std::mem::replace(&mut lost, true) {
                let (mut from, mut to) = behind.split();
                let (mut asked, _) = caller.split();
                let answered = tokio::io::AsyncReadExt::read_u8(&mut from);
                tokio::select! { answer = answered => drop(answer), _ = tokio::io::copy(&mut asked, &mut to) => {} }
                continue;
            }
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut caller, &mut behind).await });
        }
    });
    url
}

#[tokio::test]
async fn a_message_whose_answer_is_lost_is_taken_once() {
    let here = Here::new();
    let serving = here.serve().await;
    let file = here.dir.path().join("home/local.json");
    let door = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, door.replace(&serving.url, &forgetful(&serving.url).await)).unwrap();
    let (well, answer, progress) = here.say(&["add a greeting"]).await;
    assert!(well && answer.starts_with("✅ **Done** for `local`"), "{answer}{progress}");
    let branches = git(&here.tools(), &["for-each-ref", "--format=%(refname:short)", "refs/heads/thread-*"]);
    assert_eq!(branches.lines().count(), 1, "{branches}");
    serving.stop().await;
}

#[tokio::test]
async fn a_service_that_takes_no_messages_here_says_how_it_would() {
    let installation = Installation::new().await;
    let serving = installation.serve().await;
    let output = installation.run(&["say", "x"]).await;
    let told = text(&output.stderr);
    assert!(!output.status.success() && told.contains("Start it again with TREEWARDEN_LOCAL=on"), "{told}");
    // Another service of this home may have left its file.
    let left = format!("{{\"url\": \"{}\", \"token\": \"{}\"}}", serving.url, "a".repeat(64));
    std::fs::write(installation.dir.path().join("home/local.json"), left).unwrap();
    let told = text(&installation.run(&["say", "x"]).await.stderr);
    assert!(told.contains("takes no messages of this machine: start it with TREEWARDEN_LOCAL=on"), "{told}");
    serving.stop().await;
    installation.standin.stop();
}

#[tokio::test]
async fn a_repository_on_github_is_meant_by_its_name() {
    let installation = Installation::new().await;
    let mut command = installation.command(&["serve"]);
    command.env("TREEWARDEN_LOCAL", "on");
    let serving = installation.serve_with(command).await;
    installation.ask("/help");
    installation.standin.settled().await;
    let store = installation.store().await;
    until("the repository to be known", || async {
        (store.unfinished().await.unwrap().is_empty() && !store.list_codebases().await.unwrap().is_empty())
            .then_some(())
    })
    .await;
    let output = installation.run(&["say", "--codebase", REPO, "add a greeting"]).await;
    let answer = text(&output.stdout);
    assert!(output.status.success() && answer.contains("pull request #2"), "{answer}{}", text(&output.stderr));
    store.close().await;
    serving.stop().await;
    installation.standin.stop();
}
