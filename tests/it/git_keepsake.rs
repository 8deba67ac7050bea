//! What a worktree holds and its branch does not is kept, and comes back as it was.

use crate::git_lab::{Lab, branch, known};
use proptest::{prelude::*, test_runner::Config};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    io::Write,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt, fs::symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use treewarden::model::WorktreeStart;

#[tokio::test]
async fn a_keepsake_holds_everything_and_touches_nothing() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let name = "refs/treewarden/trash/1";
    assert_eq!(worktree.keep(name, 1000).await.unwrap(), None);
    assert!(worktree.keep("refs/heads/main", 1000).await.is_err());
    let other = lab.commit(&path, "hidden", "1\n");
    lab.run(&path, &["update-index", "--skip-worktree", "hidden"]);
    fs::write(path.join("hidden"), "edited\n").unwrap();
    fs::write(path.join("f"), "2\n").unwrap();
    fs::write(path.join("new"), "n\n").unwrap();
    fs::write(path.join(".env"), "SECRET").unwrap();
    let before = lab.run(&path, &["status", "--porcelain"]);
    // BR-025
    let sha = worktree.keep(name, 1000).await.unwrap().unwrap();
    assert_eq!(repository.tip(name).await.unwrap(), Some(sha.clone()));
    let kept = lab.run(&path, &["diff", "--name-status", other.as_str(), sha.as_str()]);
    assert_eq!(kept, "M\tf\nM\thidden\nA\tnew");
    assert_eq!(lab.run(&path, &["status", "--porcelain"]), before);
    assert_eq!(worktree.head().await.unwrap().sha, Some(other));
    let beside = format!("{sha}^2");
    assert_eq!(lab.run(&path, &["show", &format!("{beside}:ignored/.env")]), "SECRET");
    assert_eq!(worktree.keep(name, 1000).await.unwrap(), Some(sha.clone()), "the same again is the same");
    fs::write(path.join("new"), "m\n").unwrap();
    let next = worktree.keep(name, 1000).await.unwrap().unwrap();
    assert_ne!(next, sha);
    fs::write(path.join(".env"), "X".repeat(1001)).unwrap();
    assert!(
        worktree
            .keep(name, 1000)
            .await
            .unwrap_err()
            .to_string()
            .contains("more than the 0 MB that are kept; the largest is .env")
    );
    assert_eq!(repository.tip(name).await.unwrap(), Some(next));
}

/// Git lists nothing of it, neither as new nor as ignored.
#[tokio::test]
async fn an_ignored_directory_in_the_place_of_a_file_is_kept_with_what_is_in_it() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    lab.commit(&path, "build", "a file\n");
    lab.commit(&path, ".gitignore", "build/\n");
    fs::remove_file(path.join("build")).unwrap();
    fs::create_dir_all(path.join("build/deep")).unwrap();
    fs::write(path.join("build/deep/out"), "hours of work").unwrap();
    let sha = worktree.keep("refs/treewarden/trash/1", 1000).await.unwrap().unwrap();
    fs::remove_dir_all(path.join("build")).unwrap();
    lab.run(&path, &["reset", "-q", "--hard"]);
    worktree.bring_back(&sha).await.unwrap();
    assert_eq!(fs::read_to_string(path.join("build/deep/out")).unwrap(), "hours of work");
    assert!(worktree.keep("refs/treewarden/trash/1", 5).await.is_err(), "more than the trash takes");
}

/// A link in the place of a directory leads to files of others.
#[tokio::test]
async fn what_lies_behind_a_link_on_the_way_is_not_kept() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::create_dir(path.join("a")).unwrap();
    lab.commit(&path, "a/b", "a file\n");
    let outside = lab.path("outside");
    fs::create_dir_all(outside.join("b")).unwrap();
    fs::write(outside.join("b/secret"), "S".repeat(2000)).unwrap();
    fs::remove_dir_all(path.join("a")).unwrap();
    std::os::unix::fs::symlink(&outside, path.join("a")).unwrap();
    let sha = worktree.keep("refs/treewarden/trash/1", 1000).await.unwrap().unwrap();
    assert_eq!(lab.run(&path, &["show", &format!("{sha}:a")]), outside.to_str().unwrap());
    assert_eq!(lab.run(&path, &["ls-tree", "-r", "--name-only", &format!("{sha}^2")]), "index\nmodes");
    lab.run(&path, &["clean", "-qfd"]);
    lab.run(&path, &["reset", "-q", "--hard"]);
    worktree.bring_back(&sha).await.unwrap();
    assert_eq!(fs::read_link(path.join("a")).unwrap(), outside);
    assert_eq!(fs::read_to_string(outside.join("b/secret")).unwrap().len(), 2000);
}

