//! The service's git executes nothing that a repository or an agent can write, and tells its token to nobody else.

use crate::git_lab::{Lab, branch, known};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::Mutex,
};
use treewarden::git::{CommitRequest, Credential, Git, GitError, GitSettings, Ident, Repository};
use treewarden::model::{Probe, WorktreeStart};

fn script(path: &Path, content: &str) {
    fs::write(path, format!("#!/bin/sh\n{content}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn plain_commit(name: &str) -> CommitRequest {
    let ident = Ident { name: "bot".into(), email: "bot@example.org".into() };
    CommitRequest {
        message: "work".into(),
        author: ident.clone(),
        committer: ident,
        co_authors: vec![],
        branch: branch(name),
    }
}

/// Everything the service does with a worktree.
async fn all_verbs(lab: &Lab, repository: &Repository, name: &str) {
    let (path, worktree) = lab.worktree(repository, name).await;
    fs::write(path.join("f"), "touched\n").unwrap();
    let _ = worktree.status().await;
    let _ = worktree.ignored_work().await;
    let _ = worktree.hidden_changes().await;
    let _ = worktree.submodule_work().await;
    let _ = worktree.nested_repositories().await;
    let _ = worktree.keep("refs/treewarden/trash/x", 1000).await;
    let _ = worktree.commit_all(&plain_commit(name)).await;
    let main = lab.main_tip(repository).await;
    let _ = repository.merge_adds_nothing(&main, &main).await;
    let _ = repository.push(&branch(name), None).await;
    lab.fetch(repository).await;
}

#[tokio::test]
async fn nothing_named_in_the_shared_configuration_runs() {
    let lab = Lab::new();
    lab.people_commit(".gitattributes", "f filter=x diff=x merge=x\n");
    let repository = lab.repository().await;
    let pwn = lab.path("pwn");
    let evil = lab.path("evil");
    script(&evil, &format!("touch {}; cat", pwn.display()));
    let (agents, _) = lab.worktree(&repository, "agent").await;
    // BR-096
    for key in [
        "filter.x.clean",
        "filter.x.smudge",
        "filter.x.process",
        "diff.x.textconv",
        "diff.external",
        "merge.x.driver",
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "core.editor",
        "core.askPass",
        "credential.helper",
        "gpg.program",
        "uploadpack.packObjectsHook",
        "remote.origin.uploadpack",
        "remote.origin.receivepack",
    ] {
        lab.run(&agents, &["config", key, evil.to_str().unwrap()]);
    }
    let hooks = lab.path("hooks");
    fs::create_dir(&hooks).unwrap();
    for hook in ["post-checkout", "pre-commit", "pre-push", "reference-transaction", "post-index-change", "post-merge"]
    {
        script(&hooks.join(hook), &format!("touch {}", pwn.display()));
        fs::create_dir_all(repository.directory().join("hooks")).unwrap();
        fs::copy(hooks.join(hook), repository.directory().join("hooks").join(hook)).unwrap();
    }
    lab.run(&agents, &["config", "core.hooksPath", hooks.to_str().unwrap()]);
    let _ = fs::remove_file(&pwn);
    all_verbs(&lab, &repository, "b").await;
    assert!(!pwn.exists());
}

#[tokio::test]
async fn hooks_that_come_with_the_branch_do_not_run() {
    let lab = Lab::new();
    let pwn = lab.path("pwn");
    let people = lab.path("people");
    fs::create_dir(people.join(".githooks")).unwrap();
    for hook in ["post-checkout", "pre-commit", "pre-push", "reference-transaction"] {
        script(&people.join(".githooks").join(hook), &format!("touch {}", pwn.display()));
    }
    lab.run(&people, &["add", "."]);
    lab.people_commit("g", "1\n");
    let repository = lab.repository().await;
    // BR-097
    lab.run(repository.directory(), &["config", "core.hooksPath", ".githooks"]);
    all_verbs(&lab, &repository, "b").await;
    assert!(!pwn.exists());
}

#[tokio::test]
async fn configuration_inside_submodules_and_nested_repositories_is_not_obeyed() {
    let lab = Lab::new();
    let people = lab.path("people");
    lab.run(&lab.root, &["init", "-q", "s"]);
    lab.commit(&lab.path("s"), ".gitattributes", "s filter=x\n");
    lab.commit(&lab.path("s"), "s", "1\n");
    lab.run(&people, &["submodule", "-q", "add", lab.path("s").to_str().unwrap(), "sub"]);
    lab.people_commit("g", "1\n");
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    lab.run(&path, &["submodule", "-q", "update", "--init"]);
    let pwn = lab.path("pwn");
    let evil = lab.path("evil");
    script(&evil, &format!("touch {}; cat", pwn.display()));
    let sub = path.join("sub");
    for key in ["filter.x.clean", "core.fsmonitor", "core.hooksPath"] {
        lab.run(&sub, &["config", key, evil.to_str().unwrap()]);
    }
    fs::write(sub.join("s"), "2\n").unwrap();
    let _ = fs::remove_file(&pwn);
    known(worktree.status().await);
    assert_eq!(known(worktree.submodule_work().await), ["sub"]);
    worktree.keep("refs/treewarden/trash/x", 1000).await.unwrap();
    worktree.commit_all(&plain_commit("b")).await.unwrap();
    assert!(!pwn.exists());
    lab.try_run(&path, &["status"]);
    assert!(pwn.exists(), "the trap works for a plain git");
}

#[tokio::test]
async fn large_file_pointers_stay_pointers_when_the_filter_is_missing() {
    let lab = Lab::new();
    lab.people_commit(".gitattributes", "*.bin filter=lfs\n");
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{:064}\nsize 9\n", 1);
    lab.people_commit("a.bin", &pointer);
    let repository = lab.repository().await;
    lab.run(repository.directory(), &["config", "filter.lfs.process", "git-lfs-nope"]);
    lab.run(repository.directory(), &["config", "filter.lfs.required", "true"]);
    // BR-085
    let (path, worktree) = lab.worktree(&repository, "b").await;
    assert_eq!(fs::read_to_string(path.join("a.bin")).unwrap(), pointer);
    fs::write(path.join("a.bin"), &pointer).unwrap();
    assert!(known(worktree.status().await).is_clean());
}

#[tokio::test]
async fn replaced_objects_do_not_change_history() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = lab.worktree(&repository, "b").await;
    let work = lab.commit(&path, "x", "1\n");
    let main = lab.main_tip(&repository).await;
    lab.run(&path, &["replace", work.as_str(), main.as_str()]);
    assert!(!repository.merge_adds_nothing(&main, &work).await.unwrap());
    assert_eq!(repository.ahead_behind(&work, &main).await.unwrap(), (1, 0));
}

/// A union of both sides has what the branch deletes.
#[tokio::test]
async fn attributes_do_not_merge_away_what_a_branch_deletes() {
    let lab = Lab::new();
    lab.people_commit(".gitattributes", "list merge=union\n");
    lab.people_commit("list", "1\n2\n3\n");
    let repository = lab.repository().await;
    // As some versions of git do by themselves.
    lab.run(repository.directory(), &["config", "attr.tree", "refs/remotes/origin/main"]);
    let (path, _) = lab.worktree(&repository, "b").await;
    let work = lab.commit(&path, "list", "1\n3\n");
    lab.people_commit("list", "1\n2x\n3\n");
    lab.fetch(&repository).await;
    let main = lab.main_tip(&repository).await;
    assert!(!repository.merge_adds_nothing(&main, &work).await.unwrap());
}

#[tokio::test]
async fn an_unreadable_directory_is_a_doubt() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::create_dir(path.join("closed")).unwrap();
    fs::write(path.join("closed/data"), "x").unwrap();
    fs::set_permissions(path.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    // BR-013; the superuser can read everything.
    let readable = fs::read_dir(path.join("closed")).is_ok();
    match worktree.status().await {
        Probe::Known(status) => assert!(readable && status.untracked == 1),
        Probe::Unknown(why) => assert!(!readable && why.contains("closed"), "{why}"),
    }
    // It keeps nothing else from being committed, and is a doubt afterwards as it was before.
    if !readable {
        fs::write(path.join("open"), "o").unwrap();
        fs::write(path.join("f"), "2\n").unwrap();
        fs::set_permissions(path.join("f"), fs::Permissions::from_mode(0o000)).unwrap();
        worktree.commit_all(&plain_commit("b")).await.unwrap().unwrap();
        assert_eq!(lab.run(&path, &["show", "--name-status", "--format=", "HEAD"]), "A\topen");
        let left: Vec<_> = worktree.not_taken().await.unwrap().into_iter().map(|left| left.path).collect();
        assert_eq!(left, ["closed/", "f"].map(PathBuf::from));
        assert!(matches!(worktree.status().await, Probe::Unknown(_)));
    }
    fs::set_permissions(path.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

/// Answers every request with `answer` and remembers what was asked.
async fn server(answer: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 16384];
            let length = stream.read(&mut request).await.unwrap_or(0);
            log.lock().await.push(String::from_utf8_lossy(&request[..length]).into_owned());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (host, seen)
}

const WHO: &str = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const TOKEN: &str = "ghs_Secret123";

fn credential(host: &str) -> Credential {
    Credential { host: host.to_owned(), token: TOKEN.into() }
}

fn files_with_token(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            found.extend(files_with_token(&path));
        } else if meta.is_file() && fs::read(&path).unwrap().windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes()) {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn git_goes_through_the_proxy_it_is_given() {
    let lab = Lab::new();
    let (host, seen) = server(WHO).await;
    let proxy = vec![("http_proxy".to_owned(), format!("http://{host}").into())];
    let git = Git::new(GitSettings { proxy, ..GitSettings::new("git", lab.path("proxied")) }).unwrap();
    let repository = git.repository(lab.path("repos/far.git"));
    repository.ensure("http://github.example/octo/hello.git").await.unwrap();
    assert!(repository.remote_head(None).await.is_err());
    assert!(seen.lock().await[0].starts_with("GET http://github.example/octo/hello.git/info/refs"));
}

#[tokio::test]
async fn the_token_goes_to_its_host_and_nowhere_else() {
    let lab = Lab::new();
    let (host, seen) = server(WHO).await;
    let repository = lab.git.repository(lab.path("repos/h.git"));
    repository.ensure(&format!("http://{host}/octo/hello.git")).await.unwrap();
    assert!(matches!(repository.remote_head(None).await, Err(GitError::AuthFailed)));
    assert!(!seen.lock().await.iter().any(|request| request.contains("Authorization")));
    let error = repository.remote_head(Some(&credential(&host))).await.unwrap_err();
    assert_eq!(error, GitError::AuthFailed);
    assert!(!format!("{error:?}{error}").contains(TOKEN));
    use base64::Engine;
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{TOKEN}"));
    let wanted = format!("Authorization: Basic {basic}");
    assert!(seen.lock().await.iter().any(|request| request.contains(&wanted)));
    // BR-195
    assert_eq!(files_with_token(&lab.root), Vec::<std::path::PathBuf>::new());
    assert!(arguments_with(TOKEN).is_empty());
    seen.lock().await.clear();
    let other = repository.remote_head(Some(&credential("github.com"))).await;
    assert!(matches!(other, Err(GitError::Refused { .. })), "{other:?}");
    assert!(seen.lock().await.is_empty());
}

/// What any process on this machine was given as arguments that has these words in them.
fn arguments_with(words: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let arguments = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let shown = arguments.map(|arguments| String::from_utf8_lossy(&arguments).replace('\0', " "));
    shown.filter(|arguments| arguments.contains(words)).collect()
}

/// BR-195: looked at while git waits for the server, with the token sent.
#[tokio::test]
async fn nobody_sees_the_token_among_the_arguments_of_a_process() {
    let lab = Lab::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let repository = lab.git.repository(lab.path("repos/h.git"));
    repository.ensure(&format!("http://{host}/octo/hello.git")).await.unwrap();
    let (credential, place) = (credential(&host), host.clone());
    let fetch = async { assert!(repository.remote_head(Some(&credential)).await.is_err()) };
    let look = async move {
        // Whoever comes with the token is kept waiting, and what runs then is looked at.
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 16384];
            let length = stream.read(&mut request).await.unwrap_or(0);
            if String::from_utf8_lossy(&request[..length]).contains("Authorization") {
                assert!(!arguments_with(&place).is_empty(), "git is at work");
                assert_eq!(arguments_with(TOKEN), Vec::<String>::new());
                return;
            }
            let _ = stream.write_all(WHO.as_bytes()).await;
        }
    };
    tokio::join!(fetch, look);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let lab = Lab::new();
    let (target, reached) = server(WHO).await;
    let answer = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://{target}/x/info/refs\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let (host, seen) = server(answer.leak()).await;
    let repository = lab.git.repository(lab.path("repos/h.git"));
    repository.ensure(&format!("http://{host}/octo/hello.git")).await.unwrap();
    assert!(repository.remote_head(Some(&credential(&host))).await.is_err());
    assert!(!seen.lock().await.is_empty());
    assert!(reached.lock().await.is_empty());
}

