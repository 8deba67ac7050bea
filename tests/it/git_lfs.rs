//! Git LFS with the real program where it is installed, and without it.

use crate::git_lab::{Lab, branch, known};
use crate::isolation::Place;
use std::{fs, path::PathBuf, time::Duration};
use treewarden::git::{CommitRequest, Git, GitSettings, Ident, PushOutcome};
use treewarden::isolation::{CreateRequest, Furnishing, Provider};
use treewarden::model::*;

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\n";

/// Whether the program is there: the gate demands it, and elsewhere a test that cannot be what it should be says so.
pub fn installed() -> bool {
    let there =
        std::process::Command::new("git-lfs").arg("version").output().is_ok_and(|output| output.status.success());
    assert!(there || std::env::var_os("TEST_GIT_LFS").is_none(), "git-lfs is not installed");
    if !there {
        eprintln!("git-lfs is not installed; only the fallback is tested");
    }
    there
}

/// `*.bin` is kept by LFS, and `a.bin` holds `hello`; its object is on the remote.
async fn place() -> Place {
    let place = Place::new().await;
    let (lab, people) = (&place.lab, place.lab.path("people"));
    lab.run(&people, &["lfs", "install", "--local", "--skip-repo"]);
    fs::write(people.join(".gitattributes"), "*.bin filter=lfs diff=lfs merge=lfs -text\n").unwrap();
    fs::write(people.join("a.bin"), "hello\n").unwrap();
    lab.run(&people, &["add", "."]);
    lab.run(&people, &["commit", "-qm", "lfs"]);
    lab.run(&people, &["lfs", "push", "origin", "main"]);
    lab.run(&people, &["push", "-q", "origin", "main"]);
    lab.fetch(&place.repository).await;
    place
}

async fn made(place: &Place, name: &str) -> (PathBuf, Lfs) {
    let furnishing = Furnishing { lfs: true, ..Furnishing::default() };
    let request = CreateRequest { furnishing, ..place.request(name).await };
    let furnished = place.provider.create(&place.repository, &request).await.unwrap();
    (request.path, furnished.lfs)
}

fn commit(name: &str) -> CommitRequest {
    let ident = Ident { name: "T".into(), email: "t@example.org".into() };
    let (author, committer) = (ident.clone(), ident);
    CommitRequest { message: "x".into(), author, committer, co_authors: vec![], branch: branch(name) }
}

#[tokio::test]
async fn files_are_there_commits_have_pointers_and_pushes_bring_objects() {
    if !installed() {
        return;
    }
    let place = place().await;
    let (path, told) = made(&place, "b").await;
    assert_eq!(told, Lfs::default());
    assert_eq!(fs::read_to_string(path.join("a.bin")).unwrap(), "hello\n");
    let worktree = place.repository.worktree(&path);
    assert!(known(worktree.status().await).is_clean());
    assert!(!place.repository.restore_config().await.unwrap(), "nothing is left in the configuration");

    fs::write(path.join("a.bin"), "changed\n").unwrap();
    fs::write(path.join("new.bin"), "new\n").unwrap();
    fs::write(path.join("plain"), "p\n").unwrap();
    assert!(worktree.kept_from_lfs().await.unwrap().is_empty());
    worktree.commit_all(&commit("b")).await.unwrap().unwrap();
    assert!(known(worktree.status().await).is_clean());
    for (file, pointer) in [("a.bin", true), ("new.bin", true), ("plain", false)] {
        let text = place.lab.run(place.repository.directory(), &["show", &format!("b:{file}")]);
        assert_eq!(text.starts_with(POINTER.trim_end()), pointer, "{file}: {text}");
    }
    assert!(worktree.push_lfs(&branch("b"), None).await.unwrap().is_empty());
    assert!(matches!(place.repository.push(&branch("b"), None).await.unwrap(), PushOutcome::Pushed(_)));
    // Somebody else gets them.
    let people = place.lab.path("people");
    place.lab.run(&people, &["fetch", "-q", "origin"]);
    place.lab.run(&people, &["checkout", "-q", "origin/b"]);
    assert_eq!(fs::read_to_string(people.join("new.bin")).unwrap(), "new\n");

    // What a fast-forward brings are pointers, until they are asked for.
    let tip = place.lab.commit(&people, "a.bin", "newest\n");
    place.lab.run(&people, &["lfs", "push", "origin", "HEAD"]);
    place.lab.run(&people, &["push", "-q", "origin", "HEAD:refs/heads/b"]);
    place.lab.fetch(&place.repository).await;
    worktree.fast_forward(&branch("b"), &tip).await.unwrap();
    assert!(fs::read_to_string(path.join("a.bin")).unwrap().starts_with(POINTER));
    assert_eq!(worktree.pull_lfs(None, Duration::from_secs(60)).await.unwrap(), Lfs::default());
    assert_eq!(fs::read_to_string(path.join("a.bin")).unwrap(), "newest\n");
    assert!(known(worktree.status().await).is_clean());
    place.remove(&place.removal("b")).await.unwrap();
}

