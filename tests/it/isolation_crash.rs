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
use treewarden::git::{Git, GitSettings};
use treewarden::isolation::{IsolationError, Maker, Provider, RemoveRequest, Stage, WorktreeProvider};
use treewarden::model::*;

/// Each state that a kill can leave, made by hand, is gone on with by the same request.
#[tokio::test]
async fn a_removal_goes_on_where_it_was_killed() {
    let place = Place::new().await;
    let provider = || WorktreeProvider::new(&place.lab.path("worktrees"), &place.lab.path("trash")).unwrap();
    for (step, name) in
        ["renamed", "apart", "removed", "looked-at", "released", "half-forgotten"].into_iter().enumerate()
    {
        let path = place.create(name).await;
        let tip = place.lab.main_tip(&place.repository).await;
        let request = RemoveRequest { delete_branch_at: Some(tip.clone()), ..place.removal(name) };
        fs::write(path.join("late"), "l").unwrap();
        fs::rename(&path, place.trashed(&request)).unwrap();
        let canonical = place.repository.directory();
        let apart = canonical.join("treewarden-removed").join(request.environment.to_string());
        if step == 1 {
            fs::create_dir_all(apart.parent().unwrap()).unwrap();
            fs::rename(canonical.join("worktrees").join(name), &apart).unwrap();
        }
        if step >= 2 {
            assert!(place.remove(&request).await.unwrap().branch_deleted, "{name}");
        }
        if step >= 3 {
            assert!(place.look_again(&request, &tip).await.unwrap().is_some());
        }
        if step >= 4 {
            fs::rename(place.trashed(&request), place.trashed(&request).with_extension("done")).unwrap();
        }
        if step == 5 {
            fs::rename(&apart, apart.with_extension("done")).unwrap();
        }
        // What a start does: whatever is not released stays.
        provider().empty_trash().await.unwrap();
        assert_eq!(place.trashed(&request).exists(), step < 4, "{name}");
        assert!(provider().remove(&place.repository, &request).await.unwrap().branch_deleted, "{name}");
        place.look_again(&request, &tip).await.unwrap();
        let kept = place.repository.tip(&format!("refs/treewarden/trash/{}", request.environment)).await.unwrap();
        assert_eq!(place.lab.run(canonical, &["show", &format!("{}:late", kept.unwrap())]), "l", "{name}");
        provider().release(&place.repository, request.environment).await.unwrap();
        provider().empty_trash().await.unwrap();
        assert!(place.trash().is_empty() && place.registered().await.is_empty(), "{name}");
        assert_eq!(fs::read_dir(apart.parent().unwrap()).unwrap().count(), 0, "{name}");
    }
}

/// BR-001, BR-006, BR-007: whatever was written after the decision is found before anything is deleted, also where a branch of
/// that name has gone on elsewhere, and said again and again.
#[tokio::test]
async fn what_was_written_at_the_last_moment_is_kept() {
    let place = Place::new().await;
    let path = place.create("b").await;
    let tip = place.lab.main_tip(&place.repository).await;
    place.lab.run(&path, &["config", "status.showUntrackedFiles", "no"]);
    fs::write(path.join("f"), "edited\n").unwrap();
    fs::write(path.join("staged"), "s\n").unwrap();
    place.lab.run(&path, &["add", "staged"]);
    let request = RemoveRequest { delete_branch_at: Some(tip.clone()), ..place.removal("b") };
    assert!(place.remove(&request).await.unwrap().branch_deleted);
    // Through a directory that was open before.
    fs::write(place.trashed(&request).join("late"), "l").unwrap();
    place.create("b").await;
    place.lab.commit(&path, "f", "another one's\n");
    let kept = place.look_again(&request, &tip).await.unwrap().unwrap();
    assert_eq!(place.look_again(&request, &tip).await.unwrap(), Some(kept.clone()));
    let changes = place.lab.run(place.repository.directory(), &["diff", "--name-status", tip.as_str(), kept.as_str()]);
    assert_eq!(changes, "M\tf\nA\tlate\nA\tstaged");
    place.assert_untouched(&path, "b").await;
}

