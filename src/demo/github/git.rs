//! The stand-in's own git: bare repositories under one directory, named by repository id, changed by plumbing commands.
//!
//! The only file here that runs `git` besides `http::git` (which runs `git http-backend` with the command made here). Knows
//! nothing of issues or pull requests.

use super::{model::DiffStat, refusal::Refusal};
use std::{collections::BTreeMap, path::PathBuf, process::Stdio};
use tokio::{io::AsyncWriteExt, process::Command};

/// Variables that would point git elsewhere when the tests themselves run below a git hook.
const FOREIGN_VARIABLES: [&str; 9] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_NAMESPACE",
];

/// Refuses pushes to protected branches, and workflow files from Apps that may not write them, in GitHub's words.
const UPDATE_HOOK: &str = r#"#!/bin/sh
if [ -f protected ] && grep -Fxq -- "$1" protected; then
    echo "error: GH006: Protected branch update failed for $1." >&2
    exit 1
fi
case "$3" in *[!0]*) ;; *) exit 0 ;; esac
if [ -n "$STANDIN_NO_WORKFLOWS" ] && [ -n "$(git rev-list -n 1 "$3" --not --all -- .github/workflows)" ]; then
    echo "refusing to allow a GitHub App to create or update workflow without \`workflows\` permission" >&2
    exit 1
fi
"#;

/// Who a commit is by.
#[derive(Clone, Debug)]
pub(super) struct Ident {
    pub name: String,
    pub email: String,
}

/// What one commit contains.
#[derive(Clone, Debug)]
pub(super) struct CommitInfo {
    pub sha: String,
    pub author: Ident,
    /// RFC 3339.
    pub date: String,
    pub message: String,
}

pub(super) struct Git {
    root: PathBuf,
}

impl Git {
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where all repositories are.
    pub fn root(&self) -> &std::path::Path {
        &self.root
    }

    pub fn dir(&self, repository: i64) -> PathBuf {
        self.root.join(format!("{repository}.git"))
    }

    /// A git command that reads no configuration but the repository's own.
    pub fn command(&self) -> Command {
        let mut command = Command::new("git");
        for name in FOREIGN_VARIABLES {
            command.env_remove(name);
        }
        command
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .kill_on_drop(true);
        command
    }

    pub async fn init(&self, repository: i64, default_branch: &str) -> Result<(), Refusal> {
        let dir = self.dir(repository);
        let mut command = self.command();
        command.args(["init", "--quiet", "--bare", "--template=", "--initial-branch", default_branch]).arg(&dir);
        succeed(command, None).await?;
        let config = [
            "[http]",
            "receivepack = true",
            "[receive]",
            "hideRefs = refs/pull",
            "autogc = false",
            "denyDeleteCurrent = refuse",
            "[uploadpack]",
            "allowAnySHA1InWant = true",
            "[transfer]",
            "hideRefs = refs/standin",
            "[gc]",
            "auto = 0",
        ];
        append(&dir.join("config"), &(config.join("\n") + "\n")).await?;
        let hook = dir.join("hooks/update");
        tokio::fs::create_dir_all(dir.join("hooks")).await.map_err(io)?;
        tokio::fs::write(&hook, UPDATE_HOOK).await.map_err(io)?;
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        tokio::fs::set_permissions(&hook, executable).await.map_err(io)
    }

    pub async fn remove(&self, repository: i64) -> Result<(), Refusal> {
        tokio::fs::remove_dir_all(self.dir(repository)).await.map_err(io)
    }

    pub async fn set_protected(&self, repository: i64, refs: &[String]) -> Result<(), Refusal> {
        tokio::fs::write(self.dir(repository).join("protected"), refs.join("\n") + "\n").await.map_err(io)
    }

    pub async fn set_head(&self, repository: i64, branch: &str) -> Result<(), Refusal> {
        self.run(repository, &["symbolic-ref", "HEAD", &format!("refs/heads/{branch}")]).await.map(drop)
    }

    /// All branches with their commits.
    pub async fn branches(&self, repository: i64) -> Result<BTreeMap<String, String>, Refusal> {
        let text = self.run(repository, &["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/"]).await?;
        let entries = text.lines().filter_map(|line| {
            let (sha, name) = line.split_once(' ')?;
            Some((name.strip_prefix("refs/heads/")?.to_owned(), sha.to_owned()))
        });
        Ok(entries.collect())
    }

    /// The commit a revision names, None when there is none.
    pub async fn commit_of(&self, repository: i64, revision: &str) -> Result<Option<String>, Refusal> {
        let spec = format!("{revision}^{{commit}}");
        let output = self.output(repository, &["rev-parse", "--verify", "--quiet", "--end-of-options", &spec]).await?;
        Ok(output.status.success().then(|| text_of(&output.stdout)))
    }