#[tokio::test]
async fn a_text_like_a_pointer_is_a_text_and_a_pointer_that_leads_nowhere_is_named() {
    if !installed() {
        return;
    }
    let place = place().await;
    let (path, _) = made(&place, "b").await;
    let worktree = place.repository.worktree(&path);
    let to = |digit: &str| format!("{POINTER}oid sha256:{}\nsize 9\n", digit.repeat(64));
    fs::write(path.join("pointer.txt"), to("2")).unwrap();
    fs::write(path.join("new.bin"), "new\n").unwrap();
    // The remote has what this one names, whoever lost it here.
    fs::write(path.join("again.bin"), place.lab.run(place.repository.directory(), &["show", "b:a.bin"]) + "\n")
        .unwrap();
    worktree.commit_all(&commit("b")).await.unwrap().unwrap();
    let objects = place.repository.directory().join("lfs/objects");
    fs::remove_dir_all(objects.join("58")).unwrap();
    assert!(worktree.push_lfs(&branch("b"), None).await.unwrap().is_empty());
    assert!(matches!(place.repository.push(&branch("b"), None).await.unwrap(), PushOutcome::Pushed(_)));
    for digit in ["3", "4"] {
        fs::write(path.join(format!("{digit}.bin")), to(digit)).unwrap();
    }
    worktree.commit_all(&commit("b")).await.unwrap().unwrap();
    let named = worktree.push_lfs(&branch("b"), None).await.unwrap();
    assert_eq!(named, ["3.bin", "4.bin"].map(PathBuf::from));
    // Nor where none was ever made here.
    fs::remove_dir_all(&objects).unwrap();
    assert_eq!(worktree.push_lfs(&branch("b"), None).await.unwrap(), named);
}

#[tokio::test]
async fn everybodys_git_makes_pointers_and_what_is_none_is_seen_before_it_goes_out() {
    if !installed() {
        return;
    }
    let place = place().await;
    let (path, _) = made(&place, "b").await;
    let (worktree, lab) = (place.repository.worktree(&path), &place.lab);
    let blobs = async || worktree.blobs_for_lfs_in_commits().await.unwrap();
    for file in ["a.bin", "new.bin"] {
        fs::write(path.join(file), "by an agent\n").unwrap();
        fs::write(path.join("empty.bin"), "").unwrap();
        lab.run(&path, &["add", "-A"]);
        lab.run(&path, &["commit", "-qm", file]);
        assert!(lab.run(&path, &["show", &format!("HEAD:{file}")]).starts_with(POINTER.trim_end()), "{file}");
    }
    assert!(blobs().await.is_empty());
    let raw = |file: &str, content: &str| {
        let without = ["-c", "filter.lfs.process=", "-c", "filter.lfs.clean=", "-c", "filter.lfs.required=false"];
        fs::write(path.join(file), content).unwrap();
        lab.run(&path, &[&without[..], &["add", "--", file]].concat());
        lab.run(&path, &[&without[..], &["commit", "-qm", "raw"]].concat());
    };
    raw("raw.bin", "raw\n");
    raw("plain", "p\n");
    assert_eq!(blobs().await, [PathBuf::from("raw.bin")]);
    // Taken out again it is in the history all the same.
    lab.run(&path, &["rm", "-qf", "raw.bin"]);
    lab.run(&path, &["commit", "-qm", "out"]);
    assert_eq!(blobs().await, [PathBuf::from("raw.bin")]);
    // What the remote has is nobody's news, under any name and by a merge.
    lab.run(&path, &["push", "-q", "--no-verify", "origin", "HEAD^:refs/heads/main"]);
    lab.fetch(&place.repository).await;
    assert!(blobs().await.is_empty());
    lab.run(&path, &["reset", "-q", "--hard", "HEAD^"]);
    lab.run(&path, &["mv", "raw.bin", "moved.bin"]);
    lab.run(&path, &["commit", "-qm", "moved"]);
    assert!(blobs().await.is_empty());
    lab.run(&path, &["reset", "-q", "--hard", "HEAD~3"]);
    lab.commit(&path, "other", "o\n");
    lab.run(&path, &["merge", "-q", "--no-edit", "origin/main"]);
    assert!(blobs().await.is_empty());
}

