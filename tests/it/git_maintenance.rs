//! Packing a repository: nothing is dropped by it, whatever leads to an object or does not, and whenever it is ended.

use crate::git_lab::{Lab, branch};
use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
    process::Stdio,
    time::{Duration, SystemTime},
};
use treewarden::git::{Git, GitError, GitSettings, Repository};
use treewarden::model::WorktreeStart;

/// Every object, loose or packed, with its kind and size.
fn objects(lab: &Lab, repository: &Path) -> BTreeSet<String> {
    let all = lab.run(repository, &["cat-file", "--batch-all-objects", "--batch-check"]);
    all.lines().map(str::to_owned).collect()
}

/// Writes a content that nothing leads to.
fn blob(lab: &Lab, repository: &Path, content: &str) -> String {
    let mut git = lab.command(repository, &["hash-object", "-w", "--stdin"]);
    let mut child = git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(content.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
}

fn pack(lab: &Lab, repository: &Path, ids: &str) {
    let mut git = lab.command(repository, &["pack-objects", "-q", "objects/pack/pack"]);
    let mut child = git.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(ids.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    lab.run(repository, &["prune-packed"]);
}

fn refs(lab: &Lab, repository: &Path) -> String {
    lab.run(repository, &["for-each-ref"])
}

/// Old enough to be nobody's any more.
fn age(path: &Path, by: Duration) {
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - by).unwrap();
}

const DAYS: Duration = Duration::from_secs(3 * 24 * 3600);

/// All that nothing but an agent, an index, a log or a ref of ours leads to.
async fn lived_in(lab: &Lab, repository: &Repository) {
    let home = repository.directory().to_owned();
    let (path, _) = lab.worktree(repository, "b").await;
    let committed = lab.commit(&path, "own", "1\n");
    lab.run(&home, &["update-ref", "refs/treewarden/archive/1", committed.as_str()]);
    lab.run(&path, &["commit", "-q", "--amend", "-m", "again"]);
    lab.run(&path, &["update-ref", "refs/worktree/mine", &lab.run(&path, &["rev-parse", "HEAD"])]);
    lab.run(&path, &["reset", "-q", "--hard", "HEAD~1"]);
    fs::write(path.join("f"), "stashed\n").unwrap();
    lab.run(&path, &["stash", "-q"]);
    lab.run(&path, &["checkout", "-q", "--detach"]);
    lab.commit(&path, "detached", "1\n");
    fs::write(path.join("staged"), "only the index has it\n").unwrap();
    lab.run(&path, &["add", "staged"]);
    fs::remove_file(path.join("staged")).unwrap();
    // Nothing at all leads to these.
    let ids: Vec<_> = ["one", "two"].map(|content| blob(lab, &home, content)).to_vec();
    pack(lab, &home, &ids[0]);
    let tree = lab.run(&home, &["rev-parse", "refs/remotes/origin/main^{tree}"]);
    lab.run(&home, &["commit-tree", &tree, "-m", "held by nobody"]);
}

#[tokio::test]
async fn nothing_is_dropped_whatever_leads_to_it() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let home = repository.directory().to_owned();
    lived_in(&lab, &repository).await;
    let path = lab.path("worktrees/b");
    let status = lab.run(&path, &["status", "--porcelain"]);
    let (before, named, stashed) = (objects(&lab, &home), refs(&lab, &home), lab.run(&path, &["stash", "list"]));
    assert!(repository.object_store().await.unwrap().loose > 5);

    repository.pack_new().await.unwrap();
    let store = repository.object_store().await.unwrap();
    assert!(store.loose == 0 && store.packs > 1 && store.pack_bytes > store.largest_bytes, "{store:?}");
    assert_eq!(objects(&lab, &home), before);
    // An agent's own git leaves packs of what nothing leads to.
    let late = blob(&lab, &home, "late");
    lab.run(&home, &["repack", "-q", "--cruft", "-d"]);
    blob(&lab, &home, "later");
    let with_late = objects(&lab, &home);
    assert!(with_late.len() == before.len() + 2 && with_late.iter().any(|line| line.starts_with(&late)));

    repository.pack_everything().await.unwrap();
    let store = repository.object_store().await.unwrap();
    assert_eq!((store.loose, store.packs, store.largest_bytes > 0), (0, 1, true));
    assert_eq!(objects(&lab, &home), with_late);

    repository.pack_refs().await.unwrap();
    assert_eq!(refs(&lab, &home), named);
    assert_eq!(lab.run(&path, &["stash", "list"]), stashed);
    assert_eq!(lab.run(&path, &["status", "--porcelain"]), status);
    assert_eq!(lab.run(&path, &["show", ":staged"]), "only the index has it");
    lab.run(&home, &["fsck", "--no-dangling"]);
    // Branches go on, and go, as before.
    let main = lab.main_tip(&repository).await;
    let start = WorktreeStart::NewBranch(main.clone());
    repository.add_worktree(&lab.path("worktrees/c"), &branch("c"), &start).await.unwrap();
    assert!(repository.set_ref("refs/treewarden/archive/2", &main, None).await.unwrap());
    lab.run(&home, &["update-ref", "-d", "refs/treewarden/archive/1"]);
    assert_eq!(repository.tip("refs/treewarden/archive/1").await.unwrap(), None);
    lab.people_commit("f", "2\n");
    lab.fetch(&repository).await;
    assert_ne!(lab.main_tip(&repository).await, main);
}