    /// Writes a commit on a branch: `files` with content are written, those without are deleted. `from` is the start of
    /// a branch that does not exist yet; without it the branch starts empty.
    pub async fn commit_files(
        &self,
        repository: i64,
        branch: &str,
        from: Option<&str>,
        by: &Ident,
        message: &str,
        files: &[(&str, Option<&str>)],
    ) -> Result<String, Refusal> {
        let name = format!("refs/heads/{branch}");
        let start = match self.commit_of(repository, &name).await? {
            Some(tip) => Some(tip),
            None => from.map(str::to_owned),
        };
        let now = chrono::Utc::now().timestamp();
        let mut stream = format!("commit {name}\ncommitter {} <{}> {now} +0000\n", by.name, by.email);
        stream += &format!("data {}\n{message}\n", message.len());
        if let Some(start) = start {
            stream += &format!("from {start}\n");
        }
        for (path, content) in files {
            match content {
                Some(content) => stream += &format!("M 100644 inline {path}\ndata {}\n{content}\n", content.len()),
                None => stream += &format!("D {path}\n"),
            }
        }
        self.run_with(repository, &["fast-import", "--quiet", "--done"], &(stream + "done\n")).await?;
        self.commit_of(repository, &name).await?.ok_or_else(|| Refusal::Git(format!("{branch} has no commit")))
    }

    /// Points a ref to a commit, whatever it was before.
    pub async fn set_ref(&self, repository: i64, name: &str, commit: &str) -> Result<(), Refusal> {
        self.run(repository, &["update-ref", name, commit]).await.map(drop)
    }

    pub async fn delete_branch(&self, repository: i64, branch: &str) -> Result<(), Refusal> {
        self.run(repository, &["update-ref", "-d", &format!("refs/heads/{branch}")]).await.map(drop)
    }

    /// Brings refs of another repository into this one.
    pub async fn fetch(&self, into: i64, from: i64, refspec: &str) -> Result<(), Refusal> {
        let source = self.dir(from).to_string_lossy().into_owned();
        self.run(into, &["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", &source, refspec]).await.map(drop)
    }

    /// The tree of merging two commits; None when they conflict. `base` replaces their own merge base.
    pub async fn merge_tree(
        &self,
        repository: i64,
        ours: &str,
        theirs: &str,
        base: Option<&str>,
    ) -> Result<Option<String>, Refusal> {
        let (ours, theirs) = match base {
            // Of two commits right on top of `base` it is the merge base; git 2.39 cannot be told otherwise.
            Some(base) => (self.on_top(repository, ours, base).await?, self.on_top(repository, theirs, base).await?),
            None => (ours.to_owned(), theirs.to_owned()),
        };
        let arguments = ["merge-tree", "--write-tree", "--no-messages", &ours, &theirs];
        let output = self.output(repository, &arguments).await?;
        match output.status.code() {
            Some(0) => Ok(Some(text_of(&output.stdout))),
            Some(1) => Ok(None),
            _ => Err(Refusal::Git(text_of(&output.stderr))),
        }
    }

    /// A commit with the files of `commit` and `base` as its only parent.
    async fn on_top(&self, repository: i64, commit: &str, base: &str) -> Result<String, Refusal> {
        let tree = self.run(repository, &["rev-parse", &format!("{commit}^{{tree}}")]).await?;
        let nobody = Ident { name: "nobody".to_owned(), email: "nobody@localhost".to_owned() };
        self.commit_tree(repository, tree.trim(), &[base], (&nobody, "2000-01-01T00:00:00Z"), &nobody, "").await
    }

    pub async fn commit_tree(
        &self,
        repository: i64,
        tree: &str,
        parents: &[&str],
        author: (&Ident, &str),
        committer: &Ident,
        message: &str,
    ) -> Result<String, Refusal> {
        let mut arguments = vec!["commit-tree", tree];
        for parent in parents {
            arguments.extend(["-p", parent]);
        }
        let mut command = self.in_repository(repository, &arguments);
        command
            .env("GIT_AUTHOR_NAME", &author.0.name)
            .env("GIT_AUTHOR_EMAIL", &author.0.email)
            .env("GIT_AUTHOR_DATE", author.1)
            .env("GIT_COMMITTER_NAME", &committer.name)
            .env("GIT_COMMITTER_EMAIL", &committer.email);
        succeed(command, Some(message)).await
    }

    pub async fn is_ancestor(&self, repository: i64, older: &str, newer: &str) -> Result<bool, Refusal> {
        let output = self.output(repository, &["merge-base", "--is-ancestor", older, newer]).await?;
        Ok(output.status.success())
    }

    /// Commits of `head` that `base` lacks, oldest first.
    pub async fn commits_between(&self, repository: i64, base: &str, head: &str) -> Result<Vec<CommitInfo>, Refusal> {
        self.log(repository, &["--reverse", &format!("{base}..{head}")]).await
    }

