//! Places whose making or removing was interrupted: killed between two steps, killed inside git, given up by the caller.

use crate::git_lab::known;
use crate::isolation::Place;
use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use treewarden::git::{Git, GitSettings, Status};
use treewarden::isolation::{IsolationError, Maker, Provider, RemoveRequest, Stage, WorktreeProvider};
use treewarden::model::*;

/// Each state that a kill can leave, made by hand, is gone on with by the same request.
#[tokio::test]
async fn a_removal_goes_on_where_it_was_killed() {
    let place = Place::new().await;
    let provider = || WorktreeProvider::new(&place.lab.path("worktrees"), &place.lab.path("trash")).unwrap();
    for (step, name) in ["renamed", "unlocked", "unregistered", "released"].into_iter().enumerate() {
        let path = place.create(name).await;
        let tip = place.lab.main_tip(&place.repository).await;
        let request = RemoveRequest { delete_branch_at: Some(tip), ..place.removal(name) };
        fs::rename(&path, place.trashed(&request)).unwrap();
        let canonical = place.repository.directory();
        if step == 1 {
            place.lab.run(canonical, &["worktree", "unlock", path.to_str().unwrap()]);
        }
        if step >= 2 {
            place.repository.unregister(&path).await.unwrap();
        }
        if step == 3 {
            fs::rename(place.trashed(&request), place.trashed(&request).with_extension("done")).unwrap();
        }
        // What a start does: whatever is not released stays.
        provider().empty_trash().await.unwrap();
        assert_eq!(place.trashed(&request).exists(), step < 3, "{name}");
        let removed = provider().remove(&place.repository, &request).await.unwrap();
        assert!(removed.branch_deleted, "{name}");
        assert_eq!(removed.bytes.is_some(), step < 3, "{name}");
        provider().empty_trash().await.unwrap();
        assert!(place.trash().is_empty() && place.registered().await.is_empty(), "{name}");
    }
}

/// Also when the files are gone already.
#[tokio::test]
async fn a_removal_tells_what_it_kept_however_often_it_is_begun() {
    let place = Place::new().await;
    let path = place.create("b").await;
    let name = "refs/treewarden/trash/b".to_owned();
    let request = RemoveRequest { keep_work_under: Some(name.clone()), ..place.removal("b") };
    fs::write(path.join("new"), "n").unwrap();
    let kept = place.remove(&request).await.unwrap().kept;
    assert!(kept.is_some());
    assert_eq!(place.repository.tip(&name).await.unwrap(), kept);
    assert_eq!(place.remove(&request).await.unwrap().kept, kept);
    // What an earlier removal left under the name is none of this one's.
    place.create("b").await;
    assert_eq!(place.remove(&request).await.unwrap().kept, None);

    let path = place.create("c").await;
    let request = RemoveRequest { keep_work_under: Some("refs/treewarden/trash/c".to_owned()), ..place.removal("c") };
    fs::File::create(path.join("large")).unwrap().set_len(257 * 1024 * 1024).unwrap();
    let why = "large has 257 MB, more than the 256 MB that are kept of one file; move it away";
    assert_eq!(place.remove(&request).await, Err(IsolationError::NotKeepable(why.to_owned())));
    assert!(path.join("large").exists());
    place.assert_untouched(&path, "c").await;
}

#[tokio::test]
async fn work_found_in_the_trash_goes_back() {
    let place = Place::new().await;
    let path = place.create("b").await;
    let request = place.removal("b");
    fs::rename(&path, place.trashed(&request)).unwrap();
    // Written through an open directory, after the first look.
    fs::write(place.trashed(&request).join("late"), "l").unwrap();
    let status = Status { tracked: 0, untracked: 1, conflicted: 0 };
    assert_eq!(place.remove(&request).await, Err(IsolationError::ChangedMeanwhile(status)));
    assert_eq!(fs::read_to_string(path.join("late")).unwrap(), "l");
    place.assert_untouched(&path, "b").await;
}