/// A lot of work for a repack, so that it can be ended in the middle.
fn fill(lab: &Lab, repository: &Path) {
    let mut input = String::new();
    for number in 0..3000 {
        let text = format!("{number}\n{}", "some words that are alike\n".repeat(20 + number % 50));
        input.push_str(&format!("blob\ndata {}\n{text}\n", text.len()));
    }
    let mut git = lab.command(repository, &["fast-import", "--quiet"]);
    let mut child = git.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

#[tokio::test]
async fn it_may_be_ended_at_any_moment() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let home = repository.directory().to_owned();
    lived_in(&lab, &repository).await;
    fill(&lab, &home);
    let before = objects(&lab, &home);
    assert!(before.len() > 3000);
    for millis in [1, 5, 10, 20, 40, 80, 160] {
        // The service stops.
        let _ = tokio::time::timeout(Duration::from_millis(millis), repository.pack_everything()).await;
        // The machine does.
        let mut git = lab.command(&home, &["-c", "pack.threads=1", "repack", "-a", "-d", "-q", "-n", "-k"]);
        let mut child = git.process_group(0).stderr(Stdio::null()).spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(millis)).await;
        let group = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        child.wait().unwrap();
        assert_eq!(objects(&lab, &home), before, "after {millis} ms");
    }
    let left = || {
        let names = fs::read_dir(home.join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.file_name().unwrap().to_string_lossy().contains("tmp")).collect::<Vec<_>>()
    };
    for unfinished in left() {
        fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o644)).unwrap();
        age(&unfinished, DAYS);
    }
    fs::write(home.join("objects/pack/.tmp-1-pack-x.pack"), "half").unwrap();
    repository.pack_everything().await.unwrap();
    assert_eq!(objects(&lab, &home), before);
    assert_eq!(left(), [home.join("objects/pack/.tmp-1-pack-x.pack")], "a young one may be somebody's");
    assert_eq!(repository.object_store().await.unwrap().loose, 0);
}

/// What a git leaves that is killed while it packs refs. Every later packing, and the end of every packed ref, would fail.
#[tokio::test]
async fn a_half_written_list_of_refs_is_in_nobodys_way() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (home, main) = (repository.directory().to_owned(), lab.main_tip(&repository).await);
    assert!(repository.set_ref("refs/treewarden/archive/1", &main, None).await.unwrap());
    for name in ["packed-refs.new", "packed-refs.lock"] {
        fs::write(home.join(name), "# half").unwrap();
        age(&home.join(name), Duration::from_secs(60));
    }
    repository.pack_refs().await.unwrap();
    assert!(!home.join("packed-refs.new").exists());
    assert_eq!(repository.tip("refs/treewarden/archive/1").await.unwrap(), Some(main));
    assert!(fs::read_to_string(home.join("packed-refs")).unwrap().contains("refs/treewarden/archive/1"));
}