    /// One commit; `sha` is that of a commit.
    pub async fn commit(&self, repository: i64, sha: &str) -> Result<CommitInfo, Refusal> {
        let found = self.log(repository, &["--max-count=1", sha]).await?.pop();
        found.ok_or_else(|| Refusal::missing(format!("commit {sha}")))
    }

    async fn log(&self, repository: i64, which: &[&str]) -> Result<Vec<CommitInfo>, Refusal> {
        let format = "--format=%H%x00%an%x00%ae%x00%aI%x00%B%x1e";
        let text = self.run(repository, &[&["log", "--topo-order", format], which].concat()).await?;
        let entry = |record: &str| {
            let mut fields = record.trim_start().split('\0');
            let mut next = || fields.next().map(str::to_owned);
            let (sha, name, email, date, message) = (next()?, next()?, next()?, next()?, next()?);
            Some(CommitInfo { sha, author: Ident { name, email }, date, message: message.trim_end().to_owned() })
        };
        Ok(text.split('\x1e').filter_map(entry).collect())
    }

    /// First parent of a commit, None for a root.
    pub async fn parent(&self, repository: i64, commit: &str) -> Result<Option<String>, Refusal> {
        self.commit_of(repository, &format!("{commit}^1")).await
    }

    pub async fn diff_stat(&self, repository: i64, base: &str, head: &str) -> Result<DiffStat, Refusal> {
        let text = self.run(repository, &["diff", "--no-ext-diff", "--numstat", &format!("{base}...{head}")]).await?;
        let mut stat = DiffStat::default();
        for line in text.lines() {
            let mut columns = line.split('\t').map(|n| n.parse::<u64>().unwrap_or(0));
            stat.files += 1;
            stat.additions += columns.next().unwrap_or(0);
            stat.deletions += columns.next().unwrap_or(0);
        }
        Ok(stat)
    }

    /// The change from where the two parted to `head`, as text.
    pub async fn diff(&self, repository: i64, base: &str, head: &str) -> Result<String, Refusal> {
        self.run(repository, &["diff", "--no-ext-diff", "--no-textconv", &format!("{base}...{head}")]).await
    }

    /// What a commit changed against its first parent, as text.
    pub async fn diff_of(&self, repository: i64, sha: &str) -> Result<String, Refusal> {
        let plain = ["--format=", "--no-ext-diff", "--no-textconv", "--patch", "--diff-merges=first-parent"];
        self.run(repository, &[&["show"], &plain[..], &[sha]].concat()).await
    }

    /// A file at a revision, None when it is not there.
    pub async fn file(&self, repository: i64, revision: &str, path: &str) -> Result<Option<String>, Refusal> {
        let output = self.output(repository, &["cat-file", "blob", &format!("{revision}:{path}")]).await?;
        Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    /// Names of all files at a revision.
    pub async fn files(&self, repository: i64, revision: &str) -> Result<Vec<String>, Refusal> {
        let text = self.run(repository, &["ls-tree", "-r", "-z", "--name-only", revision]).await?;
        Ok(text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
    }

    fn in_repository(&self, repository: i64, arguments: &[&str]) -> Command {
        let mut command = self.command();
        command.arg("--git-dir").arg(self.dir(repository)).args(arguments);
        command
    }

    async fn run(&self, repository: i64, arguments: &[&str]) -> Result<String, Refusal> {
        succeed(self.in_repository(repository, arguments), None).await
    }

    async fn run_with(&self, repository: i64, arguments: &[&str], input: &str) -> Result<String, Refusal> {
        succeed(self.in_repository(repository, arguments), Some(input)).await
    }

    async fn output(&self, repository: i64, arguments: &[&str]) -> Result<std::process::Output, Refusal> {
        output_of(self.in_repository(repository, arguments), None).await
    }
}

async fn succeed(command: Command, input: Option<&str>) -> Result<String, Refusal> {
    let output = output_of(command, input).await?;
    if output.status.success() { Ok(text_of(&output.stdout)) } else { Err(Refusal::Git(text_of(&output.stderr))) }
}

async fn output_of(mut command: Command, input: Option<&str>) -> Result<std::process::Output, Refusal> {
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| {
        match error.kind() {
            std::io::ErrorKind::NotFound => {
                Refusal::Git("there is no git on PATH; install it, or put it there, then start again".to_owned())
            }
            _ => io(error),
        }
    })?;
    if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
        // git may end before it read everything; its exit status tells the story then.
        let _ = stdin.write_all(text.as_bytes()).await;
    }
    child.wait_with_output().await.map_err(io)
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned()
}

async fn append(path: &std::path::Path, text: &str) -> Result<(), Refusal> {
    let mut file = tokio::fs::OpenOptions::new().append(true).open(path).await.map_err(io)?;
    file.write_all(text.as_bytes()).await.map_err(io)?;
    file.flush().await.map_err(io)
}

fn io(error: std::io::Error) -> Refusal {
    Refusal::Git(error.to_string())
}
