//! Removing a large worktree beside `git worktree remove`: the same files, made anew for each, in turns. What is timed of ours
//! is the provider's removal, after which the journal is closed and everybody is answered; the look at the files before the
//! decision, and the last one from the trash, are printed beside it. One takes place before anybody waits for a removal that was
//! decided, the other when nobody does any more.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use treewarden::{
    git::{FetchRequest, Git, GitSettings, Repository, Uncommitted},
    isolation::{CreateRequest, Furnishing, LastLook, Maker, Provider, RemoveRequest, WorktreeProvider},
    model::*,
};

const DIRECTORIES: usize = 8_000;
const IN_EACH: usize = 10;
const ROUNDS: usize = 3;

pub async fn measure() {
    let root = std::env::temp_dir().join(format!("treewarden-bench-removal-{}", std::process::id()));
    std::fs::create_dir_all(&root).expect("a directory");
    let root = root.canonicalize().expect("a directory");
    let origin = root.join("origin.git");
    write_large(&origin);
    let settings = GitSettings { local_remotes: true, ..GitSettings::new("git", root.join("state")) };
    let repository = Git::new(settings).expect("git").repository(root.join("repos/large.git"));
    repository.ensure(origin.to_str().expect("a path")).await.expect("a repository");
    repository.fetch(&FetchRequest { branches: true, extra: Vec::new() }, None).await.expect("a fetch");
    let provider = WorktreeProvider::new(&root.join("worktrees"), &root.join("trash")).expect("a provider");
    let (mut ours, mut plain, mut looks, mut last_looks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Whoever comes first finds less in memory.
        for is_ours in if round % 2 == 0 { [true, false] } else { [false, true] } {
            let request = made(&repository, &provider, round, is_ours).await;
            // One that goes was made long ago: its files are on the disk.
            rustix::fs::sync();
            if is_ours {
                let [look, removal, last] = remove(&repository, &provider, &request).await;
                looks.push(look);
                ours.push(removal);
                last_looks.push(last);
            } else {
                plain.push(remove_plainly(&repository, &request.path));
            }
        }
    }
    let (ours, plain, look) = (median(ours), median(plain), median(looks));
    let share = |time: Duration| 100.0 * time.as_secs_f64() / plain.as_secs_f64();
    println!("removal of a worktree of {} files, {ROUNDS} rounds, medians:", DIRECTORIES * IN_EACH);
    println!("  git worktree remove:              {:>8.1} ms", plain.as_secs_f64() * 1e3);
    println!("  ours, until it returns:           {:>8.1} ms, {:.1} % of that", ours.as_secs_f64() * 1e3, share(ours));
    println!(
        "  the look before the decision:     {:>8.1} ms, both together {:.0} % of that",
        look.as_secs_f64() * 1e3,
        share(look + ours)
    );
    println!("  the last look, in the background: {:>8.1} ms", median(last_looks).as_secs_f64() * 1e3);
    let _ = std::fs::remove_dir_all(&root);
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

async fn made(repository: &Repository, provider: &WorktreeProvider, round: usize, is_ours: bool) -> RemoveRequest {
    let branch = BranchName::new(&format!("b{round}-{is_ours}")).expect("a name");
    let path = provider.base().join("octo/large").join(branch.as_str());
    let tip = repository.tip("refs/remotes/origin/main").await.expect("git").expect("a commit");
    let request = CreateRequest {
        path: path.clone(),
        maker: Maker::Us,
        uncommitted: Uncommitted::Refuse,
        branch: branch.clone(),
        start: WorktreeStart::NewBranch(tip.clone()),
        furnishing: Furnishing::default(),
    };
    provider.create(repository, &request).await.expect("a worktree");
    let environment = EnvironmentId(uuid::Uuid::now_v7());
    RemoveRequest { environment, path, maker: Maker::Us, branch, delete_branch_at: Some(tip) }
}

/// How long the look, the removal and the last look took.
async fn remove(repository: &Repository, provider: &WorktreeProvider, request: &RemoveRequest) -> [Duration; 3] {
    let worktree = repository.worktree(&request.path);
    let head = request.delete_branch_at.clone().expect("a commit");
    let began = Instant::now();
    let (status, ignored) = worktree.uncommitted().await.known().expect("a status").clone();
    assert!(status.is_clean() && ignored.files == 0);
    assert!(!worktree.hidden_changes().await.known().expect("an index"));
    assert!(worktree.submodule_work().await.known().expect("an index").is_empty());
    assert!(worktree.nested_repositories().await.known().expect("files").is_empty());
    provider.survey(&request.path).await.expect("files");
    let look = began.elapsed();

    let began = Instant::now();
    assert!(provider.remove(repository, request).await.expect("a removal").branch_deleted);
    let removal = began.elapsed();
    assert!(!request.path.exists());

    let began = Instant::now();
    let keep_under = format!("refs/treewarden/trash/{}", request.environment);
    let look_again = LastLook { environment: request.environment, path: request.path.clone(), head, keep_under };
    assert_eq!(provider.look_again(repository, &look_again).await.expect("a look"), None);
    let last = began.elapsed();
    provider.release(repository, request.environment).await.expect("a release");
    // What follows is not to share the disk with it.
    provider.empty_trash().await.expect("an empty trash");
    [look, removal, last]
}

fn remove_plainly(repository: &Repository, path: &Path) -> Duration {
    git(repository.directory(), &["worktree", "unlock", path.to_str().expect("a path")]);
    let began = Instant::now();
    git(repository.directory(), &["worktree", "remove", path.to_str().expect("a path")]);
    began.elapsed()
}

fn git(directory: &Path, arguments: &[&str]) {
    let done = Command::new("git").arg("-C").arg(directory).args(arguments).stdout(Stdio::null()).status();
    assert!(done.is_ok_and(|status| status.success()), "git {arguments:?}");
}

/// One commit, straight into a bare repository.
fn write_large(origin: &Path) {
    use std::io::Write;
    let text = origin.to_str().expect("a path");
    git(Path::new("/"), &["init", "-q", "--bare", "--initial-branch=main", text]);
    let import =
        Command::new("git").arg("-C").arg(origin).args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn();
    let mut import = import.expect("git");
    let mut stream = std::io::BufWriter::new(import.stdin.take().expect("a pipe"));
    write!(stream, "commit refs/heads/main\ncommitter B <b@localhost> 0 +0000\ndata 1\nx\n").expect("a stream");
    for directory in 0..DIRECTORIES {
        for file in 0..IN_EACH {
            let content = format!("{directory} {file}\n");
            let name = format!("part{}/dir{directory}/file{file}.txt", directory % 40);
            write!(stream, "M 100644 inline {name}\ndata {}\n{content}\n", content.len()).expect("a stream");
        }
    }
    drop(stream);
    assert!(import.wait().expect("git").success());
}