/// Everything is somebody's work, and whoever makes a worktree does not wait for it.
#[tokio::test]
async fn nobody_waits_while_objects_are_packed() {
    let lab = Lab::new();
    let (program, begun) = (lab.path("slow-git"), lab.path("begun"));
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' repack '*) cut -d' ' -f19 /proc/$$/stat >'{0}.new'; mv '{0}.new' '{0}'; exec sleep 600;; esac\nexec git \"$@\"\n",
        begun.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = GitSettings { local_remotes: true, ..GitSettings::new(&program, lab.path("state")) };
    let repository = Git::new(settings).unwrap().repository(lab.path("repos/c.git"));
    repository.ensure(lab.path("r.git").to_str().unwrap()).await.unwrap();
    lab.fetch(&repository).await;
    let packing = tokio::spawn({
        let repository = repository.clone();
        async move { repository.pack_everything().await }
    });
    while !begun.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    lab.worktree(&repository, "b").await;
    lab.people_commit("f", "2\n");
    lab.fetch(&repository).await;
    repository.pack_refs().await.unwrap();
    assert!(!packing.is_finished());
    packing.abort();
    assert!(packing.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn objects_behind_a_link_are_left_where_they_are() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let home = repository.directory().to_owned();
    let id = blob(&lab, &home, "elsewhere");
    let (fan_out, elsewhere) = (home.join("objects").join(&id[..2]), lab.path("elsewhere"));
    fs::rename(&fan_out, &elsewhere).unwrap();
    symlink(&elsewhere, &fan_out).unwrap();
    for packed in [repository.pack_new().await, repository.pack_everything().await] {
        assert!(matches!(&packed, Err(GitError::Refused { reason }) if reason.contains("is a link")), "{packed:?}");
    }
    assert!(repository.object_store().await.is_err());
    assert!(elsewhere.join(&id[2..]).exists());
    fs::remove_file(&fan_out).unwrap();
    fs::rename(&elsewhere, &fan_out).unwrap();
    repository.pack_new().await.unwrap();
    assert_eq!(lab.run(&home, &["cat-file", "blob", &id]), "elsewhere");
}

#[tokio::test]
async fn what_agents_leave_in_a_repository_is_in_nobodys_way() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let home = repository.directory().to_owned();
    lived_in(&lab, &repository).await;
    let before = objects(&lab, &home);
    // A ref that cannot be read, a graph of commits, a hook, a configuration.
    fs::write(home.join("refs/heads/broken"), "nonsense\n").unwrap();
    lab.try_run(&home, &["commit-graph", "write", "--reachable"]);
    fs::create_dir_all(home.join("hooks")).unwrap();
    for hook in ["pre-auto-gc", "reference-transaction"] {
        fs::write(home.join("hooks").join(hook), format!("#!/bin/sh\ntouch '{}'\n", lab.path("ran").display()))
            .unwrap();
        fs::set_permissions(home.join("hooks").join(hook), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (key, value) in [("gc.pruneExpire", "now"), ("repack.writeBitmaps", "true"), ("repack.cruftWindow", "0")] {
        lab.run(&home, &["config", key, value]);
    }
    repository.pack_new().await.unwrap();
    repository.pack_everything().await.unwrap();
    repository.pack_refs().await.unwrap();
    assert_eq!(objects(&lab, &home), before);
    assert!(!lab.path("ran").exists());
    let names = fs::read_dir(home.join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    let unknown =
        names.filter(|path| !["pack", "idx", "rev"].map(|end| Some(end.as_ref())).contains(&path.extension()));
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<std::path::PathBuf>::new());
    assert!(!home.join("objects/info/commit-graph").exists());
}

/// One of an index that is damaged, or a ref to what is not here: then nothing is packed, and nothing is lost.
#[tokio::test]
async fn what_is_damaged_stays_as_it_is() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let home = repository.directory().to_owned();
    lived_in(&lab, &repository).await;
    let index = home.join("worktrees/b/index");
    let bytes = fs::read(&index).unwrap();
    let before = objects(&lab, &home);
    fs::write(&index, "DIRC nonsense").unwrap();
    let packed = repository.pack_everything().await;
    assert!(packed.is_err(), "what the index held would not be known");
    assert_eq!(objects(&lab, &home), before);
    repository.pack_new().await.unwrap();
    assert_eq!(objects(&lab, &home), before);
    fs::write(&index, bytes).unwrap();
    repository.pack_everything().await.unwrap();
    assert_eq!(objects(&lab, &home), before);
}