#[tokio::test]
async fn a_conflict_is_kept_with_all_its_sides() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    lab.commit(&path, "f", "ours\n");
    lab.run(&path, &["switch", "-q", "-c", "other", "HEAD~1"]);
    lab.commit(&path, "f", "theirs\n");
    lab.try_run(&path, &["merge", "-q", "b"]);
    let sha = worktree.keep("refs/treewarden/trash/1", 1000).await.unwrap().unwrap();
    assert!(lab.run(&path, &["show", &format!("{sha}:f")]).contains("<<<<<<<"));
    assert_eq!(known(worktree.status().await).conflicted, 1);
    lab.run(&path, &["reset", "-q", "--hard"]);
    worktree.bring_back(&sha).await.unwrap();
    assert_eq!(known(worktree.status().await).conflicted, 1);
    assert_eq!(lab.run(&path, &["show", ":2:f"]), "theirs");
    assert_eq!(lab.run(&path, &["show", ":3:f"]), "ours");
}

/// What somebody does in a worktree.
#[derive(Clone, Debug)]
pub enum Deed {
    Write(usize, Vec<u8>),
    Rights(usize, u32),
    Delete(usize),
    Link(usize, &'static str),
    Git(&'static [&'static str], usize),
    /// All three sides of a merge.
    Conflict(usize),
}

/// Committed, untracked and ignored ones, some in the place of a directory of another.
pub const NAMES: &[&[u8]] = &[
    b"f",
    b"d/one",
    b"d/two",
    b"d",
    b"d/one/inside",
    b"link",
    b"new",
    b"odd \n\"name\"\\",
    b"caf\xe9",
    b"git~1",
    b".env",
    b"logs/a.log",
    b"logs/deep/b.log",
    b".gitignore",
    b"eol.txt",
];

const GIT: &[&[&str]] = &[
    &["add", "-A", "--"],
    &["rm", "-q", "-r", "--cached", "--ignore-unmatch", "--"],
    &["update-index", "--chmod=+x", "--"],
    &["restore", "--staged", "--"],
];

pub fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let name = || 0..NAMES.len();
    let content = prop_oneof![prop::collection::vec(any::<u8>(), 0..40), Just(b"1\r\n2\n".to_vec()), Just(Vec::new())];
    let rights = prop::sample::select(vec![0o600, 0o644, 0o755, 0o700, 0o444]);
    let deed = prop_oneof![
        4 => (name(), content).prop_map(|(name, content)| Deed::Write(name, content)),
        1 => (name(), rights).prop_map(|(name, rights)| Deed::Rights(name, rights)),
        2 => name().prop_map(Deed::Delete),
        1 => (name(), prop::sample::select(&["nowhere", "/etc", "../..", ".env"][..])).prop_map(|(name, to)| Deed::Link(name, to)),
        2 => (prop::sample::select(GIT), name()).prop_map(|(args, name)| Deed::Git(args, name)),
        1 => name().prop_map(Deed::Conflict),
    ];
    prop::collection::vec(deed, 1..14)
}

