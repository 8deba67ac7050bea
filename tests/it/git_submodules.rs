//! Submodules of new worktrees: filled, told when that fails, and no way to anywhere else.

use crate::git_commit::request as commit;
use crate::git_lab::{branch, known};
use crate::isolation::Place;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use treewarden::isolation::{CreateRequest, Furnishing, Provider};
use treewarden::model::*;

/// `s` has a file `s` and a submodule `nested`; `main` has `s` at `sub`, by a relative address.
async fn place() -> Place {
    let place = Place::new().await;
    let (lab, people) = (&place.lab, place.lab.path("people"));
    for name in ["n", "s"] {
        lab.run(&lab.root, &["init", "-q", name]);
        lab.commit(&lab.path(name), name, "1\n");
    }
    lab.run(&lab.path("s"), &["submodule", "-q", "add", lab.path("n").to_str().unwrap(), "nested"]);
    lab.run(&lab.path("s"), &["commit", "-qm", "nested"]);
    lab.run(&people, &["submodule", "-q", "add", "../s", "sub"]);
    lab.people_commit("g", "1\n");
    lab.fetch(&place.repository).await;
    place
}

/// People add a submodule whose address is replaced afterwards.
async fn add(place: &Place, name: &str, address: &str) {
    let (lab, people) = (&place.lab, place.lab.path("people"));
    lab.run(&people, &["submodule", "-q", "add", "../s", name]);
    lab.run(&people, &["config", "-f", ".gitmodules", &format!("submodule.{name}.url"), address]);
    lab.run(&people, &["add", "."]);
    lab.people_commit("h", address);
    lab.fetch(&place.repository).await;
}

async fn request(place: &Place, name: &str, submodules: SubmodulePolicy) -> CreateRequest {
    CreateRequest { furnishing: Furnishing { submodules, ..Furnishing::default() }, ..place.request(name).await }
}

async fn made(place: &Place, name: &str, policy: SubmodulePolicy) -> (PathBuf, Submodules) {
    let request = request(place, name, policy).await;
    let furnished = place.provider.create(&place.repository, &request).await.unwrap();
    (request.path, furnished.submodules)
}

fn config(place: &Place) -> String {
    fs::read_to_string(place.repository.directory().join("config")).unwrap()
}

#[tokio::test]
async fn submodules_are_there_and_no_obstacle_and_work_in_them_is_one() {
    let place = place().await;
    let before = config(&place);
    let (path, told) = made(&place, "b", SubmodulePolicy::All).await;
    assert_eq!(told, Submodules::default());
    assert!(path.join("sub/s").exists() && path.join("sub/nested/n").exists());
    assert_eq!(config(&place), before);
    let modules = place.repository.directory().join("worktrees/b/modules");
    assert!(modules.join("sub/HEAD").exists() && !modules.join("sub/hooks").exists());
    let worktree = place.repository.worktree(&path);
    assert!(known(worktree.status().await).is_clean());
    assert!(known(worktree.submodule_work().await).is_empty());
    assert!(known(worktree.nested_repositories().await).is_empty());
    for inner in ["sub", "sub/nested"] {
        fs::write(path.join(inner).join("new"), "").unwrap();
        assert_eq!(known(worktree.submodule_work().await), ["sub"], "{inner}");
        fs::remove_file(path.join(inner).join("new")).unwrap();
    }
    place.lab.commit(&path.join("sub"), "z", "1\n");
    place.lab.run(&path.join("sub"), &["branch", "kept"]);
    assert_eq!(known(worktree.submodule_work().await), ["sub"]);
    place.lab.run(&path.join("sub"), &["checkout", "-q", "HEAD~1"]);
    place.lab.run(&path.join("sub"), &["branch", "-D", "kept"]);
    assert_eq!(known(worktree.submodule_work().await), ["sub"], "what a reflog alone has is work, too");
    place.lab.run(&path.join("sub"), &["reflog", "expire", "--expire=now", "--all"]);
    assert!(known(worktree.submodule_work().await).is_empty());
    // Without its files it is judged by what its repository holds.
    place.lab.run(&path, &["rm", "-qf", "sub"]);
    assert!(known(worktree.submodule_work().await).is_empty());
    fs::remove_dir_all(path.join("sub")).unwrap_or_default();
    place.lab.run(&path, &["reset", "-q", "--hard"]);
    assert!(known(worktree.submodule_work().await).is_empty());
    place.remove(&place.removal("b")).await.unwrap();
    assert!(!path.exists() && !modules.exists() && place.registered().await.is_empty());
}

