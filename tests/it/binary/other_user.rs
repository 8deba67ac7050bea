//! The service as a user of its own, among files of others.

use super::*;
use crate::support::{tree::tree, world::git};
use std::fs;

const SERVICE: &str = "7";

/// The program as that user.
fn as_service(arguments: &[&str], dir: &Path) -> Command {
    let home = dir.join("home");
    let own = treewarden(arguments, &home);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", SERVICE, "--regid", SERVICE, "--clear-groups", PROGRAM]).args(arguments).env_clear();
    command.envs(own.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("TREEWARDEN_LISTEN", "127.0.0.1:0").env("TREEWARDEN_LOG", "warn");
    command.current_dir(dir.join("tools")).stdin(Stdio::null()).kill_on_drop(true);
    command
}

fn chown(owner: &str, path: &Path) {
    assert!(std::process::Command::new("chown").args(["-hR", owner]).arg(path).status().unwrap().success());
}

/// BR-199: what root wrote there, as a container does, cannot be deleted. That is found out before anything is.
#[tokio::test]
async fn files_of_another_user_keep_a_worktree_with_everything_in_it() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not checked: only root can write as somebody else");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (dir, tools) = (dir.path(), dir.path().join("tools"));
    fs::create_dir(&tools).unwrap();
    git(&tools, &["init", "--quiet", "--initial-branch=main"]);
    fs::write(tools.join(".gitignore"), "target/\n").unwrap();
    git(&tools, &["add", "."]);
    git(&tools, &["commit", "--quiet", "-m", "Begin"]);
    chown("7:7", dir);
    let mut serve = as_service(&["serve"], dir);
    serve.env("TREEWARDEN_LOCAL", "on").env("TREEWARDEN_SANDBOX", "off");
    serve.env("TREEWARDEN_AGENT_COMMAND", format!("'{PROGRAM}' demo-agent")).stdout(Stdio::piped());
    let mut process = serve.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    while !timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap().starts_with("Panel") {}
    let say = async |words: &str| {
        let output = output_of(as_service(&["say", "--conversation", "chat", "--codebase", ".", words], dir)).await;
        format!("{}{}", text(&output.stdout), text(&output.stderr))
    };
    let made = say("/worktree create wip").await;
    assert!(made.contains("**task-wip**"), "{made}");
    let worktree = dir.join("home/worktrees/_local/tools/wip");
    fs::create_dir_all(worktree.join("target/built")).unwrap();
    fs::write(worktree.join("target/built/large"), "1\n").unwrap();
    let before = tree(&worktree);
    for words in ["/worktree remove", "/worktree remove --force"] {
        let refused = say(words).await;
        assert!(refused.contains("cannot be deleted: it belongs to user 0"), "{refused}");
        assert!(refused.contains("chown") && refused.contains("Nothing was removed."), "{refused}");
        assert!(!refused.contains("all the same"), "{refused}");
        assert_eq!(tree(&worktree), before, "{words}");
    }
    let shown = text(&output_of(as_service(&["env", "show", "task-wip"], dir)).await.stdout);
    assert!(shown.contains("belongs to user 0"), "{shown}");
    chown("7:7", &worktree);
    let removed = say("/worktree remove").await;
    assert!(removed.contains("🧹") && !worktree.exists(), "{removed}");
    process.kill().await.unwrap();
}