/// The same of what git ignores alone.
pub fn ignored_deeds() -> impl Strategy<Value = Vec<Deed>> {
    let name = || prop::sample::select(vec![10_usize, 11, 12]);
    let deed = prop_oneof![
        4 => (name(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(name, content)| Deed::Write(name, content)),
        1 => (name(), prop::sample::select(vec![0o600, 0o755])).prop_map(|(name, rights)| Deed::Rights(name, rights)),
        1 => name().prop_map(|name| Deed::Link(name, "nowhere")),
    ];
    prop::collection::vec(deed, 1..6)
}

/// Of nobody's settings.
fn hermetic(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.current_dir(directory).args(args).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C");
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

fn clear(path: &Path) {
    let _ = fs::remove_dir_all(path);
    let _ = fs::remove_file(path);
}

/// Makes room for a file, whatever is in the place of its directories.
fn make_room(root: &Path, name: &Path) {
    for parent in name.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
        let parent = root.join(parent);
        if !fs::symlink_metadata(&parent).is_ok_and(|meta| meta.is_dir()) {
            clear(&parent);
            fs::create_dir(&parent).unwrap();
        }
    }
    clear(&root.join(name));
}

pub fn carry_out(root: &Path, deed: &Deed) {
    let path_of = |name: usize| Path::new(OsStr::from_bytes(NAMES[name]));
    match deed {
        Deed::Write(name, content) => {
            make_room(root, path_of(*name));
            fs::write(root.join(path_of(*name)), content).unwrap();
        }
        Deed::Rights(name, rights) => {
            let path = root.join(path_of(*name));
            if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file()) {
                fs::set_permissions(&path, fs::Permissions::from_mode(*rights)).unwrap();
            }
        }
        Deed::Delete(name) => clear(&root.join(path_of(*name))),
        Deed::Link(name, target) => {
            make_room(root, path_of(*name));
            symlink(target, root.join(path_of(*name))).unwrap();
        }
        Deed::Git(args, name) => {
            let _ = hermetic(root, args).arg(path_of(*name)).output().unwrap();
        }
        Deed::Conflict(name) => {
            let place = root.join(path_of(*name));
            if !fs::symlink_metadata(&place).is_ok_and(|meta| meta.is_file()) {
                return;
            }
            let ours = hermetic(root, &["hash-object", "-w", "--no-filters"]).arg(&place).output().unwrap().stdout;
            let _ = hermetic(root, &["rm", "-q", "--cached", "--ignore-unmatch", "--"]).arg(path_of(*name)).output();
            let mut lines = Vec::new();
            for (stage, id) in
                ["e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", "", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"]
                    .into_iter()
                    .enumerate()
            {
                let id = if id.is_empty() { str::from_utf8(&ours).unwrap().trim_end() } else { id };
                lines.extend_from_slice(format!("100644 {id} {}\t", stage + 1).as_bytes());
                lines.extend_from_slice(NAMES[*name]);
                lines.push(0);
            }
            let empty = hermetic(root, &["hash-object", "-w", "--stdin"]).stdin(Stdio::null()).status();
            assert!(empty.unwrap().success());
            let mut git =
                hermetic(root, &["update-index", "-z", "--index-info"]).stdin(Stdio::piped()).spawn().unwrap();
            git.stdin.take().unwrap().write_all(&lines).unwrap();
            git.wait().unwrap();
        }
    }
}

/// Every file and link below, with its content. Rights count where git sees a file as changed, since nothing else is kept.
pub fn content(root: &Path) -> BTreeMap<PathBuf, (String, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let (path, meta) = (entry.path(), entry.metadata().unwrap());
            let name = path.strip_prefix(root).unwrap().to_owned();
            if meta.is_dir() {
                pending.push(path);
            } else if meta.is_symlink() {
                found.insert(name, ("link".to_owned(), fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec()));
            } else if name != Path::new(".git") {
                found.insert(name, (format!("{:o}", meta.permissions().mode() & 0o777), fs::read(path).unwrap()));
            }
        }
    }
    found
}

/// What git says of the worktree: files, index, and what is ignored.
pub fn state(root: &Path) -> Vec<Vec<u8>> {
    let asked: [&[&str]; 2] = [
        &["status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignored=traditional"],
        &["ls-files", "--stage", "-z"],
    ];
    asked.iter().map(|args| hermetic(root, args).output().unwrap().stdout).collect()
}

/// Rights of a file that is as committed are not in any commit.
pub fn as_kept(
    mut found: BTreeMap<PathBuf, (String, Vec<u8>)>,
    fresh: &BTreeMap<PathBuf, (String, Vec<u8>)>,
) -> BTreeMap<PathBuf, (String, Vec<u8>)> {
    for (name, (rights, bytes)) in &mut found {
        if let Some((fresh, same)) = fresh.get(name)
            && same == bytes
            && rights != "link"
            && fresh != "link"
        {
            *rights = format!("executable: {}", u32::from_str_radix(rights, 8).unwrap() & 0o100 != 0);
        }
    }
    found
}