#[tokio::test]
async fn switched_off_they_stay_empty() {
    let place = place().await;
    let (path, told) = made(&place, "b", SubmodulePolicy::Leave).await;
    assert_eq!((told, fs::read_dir(path.join("sub")).unwrap().count()), (Submodules::default(), 0));
}

#[tokio::test]
async fn one_that_fails_is_told_and_stops_no_other() {
    let place = place().await;
    add(&place, "gone", place.lab.path("nowhere").to_str().unwrap()).await;
    let (path, told) = made(&place, "b", SubmodulePolicy::All).await;
    assert_eq!(told.failed.len(), 1);
    assert_eq!(told.failed[0].0, "gone");
    assert!(path.join("sub/s").exists());
    let worktree = place.repository.worktree(&path);
    assert!(known(worktree.status().await).is_clean() && known(worktree.submodule_work().await).is_empty());
    place.remove(&place.removal("b")).await.unwrap();
}

#[tokio::test]
async fn no_program_and_no_other_transport_is_an_address() {
    let place = place().await;
    let trace = place.lab.path("pwned");
    let touch = format!("touch {}", trace.display());
    for (number, address) in
        [format!("ext::sh -c '{touch}'"), "http://127.0.0.1:9/x".into(), "ssh://x@127.0.0.1:9/x".into()]
            .iter()
            .enumerate()
    {
        add(&place, &format!("bad{number}"), address).await;
    }
    let people = place.lab.path("people");
    place.lab.run(&people, &["config", "-f", ".gitmodules", "submodule.sub.update", &format!("!{touch}")]);
    place.lab.people_commit("i", "1\n");
    place.lab.run(&people, &["commit", "-qam", "update"]);
    place.lab.run(&people, &["push", "-q", "origin", "HEAD"]);
    place.lab.fetch(&place.repository).await;
    let (path, told) = made(&place, "b", SubmodulePolicy::All).await;
    assert!(told.failed.len() >= 3, "{told:?}");
    assert!(!trace.exists());
    assert!(known(place.repository.worktree(&path).submodule_work().await).is_empty());
}

/// Whoever can write to the repository could otherwise have the service ask any machine it reaches.
#[tokio::test]
async fn no_other_host_is_asked() {
    let place = place().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let host = listener.local_addr().unwrap();
    let addresses = ["https://", "http::http://", "https::https://"].map(|scheme| format!("{scheme}{host}/x.git"));
    for (number, address) in addresses.iter().enumerate() {
        add(&place, &format!("far{number}"), address).await;
    }
    // Nor by what a submodule says of its own.
    let (lab, s, people) = (&place.lab, place.lab.path("s"), place.lab.path("people"));
    lab.run(&s, &["config", "-f", ".gitmodules", "submodule.nested.url", &addresses[1]]);
    lab.run(&s, &["commit", "-qam", "elsewhere"]);
    lab.run(&people.join("sub"), &["pull", "-q", "origin", "HEAD"]);
    lab.run(&people, &["add", "sub"]);
    lab.people_commit("i", "1\n");
    lab.fetch(&place.repository).await;
    let (path, told) = made(&place, "b", SubmodulePolicy::All).await;
    let names: Vec<&str> = told.failed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["far0", "far1", "far2", "sub/nested"]);
    assert!(told.failed.iter().all(|(_, why)| why.contains("another host")), "{told:?}");
    assert!(listener.accept().is_err(), "nobody came");
    assert!(path.join("sub/s").exists(), "the parent of one that failed stays");
    assert_eq!(fs::read_dir(path.join("sub/nested")).unwrap().count(), 0);
    assert!(known(place.repository.worktree(&path).submodule_work().await).is_empty());
}

