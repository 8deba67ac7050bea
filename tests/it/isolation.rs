//! Making and removing isolated places, with kills in between, neighbours, links and other people's files.

use crate::git_lab::{Lab, branch, known};
use crate::support::namespace::{may_mount, unshare};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};
use treewarden::git::{GitError, Repository, Ties, Uncommitted};
use treewarden::isolation::{
    CreateRequest, Furnishing, IsolationError, LastLook, Maker, Provider, ReclaimRequest, RemoveRequest, Stage,
    WorktreeProvider,
};
use treewarden::model::*;

pub struct Place {
    pub lab: Lab,
    pub repository: Repository,
    pub provider: WorktreeProvider,
}

impl Place {
    pub async fn new() -> Self {
        let lab = Lab::new();
        let repository = lab.repository().await;
        let provider = WorktreeProvider::new(&lab.path("worktrees"), &lab.path("trash")).unwrap();
        Self { lab, repository, provider }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.provider.base().join("octo/hello").join(name)
    }

    pub async fn request(&self, name: &str) -> CreateRequest {
        let start = WorktreeStart::NewBranch(self.lab.main_tip(&self.repository).await);
        let (path, maker) = (self.path(name), Maker::Us);
        let uncommitted = Uncommitted::Refuse;
        CreateRequest { path, maker, uncommitted, branch: branch(name), start, furnishing: Furnishing::default() }
    }

    pub async fn create(&self, name: &str) -> PathBuf {
        self.provider.create(&self.repository, &self.request(name).await).await.unwrap();
        self.path(name)
    }

    pub fn removal(&self, name: &str) -> RemoveRequest {
        RemoveRequest {
            environment: EnvironmentId(uuid::Uuid::now_v7()),
            path: self.path(name),
            maker: Maker::Us,
            branch: branch(name),
            delete_branch_at: None,
        }
    }

    pub async fn remove(&self, request: &RemoveRequest) -> Result<treewarden::isolation::Removed, IsolationError> {
        self.provider.remove(&self.repository, request).await
    }

    /// The removal and the last look, from beginning to end; answers with what was kept.
    pub async fn remove_for_good(&self, request: &RemoveRequest) -> Option<CommitSha> {
        let head = self.repository.worktree(&request.path).head().await.unwrap().sha.unwrap();
        self.remove(request).await.unwrap();
        let kept = self.look_again(request, &head).await.unwrap();
        self.provider.release(&self.repository, request.environment).await.unwrap();
        kept
    }

    pub async fn look_again(
        &self,
        request: &RemoveRequest,
        head: &CommitSha,
    ) -> Result<Option<CommitSha>, IsolationError> {
        let RemoveRequest { environment, path, .. } = request.clone();
        let keep_under = format!("refs/treewarden/trash/{environment}");
        let look = LastLook { environment, path, head: head.clone(), keep_under };
        self.provider.look_again(&self.repository, &look).await
    }

    pub async fn registered(&self) -> Vec<PathBuf> {
        self.provider.list(&self.repository).await.unwrap().into_iter().map(|entry| entry.path).collect()
    }