#[tokio::test]
async fn what_lfs_keeps_may_be_larger_than_other_files() {
    if !installed() {
        return;
    }
    let place = place().await;
    let (path, _) = made(&place, "b").await;
    let worktree = place.repository.worktree(&path);
    for (name, bytes) in [("large.bin", 101 << 20), ("larger.bin", 6 << 30)] {
        fs::File::create(path.join(name)).unwrap().set_len(bytes).unwrap();
    }
    worktree.commit_all(&commit("b")).await.unwrap().unwrap();
    assert!(place.lab.run(&path, &["show", "HEAD:large.bin"]).starts_with(POINTER.trim_end()));
    let why = NotTakenBecause::TooLarge { bytes: 6 << 30, most: 5 << 30 };
    assert_eq!(worktree.not_taken().await.unwrap(), [NotTaken { path: "larger.bin".into(), why }]);
}

#[tokio::test]
async fn an_object_that_is_nowhere_is_told_and_a_lfsconfig_leads_nowhere() {
    if !installed() {
        return;
    }
    let place = place().await;
    let people = place.lab.path("people");
    let config = "[lfs]\n\turl = http://127.0.0.1:9/elsewhere\n\tfetchexclude = *\n\tskipdownloaderrors = true\n";
    fs::write(people.join(".lfsconfig"), config).unwrap();
    place.lab.run(&people, &["add", "."]);
    place.lab.run(&people, &["commit", "-qm", "elsewhere"]);
    place.lab.run(&people, &["push", "-q", "origin", "main"]);
    place.lab.fetch(&place.repository).await;
    let (path, told) = made(&place, "b").await;
    assert_eq!((told, fs::read_to_string(path.join("a.bin")).unwrap()), (Lfs::default(), "hello\n".to_owned()));

    let lost = format!("{POINTER}oid sha256:{}\nsize 9\n", "1".repeat(64));
    fs::write(people.join("lost.bin"), lost).unwrap();
    place.lab.run(&people, &["add", "."]);
    place.lab.run(&people, &["commit", "-qm", "lost"]);
    place.lab.run(&people, &["push", "-q", "--no-verify", "origin", "main"]);
    place.lab.fetch(&place.repository).await;
    let (path, told) = made(&place, "c").await;
    assert!(told.failed.is_some());
    assert!(fs::read_to_string(path.join("lost.bin")).unwrap().starts_with(POINTER));
    assert!(known(place.repository.worktree(&path).status().await).is_clean());
}

#[tokio::test]
async fn nothing_that_an_agent_left_is_written_over() {
    if !installed() {
        return;
    }
    let place = place().await;
    let people = place.lab.path("people");
    fs::create_dir_all(people.join("d")).unwrap();
    fs::write(people.join("d/.gitattributes"), "*.dat filter=lfs diff=lfs merge=lfs -text\n").unwrap();
    fs::write(people.join("d/x.dat"), "x\n").unwrap();
    place.lab.run(&people, &["add", "."]);
    place.lab.run(&people, &["commit", "-qm", "d"]);
    place.lab.run(&people, &["lfs", "push", "origin", "main"]);
    place.lab.run(&people, &["push", "-q", "origin", "main"]);
    place.lab.fetch(&place.repository).await;
    let (path, told) = made(&place, "b").await;
    assert_eq!((told, fs::read_to_string(path.join("d/x.dat")).unwrap()), (Lfs::default(), "x\n".to_owned()));
    let worktree = place.repository.worktree(&path);
    let patience = Duration::from_secs(60);
    let refused = |pulled: Result<Lfs, _>, why: &str| {
        let error: treewarden::git::GitError = pulled.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    };
    place.lab.run(&path, &["update-index", "--skip-worktree", "a.bin"]);
    fs::write(path.join("a.bin"), "mine\n").unwrap();
    refused(worktree.pull_lfs(None, patience).await, "hidden");
    assert_eq!(fs::read_to_string(path.join("a.bin")).unwrap(), "mine\n");
    place.lab.run(&path, &["update-index", "--no-skip-worktree", "a.bin"]);
    place.lab.run(&path, &["checkout", "-q", "a.bin"]);
    let outside = place.lab.path("outside");
    fs::rename(path.join("d"), &outside).unwrap();
    fs::remove_file(outside.join("x.dat")).unwrap();
    std::os::unix::fs::symlink(&outside, path.join("d")).unwrap();
    refused(worktree.pull_lfs(None, patience).await, "a link");
    assert!(!outside.join("x.dat").exists());
}

