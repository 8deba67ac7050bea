//! `treewarden demo`: its story, its links, and what it answers when the story breaks off.

use super::{PATIENCE, captured, output_of, text, treewarden, until};
use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, path::Path, process::Stdio};
use tokio::{io::AsyncReadExt, time::timeout};

#[tokio::test]
async fn the_demo_that_nobody_hears_ends_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut demo = treewarden(&["demo", "--hold"], &dir.path().join("home"));
    demo.env("TMPDIR", dir.path()).stdout(writer).stderr(Stdio::piped());
    let output = captured(demo).await;
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "left behind");
}

#[tokio::test]
async fn the_demo_plays_its_story_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo = treewarden(&["demo", "--exit"], &dir.path().join("home"));
    demo.env("TMPDIR", dir.path());
    let output = output_of(demo).await;
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", text(&output.stderr));
    assert!(told.contains("The worktree is gone") && told.contains("The end."), "{told}");
    assert!(told.lines().last().unwrap().contains("With `--hold`"), "{told}");
    assert!(told.contains("**Verified by Treewarden:**"), "{told}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "left behind");
}

/// The steps that were told: the lines under each, without their margin.
fn steps(told: &str) -> Vec<Vec<&str>> {
    let mut steps: Vec<Vec<&str>> = Vec::new();
    for line in told.lines() {
        let words = line.trim_start();
        match words.split_once(".  ") {
            Some((number, _)) if number.parse::<u32>().is_ok() => steps.push(Vec::new()),
            _ if words.is_empty() || !line.starts_with("       ") => {}
            _ => steps.last_mut().unwrap().push(words),
        }
    }
    steps
}

#[tokio::test]
async fn each_step_of_the_demo_has_a_page_in_the_panel() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = treewarden(&["demo", "--hold"], &dir.path().join("home"));
    let mut demo = command.env("TMPDIR", dir.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = demo.stdout.take().unwrap();
    let mut told = String::new();
    let listening = async {
        while !told.contains("Ctrl-C") {
            let mut bytes = [0; 4096];
            let count = output.read(&mut bytes).await.unwrap();
            assert!(count > 0, "{told}");
            told.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    };
    timeout(PATIENCE, listening).await.expect("the story does not end");

    let entrance = told.split_once("Open the panel: ").unwrap().1.lines().next().unwrap();
    let (panel, token) = entrance.split_once("/login/one-time?token=").unwrap();
    let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let entered = http.post(format!("{panel}/login/one-time")).form(&[("token", token)]).send().await.unwrap();
    let cookie = entered.headers()[reqwest::header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let steps = steps(&told);
    assert_eq!(steps.len(), 10, "{told}");
    let mut rooms = BTreeSet::new();
    for (number, lines) in steps.iter().enumerate() {
        let link = lines[0];
        let page = link.strip_prefix(panel).unwrap_or_else(|| panic!("step {} leads to {link}", number + 1));
        let answer = http.get(link).header(reqwest::header::COOKIE, &cookie).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{link}");
        rooms.insert(page.split('/').nth(1).unwrap().to_owned());
    }
    assert_eq!(rooms.into_iter().collect::<Vec<_>>(), ["deliveries", "environments", "runs"]);

    let id = rustix::process::Pid::from_raw(demo.id().unwrap().try_into().unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert!(timeout(PATIENCE, demo.wait()).await.expect("it does not stop").unwrap().success());
    until("an empty directory", || async { (fs::read_dir(dir.path()).unwrap().count() == 0).then_some(()) }).await;
}

/// A git that does everything but one thing; the stand-in takes the first one of its `PATH`, the service does not.
fn git_that_cannot(verb: &str, dir: &Path) {
    let path = std::env::var_os("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.is_file()).expect("a git");
    let script = format!(
        "#!/bin/sh\nfor word; do [ \"$word\" = {verb} ] && {{ echo 'fatal: not today' >&2; exit 128; }}; done\nexec '{}' \"$@\"\n",
        real.display()
    );
    fs::write(dir.join("git"), script).unwrap();
    fs::set_permissions(dir.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn what_the_demo_lacks_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo = treewarden(&["demo", "--exit", "--listen", "foo"], &dir.path().join("home"));
    let told = text(&output_of(demo.env("TMPDIR", dir.path())).await.stderr);
    assert!(told.contains("\"foo\" (from the command line)") && !told.contains("environment"), "{told}");
    let mut demo = treewarden(&["demo", "--exit"], &dir.path().join("home"));
    let output = output_of(demo.env("TMPDIR", dir.path()).env("PATH", dir.path())).await;
    assert!(!output.status.success() && text(&output.stdout).contains("there is no git on PATH"), "{output:?}");
}

#[tokio::test]
async fn a_story_that_breaks_off_says_so_and_ends_with_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let (tools, place) = (dir.path().join("tools"), dir.path().join("place"));
    fs::create_dir_all(&tools).unwrap();
    fs::create_dir_all(&place).unwrap();
    git_that_cannot("merge-tree", &tools);
    let mut demo = treewarden(&["demo", "--exit"], &dir.path().join("home"));
    let path = std::env::join_paths(
        std::iter::once(tools.clone()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    demo.env("TMPDIR", &place).env("PATH", path.unwrap());
    let output = output_of(demo).await;
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("The story broke off") && !told.contains("The end."), "{told}");
    assert_eq!(steps(&told).len(), 8, "up to the merge: {told}");
    assert!(told.contains("issue-1 is active"), "what was kept: {told}");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "left behind");
}
