//! Files of the operator's that are copied into new worktrees: which, how, and what becomes of them.

use crate::git_lab::{branch, known};
use crate::isolation::Place;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};
use treewarden::git::{CommitRequest, Ident};
use treewarden::isolation::{CreateRequest, Furnishing, Provider};
use treewarden::model::*;

/// A place whose operator keeps files in `kept`.
async fn place(files: &[(&str, &str)]) -> (Place, PathBuf) {
    let place = Place::new().await;
    let kept = place.lab.path("kept");
    for (name, content) in files {
        let path = kept.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    (place, kept)
}

async fn request(place: &Place, name: &str, kept: &Path, patterns: &[&str]) -> CreateRequest {
    let copy = patterns.iter().map(|pattern| CopyPattern::new(pattern).unwrap()).collect();
    CreateRequest {
        furnishing: Furnishing { copy_from: Some(kept.to_owned()), copy, ..Furnishing::default() },
        ..place.request(name).await
    }
}

async fn made(place: &Place, name: &str, kept: &Path, patterns: &[&str]) -> (PathBuf, Copies) {
    let request = request(place, name, kept, patterns).await;
    let furnished = place.provider.create(&place.repository, &request).await.unwrap();
    (request.path, furnished.copies)
}

fn commit(name: &str) -> CommitRequest {
    let ident = Ident { name: "T".into(), email: "t@example.org".into() };
    let (author, committer) = (ident.clone(), ident);
    CommitRequest { message: "x".into(), author, committer, co_authors: vec![], branch: branch(name) }
}

#[tokio::test]
async fn what_is_asked_for_is_copied_and_never_dirty() {
    let files = [(".env", "K=1\n"), ("conf/a.local", "a\n"), ("conf/b.txt", "b\n"), ("other", "o\n"), ("f", "mine\n")];
    let (place, kept) = place(&files).await;
    fs::set_permissions(kept.join("conf/a.local"), fs::Permissions::from_mode(0o750)).unwrap();
    place.lab.people_commit(".worktreeinclude", "# what the work needs\n.env\nsecrets.json\n");
    place.lab.fetch(&place.repository).await;
    let (path, copies) = made(&place, "b", &kept, &["conf/*", "!conf/b.txt", "f"]).await;
    assert_eq!(copies.copied, [".env", "conf/a.local"]);
    assert_eq!(copies.missing, ["secrets.json"]);
    assert_eq!(copies.refused, [("f".to_owned(), NotCopied::InTheWay)]);
    assert_eq!(copies.failed, None);
    assert_eq!(fs::read_to_string(path.join("f")).unwrap(), "1\n");
    assert_eq!(fs::metadata(path.join("conf/a.local")).unwrap().permissions().mode() & 0o777, 0o750);
    assert!(!path.join("other").exists() && !path.join("conf/b.txt").exists());
    // Not for the service, and not for anybody else's git, although nothing in the checkout ignores `conf/a.local`.
    let worktree = place.repository.worktree(&path);
    assert!(known(worktree.status().await).is_clean());
    assert!(known(worktree.ignored_work().await).is_empty());
    assert_eq!(place.lab.run(&path, &["status", "--porcelain"]), "");
    place.lab.run(&path, &["add", "--all"]);
    assert_eq!(place.lab.run(&path, &["diff", "--cached", "--name-only"]), "");
    place.remove_for_good(&place.removal("b")).await;
    assert!(!fs::read_to_string(place.repository.directory().join("info/exclude")).unwrap().contains(".env"));
}

#[tokio::test]
async fn a_changed_copy_is_work() {
    let (place, kept) = place(&[(".env", "K=1\n"), ("local/a", "a\n"), ("local/sub/b", "b\n")]).await;
    let (path, copies) = made(&place, "b", &kept, &[".env", "local/"]).await;
    assert_eq!(copies.copied, [".env", "local/a", "local/sub/b"]);
    let worktree = place.repository.worktree(&path);
    assert!(known(worktree.ignored_work().await).is_empty());
    fs::File::options().write(true).open(path.join(".env")).unwrap().set_len(1 << 40).unwrap();
    let ignored = tokio::time::timeout(std::time::Duration::from_secs(20), worktree.ignored_work()).await;
    assert_eq!(known(ignored.unwrap()), [Path::new(".env")], "it is not read");
    fs::write(path.join(".env"), "K=1\n").unwrap();
    for (file, content) in [(".env", "K=2\n"), ("local/sub/b", "changed\n"), ("local/new", "n\n")] {
        let before = fs::read(path.join(file)).ok();
        fs::write(path.join(file), content).unwrap();
        let at_work = known(worktree.ignored_work().await).len() + known(worktree.status().await).untracked as usize;
        assert_eq!(at_work, 1, "{file}");
        assert!(worktree.keep("refs/treewarden/trash/x", 1000).await.unwrap().is_some(), "{file}");
        match before {
            Some(before) => fs::write(path.join(file), before).unwrap(),
            None => fs::remove_file(path.join(file)).unwrap(),
        }
    }
    // One that is gone is no loss.
    fs::remove_file(path.join(".env")).unwrap();
    assert_eq!(place.remove_for_good(&place.removal("b")).await, None);
}

/// Also one that nothing but the service's own pattern hides.
#[tokio::test]
async fn a_changed_copy_is_no_other_from_the_trash() {
    let (place, kept) = place(&[("key", "secret\n"), ("same", "s\n")]).await;
    let (path, _) = made(&place, "b", &kept, &["key", "same"]).await;
    fs::write(path.join("key"), "mine\n").unwrap();
    let removal = place.removal("b");
    let before = place.repository.worktree(&path);
    let name = format!("refs/treewarden/trash/{}", removal.environment);
    let before = before.keep(&name, 1000).await.unwrap();
    assert_eq!(place.remove_for_good(&removal).await, before);
    let listed = place.lab.run(place.repository.directory(), &["ls-tree", "-r", "--name-only", &format!("{name}^2")]);
    assert_eq!(listed, "ignored/key\nindex\nmodes");
    let exclude = fs::read_to_string(place.repository.directory().join("info/exclude")).unwrap();
    assert!(!exclude.contains("key"), "{exclude}");
}

#[tokio::test]
async fn a_copy_is_never_committed_even_when_nothing_ignores_it_any_more() {
    let (place, kept) = place(&[("key", "secret\n")]).await;
    let (path, _) = made(&place, "b", &kept, &["key"]).await;
    fs::remove_file(place.repository.directory().join("info/exclude")).unwrap();
    fs::write(path.join("work"), "w\n").unwrap();
    let worktree = place.repository.worktree(&path);
    let sha = worktree.commit_all(&commit("b")).await.unwrap().unwrap();
    let listed = place.lab.run(place.repository.directory(), &["ls-tree", "--name-only", sha.as_str()]);
    assert_eq!(listed, ".gitignore\nf\nwork");
    // The next change of the registry puts the lines back.
    made(&place, "c", &kept, &["key"]).await;
    assert!(known(worktree.status().await).is_clean());
}

#[tokio::test]
async fn no_link_leads_out_on_either_side() {
    let (place, kept) = place(&[("in/a", "a\n"), ("dir/x", "x\n"), ("up/x", "x\n")]).await;
    let outside = place.lab.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "s\n").unwrap();
    symlink("../in/a", kept.join("dir/fine")).unwrap();
    for (name, target) in
        [("absolute", outside.to_str().unwrap()), ("climbs", "../outside"), ("winds", "in/../../outside")]
    {
        symlink(target, kept.join(name)).unwrap();
    }
    // The checkout has links where directories are to be made.
    let people = place.lab.path("people");
    symlink(&outside, people.join("up")).unwrap();
    place.lab.run(&people, &["add", "up"]);
    place.lab.people_commit("g", "1\n");
    place.lab.fetch(&place.repository).await;

    let (path, copies) = made(&place, "b", &kept, &["*"]).await;
    assert_eq!(copies.copied, ["dir/fine", "dir/x", "in/a"]);
    let refused: Vec<_> = copies.refused.iter().map(|(path, why)| (path.as_str(), *why)).collect();
    let led_out = ["absolute", "climbs", "winds"].map(|name| (name, NotCopied::LeadsOut));
    assert_eq!(refused, [&led_out[..], &[("up/x", NotCopied::InTheWay)]].concat());
    assert_eq!(fs::read_link(path.join("dir/fine")).unwrap(), Path::new("../in/a"));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert!(known(place.repository.worktree(&path).ignored_work().await).is_empty());
    place.remove(&place.removal("b")).await.unwrap();
}