/// Attributes and other repositories may lie in any directory.
#[tokio::test]
async fn what_a_checkout_needs_is_found_wherever_it_is() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let asked = async || {
        lab.fetch(&repository).await;
        repository.needs(&lab.main_tip(&repository).await).await.unwrap()
    };
    assert_eq!(asked().await, CheckoutNeeds::NONE);
    lab.people_commit(".gitattributes", "*.txt text\n");
    assert_eq!(asked().await, CheckoutNeeds::NONE);
    let people = lab.path("people");
    let tip = lab.run(&people, &["rev-parse", "HEAD"]);
    lab.run(&people, &["update-index", "--add", "--cacheinfo", &format!("160000,{},z/deep/module", tip.trim())]);
    lab.people_commit("other", "o\n");
    assert_eq!(asked().await, CheckoutNeeds { lfs: false, submodules: true });
    fs::create_dir_all(lab.path("people/a/b")).unwrap();
    lab.people_commit("a/b/.gitattributes", "*.bin filter=lfs\n");
    assert_eq!(asked().await, CheckoutNeeds::ALL);
    lab.run(&people, &["rm", "-q", "--cached", "z/deep/module"]);
    lab.people_commit("other", "p\n");
    assert_eq!(asked().await, CheckoutNeeds { lfs: true, submodules: false });
    // A dozen objects that name each other ten times each stand for more files than anybody could count.
    let mut tree = lab.run(&people, &["rev-parse", "HEAD^{tree}"]).trim().to_owned();
    for _ in 0..12 {
        let entries: String = (0..10).map(|number| format!("040000 tree {tree}\t{number}\n")).collect();
        fs::write(lab.path("entries"), entries).unwrap();
        let mut made = std::process::Command::new("git");
        made.arg("-C").arg(&people).arg("mktree").stdin(fs::File::open(lab.path("entries")).unwrap());
        tree = String::from_utf8(made.output().unwrap().stdout).unwrap().trim().to_owned();
    }
    let bomb = lab.run(&people, &["commit-tree", "-p", "HEAD", "-m", "bomb", &tree]);
    lab.run(&people, &["push", "-q", "origin", &format!("{}:refs/heads/bomb", bomb.trim())]);
    lab.fetch(&repository).await;
    let tip = repository.tip("refs/remotes/origin/bomb").await.unwrap().unwrap();
    let needs = tokio::time::timeout(Duration::from_secs(20), repository.needs(&tip)).await;
    assert_eq!(needs.expect("it comes to an end").unwrap(), CheckoutNeeds { lfs: true, submodules: false });
}