proptest! {
    #![proptest_config(Config { cases: 32, ..Config::default() })]

    #[test]
    fn what_was_kept_comes_back_as_it_was(deeds in deeds()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let lab = Lab::new();
            let people = lab.path("people");
            fs::create_dir(people.join("d")).unwrap();
            fs::write(people.join("d/one"), "one\n").unwrap();
            fs::write(people.join("d/two"), "two\n").unwrap();
            symlink("f", people.join("link")).unwrap();
            fs::write(people.join(".gitattributes"), "eol.txt text eol=crlf\n").unwrap();
            fs::write(people.join("eol.txt"), "a\r\nb\r\n").unwrap();
            fs::write(people.join(".gitignore"), ".env\ntarget/\nlogs/\n").unwrap();
            lab.run(&people, &["add", "-A"]);
            lab.people_commit("more", "1\n");
            let repository = lab.repository().await;
            let (path, worktree) = lab.worktree(&repository, "b").await;
            for deed in &deeds {
                carry_out(&path, deed);
            }
            let (files, said) = (content(&path), state(&path));
            let kept = worktree.keep("refs/treewarden/trash/b", 10_000).await.unwrap();
            prop_assert_eq!(&content(&path), &files);
            prop_assert_eq!(&state(&path), &said);
            fs::remove_dir_all(&path).unwrap();
            repository.unregister(&path).await.unwrap();
            repository.add_worktree(&path, &branch("b"), &WorktreeStart::Existing).await.unwrap();
            let fresh = content(&path);
            if let Some(kept) = kept {
                worktree.bring_back(&kept).await.unwrap();
                worktree.bring_back(&kept).await.unwrap();
            }
            prop_assert_eq!(as_kept(content(&path), &fresh), as_kept(files, &fresh));
            prop_assert_eq!(state(&path), said);
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn nothing_is_written_over_what_the_branch_has_changed_since() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::create_dir(path.join("d")).unwrap();
    for name in ["same", "gone", "d/x"] {
        lab.commit(&path, name, "1\n");
    }
    fs::write(path.join("only-staged"), "mine\n").unwrap();
    lab.run(&path, &["add", "only-staged"]);
    fs::remove_file(path.join("only-staged")).unwrap();
    for name in ["f", "same", "new", "taken", "place", ".env", "d/y"] {
        fs::write(path.join(name), "mine\n").unwrap();
    }
    fs::remove_file(path.join("gone")).unwrap();
    lab.run(&path, &["add", "new"]);
    let kept = worktree.keep("refs/treewarden/trash/b", 1000).await.unwrap().unwrap();
    lab.run(&path, &["reset", "-q", "--hard"]);
    lab.run(&path, &["clean", "-qfdx"]);
    // The branch goes on: other contents, other files, and a file where a directory is to be.
    for name in ["f", "gone", "taken"] {
        lab.commit(&path, name, "theirs\n");
    }
    fs::create_dir(path.join("place")).unwrap();
    lab.commit(&path, "place/inside", "theirs\n");
    lab.run(&path, &["rm", "-qr", "d"]);
    lab.commit(&path, "d", "theirs\n");
    assert_eq!(worktree.bring_back(&kept).await.unwrap(), ["d/y", "f", "gone", "place", "taken"]);
    let read = |name: &str| fs::read_to_string(path.join(name)).unwrap();
    for (name, text) in [("f", "theirs\n"), ("gone", "theirs\n"), ("taken", "theirs\n"), ("d", "theirs\n")] {
        assert_eq!(read(name), text, "{name}");
    }
    assert_eq!((read("same"), read("new"), read(".env")), ("mine\n".into(), "mine\n".into(), "mine\n".into()));
    assert_eq!(lab.run(&path, &["status", "--porcelain"]), "A  new\nAD only-staged\n M same");
}

/// Agents can write objects and refs: nothing that such a commit names is written outside of the worktree, or into `.git`.
#[tokio::test]
async fn a_forged_keepsake_reaches_nothing_outside() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::write(path.join("new"), "mine\n").unwrap();
    fs::write(path.join(".env"), "KEY").unwrap();
    let kept = worktree.keep("refs/treewarden/trash/b", 1000).await.unwrap().unwrap();
    let store = git2::Repository::open_bare(repository.directory()).unwrap();
    let kept = store.find_commit(git2::Oid::from_str(kept.as_str()).unwrap()).unwrap();
    let (base, beside) = (kept.parent(0).unwrap(), kept.parent(1).unwrap());
    let blob = store.blob(b"evil").unwrap();
    let entry = |mode: &str, name: &str, id: git2::Oid| [format!("{mode} {name}\0").as_bytes(), id.as_bytes()].concat();
    let tree = |bytes: &[u8]| store.odb().unwrap().write(git2::ObjectType::Tree, bytes).unwrap();
    let evil = tree(&entry("100644", "evil", blob));
    let who = kept.author();
    let commit = |tree: git2::Oid, parents: &[&git2::Commit]| {
        let text = parents.iter().map(|parent| format!("parent {}\n", parent.id())).collect::<String>();
        let text = format!("tree {tree}\n{text}author {who} 0 +0000\ncommitter {who} 0 +0000\n\nx\n");
        store.find_commit(store.odb().unwrap().write(git2::ObjectType::Commit, text.as_bytes()).unwrap()).unwrap()
    };
    for name in ["..", ".git", ".GIT"] {
        let forged = commit(tree(&entry("40000", name, evil)), &[&base, &beside]);
        let notes: Vec<u8> = ["index", "modes"]
            .map(|note| entry("100644", note, beside.tree().unwrap().get_name(note).unwrap().id()))
            .concat();
        let ignored = tree(&[entry("40000", "ignored", tree(&entry("40000", name, evil))), notes].concat());
        let behind = commit(kept.tree_id(), &[&base, &commit(ignored, &[])]);
        for forged in [forged, behind] {
            let forged = treewarden::model::CommitSha::new(&forged.id().to_string()).unwrap();
            let refused = worktree.bring_back(&forged).await.unwrap_err().to_string();
            assert!(refused.contains("which no checkout has"), "{name}: {refused}");
        }
        assert!(
            !path.join("../evil").exists() && path.join(".git").is_file() && !path.join(name).join("evil").exists()
        );
    }
}