#[tokio::test]
async fn what_cannot_be_filled_is_told_without_saying_where_this_server_keeps_things() {
    let place = place().await;
    add(&place, "gone", "../nowhere").await;
    let (lab, s, people) = (&place.lab, place.lab.path("s"), place.lab.path("people"));
    lab.run(&s, &["config", "-f", ".gitmodules", "submodule.nested.url", "../gone-too"]);
    lab.run(&s, &["commit", "-qam", "gone"]);
    lab.run(&people.join("sub"), &["pull", "-q", "origin", "HEAD"]);
    lab.run(&people, &["add", "sub"]);
    // A repository that somebody added as if it were a directory.
    let tip = lab.sha(&s, "HEAD");
    lab.run(&people, &["update-index", "--add", "--cacheinfo", &format!("160000,{tip},bare")]);
    lab.people_commit("i", "1\n");
    lab.fetch(&place.repository).await;
    let (path, told) = made(&place, "b", SubmodulePolicy::All).await;
    let names: Vec<&str> = told.failed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["bare", "gone", "sub/nested"]);
    assert!(told.failed[0].1.contains("names no address"), "{told:?}");
    assert!(told.failed.iter().all(|(_, why)| !why.contains(lab.root.to_str().unwrap())), "{told:?}");
    assert!(path.join("sub/s").exists());
    let worktree = place.repository.worktree(&path);
    assert!(known(worktree.status().await).is_clean() && known(worktree.submodule_work().await).is_empty());
    place.remove(&place.removal("b")).await.unwrap();
}

