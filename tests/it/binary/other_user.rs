//! The service as a user of its own, among files of others.

use super::*;
use crate::support::{tree::tree, world::git};
use std::{fs, path::PathBuf};

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

/// The service of a user among root's files, at work on a repository beside its home.
struct Served {
    dir: tempfile::TempDir,
    process: Child,
}

impl Served {
    async fn begin() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not checked: only root can write as somebody else");
            return None;
        }
        let temp = tempfile::tempdir().unwrap();
        let (dir, tools) = (temp.path(), temp.path().join("tools"));
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
        let served = Self { dir: temp, process };
        let made = served.say("/worktree create wip").await;
        assert!(made.contains("**task-wip**"), "{made}");
        Some(served)
    }

    async fn say(&self, words: &str) -> String {
        let arguments = ["say", "--conversation", "chat", "--codebase", ".", words];
        let output = output_of(as_service(&arguments, self.dir.path())).await;
        format!("{}{}", text(&output.stdout), text(&output.stderr))
    }

    fn worktree(&self) -> PathBuf {
        self.dir.path().join("home/worktrees/_local/tools/wip")
    }

    async fn show(&self) -> String {
        text(&output_of(as_service(&["env", "show", "task-wip"], self.dir.path())).await.stdout)
    }
}

/// BR-199: what root wrote there, as a container does, cannot be deleted. That is found out before anything is.
#[tokio::test]
async fn files_of_another_user_keep_a_worktree_with_everything_in_it() {
    let Some(mut served) = Served::begin().await else { return };
    let worktree = served.worktree();
    fs::create_dir_all(worktree.join("target/built")).unwrap();
    fs::write(worktree.join("target/built/large"), "1\n").unwrap();
    let before = tree(&worktree);
    for words in ["/worktree remove", "/worktree remove --force"] {
        let refused = served.say(words).await;
        assert!(refused.contains("cannot be deleted: it belongs to user 0"), "{refused}");
        assert!(refused.contains("chown") && refused.contains("Nothing was removed."), "{refused}");
        assert!(!refused.contains("all the same"), "{refused}");
        assert_eq!(tree(&worktree), before, "{words}");
    }
    let shown = served.show().await;
    assert!(shown.contains("belongs to user 0"), "{shown}");
    chown("7:7", &worktree);
    let removed = served.say("/worktree remove").await;
    assert!(removed.contains("🧹") && !worktree.exists(), "{removed}");
    served.process.kill().await.unwrap();
}

/// In a cache, which therefore stays as well, and where it is.
#[tokio::test]
async fn files_of_another_user_keep_a_cache_in_its_place() {
    let Some(mut served) = Served::begin().await else { return };
    let target = served.worktree().join("target");
    fs::create_dir_all(target.join("built")).unwrap();
    fs::write(target.join("CACHEDIR.TAG"), vec![7; 2_000_000]).unwrap();
    chown("7:7", &target);
    fs::write(target.join("built/large"), "1\n").unwrap();
    chown("0:0", &target.join("built"));
    served.say("add a note").await;
    until("its size", || async { served.show().await.contains(" MB on disk as of ").then_some(()) }).await;
    served.process.kill().await.unwrap();
    let before = tree(&target);
    let mut cleanup = as_service(&["cleanup"], served.dir.path());
    cleanup.env("TREEWARDEN_LOCAL", "on").env("TREEWARDEN_SANDBOX", "off");
    cleanup.env("DISK_SOFT_MARK", "1MB").env("TREEWARDEN_RECLAIM_AFTER", "30d");
    let output = output_of(cleanup).await;
    let report = format!("{}{}", text(&output.stdout), text(&output.stderr));
    let why = format!("`target` stays: {} cannot be deleted: it belongs to user 0", target.join("built").display());
    assert!(report.contains(&why), "{report}");
    assert_eq!(tree(&target), before);
    assert_eq!(fs::read_dir(served.dir.path().join("home/trash")).unwrap().count(), 0);
}