/// Whatever git passes over in an index is no reason to lose it.
#[tokio::test]
async fn what_git_takes_for_its_own_is_refused() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    for name in ["sub/.GIT", "target2/.Git/notes", ".gitmodules"] {
        fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
        if name == ".gitmodules" {
            symlink("f", path.join(name)).unwrap()
        } else {
            fs::write(path.join(name), "1").unwrap()
        }
        let refused = worktree.keep("refs/treewarden/trash/b", 1000).await;
        assert!(refused.is_err(), "{name}: {refused:?}");
        assert_eq!(repository.tip("refs/treewarden/trash/b").await.unwrap(), None);
        fs::remove_file(path.join(name)).unwrap();
    }
}

#[tokio::test]
async fn a_repository_inside_is_never_kept_by_halves() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    for place in ["inner", "target2/inner"] {
        let (path, worktree) = lab.worktree(&repository, &place.replace('/', "-")).await;
        fs::write(path.join(".gitignore"), "target2/\n").unwrap();
        let inner = path.join(place);
        fs::create_dir_all(&inner).unwrap();
        lab.run(&inner, &["init", "-q"]);
        lab.commit(&inner, "x", "1\n");
        let refused = worktree.keep("refs/treewarden/trash/b", 1_000_000).await.unwrap_err().to_string();
        assert!(refused.contains("a repository lies in"), "{refused}");
    }
}

/// Its tree could name the commit, and nobody would have it.
#[tokio::test]
async fn a_submodule_at_another_commit_is_refused() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let inside = path.join("sub");
    lab.run(&path, &["init", "-q", "sub"]);
    let then = lab.commit(&inside, "s", "1\n");
    lab.run(&path, &["update-index", "--add", "--cacheinfo", &format!("160000,{then},sub")]);
    lab.run(&path, &["commit", "-qm", "sub"]);
    assert_eq!(worktree.keep("refs/treewarden/trash/1", 1000).await.unwrap(), None);
    lab.commit(&inside, "s", "2\n");
    fs::write(path.join("new"), "n\n").unwrap();
    let refused = worktree.keep("refs/treewarden/trash/1", 1000).await.unwrap_err().to_string();
    assert!(refused.contains("the submodule sub stands at another commit"), "{refused}");
    assert_eq!(repository.tip("refs/treewarden/trash/1").await.unwrap(), None);
    assert_eq!(fs::read_to_string(path.join("new")).unwrap(), "n\n");
}

/// It is read as a whole when it comes back.
#[tokio::test]
async fn a_file_that_is_too_large_is_refused_before_it_is_read() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let file = path.join("large");
    fs::File::create(&file).unwrap().set_len(257 * 1024 * 1024).unwrap();
    let refused = worktree.keep("refs/treewarden/trash/1", 1000).await.unwrap_err().to_string();
    assert!(refused.contains("large has 257 MB") && refused.contains("move it away"), "{refused}");
    assert!(file.exists());
    assert_eq!(repository.tip("refs/treewarden/trash/1").await.unwrap(), None);
}