    pub fn trash(&self) -> Vec<String> {
        let entries = fs::read_dir(self.lab.path("trash")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    pub fn trashed(&self, request: &RemoveRequest) -> PathBuf {
        self.lab.path("trash").join(request.environment.to_string())
    }

    /// Nothing was changed: files, registration, branch.
    pub async fn assert_untouched(&self, path: &Path, name: &str) {
        assert_eq!(
            known(self.provider.health(&self.repository, path, Maker::Us, Stage::HandedOut).await),
            Validity::Valid
        );
        assert!(self.registered().await.contains(&path.to_owned()));
        assert!(self.repository.tip(&branch(name).full_ref()).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_place_comes_and_goes() {
    let place = Place::new().await;
    for round in 0..3 {
        let path = place.create("issue-5").await;
        assert_eq!(
            known(place.provider.health(&place.repository, &path, Maker::Us, Stage::HandedOut).await),
            Validity::Valid
        );
        place.create("issue-5").await;
        let tip = place.lab.commit(&path, "x", "1\n");
        let keep = round == 0;
        let request = RemoveRequest { delete_branch_at: (!keep).then(|| tip.clone()), ..place.removal("issue-5") };
        let removed = place.remove(&request).await.unwrap();
        assert_eq!(removed.branch_deleted, !keep);
        assert!(!path.exists() && place.registered().await.is_empty());
        assert_eq!(place.repository.tip("refs/heads/issue-5").await.unwrap().is_some(), keep);
        place.provider.empty_trash().await.unwrap();
        assert_eq!(place.trash(), [request.environment.to_string()], "nobody has looked at it yet");
        assert_eq!(place.look_again(&request, &tip).await, Ok(None));
        place.provider.release(&place.repository, request.environment).await.unwrap();
        place.provider.empty_trash().await.unwrap();
        assert!(place.trash().is_empty());
        // Asked again, it is still gone.
        assert_eq!(place.look_again(&request, &tip).await, Ok(None));
        assert_eq!(place.remove(&request).await.unwrap().branch_deleted, !keep);
        if keep {
            place.repository.delete_branch(&branch("issue-5"), &tip).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_branch_that_moved_is_kept() {
    let place = Place::new().await;
    let path = place.create("b").await;
    let expected = place.lab.main_tip(&place.repository).await;
    let tip = place.lab.commit(&path, "x", "1\n");
    let request = RemoveRequest { delete_branch_at: Some(expected), ..place.removal("b") };
    assert!(!place.remove(&request).await.unwrap().branch_deleted);
    assert_eq!(place.repository.tip("refs/heads/b").await.unwrap(), Some(tip));
}

/// BR-015, BR-052: each keeps files, registration and branch as they are.
#[tokio::test]
async fn what_is_not_as_it_was_stays() {
    let place = Place::new().await;
    let run = |path: &Path, args: &[&str]| place.lab.run(path, args);
    let drifted = place.create("drifted").await;
    run(&drifted, &["switch", "-q", "-c", "other"]);
    assert_eq!(place.remove(&place.removal("drifted")).await, Err(IsolationError::OtherBranch(branch("drifted"))));

    let locked = place.create("locked").await;
    let text = locked.to_str().unwrap();
    run(place.repository.directory(), &["worktree", "unlock", text]);
    run(place.repository.directory(), &["worktree", "lock", "--reason", "keep for demo", text]);
    assert_eq!(place.remove(&place.removal("locked")).await, Err(IsolationError::Locked("keep for demo".into())));

    let begun = place.create("begun").await;
    fs::write(place.repository.directory().join("worktrees/begun/MERGE_HEAD"), "").unwrap();
    assert!(matches!(place.remove(&place.removal("begun")).await, Err(IsolationError::Unknown(_))));

    let own = place.create("own").await;
    let link = fs::read(own.join(".git")).unwrap();
    fs::remove_file(own.join(".git")).unwrap();
    run(&own, &["init", "-q"]);
    assert_eq!(
        known(place.provider.health(&place.repository, &own, Maker::Us, Stage::HandedOut).await),
        Validity::OwnRepository
    );
    assert_eq!(place.remove(&place.removal("own")).await, Err(IsolationError::OwnRepository(own.clone())));
    assert!(!place.provider.repair(&place.repository, &own, &branch("own")).await.unwrap());
    assert!(place.provider.create(&place.repository, &place.request("own").await).await.is_err());
    assert!(own.join(".git/HEAD").is_file());
    fs::remove_dir_all(own.join(".git")).unwrap();
    fs::write(own.join(".git"), link).unwrap();

    for (path, name) in [drifted, locked, begun].iter().zip(["drifted", "locked", "begun"]) {
        place.assert_untouched(path, name).await;
    }
    assert!(place.trash().is_empty());
}

/// BR-041
#[tokio::test]
async fn a_place_where_a_process_works_stays() {
    let place = Place::new().await;
    let path = place.create("b").await;
    let mut at_work = Command::new("sleep").arg("600").current_dir(&path).spawn().unwrap();
    let result = place.remove(&place.removal("b")).await;
    at_work.kill().unwrap();
    at_work.wait().unwrap();
    assert_eq!(result, Err(IsolationError::InUse(at_work.id())));
    place.assert_untouched(&path, "b").await;
    place.remove(&place.removal("b")).await.unwrap();
}

/// BR-041: nor where one only has a file in its memory.
#[tokio::test]
async fn a_place_that_a_process_has_in_its_memory_stays() {
    let place = Place::new().await;
    let program = place.create("b").await.join("program");
    fs::copy("/bin/sleep", &program).unwrap();
    stays_because_of(&place, Command::new(&program).arg("600").current_dir("/")).await;
    fs::remove_file(&program).unwrap();
    place.remove(&place.removal("b")).await.unwrap();
}

/// BR-041: nor where one sees it at another place, as containers do.
#[tokio::test]
async fn a_place_that_a_process_sees_elsewhere_stays() {
    if !may_mount() {
        return;
    }
    let place = Place::new().await;
    let path = place.create("b").await;
    let inside = path.join("inside");
    fs::create_dir(&inside).unwrap();
    let (elsewhere, base) = (tempfile::tempdir().unwrap(), place.provider.base());
    // All of it, a part of it, and what it lies in, with a file of it open.
    let enters = format!("cd \"$1/{}\" &&", path.strip_prefix(base).unwrap().display());
    for (mounted, then) in [(path.as_path(), ""), (inside.as_path(), ""), (base, enters.as_str())] {
        let script = format!("mount --bind \"$0\" \"$1\" && {then} exec sleep 600");
        let mut at_work = Command::new("unshare");
        at_work.args(unshare()).args(["sh", "-c", &script]).arg(mounted).arg(elsewhere.path()).current_dir("/");
        stays_because_of(&place, &mut at_work).await;
    }
    // What lies in it alone is nothing to it.
    let mut beside = Command::new("unshare");
    let script = "mount --bind \"$0\" \"$1\" && exec sleep 600";
    beside.args(unshare()).args(["sh", "-c", script]).arg(base).arg(elsewhere.path()).current_dir("/");
    let mut beside = begun(&mut beside);
    fs::remove_dir(&inside).unwrap();
    let removed = place.remove(&place.removal("b")).await;
    beside.kill().unwrap();
    beside.wait().unwrap();
    removed.unwrap();
}

async fn stays_because_of(place: &Place, at_work: &mut Command) {
    let mut at_work = begun(at_work);
    let result = place.remove(&place.removal("b")).await;
    at_work.kill().unwrap();
    at_work.wait().unwrap();
    assert_eq!(result, Err(IsolationError::InUse(at_work.id())));
    place.assert_untouched(&place.path("b"), "b").await;
}

/// It has come to its `sleep 600`.
fn begun(command: &mut Command) -> std::process::Child {
    let process = command.spawn().unwrap();
    let (arguments, since) = (format!("/proc/{}/cmdline", process.id()), std::time::Instant::now());
    while !fs::read(&arguments).is_ok_and(|line| line.split(|byte| *byte == 0).count() == 3) {
        assert!(since.elapsed().as_secs() < 20, "it does not begin");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    process
}

#[tokio::test]
async fn a_ghost_is_taken_out_of_the_registry_alone() {
    let place = Place::new().await;
    let (ghost, neighbour) = (place.create("ghost").await, place.create("neighbour").await);
    fs::remove_dir_all(&ghost).unwrap();
    fs::rename(&neighbour, neighbour.with_extension("away")).unwrap();
    place.remove(&place.removal("ghost")).await.unwrap();
    assert_eq!(place.registered().await, [neighbour]);
    assert!(place.repository.tip("refs/heads/ghost").await.unwrap().is_some());
}

/// Places of it can have a submodule `sub`, which has a submodule `inner`.
async fn place_with_submodules() -> Place {
    let place = Place::new().await;
    let (lab, people) = (&place.lab, place.lab.path("people"));
    for name in ["i", "s"] {
        lab.run(&lab.root, &["init", "-q", name]);
        lab.commit(&lab.path(name), name, "1\n");
    }
    lab.run(&lab.path("s"), &["submodule", "-q", "add", lab.path("i").to_str().unwrap(), "inner"]);
    lab.commit(&lab.path("s"), "t", "1\n");
    lab.run(&people, &["submodule", "-q", "add", lab.path("s").to_str().unwrap(), "sub"]);
    lab.people_commit("g", "1\n");
    lab.fetch(&place.repository).await;
    place
}

/// One with both of them checked out.
async fn create_with_submodules(place: &Place, name: &str) -> PathBuf {
    let path = place.create(name).await;
    place.lab.run(&path, &["submodule", "-q", "update", "--init", "--recursive"]);
    assert!(known(place.repository.worktree(&path).submodule_work().await).is_empty());
    path
}

/// BR-103: a submodule neither blocks a removal nor survives it.
#[tokio::test]
async fn a_clean_submodule_is_no_obstacle() {
    let place = place_with_submodules().await;
    create_with_submodules(&place, "b").await;
    assert_eq!(place.remove_for_good(&place.removal("b")).await, None);
    place.provider.empty_trash().await.unwrap();
    assert!(place.registered().await.is_empty() && place.trash().is_empty());
    assert_eq!(fs::read_dir(place.repository.directory().join("treewarden-removed")).unwrap().count(), 0);
}

/// BR-103: whatever happens in one between the decision and the end of the last look.
#[tokio::test]
async fn what_was_written_in_a_submodule_at_the_last_moment_is_not_deleted() {
    let place = place_with_submodules().await;
    let path = create_with_submodules(&place, "b").await;
    let tip = place.repository.worktree(&path).head().await.unwrap().sha.unwrap();
    let request = place.removal("b");
    fs::write(path.join("sub/inner/early"), "e").unwrap();
    assert_eq!(place.remove(&request).await, Err(IsolationError::SubmoduleWork("sub".into())));
    place.assert_untouched(&path, "b").await;
    fs::remove_file(path.join("sub/inner/early")).unwrap();
    place.remove(&request).await.unwrap();
    let files = place.trashed(&request);
    let apart = place.repository.directory().join("treewarden-removed").join(request.environment.to_string());
    let refused = async |why: &str| {
        let error = place.look_again(&request, &tip).await.unwrap_err();
        assert!(matches!(&error, IsolationError::NotKeepable(_)) && error.to_string().contains(why), "{error}");
    };
    for late in ["sub/late", "sub/inner/late"] {
        fs::write(files.join(late), "l").unwrap();
        refused("the submodule sub holds work of its own").await;
        fs::remove_file(files.join(late)).unwrap();
    }
    place.lab.run(&files, &["init", "-q", "own"]);
    refused("a repository lies in own").await;
    fs::remove_dir_all(files.join("own")).unwrap();
    let heads = ["modules/sub/HEAD", "modules/sub/modules/inner/HEAD"].map(|head| apart.join(head));
    for head in heads {
        let (before, first) = (fs::read(&head).unwrap(), place.lab.run(&place.lab.path("s"), &["rev-parse", "HEAD^"]));
        let other = if head.starts_with(apart.join("modules/sub/modules")) { tip.to_string() } else { first };
        fs::write(&head, other).unwrap();
        assert!(place.look_again(&request, &tip).await.is_err());
        fs::write(&head, before).unwrap();
    }
    assert_eq!(place.look_again(&request, &tip).await, Ok(None));
    let (modules, inner) = (apart.join("modules/sub/modules/inner"), files.join("sub/inner"));
    let ties = ["--git-dir", modules.to_str().unwrap(), "--work-tree", inner.to_str().unwrap()];
    place.lab.run(&files, &[&ties[..], &["commit", "-q", "--allow-empty", "-m", "Late"]].concat());
    let late = place.lab.run(&files, &[&ties[..], &["rev-parse", "HEAD"]].concat());
    refused("holds work of its own").await;
    place.provider.forget_released(&place.repository).await.unwrap();
    place.lab.run(&files, &[&ties[..], &["cat-file", "-e", &late]].concat());
}

/// Somebody deletes a directory by hand; what was committed in its submodule lies elsewhere.
#[tokio::test]
async fn commits_in_the_submodule_of_a_ghost_are_put_aside() {
    let place = place_with_submodules().await;
    for (name, way) in [("cleared", 0), ("removed", 1), ("killed", 2)] {
        let path = create_with_submodules(&place, name).await;
        place.lab.run(&path.join("sub"), &["commit", "-q", "--allow-empty", "-m", "Mine"]);
        let mine = place.lab.run(&path.join("sub"), &["rev-parse", "HEAD"]);
        fs::remove_dir_all(&path).unwrap();
        let request = place.removal(name);
        let canonical = place.repository.directory();
        match way {
            0 => place.provider.clear(&place.repository, &path).await.unwrap(),
            1 => drop(place.remove(&request).await.unwrap()),
            // Before anybody saw that there are no files.
            _ => {
                place.repository.set_apart(&path, &request.environment.to_string()).await.unwrap();
                place.provider.forget_released(&place.repository).await.unwrap();
            }
        }
        assert!(place.registered().await.is_empty(), "{name}");
        let aside: Vec<PathBuf> = fs::read_dir(canonical.join("treewarden-broken"))
            .unwrap()
            .flat_map(|entry| {
                let removed = format!("treewarden-removed/{}", request.environment);
                [format!("worktrees/{name}"), removed].map(|inside| entry.as_ref().unwrap().path().join(inside))
            })
            .filter(|entry| entry.is_dir())
            .collect();
        let [aside] = &aside[..] else { panic!("{name}: {aside:?}") };
        let modules = aside.join("modules/sub");
        let ties = ["--git-dir", modules.to_str().unwrap(), "--work-tree", "."];
        place.lab.run(canonical, &[&ties[..], &["cat-file", "-e", &mine]].concat());
    }
}

/// Files that wait in a trash where nobody would look.
#[tokio::test]
async fn nothing_begins_while_files_wait_in_another_trash() {
    let place = Place::new().await;
    let (base, trash) = (place.lab.path("worktrees"), place.lab.path("trash"));
    let other = base.join(".trash");
    let files = other.join(uuid::Uuid::now_v7().to_string());
    fs::create_dir_all(&files).unwrap();
    let refused = WorktreeProvider::new(&base, &trash).map(drop).unwrap_err().to_string();
    assert!(refused.contains(other.to_str().unwrap()) && refused.contains("nothing was begun"), "{refused}");
    // Nor where another directory is to have the worktrees from now on, however often that is tried.
    let elsewhere = place.lab.path("elsewhere");
    for _ in 0..2 {
        let refused = WorktreeProvider::new(&elsewhere, &trash).map(drop).unwrap_err().to_string();
        assert!(refused.contains(other.to_str().unwrap()), "{refused}");
    }
    fs::rename(&files, files.with_extension("done")).unwrap();
    WorktreeProvider::new(&elsewhere, &trash).unwrap();
}

/// BR-059, BR-200
#[tokio::test]
async fn deleting_stays_inside_and_opens_closed_directories() {
    let place = Place::new().await;
    let shared = place.lab.path("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("keep"), "k").unwrap();
    let path = place.create("b").await;
    let closed = path.join("target/closed");
    fs::create_dir_all(&closed).unwrap();
    fs::write(closed.join("x"), "x").unwrap();
    symlink(&shared, closed.join("link")).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    place.remove_for_good(&place.removal("b")).await;
    place.provider.empty_trash().await.unwrap();
    assert!(place.trash().is_empty());
    assert_eq!(fs::read_to_string(shared.join("keep")).unwrap(), "k");
}

/// BR-047, BR-063
#[tokio::test]
async fn creating_never_takes_what_is_there() {
    let place = Place::new().await;
    let path = place.path("b");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("precious"), "p").unwrap();
    let refused = place.provider.create(&place.repository, &place.request("b").await).await;
    assert_eq!(refused, Err(IsolationError::Git(GitError::PathExists(path.clone()))));
    assert_eq!(fs::read_to_string(path.join("precious")).unwrap(), "p");
    assert_eq!(place.repository.tip("refs/heads/b").await.unwrap(), None);
    // Another worktree, whose branch was renamed under it.
    let other = place.create("other").await;
    place.lab.run(&other, &["branch", "-m", "renamed"]);
    let refused = place.provider.create(&place.repository, &place.request("other").await).await;
    assert_eq!(refused, Err(IsolationError::Git(GitError::PathExists(other))));
    assert_eq!(place.repository.tip("refs/heads/other").await.unwrap(), None);
}

/// A creation can be killed while git takes it back.
#[tokio::test]
async fn what_git_left_of_a_killed_creation_is_in_nobodys_way() {
    let place = Place::new().await;
    let link = format!("gitdir: {}\n", place.repository.directory().join("worktrees/gone").display());
    let left = |name: &str, link: Option<&str>| {
        let path = place.path(name);
        fs::create_dir_all(&path).unwrap();
        link.into_iter().for_each(|link| fs::write(path.join(".git"), link).unwrap());
        path
    };
    for (name, link) in [("linked", Some(link.as_str())), ("empty", None)] {
        let path = left(name, link);
        place.provider.clear(&place.repository, &path).await.unwrap();
        assert!(!path.exists(), "{name}");
        assert_eq!(left(name, link), place.create(name).await);
        place.assert_untouched(&path, name).await;
    }
    let used = left("used", Some(&link));
    fs::write(used.join("precious"), "p").unwrap();
    place.provider.clear(&place.repository, &used).await.unwrap();
    assert_eq!(fs::read_to_string(used.join("precious")).unwrap(), "p");
    assert_eq!(fs::read_to_string(used.join(".git")).unwrap(), link);
}

/// BR-066, BR-202
#[tokio::test]
async fn a_lost_directory_is_made_again_from_its_branch() {
    let place = Place::new().await;
    let path = place.create("b").await;
    let work = place.lab.commit(&path, "x", "1\n");
    fs::remove_dir_all(&path).unwrap();
    let request = CreateRequest { start: WorktreeStart::Existing, ..place.request("b").await };
    place.provider.create(&place.repository, &request).await.unwrap();
    assert_eq!(place.repository.worktree(&path).head().await.unwrap().sha, Some(work));
    place.assert_untouched(&path, "b").await;
}

/// Whoever made the worktree in which it is to be.
#[tokio::test]
async fn what_was_kept_comes_back_to_a_worktree_that_people_made() {
    let place = Place::new().await;
    let path = place.create("b").await;
    fs::write(path.join("precious"), "work\n").unwrap();
    let keepsake = place.remove_for_good(&place.removal("b")).await;
    place.lab.run(place.repository.directory(), &["worktree", "add", "-q", path.to_str().unwrap(), "b"]);
    let furnishing = Furnishing { keepsake: keepsake.clone(), ..Furnishing::default() };
    let request = CreateRequest { start: WorktreeStart::Existing, furnishing, ..place.request("b").await };
    let back = place.provider.create(&place.repository, &request).await.unwrap().work;
    assert!(keepsake.is_some() && back.keepsake == keepsake && back.is_whole(), "{back:?}");
    assert_eq!(fs::read_to_string(path.join("precious")).unwrap(), "work\n");

    // What is theirs is written over by nothing, and they hear why.
    let keepsake = place.remove_for_good(&place.removal("b")).await;
    place.lab.run(place.repository.directory(), &["worktree", "add", "-q", path.to_str().unwrap(), "b"]);
    fs::write(place.repository.directory().join("info/exclude"), ".env\n").unwrap();
    fs::write(path.join(".env"), "theirs\n").unwrap();
    let furnishing = Furnishing { keepsake: keepsake.clone(), ..Furnishing::default() };
    let request = CreateRequest { start: WorktreeStart::Existing, furnishing, ..place.request("b").await };
    let furnished = place.provider.create(&place.repository, &request).await.unwrap();
    assert!(!path.join("precious").exists());
    let [told] = &treewarden::reply::furnished::notes(&furnished)[..] else { panic!("{furnished:?}") };
    assert!(told.contains("somebody has files of their own") && told.contains(".env"), "{told}");
    assert!(told.contains(keepsake.clone().unwrap().short()), "{told}");

    // One of ours that no database knows of, as after a backup was put back.
    place.lab.run(place.repository.directory(), &["worktree", "remove", "-ff", path.to_str().unwrap()]);
    let request = CreateRequest { start: WorktreeStart::Existing, ..place.request("b").await };
    place.provider.create(&place.repository, &request).await.unwrap();
    fs::write(path.join("f"), "of today\n").unwrap();
    let furnishing = Furnishing { keepsake, ..Furnishing::default() };
    let furnished = place.provider.create(&place.repository, &CreateRequest { furnishing, ..request }).await.unwrap();
    let [told] = &treewarden::reply::furnished::notes(&furnished)[..] else { panic!("{furnished:?}") };
    assert!(told.contains("there is uncommitted work in the worktree at its place"), "{told}");
    assert_eq!(fs::read_to_string(path.join("f")).unwrap(), "of today\n");
}

/// BR-060
#[tokio::test]
async fn nothing_happens_outside_the_base() {
    let place = Place::new().await;
    let outside = place.lab.path("worktrees-2/w");
    let request = CreateRequest { path: outside.clone(), ..place.request("b").await };
    let refused = place.provider.create(&place.repository, &request).await;
    assert_eq!(refused, Err(IsolationError::Outside(outside.clone())));
    // A worktree of the same repository that people made elsewhere.
    let text = outside.to_str().unwrap();
    place
        .lab
        .run(place.repository.directory(), &["worktree", "add", "-q", "-b", "human", text, "refs/remotes/origin/main"]);
    for path in [outside.clone(), place.path("../../../worktrees-2/w"), place.provider.base().to_owned()] {
        let request = RemoveRequest { path, branch: branch("human"), ..place.removal("human") };
        assert!(matches!(place.remove(&request).await, Err(IsolationError::Outside(_))));
    }
    assert!(outside.join("f").exists());
}

/// BR-054
#[tokio::test]
async fn a_base_behind_a_link_works_all_the_way() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    fs::create_dir(lab.path("real")).unwrap();
    symlink(lab.path("real"), lab.path("link")).unwrap();
    let provider = WorktreeProvider::new(&lab.path("link"), &lab.path("trash")).unwrap();
    assert_eq!(provider.base(), lab.path("real"));
    let start = WorktreeStart::NewBranch(lab.main_tip(&repository).await);
    let path = lab.path("link/o/w");
    provider
        .create(
            &repository,
            &CreateRequest {
                path: path.clone(),
                maker: Maker::Us,
                uncommitted: Uncommitted::Refuse,
                branch: branch("b"),
                start,
                furnishing: Furnishing::default(),
            },
        )
        .await
        .unwrap();
    assert_eq!(known(provider.health(&repository, &path, Maker::Us, Stage::HandedOut).await), Validity::Valid);
    let environment = EnvironmentId(uuid::Uuid::now_v7());
    let request = RemoveRequest { environment, path, maker: Maker::Us, branch: branch("b"), delete_branch_at: None };
    provider.remove(&repository, &request).await.unwrap();
    assert!(provider.list(&repository).await.unwrap().is_empty());
}

/// BR-090
#[tokio::test]
async fn a_base_that_was_moved_brings_its_worktrees_along() {
    let place = Place::new().await;
    let (kept, stayed) = (place.create("kept").await, place.create("stayed").await);
    fs::write(kept.join("draft"), "mine").unwrap();
    fs::rename(place.lab.path("worktrees"), place.lab.path("elsewhere")).unwrap();
    fs::create_dir_all(stayed.parent().unwrap()).unwrap();
    fs::rename(place.lab.path("elsewhere/octo/hello/stayed"), &stayed).unwrap();

    let left_behind =
        |base: &str| WorktreeProvider::left_behind(&place.lab.path(base), &place.lab.path("trash")).unwrap();
    assert_eq!((left_behind("worktrees"), left_behind("elsewhere")), (None, None));
    assert_eq!(left_behind("new"), Some(place.provider.base().to_owned()), "an empty directory is none that was moved");
    let start = || WorktreeProvider::new(&place.lab.path("elsewhere"), &place.lab.path("trash")).unwrap();
    let provider = start();
    assert!(provider.has_moved() && !place.provider.has_moved());
    let now = provider.moved(&kept).unwrap();
    assert_eq!(now, provider.base().join("octo/hello/kept"));
    assert_eq!((provider.moved(&stayed), provider.moved(&place.lab.path("other"))), (None, None));
    assert_ne!(known(provider.health(&place.repository, &now, Maker::Us, Stage::HandedOut).await), Validity::Valid);
    assert_eq!(provider.tie_again(&place.repository).await.unwrap(), Ties { made: 1, failed: 0 });
    assert_eq!(provider.tie_again(&place.repository).await.unwrap(), Ties::default(), "once is enough");
    assert_eq!(known(provider.health(&place.repository, &now, Maker::Us, Stage::HandedOut).await), Validity::Valid);
    assert_eq!(fs::read_to_string(now.join("draft")).unwrap(), "mine");
    assert_eq!(place.lab.run(&now, &["status", "--porcelain"]), "?? draft");
    place.lab.run(&stayed, &["status"]);
    assert!(start().has_moved(), "until all have followed");
    provider.settle().unwrap();
    assert!(!start().has_moved());
}

/// BR-090
#[tokio::test]
async fn a_removal_that_was_under_way_when_the_base_moved_is_finished_at_the_new_place() {
    let place = Place::new().await;
    let path = place.create("w").await;
    let request = place.removal("w");
    fs::rename(&path, place.trashed(&request)).unwrap();
    fs::rename(place.lab.path("worktrees"), place.lab.path("elsewhere")).unwrap();
    let provider = WorktreeProvider::new(&place.lab.path("elsewhere"), &place.lab.path("trash")).unwrap();
    assert_eq!(provider.tie_again(&place.repository).await.unwrap(), Ties { made: 1, failed: 0 });
    let request = RemoveRequest { path: provider.moved(&path).unwrap(), ..request };
    provider.remove(&place.repository, &request).await.unwrap();
    assert!(provider.list(&place.repository).await.unwrap().is_empty());
}

/// BR-090
#[tokio::test]
async fn a_copy_of_a_home_is_tied_to_itself_and_takes_nothing_from_the_first() {
    let place = Place::new().await;
    let first = place.create("w").await;
    fs::create_dir(place.lab.path("copy")).unwrap();
    for part in ["repos", "worktrees", "trash", "worktrees.mark"] {
        let (from, to) = (place.lab.path(part), place.lab.path("copy"));
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    }
    let repository = place.lab.git.repository(place.lab.path("copy/repos/c.git"));
    let provider = WorktreeProvider::new(&place.lab.path("copy/worktrees"), &place.lab.path("copy/trash")).unwrap();
    assert_eq!(provider.tie_again(&repository).await.unwrap(), Ties { made: 1, failed: 0 });
    // The first is still where it was: both are there, and each has its own.
    let copy = provider.moved(&first).unwrap();
    assert_eq!(known(provider.health(&repository, &copy, Maker::Us, Stage::HandedOut).await), Validity::Valid);
    let told = place.lab.run(&copy, &["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    assert_eq!(Path::new(&told), repository.directory());
    place.assert_untouched(&first, "w").await;
    let told = place.lab.run(&first, &["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    assert_eq!(Path::new(&told), place.repository.directory());
}

/// BR-053: What another tool made elsewhere is used where it is, and let go of as it was.
#[tokio::test]
async fn a_worktree_outside_the_base_is_borrowed() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let provider = WorktreeProvider::new(&lab.path("home/worktrees"), &lab.path("home/trash")).unwrap();
    let outside = lab.path("elsewhere/w");
    let text = outside.to_str().unwrap();
    lab.run(repository.directory(), &["worktree", "add", "-q", "-b", "human", text, "refs/remotes/origin/main"]);
    let entry = || {
        let directory = repository.directory().join("worktrees/w");
        let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = entry();
    let request = CreateRequest {
        path: outside.clone(),
        maker: Maker::Others,
        uncommitted: Uncommitted::Refuse,
        branch: branch("human"),
        start: WorktreeStart::Existing,
        furnishing: Furnishing::default(),
    };
    let removal = RemoveRequest {
        environment: EnvironmentId(uuid::Uuid::now_v7()),
        path: outside.clone(),
        maker: Maker::Others,
        branch: branch("human"),
        delete_branch_at: None,
    };
    assert!(provider.is_outside(&outside) && !provider.is_outside(&provider.base().join("o/w")));
    assert!(
        matches!(provider.health(&repository, &outside, Maker::Us, Stage::HandedOut).await, Probe::Unknown(_)),
        "not as one of ours"
    );

    // On another branch, with something uncommitted, or through a link, it stays whose it is.
    let other = CreateRequest { branch: branch("other"), ..request.clone() };
    assert!(provider.create(&repository, &other).await.is_err());
    fs::write(outside.join("private"), "p").unwrap();
    assert!(provider.create(&repository, &request).await.is_err());
    fs::remove_file(outside.join("private")).unwrap();
    symlink(lab.path("elsewhere"), lab.path("link")).unwrap();
    let through = CreateRequest { path: lab.path("link/w"), ..request.clone() };
    assert!(matches!(provider.create(&repository, &through).await, Err(IsolationError::NotAdmitted(_))));
    assert_eq!(entry(), before);
    // Nothing is made where nothing is.
    let nowhere = CreateRequest { path: lab.path("elsewhere/new"), ..request.clone() };
    assert!(matches!(provider.create(&repository, &nowhere).await, Err(IsolationError::NotAdmitted(_))));
    assert!(!lab.path("elsewhere/new").exists());

    for _ in 0..2 {
        provider.create(&repository, &request).await.unwrap();
        assert_eq!(
            known(provider.health(&repository, &outside, Maker::Others, Stage::HandedOut).await),
            Validity::Valid
        );
        assert_eq!(known(repository.worktree(&outside).foreign_lock().await), None);
    }
    assert_ne!(entry(), before);
    assert!(!provider.repair(&repository, &outside, &branch("human")).await.unwrap());
    for _ in 0..2 {
        let removed = provider.remove(&repository, &removal).await.unwrap();
        assert!(removed.released && !removed.branch_deleted, "{removed:?}");
        assert_eq!(entry(), before, "as it was");
        assert!(outside.join("f").exists());
    }
    // A lock of somebody else is never taken off.
    lab.run(repository.directory(), &["worktree", "lock", "--reason", "mine", text]);
    provider.remove(&repository, &removal).await.unwrap();
    assert_eq!(known(repository.worktree(&outside).foreign_lock().await).as_deref(), Some("mine"));

    fs::remove_dir_all(lab.path("elsewhere")).unwrap();
    let health = provider.health(&repository, &outside, Maker::Others, Stage::HandedOut).await;
    assert!(matches!(&health, Probe::Unknown(why) if why.contains("mounted")), "{health:?}");
}

#[tokio::test]
async fn a_cache_in_which_a_repository_was_made_meanwhile_stays() {
    let place = Place::new().await;
    let path = place.create("issue-5").await;
    fs::write(path.join(".gitignore"), "node_modules/\n").unwrap();
    for cache in ["lib/node_modules", "node_modules", "tool/node_modules", "web/node_modules"] {
        fs::create_dir_all(path.join(cache).join("dep")).unwrap();
        fs::write(path.join(cache).join("dep/index.js"), "1\n").unwrap();
    }
    let reclaimable = place.provider.reclaimable(&place.repository, &path).await.unwrap();
    let directories = reclaimable.gone;
    let paths: Vec<_> = directories.iter().map(|cache| cache.path.as_str()).collect();
    assert_eq!(paths, ["lib/node_modules", "node_modules", "tool/node_modules", "web/node_modules"]);
    // In one below, in another at the top, in a third a bare one.
    let own = ["web/node_modules/dep/.git/HEAD", "tool/node_modules/.git", "lib/node_modules/dep/HEAD"];
    let own = own.map(|file| path.join(file));
    fs::create_dir(own[0].parent().unwrap()).unwrap();
    ["objects", "refs"].iter().for_each(|name| fs::create_dir(path.join("lib/node_modules/dep").join(name)).unwrap());
    own.iter().for_each(|file| fs::write(file, "ref: refs/heads/main\n").unwrap());
    let environment = EnvironmentId(uuid::Uuid::now_v7());
    let request = ReclaimRequest { environment, path: path.clone(), directories, begun_only: false };
    let reclaimed = place.provider.reclaim(&place.repository, &request).await.unwrap();
    assert_eq!(reclaimed.gone.iter().map(|cache| cache.path.as_str()).collect::<Vec<_>>(), ["node_modules"]);
    let why: Vec<_> = reclaimed.stay.iter().map(|(path, why)| format!("{path}: {why}")).collect();
    let why_all = [
        "lib/node_modules: a repository lies in it, at dep",
        "tool/node_modules: it is a repository",
        "web/node_modules: a repository lies in it, at dep",
    ];
    assert_eq!((why, reclaimed.half_way()), (why_all.map(str::to_owned).to_vec(), None));
    assert!(!path.join("node_modules").exists());
    assert!(own.iter().all(|file| file.exists()) && path.join("web/node_modules/dep/index.js").exists());
    place.provider.empty_trash().await.unwrap();
    assert!(place.trash().is_empty());
    place.assert_untouched(&path, "issue-5").await;
}

/// What is in the trash, and wanted back, when somebody has put a link on the way to its old place.
#[tokio::test]
async fn a_cache_goes_back_to_its_place_or_stays_in_the_trash() {
    let place = Place::new().await;
    let path = place.create("issue-5").await;
    fs::write(path.join(".gitignore"), "node_modules/\n").unwrap();
    let cache = path.join("web/node_modules");
    fs::create_dir_all(&cache).unwrap();
    fs::write(cache.join("patched.js"), "1\n").unwrap();
    place.lab.run(&path, &["add", "-f", "web/node_modules/patched.js"]);
    let environment = EnvironmentId(uuid::Uuid::now_v7());
    let trashed = place.lab.path("trash").join(format!("{environment}.cache-0"));
    fs::rename(&cache, &trashed).unwrap();
    let elsewhere = place.lab.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::rename(path.join("web"), path.join("moved")).unwrap();
    symlink(&elsewhere, path.join("web")).unwrap();

    let directories = vec![CacheDirectory { path: "web/node_modules".to_owned(), frees: 1 }];
    let request = ReclaimRequest { environment, path: path.clone(), directories, begun_only: true };
    let reclaimed = place.provider.reclaim(&place.repository, &request).await.unwrap();
    let why = reclaimed.half_way().unwrap().to_string();
    assert!(why.contains("stays there") && why.contains("it cannot go back"), "{why}");
    assert!(reclaimed.gone.is_empty() && trashed.join("patched.js").exists());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    assert_eq!(place.provider.caches_in_trash().unwrap(), [(environment, trashed.canonicalize().unwrap())]);

    fs::remove_file(path.join("web")).unwrap();
    fs::rename(path.join("moved"), path.join("web")).unwrap();
    // Another one is there by now; then none.
    fs::create_dir_all(cache.join("new")).unwrap();
    assert!(place.provider.reclaim(&place.repository, &request).await.unwrap().half_way().is_some());
    assert!(trashed.exists() && cache.join("new").exists());
    fs::remove_dir(cache.join("new")).unwrap();
    let reclaimed = place.provider.reclaim(&place.repository, &request).await.unwrap();
    assert_eq!((reclaimed.gone.len(), reclaimed.half_way()), (0, None));
    assert!(cache.join("patched.js").exists() && place.trash().is_empty());
    place.assert_untouched(&path, "issue-5").await;
}

/// A build that goes on in it, although its worktree was not in use a moment ago.
#[tokio::test]
async fn a_cache_in_which_somebody_is_at_work_goes_back() {
    let place = Place::new().await;
    let path = place.create("issue-5").await;
    let environment = EnvironmentId(uuid::Uuid::now_v7());
    let trashed = place.lab.path("trash").join(format!("{environment}.cache-0"));
    fs::create_dir(&trashed).unwrap();
    let mut build = Command::new("sleep").arg("600").current_dir(&trashed).spawn().unwrap();
    let directories = vec![CacheDirectory { path: "target".to_owned(), frees: 1 }];
    let request = ReclaimRequest { environment, path: path.clone(), directories, begun_only: true };
    let reclaimed = place.provider.reclaim(&place.repository, &request).await.unwrap();
    assert_eq!(reclaimed.stay, [("target".to_owned(), IsolationError::InUse(build.id()))]);
    assert!(path.join("target").is_dir() && place.trash().is_empty());
    build.kill().unwrap();
    build.wait().unwrap();
}

/// Somebody else deleted it: nothing was reclaimed.
#[tokio::test]
async fn a_cache_that_is_gone_already_does_not_count() {
    let place = Place::new().await;
    let path = place.create("issue-5").await;
    let directories = vec![CacheDirectory { path: "target".to_owned(), frees: 1 }];
    for begun_only in [false, true] {
        let environment = EnvironmentId(uuid::Uuid::now_v7());
        let request = ReclaimRequest { environment, path: path.clone(), directories: directories.clone(), begun_only };
        assert_eq!(place.provider.reclaim(&place.repository, &request).await.unwrap(), Default::default());
    }
}