/// What cannot be kept, and what somebody still writes to, stays where it is.
#[tokio::test]
async fn what_cannot_be_looked_at_is_not_deleted() {
    let place = Place::new().await;
    let path = place.create("b").await;
    let tip = place.lab.main_tip(&place.repository).await;
    let request = place.removal("b");
    place.remove(&request).await.unwrap();
    let files = place.trashed(&request);
    let refused = async |why: &str| {
        let error = place.look_again(&request, &tip).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        place.provider.empty_trash().await.unwrap();
        assert!(files.join("f").exists());
    };
    let mut at_work = Command::new("sleep").arg("600").current_dir(&files).spawn().unwrap();
    refused(&format!("process {} is still at work", at_work.id())).await;
    at_work.kill().unwrap();
    at_work.wait().unwrap();
    fs::File::create(files.join("large")).unwrap().set_len(257 * 1024 * 1024).unwrap();
    refused("large has 257 MB, more than the 256 MB that are kept of one file; move it away").await;
    fs::remove_file(files.join("large")).unwrap();
    place.lab.run(&files, &["init", "-q", "inner"]);
    refused("a repository lies in inner").await;
    fs::remove_dir_all(files.join("inner")).unwrap();
    let entry = place.repository.directory().join("treewarden-removed").join(request.environment.to_string());
    let index = fs::read(entry.join("index")).unwrap();
    fs::write(entry.join("index"), "garbage").unwrap();
    refused("git").await;
    fs::write(entry.join("index"), index).unwrap();
    fs::rename(&entry, entry.with_extension("away")).unwrap();
    refused("what git knew of a removed worktree").await;
    // Whoever can write in the repository lets nobody's files go by that.
    fs::rename(entry.with_extension("away"), entry.with_extension("done")).unwrap();
    refused("what git knew of a removed worktree").await;
    place.provider.forget_released(&place.repository).await.unwrap();
    fs::rename(entry.with_extension("done"), &entry).unwrap();
    assert_eq!(place.look_again(&request, &tip).await, Ok(None));
    assert!(!path.exists());
}

/// As a loss of power, or a hand, leaves it.
#[tokio::test]
async fn what_git_knew_of_removed_files_is_mended() {
    let place = Place::new().await;
    for (name, lost) in [("cut", &["commondir"][..]), ("new", &["index", "treewarden-complete"])] {
        let path = place.create(name).await;
        let tip = place.lab.main_tip(&place.repository).await;
        let request = place.removal(name);
        fs::rename(&path, place.trashed(&request)).unwrap();
        let canonical = place.repository.directory();
        let apart = canonical.join("treewarden-removed").join(request.environment.to_string());
        let entry = match name {
            "new" => canonical.join("worktrees").join(name),
            _ => {
                place.remove(&request).await.unwrap();
                apart
            }
        };
        for file in lost {
            fs::remove_file(entry.join(file)).unwrap();
        }
        place.remove(&request).await.unwrap();
        assert_eq!(place.look_again(&request, &tip).await, Ok(None), "{name}");
        fs::write(place.trashed(&request).join("late"), "l").unwrap();
        let kept = place.look_again(&request, &tip).await.unwrap().unwrap();
        let changes = place.lab.run(canonical, &["diff", "--name-status", tip.as_str(), kept.as_str()]);
        assert_eq!(changes, "A\tlate", "{name}");
    }
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
    fs::remove_dir_all(&path).unwrap();
    git.repository(place.repository.directory()).unregister(&path).await.unwrap();
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
    fs::remove_dir(&path).unwrap();
    // Somebody else has locked it meanwhile, and the directory around it went away.
    let lock = place.repository.directory().join("worktrees/b/locked");
    fs::write(&lock, "mine").unwrap();
    fs::remove_dir(path.parent().unwrap()).unwrap();
    stuck("cannot go back").await;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(place.remove(&request).await.unwrap_err().to_string().contains("locked by somebody else: mine"));
    assert_eq!(fs::read_to_string(path.join("late")).unwrap(), "l");
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