#[tokio::test]
async fn a_forks_addresses_are_those_of_the_repository_or_none() {
    let place = place().await;
    let main = || SubmodulePolicy::AsIn("refs/remotes/origin/main".into());
    let (path, told) = made(&place, "same", main()).await;
    assert_eq!(told, Submodules::default());
    assert!(path.join("sub/s").exists());
    assert_eq!(fs::read_dir(path.join("sub/nested")).unwrap().count(), 0);

    let people = place.lab.path("people");
    place.lab.run(&people, &["switch", "-q", "-c", "other"]);
    place.lab.run(&people, &["config", "-f", ".gitmodules", "submodule.sub.url", "../n"]);
    place.lab.run(&people, &["commit", "-qam", "elsewhere"]);
    place.lab.run(&people, &["push", "-q", "origin", "other"]);
    place.lab.fetch(&place.repository).await;
    let mut request = request(&place, "fork", main()).await;
    let tip = place.repository.tip("refs/remotes/origin/other").await.unwrap().unwrap();
    request.start = WorktreeStart::NewBranch(tip);
    let told = place.provider.create(&place.repository, &request).await.unwrap().submodules;
    assert!(told.other_addresses && told.failed.is_empty());
    assert_eq!(fs::read_dir(request.path.join("sub")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_killed_try_is_made_anew_and_what_people_made_is_left() {
    let place = place().await;
    let (path, _) = made(&place, "b", SubmodulePolicy::All).await;
    let entry = place.repository.directory().join("worktrees/b");
    fs::remove_file(entry.join("treewarden-furnished")).unwrap();
    fs::remove_file(entry.join("modules/sub/HEAD")).unwrap();
    fs::remove_file(path.join("sub/s")).unwrap();
    let (_, told) = made(&place, "b", SubmodulePolicy::All).await;
    assert_eq!(told, Submodules::default());
    assert!(path.join("sub/s").exists());

    // Without our mark, it was somebody else who filled it.
    let (path, _) = made(&place, "c", SubmodulePolicy::Leave).await;
    place.lab.run(&path, &["submodule", "-q", "update", "--init"]);
    place.lab.commit(&path.join("sub"), "z", "1\n");
    fs::remove_file(place.repository.directory().join("worktrees/c/treewarden-furnished")).unwrap();
    made(&place, "c", SubmodulePolicy::All).await;
    assert!(Path::new(&path.join("sub/z")).exists());
}

/// People record the newest commit of `s`, where `file` is new.
async fn bump(place: &Place, file: &str) -> CommitSha {
    let (lab, people) = (&place.lab, place.lab.path("people"));
    lab.commit(&lab.path("s"), file, "1\n");
    lab.run(&people.join("sub"), &["pull", "-q", "origin", "HEAD"]);
    lab.run(&people, &["add", "sub"]);
    let tip = lab.people_commit(&format!("with-{file}"), "1\n");
    lab.fetch(&place.repository).await;
    tip
}

/// A move of the worktree would otherwise look like the wish to take people's newer submodule back.
#[tokio::test]
async fn submodules_come_along_when_nobody_works_in_them() {
    let place = place().await;
    let patience = Duration::from_secs(60);
    for name in ["idle", "busy", "inside"] {
        made(&place, name, SubmodulePolicy::All).await;
    }
    let from = place.repository.tip("refs/heads/idle").await.unwrap().unwrap();
    let to = bump(&place, "newer").await;
    // Commits of a submodule inside that is not checked out any more lie in its repository only.
    let inside = place.request("inside").await.path;
    let own = place.lab.commit(&inside.join("sub/nested"), "own", "1\n");
    place.lab.run(&inside.join("sub"), &["submodule", "deinit", "-q", "-f", "nested"]);
    let worktree = place.repository.worktree(&inside);
    worktree.fast_forward(&branch("inside"), &to).await.unwrap();
    worktree.bring_submodules_along(&from, &to, &SubmodulePolicy::All, None, patience).await.unwrap();
    assert!(!inside.join("sub/newer").exists(), "somebody worked there");
    place.lab.run(&inside.join("sub"), &["submodule", "update", "-q", "--init", "nested"]);
    assert_eq!(place.lab.run(&inside.join("sub/nested"), &["cat-file", "-t", own.as_str()]), "commit");
    for (name, file) in [("idle", None), ("busy", Some("sub/mine"))] {
        let path = place.request(name).await.path;
        let worktree = place.repository.worktree(&path);
        worktree.fast_forward(&branch(name), &to).await.unwrap();
        file.into_iter().for_each(|file| fs::write(path.join(file), "work\n").unwrap());
        assert_eq!(worktree.commit_all(&commit(name)).await.unwrap(), None, "{name}: nothing is taken back");
        let told = worktree.bring_submodules_along(&from, &to, &SubmodulePolicy::All, None, patience).await.unwrap();
        assert_eq!(told, Submodules::default());
        assert_eq!(path.join("sub/newer").exists(), file.is_none(), "{name}");
        assert_eq!(known(worktree.status().await).is_clean(), file.is_none(), "{name}");
        assert!(path.join("sub/nested/n").exists(), "{name}");
        assert_eq!(path.join("sub/mine").exists(), file.is_some(), "{name}");
    }
    // It is gone from the branch, and with it from the worktree.
    let people = place.lab.path("people");
    place.lab.run(&people, &["rm", "-q", "sub"]);
    let gone = place.lab.people_commit("k", "1\n");
    place.lab.fetch(&place.repository).await;
    let path = place.request("idle").await.path;
    let worktree = place.repository.worktree(&path);
    worktree.fast_forward(&branch("idle"), &gone).await.unwrap();
    worktree.bring_submodules_along(&to, &gone, &SubmodulePolicy::All, None, patience).await.unwrap();
    assert!(!path.join("sub").exists() && known(worktree.status().await).is_clean());
    place.remove(&place.removal("idle")).await.unwrap();
}

/// What an agent does to the repository of a submodule that it took the files away of: git would run this as the service.
fn plant_filter(modules: &Path, trace: &Path) {
    let repository = git2::Repository::open_bare(modules).unwrap();
    let mut config = repository.config().unwrap();
    config.set_str("filter.e.smudge", &format!("touch '{}'; cat", trace.display())).unwrap();
    config.set_bool("filter.e.required", true).unwrap();
    fs::create_dir_all(modules.join("info")).unwrap();
    fs::write(modules.join("info/attributes"), "* filter=e\n").unwrap();
}

fn emptied(place: &Path) {
    fs::remove_dir_all(place).unwrap();
    fs::create_dir(place).unwrap();
}

#[tokio::test]
async fn no_repository_that_was_there_before_is_taken_for_a_submodule() {
    let place = place().await;
    let (trace, patience) = (place.lab.path("pwned"), Duration::from_secs(60));
    for name in ["idle", "busy", "linked", "nested"] {
        made(&place, name, SubmodulePolicy::All).await;
    }
    let modules = |name: &str| place.repository.directory().join("worktrees").join(name).join("modules");
    let sub = async |name: &str| place.request(name).await.path.join("sub");
    let own = place.lab.commit(&sub("busy").await, "own", "1\n");
    for name in ["idle", "busy"] {
        plant_filter(&modules(name).join("sub"), &trace);
        emptied(&sub(name).await);
    }
    // Git would write where a link leads.
    emptied(&sub("linked").await);
    let elsewhere = place.lab.path("elsewhere");
    fs::rename(modules("linked"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, modules("linked")).unwrap();
    plant_filter(&elsewhere.join("sub"), &trace);
    // One deeper, in a repository that is no submodule's any more.
    plant_filter(&modules("nested").join("sub/modules/nested"), &trace);
    emptied(&sub("nested").await);

    let from = place.repository.tip("refs/heads/idle").await.unwrap().unwrap();
    let to = bump(&place, "newer").await;
    for name in ["idle", "busy", "linked", "nested"] {
        let path = place.request(name).await.path;
        let worktree = place.repository.worktree(&path);
        worktree.fast_forward(&branch(name), &to).await.unwrap();
        let told = worktree.bring_submodules_along(&from, &to, &SubmodulePolicy::All, None, patience).await.unwrap();
        assert_eq!(told, Submodules::default(), "{name}");
        assert!(path.join("sub/newer").exists() && path.join("sub/nested/n").exists(), "{name}");
        assert!(!trace.exists(), "{name}: ran what an agent wrote");
        assert!(known(worktree.status().await).is_clean(), "{name}");
        let work = known(worktree.submodule_work().await);
        assert_eq!(work.iter().any(|work| work.starts_with("treewarden-kept-")), name == "busy", "{name}: {work:?}");
    }
    assert!(!elsewhere.join("sub/newer").exists() && elsewhere.join("sub/HEAD").exists());
    let mut kept = fs::read_dir(modules("busy")).unwrap().map(|entry| entry.unwrap().path());
    let kept = kept.find(|path| !path.ends_with("sub")).unwrap();
    let objects = git2::Repository::open_bare(kept).unwrap();
    assert!(objects.find_commit(git2::Oid::from_str(own.as_str()).unwrap()).is_ok(), "no commit is lost");
}

#[tokio::test]
async fn the_repository_of_a_submodule_that_somebody_works_in_is_not_taken_away_for_another() {
    let place = place().await;
    let (path, _) = made(&place, "b", SubmodulePolicy::All).await;
    fs::write(path.join("sub/mine"), "work\n").unwrap();
    let (people, lab) = (place.lab.path("people"), &place.lab);
    lab.run(&people, &["mv", "sub", "moved"]);
    let to = lab.people_commit("k", "1\n");
    lab.fetch(&place.repository).await;
    let from = place.repository.tip("refs/heads/b").await.unwrap().unwrap();
    let worktree = place.repository.worktree(&path);
    worktree.fast_forward(&branch("b"), &to).await.unwrap();
    let patience = Duration::from_secs(60);
    let told = worktree.bring_submodules_along(&from, &to, &SubmodulePolicy::All, None, patience).await.unwrap();
    assert!(told.failed[0].1.contains("belongs to another checkout"), "{told:?}");
    assert_eq!(lab.run(&path.join("sub"), &["status", "--porcelain"]), "?? mine");
}

#[tokio::test]
async fn a_submodule_is_committed_forward_and_never_back() {
    let place = place().await;
    let tip = bump(&place, "newer").await;
    let (path, _) = made(&place, "b", SubmodulePolicy::All).await;
    let (worktree, lab, sub) = (place.repository.worktree(&path), &place.lab, path.join("sub"));
    // As `git merge` and `git add --all` leave it.
    lab.run(&sub, &["checkout", "-q", "HEAD~1"]);
    lab.run(&path, &["add", "--all"]);
    fs::write(path.join("work"), "w\n").unwrap();
    worktree.commit_all(&commit("b")).await.unwrap().unwrap();
    assert_eq!(lab.run(&path, &["show", "--format=", "--name-only", "HEAD"]), "work");
    assert_eq!(lab.run(&path, &["rev-parse", "HEAD:sub"]), lab.run(&path, &["rev-parse", &format!("{tip}:sub")]));
    assert_eq!(known(worktree.status().await).tracked, 1, "it is told");
    // Whoever wants the older one says so in a commit of their own.
    lab.run(&path, &["add", "sub"]);
    lab.run(&path, &["commit", "-qm", "back"]);
    assert!(known(worktree.status().await).is_clean());
    let own = lab.commit(&sub, "own", "1\n");
    worktree.commit_all(&commit("b")).await.unwrap().unwrap();
    assert_eq!(lab.run(&path, &["rev-parse", "HEAD:sub"]), own.as_str());
}