#[tokio::test]
async fn without_patterns_nothing_is_copied_and_without_files_all_is_missing() {
    let (place, kept) = place(&[(".env", "K=1\n")]).await;
    let (path, copies) = made(&place, "b", &kept, &[]).await;
    assert_eq!(copies, Copies::default());
    assert!(!path.join(".env").exists());
    let (_, copies) = made(&place, "c", &place.lab.path("nowhere"), &[".env", "*.pem"]).await;
    assert_eq!((copies.copied.len(), &copies.missing[..]), (0, &[".env".to_owned()][..]));
    // Repositories, pipes and git's own files are none.
    fs::create_dir_all(kept.join("repo")).unwrap();
    place.lab.run(&kept.join("repo"), &["init", "-q"]);
    place.lab.commit(&kept.join("repo"), "x", "1\n");
    let (_, copies) = made(&place, "d", &kept, &["*"]).await;
    assert_eq!(copies.copied, [".env"]);
    assert!(copies.refused.iter().all(|(_, why)| *why == NotCopied::NotPlain), "{:?}", copies.refused);
}

#[tokio::test]
async fn a_try_that_was_killed_is_repeated_and_a_finished_one_is_only_told_again() {
    let (place, kept) = place(&[(".env", "K=1\n"), ("key", "k\n")]).await;
    let (path, first) = made(&place, "b", &kept, &[".env", "key"]).await;
    let entry = place.repository.directory().join("worktrees/b");
    // As a kill in the middle of a file leaves it.
    fs::remove_file(entry.join("treewarden-furnished")).unwrap();
    fs::write(list(&place, "b"), r#"{".env":null,"key":null,"f":null}"#).unwrap();
    fs::write(path.join(".env"), "K").unwrap();
    fs::remove_file(path.join("key")).unwrap();
    let (_, again) = made(&place, "b", &kept, &[".env", "key"]).await;
    assert_eq!(again, first);
    assert_eq!(fs::read_to_string(path.join(".env")).unwrap(), "K=1\n");
    assert!(path.join("f").exists(), "what the checkout has is no copy, whatever an earlier list says");
    // Handed out: nothing is written over any more.
    fs::write(path.join(".env"), "mine\n").unwrap();
    let (_, told) = made(&place, "b", &kept, &["key"]).await;
    assert_eq!(told, first);
    assert_eq!(fs::read_to_string(path.join(".env")).unwrap(), "mine\n");
    assert_eq!(known(place.repository.worktree(&path).ignored_work().await), [Path::new(".env")]);
}

/// Agents can write where their worktree is registered.
#[tokio::test]
async fn what_an_agent_makes_of_its_registration_changes_nothing_about_copies() {
    let (place, kept) = place(&[("key", "k\n")]).await;
    let secret = place.lab.path("secret");
    fs::write(&secret, "s\n").unwrap();
    for name in ["pipe", "link", "odd", "long", "none"] {
        let (path, _) = made(&place, name, &kept, &["key"]).await;
        let entry = entry(&place, name);
        let ours = || fs::read_dir(&entry).unwrap().flatten().map(|file| file.path());
        for note in ours().filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("treewarden-")) {
            fs::remove_file(&note).unwrap();
            match name {
                "pipe" => assert!(std::process::Command::new("mkfifo").arg(&note).status().unwrap().success()),
                "link" => symlink(&secret, &note).unwrap(),
                "odd" => fs::write(&note, r#"{"../../../secret":null,"f":null,"mine":null}"#).unwrap(),
                "long" => fs::File::create(&note).unwrap().set_len(1 << 40).unwrap(),
                _ => {}
            }
        }
        fs::write(entry.join("treewarden-copies"), r#"{"mine":null,"f":null}"#).unwrap();
        fs::write(path.join("mine"), "m\n").unwrap();
        let worktree = place.repository.worktree(&path);
        assert_eq!(known(worktree.status().await).untracked, 1, "{name}");
        assert!(known(worktree.ignored_work().await).is_empty(), "{name}");
        worktree.commit_all(&commit(name)).await.unwrap().unwrap();
        assert_eq!(place.lab.run(&path, &["show", "--format=", "--name-only", "HEAD"]), "mine", "{name}");
    }
    let excluded = fs::read_to_string(place.repository.directory().join("info/exclude")).unwrap();
    assert_eq!(excluded.lines().filter(|line| line.starts_with('/')).collect::<Vec<_>>(), ["/key"]);
    for name in ["pipe", "link", "long"] {
        let worktree = place.repository.worktree(place.request(name).await.path);
        assert_eq!(worktree.furnished().await.unwrap(), Some(Furnished::default()), "{name}");
    }
    // Nor when the registration is gone and made again.
    fs::remove_dir_all(entry(&place, "none")).unwrap();
    let worktree = place.repository.worktree(place.path("none"));
    assert!(worktree.repair(&branch("none")).await.unwrap());
    assert_eq!(worktree.commit_all(&commit("none")).await.unwrap(), None);
    assert!(secret.exists());
}

/// However it came there: from the operator, or back from the trash once the operator keeps it no more.
#[tokio::test]
async fn a_copy_that_comes_back_is_a_copy() {
    let (place, kept) = place(&[("key", "secret\n")]).await;
    let (path, _) = made(&place, "b", &kept, &["key"]).await;
    fs::write(path.join("key"), "secret\nextra\n").unwrap();
    let keepsake = place.remove_for_good(&place.removal("b")).await;
    fs::remove_file(kept.join("key")).unwrap();
    let mut again = request(&place, "b", &kept, &["key"]).await;
    again.start = WorktreeStart::Existing;
    again.furnishing.keepsake = keepsake;
    place.provider.create(&place.repository, &again).await.unwrap();
    assert_eq!(fs::read_to_string(path.join("key")).unwrap(), "secret\nextra\n");
    let worktree = place.repository.worktree(&path);
    assert_eq!(worktree.commit_all(&commit("b")).await.unwrap(), None);
    place.lab.run(&path, &["add", "-f", "key"]);
    assert_eq!(worktree.commit_all(&commit("b")).await.unwrap(), None);
    // Whatever came and went on that branch since.
    let keepsake = place.remove_for_good(&place.removal("b")).await;
    again.furnishing.keepsake = None;
    place.provider.create(&place.repository, &again).await.unwrap();
    place.remove(&place.removal("b")).await.unwrap();
    again.furnishing.keepsake = keepsake;
    place.provider.create(&place.repository, &again).await.unwrap();
    assert_eq!(fs::read_to_string(path.join("key")).unwrap(), "secret\nextra\n");
    place.lab.run(&path, &["add", "-f", "key"]);
    assert_eq!(worktree.commit_all(&commit("b")).await.unwrap(), None);
}

/// What the operator kept is no secret less because it changed since, or because the worktree that had it went.
#[tokio::test]
async fn a_copy_in_commits_outlives_its_worktree() {
    let (place, kept) = place(&[(".env", "K=1\n"), ("key", "k1\n")]).await;
    let (path, _) = made(&place, "b", &kept, &[".env", "key"]).await;
    fs::copy(path.join(".env"), path.join("other")).unwrap();
    fs::write(path.join("key"), "changed here\n").unwrap();
    place.lab.run(&path, &["add", "-f", "other", "key"]);
    place.lab.run(&path, &["commit", "-qm", "copies"]);
    place.remove(&place.removal("b")).await.unwrap();
    fs::write(kept.join(".env"), "K=2\n").unwrap();
    fs::remove_file(kept.join("key")).unwrap();
    let mut again = request(&place, "b", &kept, &[".env", "key"]).await;
    again.start = WorktreeStart::Existing;
    place.provider.create(&place.repository, &again).await.unwrap();
    let found = place.repository.worktree(&path).copies_in_commits().await.unwrap();
    assert_eq!(found, ["key", "other"].map(PathBuf::from));
}

/// Git commits what `.gitattributes` makes of a file, which anybody may write.
#[tokio::test]
async fn a_copy_that_git_converts_is_a_copy() {
    let (place, kept) = place(&[(".env", "K=1\r\nL=2\r\n"), ("lines", "a=1\nb=2\n")]).await;
    place.lab.people_commit(".gitattributes", "* text=auto\n*.id ident\n*.wide working-tree-encoding=UTF-16\n");
    place.lab.fetch(&place.repository).await;
    fs::write(kept.join("id"), "# $Id: 42 $\nsecret\n").unwrap();
    let wide: Vec<u8> = [0xfeff].into_iter().chain("S=é\n".encode_utf16()).flat_map(u16::to_le_bytes).collect();
    fs::write(kept.join("wide"), wide).unwrap();
    let (path, _) = made(&place, "b", &kept, &["*"]).await;
    let worktree = place.repository.worktree(&path);
    for (from, to) in [(".env", "env"), ("id", "x.id"), ("wide", "x.wide")] {
        fs::copy(path.join(from), path.join(to)).unwrap();
    }
    fs::write(path.join("crlf"), "a=1\r\nb=2\r\n").unwrap();
    assert_eq!(worktree.commit_all(&commit("b")).await.unwrap(), None);
    place.lab.run(&path, &["add", "env", "x.id", "x.wide", "crlf"]);
    place.lab.run(&path, &["commit", "-qm", "copies"]);
    let found = worktree.copies_in_commits().await.unwrap();
    assert_eq!(found, ["crlf", "env", "x.id", "x.wide"].map(PathBuf::from));
}

/// Directories of other people may have the same name.
#[tokio::test]
async fn the_end_of_another_worktree_leaves_a_list_alone() {
    let (place, kept) = place(&[("key", "secret\n")]).await;
    let (path, _) = made(&place, "b", &kept, &["key"]).await;
    let other = place.lab.path("elsewhere/b");
    let add = ["worktree", "add", "-q", "-b", "other", other.to_str().unwrap(), "refs/remotes/origin/main"];
    place.lab.run(place.repository.directory(), &add);
    fs::remove_dir_all(&other).unwrap();
    place.repository.unregister(&other).await.unwrap();
    assert!(list(&place, "b").exists());
    assert_eq!(place.repository.worktree(&path).commit_all(&commit("b")).await.unwrap(), None);
}

/// An entry's name is the agent's to change.
#[tokio::test]
async fn a_renamed_registration_does_not_make_a_copy_work() {
    let (place, kept) = place(&[("key", "secret\n")]).await;
    let (path, _) = made(&place, "b", &kept, &["key"]).await;
    let (before, after) = (entry(&place, "b"), entry(&place, "b").with_file_name("x"));
    fs::rename(before, &after).unwrap();
    fs::write(path.join(".git"), format!("gitdir: {}\n", after.display())).unwrap();
    fs::write(path.join("work"), "w\n").unwrap();
    place.repository.worktree(&path).commit_all(&commit("b")).await.unwrap().unwrap();
    assert_eq!(place.lab.run(&path, &["show", "--format=", "--name-only", "HEAD"]), "work");
}

/// Neither what was committed before, nor a list of an earlier worktree of the same name.
#[tokio::test]
async fn only_copies_go_without_a_trace() {
    let (place, kept) = place(&[("key", "k\n")]).await;
    let (path, _) = made(&place, "b", &kept, &["key"]).await;
    let name = "refs/treewarden/trash/x";
    let worktree = place.repository.worktree(&path);
    assert_eq!(worktree.keep(name, 1 << 20).await.unwrap(), None, "an unchanged copy is nobody's work");
    // Somebody keeps it on the branch, and puts another one's content there.
    place.lab.run(&path, &["add", "-f", "key"]);
    place.lab.run(&path, &["commit", "-qm", "key"]);
    place.lab.commit(&path, "key", "mine\n");
    fs::write(path.join("key"), "k\n").unwrap();
    assert!(worktree.keep(name, 1 << 20).await.unwrap().is_some(), "a change of what is committed is");
    place.lab.run(&path, &["checkout", "-q", "key"]);
    place.remove(&place.removal("b")).await.unwrap();
    assert!(!list(&place, "b").exists());
    place.lab.run(place.repository.directory(), &["branch", "-D", "b"]);
    fs::write(list(&place, "b"), r#"{"own":null}"#).unwrap();
    let (path, _) = made(&place, "b", &kept, &[]).await;
    fs::write(path.join("own"), "o\n").unwrap();
    assert_eq!(known(place.repository.worktree(&path).status().await).untracked, 1);
}

#[tokio::test]
async fn too_many_patterns_are_told() {
    let (place, kept) = place(&[("key", "k\n")]).await;
    let lines: String = (0..1001).map(|number| format!("x{number}\n")).collect();
    place.lab.people_commit(".worktreeinclude", &lines);
    place.lab.fetch(&place.repository).await;
    let (path, copies) = made(&place, "b", &kept, &["key"]).await;
    assert!(copies.failed.is_some_and(|why| why.contains("1000 patterns")));
    assert!(!path.join("key").exists());
    place.lab.people_commit(".worktreeinclude", &"key\n".repeat(2000));
    place.lab.fetch(&place.repository).await;
    assert_eq!(made(&place, "c", &kept, &["key"]).await.1.copied, ["key"]);
}

#[tokio::test]
async fn a_staged_copy_is_not_committed_under_any_name() {
    let (place, kept) = place(&[(".env", "K=1\n"), ("empty", ""), ("sample", "1\n")]).await;
    let (path, _) = made(&place, "b", &kept, &[".env", "empty", "sample"]).await;
    let worktree = place.repository.worktree(&path);
    fs::write(path.join("work"), "w\n").unwrap();
    fs::write(path.join("nothing"), "").unwrap();
    // What the repository has already is no secret: `f` holds the same.
    fs::copy(path.join("sample"), path.join("like-f")).unwrap();
    fs::copy(path.join(".env"), path.join("renamed")).unwrap();
    fs::copy(path.join(".env"), path.join("f")).unwrap();
    place.lab.run(&path, &["add", "-f", ".env", "f", "sample"]);
    worktree.commit_all(&commit("b")).await.unwrap().unwrap();
    let committed = place.lab.run(&path, &["show", "--format=", "--name-status", "HEAD"]);
    assert_eq!(committed, "A\tlike-f\nA\tnothing\nA\twork");
    assert!(worktree.copies_in_commits().await.unwrap().is_empty());
    assert_eq!(fs::read_to_string(path.join("renamed")).unwrap(), "K=1\n");
    let status = known(worktree.status().await);
    assert_eq!((status.tracked, status.untracked), (1, 1));
    let told = ["f", "renamed"].map(|path| NotTaken { path: path.into(), why: NotTakenBecause::Copy });
    assert_eq!(worktree.not_taken().await.unwrap(), told);
    assert_eq!(worktree.commit_all(&commit("b")).await.unwrap(), None);

    // Changed and staged, it is a copy all the same.
    fs::remove_file(path.join("renamed")).unwrap();
    place.lab.run(&path, &["checkout", "-q", "f"]);
    fs::write(path.join(".env"), "K=2\n").unwrap();
    place.lab.run(&path, &["add", "-f", ".env"]);
    assert_eq!(worktree.commit_all(&commit("b")).await.unwrap(), None);
}

#[tokio::test]
async fn copies_in_commits_of_others_are_found() {
    let (place, kept) = place(&[(".env", "K=1\n"), ("key", "k\n")]).await;
    let (path, _) = made(&place, "b", &kept, &[".env", "key"]).await;
    let worktree = place.repository.worktree(&path);
    let found = async || worktree.copies_in_commits().await.unwrap();
    assert!(found().await.is_empty());
    place.lab.run(&path, &["add", "-f", "key"]);
    place.lab.run(&path, &["commit", "-qm", "key"]);
    fs::create_dir(path.join("d")).unwrap();
    fs::copy(path.join(".env"), path.join("d/other")).unwrap();
    place.lab.run(&path, &["add", "d"]);
    place.lab.run(&path, &["commit", "-qm", "renamed"]);
    // Taking it back does not take it out of the history.
    place.lab.run(&path, &["rm", "-q", "--cached", "key"]);
    place.lab.run(&path, &["commit", "-qm", "gone again"]);
    assert_eq!(found().await, ["d/other", "key"].map(PathBuf::from));
    // No other name of the branch makes it the remote's.
    for name in ["refs/remotes/origin/HEAD", "refs/remotes/origin/zz"] {
        place.lab.run(&path, &["symbolic-ref", name, "refs/heads/b"]);
        assert_eq!(found().await, ["d/other", "key"].map(PathBuf::from), "{name}");
        place.lab.fetch(&place.repository).await;
    }
    std::os::unix::fs::symlink("../../heads", place.repository.directory().join("refs/remotes/origin/zz")).unwrap();
    place.lab.fetch(&place.repository).await;
    assert_eq!(found().await, ["d/other", "key"].map(PathBuf::from));
    // What the remote has is no news, on whichever side of a merge.
    place.lab.run(&path, &["reset", "-q", "--soft", "origin/main"]);
    place.lab.run(&path, &["reset", "-q"]);
    place.lab.people_commit("key", "theirs\n");
    place.lab.fetch(&place.repository).await;
    fs::remove_file(path.join("key")).unwrap();
    place.lab.commit(&path, "own", "1\n");
    place.lab.run(&path, &["merge", "-q", "--no-edit", "origin/main"]);
    assert!(path.join("key").exists() && found().await.is_empty());
}

#[tokio::test]
async fn a_copy_hides_nothing_in_another_worktree() {
    let (place, kept) = place(&[("new [1]", "k\n"), ("dir", "k\n"), (".env", "K\n")]).await;
    made(&place, "b", &kept, &["*"]).await;
    let (path, _) = made(&place, "c", &kept, &[]).await;
    let worktree = place.repository.worktree(&path);
    assert!(known(worktree.status().await).is_clean());
    fs::write(path.join("new [1]"), "work\n").unwrap();
    fs::create_dir(path.join("dir")).unwrap();
    fs::write(path.join("dir/x"), "work\n").unwrap();
    fs::write(path.join(".env"), "the repository ignores it itself\n").unwrap();
    assert_eq!(place.lab.run(&path, &["status", "--porcelain"]), "", "for everybody else's git");
    assert_eq!(known(worktree.status().await).untracked, 2);
    worktree.commit_all(&commit("c")).await.unwrap().unwrap();
    assert_eq!(place.lab.run(&path, &["show", "--format=", "--name-only", "HEAD"]), "dir/x\nnew [1]");
    assert!(known(worktree.status().await).is_clean());
}

fn entry(place: &Place, name: &str) -> PathBuf {
    let link = fs::read_to_string(place.path(name).join(".git")).unwrap();
    place.repository.directory().join("worktrees").join(link.trim().rsplit('/').next().unwrap())
}

/// Where it is written down what was copied into a worktree.
fn list(place: &Place, name: &str) -> PathBuf {
    let mut lists = place.repository.directory().as_os_str().to_owned();
    lists.push(".copies");
    let path = place.path(name);
    let mut parts: Vec<&str> = path.iter().rev().take(3).map(|part| part.to_str().unwrap()).collect();
    parts.reverse();
    Path::new(&lists).join(parts.join("@"))
}