#[tokio::test]
async fn the_password_script_answers_one_question_only() {
    let lab = Lab::new();
    let ask = |question: &str| {
        let mut script = std::process::Command::new(lab.path("state/askpass"));
        script.env_clear().env("TREEWARDEN_GIT_TOKEN", TOKEN);
        script.env("TREEWARDEN_GIT_PLACE", "https://x-access-token@github.com").arg(question);
        let output = script.output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    let right = "Password for 'https://x-access-token@github.com': ";
    assert_eq!(ask(right).as_deref(), Some("ghs_Secret123\n"));
    for wrong in [
        "Password for 'https://x-access-token@evil.example': ",
        "Password for 'http://x-access-token@github.com': ",
        "Password for 'https://x-access-token@github.com.evil.example': ",
        "Username for 'https://github.com': ",
        "",
    ] {
        assert_eq!(ask(wrong), None, "{wrong}");
    }
    let mode = fs::metadata(lab.path("state/askpass")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}

#[tokio::test]
async fn only_allowed_transports_are_spoken() {
    let lab = Lab::new();
    let strict = Git::new(GitSettings::new("git", lab.path("strict"))).unwrap();
    let repository = strict.repository(lab.path("repos/x.git"));
    for url in [lab.path("r.git").to_str().unwrap(), "ssh://h/x", "ext::sh -c true", "https://user:pass@h/x"] {
        assert!(matches!(repository.ensure(url).await, Err(GitError::Refused { .. })), "{url}");
    }
    // Even when the file is changed behind its back.
    repository.ensure("https://127.0.0.1:1/x.git").await.unwrap();
    let insteadof = format!("url.{}.insteadOf", lab.path("r.git").display());
    lab.run(repository.directory(), &["config", &insteadof, "https://127.0.0.1:1/x.git"]);
    assert!(repository.remote_head(None).await.is_err());
}

/// BR-073, BR-082: names from outside reach git as names.
#[tokio::test]
async fn odd_branch_names_are_only_names() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let start = WorktreeStart::NewBranch(lab.main_tip(&repository).await);
    for (number, name) in ["$(touch pwn)", "`id`", "a;b", "修复🚀", "x&&y", "'q'", "--".trim_start_matches('-')]
        .into_iter()
        .filter(|name| treewarden::model::BranchName::new(name).is_ok())
        .enumerate()
    {
        let path = lab.path("worktrees").join(number.to_string());
        repository.add_worktree(&path, &branch(name), &start).await.unwrap();
        assert_eq!(repository.worktree(&path).head().await.unwrap().branch, Some(branch(name)));
        repository.push(&branch(name), None).await.unwrap();
        assert!(repository.remote_branch(&branch(name), None).await.unwrap().is_some());
    }
    for name in ["-x", "--lock", "@", "HEAD", "a..b", "@{-1}", "x:y"] {
        assert!(treewarden::model::BranchName::new(name).is_err(), "{name}");
    }
}

/// What an agent that reaches the repository may leave there for everybody else.
#[tokio::test]
async fn what_no_repository_of_ours_has_is_taken_out_before_it_is_believed() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = lab.worktree(&repository, "b").await;
    let own = lab.commit(&path, "own", "1\n");
    let main = lab.main_tip(&repository).await;
    let at = |name: &str| repository.directory().join(name);
    lab.run(repository.directory(), &["-c", "core.commitGraph=true", "commit-graph", "write", "--reachable"]);
    assert!(at("objects/info/commit-graph").is_file());
    fs::create_dir_all(at("objects/info/commit-graphs")).unwrap();
    fs::write(at("objects/info/alternates"), "/nonexistent\n").unwrap();
    // By this, main would come from the branch.
    fs::create_dir_all(at("info")).unwrap();
    fs::write(at("info/grafts"), format!("{main} {own}\n")).unwrap();
    fs::write(at("HEAD"), "garbage\n").unwrap();
    assert!(!repository.is_ancestor(&own, &main).await.unwrap());
    for name in ["objects/info/commit-graph", "objects/info/commit-graphs", "objects/info/alternates", "info/grafts"] {
        assert!(!at(name).exists(), "{name}");
    }
    lab.fetch(&repository).await;
    assert_eq!(lab.run(&path, &["log", "-1", "--format=%H"]), own.as_str());
}