/// A removal keeps a second time, once the files have been moved: what was written in between is in it.
#[tokio::test]
async fn what_changed_until_the_files_were_moved_is_kept_too() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let name = "refs/treewarden/trash/1";
    fs::write(path.join("new"), "1\n").unwrap();
    fs::write(path.join("gone"), "1\n").unwrap();
    let first = worktree.keep(name, 1000).await.unwrap().unwrap();
    fs::write(path.join("new"), "2\n").unwrap();
    fs::write(path.join(".env"), "SECRET").unwrap();
    fs::remove_file(path.join("gone")).unwrap();
    let trash = lab.path("trash");
    fs::rename(&path, &trash).unwrap();
    repository.set_apart(&path, "1").await.unwrap();
    let head = repository.tip("refs/heads/b").await.unwrap().unwrap();
    let moved = repository.removed_worktree(&path, "1", &trash, &head).await.unwrap();
    let second = moved.keep(name, 1000).await.unwrap().unwrap();
    assert_ne!(first, second);
    assert_eq!(moved.keep(name, 1000).await.unwrap(), Some(second.clone()), "the same again is the same");
    let directory = repository.directory();
    assert_eq!(lab.run(directory, &["show", &format!("{second}:new")]), "2");
    assert_eq!(lab.run(directory, &["show", &format!("{second}^2:ignored/.env")]), "SECRET");
    assert!(!lab.try_run(directory, &["cat-file", "-e", &format!("{second}:gone")]).status.success());
}

/// A loss of power after a removal takes what was never written to the disk, and there is no other copy.
#[tokio::test]
async fn what_a_removal_rests_on_is_on_the_disk() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::write(path.join("f"), "2\n").unwrap();
    // Git writes down what it does, and how often it had something written to the disk.
    let notes = lab.path("notes");
    fs::create_dir(&notes).unwrap();
    fs::write(lab.path("state/gitconfig"), format!("[trace2]\n\teventTarget = {}\n", notes.display())).unwrap();
    let sha = worktree.keep("refs/treewarden/trash/1", 1000).await.unwrap().unwrap();
    assert!(repository.set_ref("refs/treewarden/archive/1", &sha, None).await.unwrap());
    let notes = fs::read_dir(&notes).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let notes: Vec<_> = notes.collect();
    // Contents are in the pack that is written after them.
    for (name, times, is_waited_for) in [
        ("hash-object", 2, false),
        ("write-tree", 2, true),
        ("commit-tree", 2, true),
        ("pack-objects", 1, true),
        ("update-ref", 2, true),
    ] {
        let of = |note: &&String| note.contains(&format!(r#""name":"{name}""#));
        let of_name: Vec<_> = notes.iter().filter(of).collect();
        assert_eq!(of_name.len(), times, "{name}");
        let is_on_disk = |note: &&String| note.contains(r#""name":"hardware-flush""#);
        assert!(of_name.iter().all(|note| is_on_disk(note) == is_waited_for), "{name}");
    }
}

/// Contents wait for the disk only in their pack: a loss of power before that leaves files with nothing in them.
#[tokio::test]
async fn contents_that_never_came_to_the_disk_are_not_taken_for_kept() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::write(path.join("new"), "hours of work\n").unwrap();
    let objects = repository.directory().join("objects");
    let packs =
        || -> BTreeSet<_> { fs::read_dir(objects.join("pack")).unwrap().map(|file| file.unwrap().path()).collect() };
    let (name, before) = ("refs/treewarden/trash/1", packs());
    let sha = worktree.keep(name, 1000).await.unwrap().unwrap();
    let blob = lab.run(&path, &["rev-parse", &format!("{sha}:new")]);
    lab.run(&path, &["update-ref", "-d", name]);
    for pack in packs().difference(&before) {
        fs::remove_file(pack).unwrap();
    }
    let loose = objects.join(&blob[..2]).join(&blob[2..]);
    fs::remove_file(&loose).unwrap();
    fs::write(&loose, "").unwrap();
    assert!(worktree.keep(name, 1000).await.is_err());
    assert_eq!(repository.tip(name).await.unwrap(), None);
    fs::remove_file(&loose).unwrap();
    let sha = worktree.keep(name, 1000).await.unwrap().unwrap();
    assert_eq!(lab.run(&path, &["show", &format!("{sha}:new")]), "hours of work");
}
