//! `treewarden env remove` and `env restore`.

use super::*;

impl Installation {
    /// Exit code, and what was said on standard output.
    async fn env(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let arguments: Vec<&str> = ["env"].into_iter().chain(arguments.iter().copied()).collect();
        let output = self.run(&arguments).await;
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    }
}

#[tokio::test]
async fn an_environment_goes_and_comes_back_while_no_service_runs() {
    let installation = Installation::new().await;
    let serving = installation.serve().await;
    installation.ask("add a greeting");
    let store = installation.store().await;
    until_succeeded(&store, 1).await;
    let live = async || store.live_environments(None).await.unwrap();
    let made = live().await.remove(0);
    let name = "octo/hello#issue-1";

    let in_use = async |arguments: &[&str], id: EnvironmentId| {
        let (code, said) = installation.env(arguments).await;
        assert!(code == Some(1) && said.contains("Another Treewarden runs on"), "{said}");
        assert!(said.contains(&format!("/environments/{id}")), "{said}");
        let command = format!("/worktree {} issue-1", arguments[0]);
        assert!(said.contains(&command) && said.contains("in a thread of octo/hello"), "{said}");
    };
    in_use(&["remove", name, "--force"], made.id).await;
    serving.stop().await;
    assert_eq!(live().await[0].version, made.version);

    std::fs::write(made.path.join("half.txt"), "half done\n").unwrap();
    for arguments in [&["remove", name, "--dry-run"][..], &["remove", "issue-1"]] {
        let (code, said) = installation.env(arguments).await;
        assert!(
            code == Some(1) && said.contains("kept      octo/hello#issue-1: uncommitted work: 1 untracked file"),
            "{said}"
        );
        assert!(said.contains("With --force, what is not committed goes to the trash for 30 days."), "{said}");
    }
    let before = live().await.remove(0);
    let (code, foreseen) = installation.env(&["remove", name, "--force", "--dry-run"]).await;
    assert!(code == Some(0) && foreseen.starts_with("would go  octo/hello#issue-1: this was asked for"), "{foreseen}");
    assert!(foreseen.contains("; 1 untracked file goes to the trash\n"), "{foreseen}");
    assert!(foreseen.ends_with("Nothing was changed.\n"), "{foreseen}");
    assert_eq!(live().await, [before]);
    assert!(made.path.join("half.txt").exists());

    let (code, gone) = installation.env(&["remove", name, "--force"]).await;
    assert!(code == Some(0) && gone.starts_with("removed   octo/hello#issue-1: this was asked for"), "{gone}");
    assert!(gone.contains("\nfreed     ") && gone.contains("\ntrash     what was not committed, until "), "{gone}");
    // What was foreseen, but for what only shows when it is done.
    let same = |text: &str| {
        let lines = text.lines().skip(1).filter(|line| !line.starts_with("freed ") && *line != "Nothing was changed.");
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(same(&foreseen), same(&gone));
    assert!(!made.path.exists() && live().await.is_empty());
    let trash = std::fs::read_dir(installation.dir.path().join("home/trash")).unwrap();
    let left: Vec<_> = trash.map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "its files are off the disk: {left:?}");
    let (code, said) = installation.env(&["remove", name]).await;
    assert!(code == Some(0) && said.contains("was gone already"), "{said}");

    let (_, shown) = installation.env(&["show", name]).await;
    for line in [
        "state     removed",
        "trigger   cli, by cli",
        "commits   1 commit of its own; ",
        "freed     ",
        "restore   /worktree restore issue-1 in",
    ] {
        assert!(shown.contains(&format!("\n{line}")), "{line} in {shown}");
    }
    let (code, back) = installation.env(&["restore", name]).await;
    assert!(code == Some(0) && back.starts_with("restored  octo/hello#issue-1: on branch issue-1, in "), "{back}");
    assert!(back.contains("What went to the trash is there again, as it was."), "{back}");
    let half = std::fs::read_to_string(made.path.join("half.txt")).unwrap();
    assert_eq!(half, "half done\n");
    let (code, there) = installation.env(&["restore", name]).await;
    assert!(
        code == Some(0) && there.starts_with("there     octo/hello#issue-1: it was brought back before"),
        "{there}"
    );
    let (code, unknown) = installation.env(&["restore", "issue-7"]).await;
    assert!(code == Some(1) && unknown.contains("No environment is called issue-7."), "{unknown}");

    // Its thread hears of it as soon as there is a service.
    let serving = installation.serve().await;
    let told = || {
        let comments = installation.standin.comments(REPO, 1).unwrap().into_iter().map(|comment| comment.body);
        comments.filter(|body| body.contains("<!-- treewarden:cleanup/")).collect::<Vec<_>>()
    };
    until("the comment", || async { (!told().is_empty()).then_some(()) }).await;
    in_use(&["restore", name], made.id).await;
    assert!(told().len() == 1 && told()[0].starts_with("🧹 The worktree was removed"), "{:?}", told());
    serving.stop().await;
}