/// BR-085.
#[tokio::test]
async fn without_the_program_pointers_stay_and_nothing_becomes_a_blob() {
    let lab = Lab::new();
    let people = lab.path("people");
    fs::write(people.join(".gitattributes"), "*.bin filter=lfs\n").unwrap();
    fs::write(people.join("a.bin"), format!("{POINTER}oid sha256:{}\nsize 9\n", "1".repeat(64))).unwrap();
    lab.run(&people, &["add", "."]);
    lab.people_commit("g", "1\n");
    let settings = GitSettings { local_remotes: true, ..GitSettings::new("git", lab.path("without")) };
    let git = Git::new(GitSettings { lfs: lab.path("nowhere/git-lfs"), ..settings }).unwrap();
    let repository = git.repository(lab.path("repos/c.git"));
    repository.ensure(lab.path("r.git").to_str().unwrap()).await.unwrap();
    lab.fetch(&repository).await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let told = worktree.pull_lfs(None, Duration::from_secs(60)).await.unwrap();
    assert_eq!(told, Lfs { without_program: 1, failed: None });
    assert!(known(worktree.status().await).is_clean());

    fs::write(path.join("a.bin"), "changed\n").unwrap();
    fs::write(path.join("new.bin"), "new\n").unwrap();
    fs::write(path.join("plain"), "p\n").unwrap();
    worktree.commit_all(&commit("b")).await.unwrap().unwrap();
    assert_eq!(lab.run(&path, &["show", "--format=", "--name-only", "HEAD"]), "plain");
    assert_eq!(worktree.kept_from_lfs().await.unwrap(), ["a.bin", "new.bin"].map(PathBuf::from));
    let status = known(worktree.status().await);
    assert_eq!((status.tracked, status.untracked), (1, 1));
    // Only such files: there is nothing to commit.
    assert_eq!(worktree.commit_all(&commit("b")).await.unwrap(), None);
    // What is kept for safety is kept whole.
    let kept = worktree.keep("refs/treewarden/x", 1000).await.unwrap().unwrap();
    assert_eq!(lab.run(repository.directory(), &["show", &format!("{kept}:new.bin")]), "new");
    assert!(worktree.push_lfs(&branch("b"), None).await.unwrap().is_empty());
    // What was committed by others is no pointer without the program, either.
    fs::write(path.join("empty.bin"), "").unwrap();
    lab.run(&path, &["add", "new.bin", "empty.bin"]);
    lab.run(&path, &["commit", "-qm", "blob"]);
    assert_eq!(worktree.blobs_for_lfs_in_commits().await.unwrap(), [PathBuf::from("new.bin")]);
}

/// What GitHub's side of LFS is asked, with the `Authorization` that came along.
type Asked = std::sync::Arc<std::sync::Mutex<Vec<Option<String>>>>;

/// A server that hands out one object, to whoever has the token.
async fn server(oid: &'static str, content: &'static str) -> (String, Asked) {
    use axum::{Json, Router, http::HeaderMap, http::StatusCode, response::IntoResponse, routing};
    let asked = Asked::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (seen, href) = (asked.clone(), format!("http://{host}/object"));
    let batch = move |headers: HeaderMap| async move {
        let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
        seen.lock().unwrap().push(authorization.clone());
        if authorization.is_none() {
            return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Basic realm=\"lfs\"")]).into_response();
        }
        let actions = serde_json::json!({ "download": { "href": href } });
        let objects = serde_json::json!([{ "oid": oid, "size": content.len(), "actions": actions }]);
        Json(serde_json::json!({ "transfer": "basic", "objects": objects })).into_response()
    };
    let app = Router::new()
        .route("/octo/hello.git/info/lfs/objects/batch", routing::post(batch))
        .route("/object", routing::get(move || async move { content }));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (host, asked)
}

#[tokio::test]
async fn the_token_is_for_the_remotes_host() {
    if !installed() {
        return;
    }
    const HELLO: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    let place = Place::new().await;
    let people = place.lab.path("people");
    fs::write(people.join(".gitattributes"), "*.bin filter=lfs\n").unwrap();
    fs::write(people.join("a.bin"), format!("{POINTER}oid sha256:{HELLO}\nsize 6\n")).unwrap();
    place.lab.run(&people, &["add", "."]);
    place.lab.people_commit("g", "1\n");
    place.lab.fetch(&place.repository).await;
    let (path, worktree) = place.lab.worktree(&place.repository, "b").await;
    let (host, asked) = server(HELLO, "hello\n").await;
    place.repository.ensure(&format!("http://{host}/octo/hello.git")).await.unwrap();
    let credential = |host: &str| Credential { host: host.to_owned(), token: "tok".into() };
    let patience = Duration::from_secs(60);
    assert!(worktree.pull_lfs(Some(&credential("elsewhere.example")), patience).await.is_err());
    assert!(asked.lock().unwrap().is_empty());
    assert!(worktree.pull_lfs(None, patience).await.unwrap().failed.is_some());
    assert!(asked.lock().unwrap().iter().all(Option::is_none));
    assert_eq!(worktree.pull_lfs(Some(&credential(&host)), patience).await.unwrap(), Lfs::default());
    assert_eq!(fs::read_to_string(path.join("a.bin")).unwrap(), "hello\n");
    // `x-access-token:tok`
    assert_eq!(asked.lock().unwrap().last().unwrap().as_deref(), Some("Basic eC1hY2Nlc3MtdG9rZW46dG9r"));
    assert!(known(worktree.status().await).is_clean());
}