/// The system may be short of memory at any moment, and the service goes on.
#[tokio::test]
async fn a_git_that_is_killed_while_it_unregisters_does_no_harm() {
    let place = Place::new().await;
    let path = place.create("b").await;
    let entry = place.repository.directory().join("worktrees/b");
    let program = place.lab.path("short-lived");
    let killed =
        format!("case \" $* \" in *\" worktree remove \"*) rm {0}/gitdir {0}/HEAD; kill -9 $$;; esac", entry.display());
    fs::write(&program, format!("#!/bin/sh\n{killed}\nexec git \"$@\"\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = GitSettings { local_remotes: true, ..GitSettings::new(program, place.lab.path("short")) };
    let git = Git::new(settings).unwrap();
    let request = place.removal("b");
    let removed = place.provider.remove(&git.repository(place.repository.directory()), &request).await;
    assert!(removed.is_ok(), "{removed:?}");
    assert!(!path.exists() && !entry.exists() && !place.registered().await.contains(&path));
}

/// Files that cannot go back stay where they are, and whoever asks is told where that is.
#[tokio::test]
async fn a_removal_that_is_stuck_says_where_the_files_are() {
    let place = Place::new().await;
    let path = place.create("b").await;
    let request = place.removal("b");
    fs::rename(&path, place.trashed(&request)).unwrap();
    assert!(place.provider.removal_begun(request.environment));
    fs::write(place.trashed(&request).join("late"), "l").unwrap();
    let stuck = async |why: &str| {
        let Err(error @ IsolationError::HalfWay { .. }) = place.remove(&request).await else { panic!("not stuck") };
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.to_string().contains(place.trashed(&request).to_str().unwrap()), "{error}");
        assert_eq!(fs::read_to_string(place.trashed(&request).join("late")).unwrap(), "l");
    };
    // Somebody made something of their own at the old path: nobody can know which is right.
    fs::create_dir(&path).unwrap();
    stuck("something at its old path").await;
    // The directory around it went away.
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    stuck("cannot go back").await;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let status = Status { tracked: 0, untracked: 1, conflicted: 0 };
    assert_eq!(place.remove(&request).await, Err(IsolationError::ChangedMeanwhile(status)));
    place.assert_untouched(&path, "b").await;
    assert!(!place.provider.removal_begun(request.environment));
}

#[tokio::test]
async fn a_killed_creation_is_begun_again() {
    let place = Place::new().await;
    let path = place.create("b").await;
    // As a kill in the middle of the checkout leaves it: locked, registered, no index, some of the files.
    let admin = place.repository.directory().join("worktrees/b");
    fs::remove_file(admin.join("index")).unwrap();
    fs::remove_file(admin.join("treewarden-complete")).unwrap();
    fs::write(admin.join("index.lock"), "").unwrap();
    fs::remove_file(path.join("f")).unwrap();
    let health = async |stage| known(place.provider.health(&place.repository, &path, Maker::Us, stage).await);
    assert_eq!(health(Stage::InTheMaking).await, Validity::Missing);
    assert_eq!(health(Stage::HandedOut).await, Validity::Broken, "the record knows that somebody worked there");
    let path = place.create("b").await;
    place.assert_untouched(&path, "b").await;
    assert_eq!(fs::read_to_string(path.join("f")).unwrap(), "1\n");
    assert!(known(place.repository.worktree(&path).status().await).is_clean());
    // One that was in use and lost its index is not taken for that.
    let index = place
        .repository
        .directory()
        .join("worktrees")
        .join(fs::read_to_string(path.join(".git")).unwrap().trim().rsplit('/').next().unwrap());
    fs::remove_file(index.join("index")).unwrap();
    assert_eq!(
        known(place.provider.health(&place.repository, &path, Maker::Us, Stage::HandedOut).await),
        Validity::Valid
    );
    place.provider.empty_trash().await.unwrap();
}

/// A caller that gives up at any moment leaves something the next try can go on with.
#[tokio::test]
async fn a_caller_that_gives_up_does_no_harm() {
    let place = Place::new().await;
    let people = place.lab.path("people");
    for number in 0..400 {
        fs::write(people.join(format!("file-{number}")), "x".repeat(2000)).unwrap();
    }
    place.lab.run(&people, &["add", "."]);
    place.lab.people_commit("g", "1\n");
    place.lab.fetch(&place.repository).await;
    for after in 0..12 {
        let name = format!("b{after}");
        let request = place.request(&name).await;
        let patience = std::time::Duration::from_millis(after * 3);
        let _ = tokio::time::timeout(patience, place.provider.create(&place.repository, &request)).await;
        place.provider.create(&place.repository, &request).await.unwrap();
        place.assert_untouched(&request.path, &name).await;
        assert!(known(place.repository.worktree(&request.path).status().await).is_clean());
        let removal = place.removal(&name);
        let _ = tokio::time::timeout(patience, place.remove(&removal)).await;
        place.remove(&removal).await.unwrap();
        assert!(place.registered().await.is_empty());
    }
}

/// The same with the git program killed (the service died, or the machine was short of memory), at moments it is held at.
#[tokio::test]
async fn a_git_that_is_killed_in_a_checkout_does_no_harm() {
    let place = Place::new().await;
    let people = place.lab.path("people");
    for number in 0..400 {
        fs::write(people.join(format!("file-{number}")), "x".repeat(2000)).unwrap();
    }
    // In the order in which git writes them.
    let attributes = "file-0 filter=hold\nfile-200 filter=hold\nfile-99 filter=hold\n";
    fs::write(people.join(".gitattributes"), attributes).unwrap();
    place.lab.run(&people, &["add", "."]);
    place.lab.people_commit("g", "1\n");
    place.lab.fetch(&place.repository).await;
    let hold = Hold::new(&place.lab.path("hold"));
    for (number, moment) in ["prepared", "committed", "file-0", "file-200", "file-99", "checked-out"].iter().enumerate()
    {
        let name = format!("b{number}");
        let path = place.path(&name);
        let text = path.to_str().unwrap();
        let add = ["worktree", "add", "-q", "--lock", "--reason", "treewarden", "--no-track", "-b", &name, text];
        let mut command = place.lab.command(place.repository.directory(), &hold.configuration(&add));
        command.arg("refs/remotes/origin/main").stderr(std::process::Stdio::null());
        hold.kill_at(moment, command).await;
        let there = |file: &str| fs::metadata(path.join(file)).is_ok_and(|seen| seen.len() == 2000);
        let branch = place.lab.try_run(place.repository.directory(), &["rev-parse", "-q", "--verify", &name]);
        let seen = (branch.status.success(), there("file-1"), there("file-4"), there("file-99"));
        let expected = match *moment {
            "prepared" => (false, false, false, false),
            "committed" | "file-0" => (true, false, false, false),
            "file-200" => (true, true, false, false),
            "file-99" => (true, true, true, false),
            _ => (true, true, true, true),
        };
        assert_eq!(seen, expected, "killed at {moment}: the branch, and files in the order of their names");

        make_old(place.repository.directory());
        let request = place.request(&name).await;
        place.provider.create(&place.repository, &request).await.unwrap();
        place.assert_untouched(&path, &name).await;
        assert!(known(place.repository.worktree(&path).status().await).is_clean());
    }
}

/// Scripts that git calls on its way, and that keep it waiting at one of them.
struct Hold {
    directory: PathBuf,
    configuration: Vec<String>,
}

impl Hold {
    fn new(directory: &Path) -> Self {
        fs::create_dir(directory).unwrap();
        let scripts = [
            // The refs are locked, or written.
            ("reference-transaction", "moment=$1"),
            ("post-checkout", "moment=checked-out"),
            ("smudge", "moment=$1; trap cat EXIT"),
        ];
        for (name, script) in scripts {
            let held = directory.join("held");
            let wait = format!(
                "#!/bin/sh\n{script}\n[ \"$HOLD\" = \"$moment\" ] || exit 0\n: > '{}'\nsleep 600\n",
                held.display()
            );
            fs::write(directory.join(name), wait).unwrap();
            fs::set_permissions(directory.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let hooks = format!("core.hooksPath={}", directory.display());
        let smudge = format!("filter.hold.smudge='{}' %f", directory.join("smudge").display());
        let configuration = ["-c", &hooks, "-c", &smudge].map(str::to_owned).to_vec();
        Self { directory: directory.to_owned(), configuration }
    }

    fn configuration<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        self.configuration.iter().map(String::as_str).chain(arguments.iter().copied()).collect()
    }

    /// Kills git and all it started once it is held.
    async fn kill_at(&self, moment: &str, mut command: Command) {
        let held = self.directory.join("held");
        let mut git = command.env("HOLD", moment).process_group(0).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !held.exists() {
            assert!(git.try_wait().unwrap().is_none(), "git was not held at {moment}");
            assert!(Instant::now() < deadline, "git did not come to {moment}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let group = rustix::process::Pid::from_raw(git.id().cast_signed()).unwrap();
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        git.wait().unwrap();
        fs::remove_file(held).unwrap();
    }
}

/// Leftovers are waited for until they are old; here they are made so.
fn make_old(directory: &Path) {
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            make_old(&path);
        }
        if path.is_dir() || path.extension() == Some("lock".as_ref()) {
            fs::File::open(&path).unwrap().set_modified(past).unwrap();
        }
    }
}
