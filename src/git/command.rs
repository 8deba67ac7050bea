//! The only door to git processes. Every call has a hermetic environment: nothing is inherited, no configuration but the
//! repository's own (which we write) is read, no hook, file-system monitor, pager, editor, prompt or credential helper
//! runs, and only allowed transports are spoken. No shell, no inherited input, a time limit, an output limit; a call
//! that is dropped or late is ended together with everything it started.
//!
//! Nothing here knows what a command means: answers are an exit status and bytes.

use super::askpass::{self, Prepared};
use super::error::{GitError, failure};
use super::pipes::{self, Workplace};
use super::remote_url::RemoteUrl;
use super::{blocking, broken_refs, loose_objects};
use crate::model::Credential;
use rustix::process::{Pid, Signal, kill_process_group, setpriority_process};
use secrecy::{ExposeSecret, SecretString};
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
};

/// Where programs that git needs are looked for; the service's own `PATH` is not handed on.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// For calls that only read or write small things, and for looks at the files of a worktree: patterns that an agent wrote can
/// keep git at those for ever.
const SHORT: Duration = Duration::from_secs(120);
/// For the network and for checkouts of large trees.
const LONG: Duration = Duration::from_secs(1800);
/// More output than this is a failure, never a shortened answer.
const OUTPUT_LIMIT: u64 = 256 * 1024 * 1024;
/// How long git may clean up after itself once it was told to end.
const GRACE: Duration = Duration::from_secs(5);
/// Fewer names than what one command line takes.
pub(super) const NAMES_AT_ONCE: usize = 500;
/// How often a call is run again after something was put right.
const MOST_MENDS: usize = 30;
/// How far behind others what nobody waits for stands; nice(1).
const GENTLE: i32 = 15;
/// A file system with fewer bytes than this left is full.
const NO_ROOM: u64 = 64 * 1024;

/// Settings that win over any a repository may carry.
const NEUTRAL: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "status.showUntrackedFiles=all",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "http.followRedirects=false",
    // A server that is at work says so every few seconds: `uploadpack.keepAlive`, `receive.keepAlive`.
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
    "credential.helper=",
    "credential.username=x-access-token",
];

/// The program with everything that is the same for all calls.
#[derive(Debug)]
pub(super) struct Program {
    pub program: PathBuf,
    /// An absolute path.
    pub lfs: Option<PathBuf>,
    pub files: Prepared,
    pub proxy: Vec<(String, SecretString)>,
    /// Before it is looked for pipes at which a call may wait.
    pub pipe_pause: Duration,
    /// Value of `GIT_ALLOW_PROTOCOL`.
    pub transports: &'static str,
}

/// What a call works on. Always explicit, never found by git itself.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// No repository at all.
    Nowhere,
    /// A bare repository.
    Bare(PathBuf),
    /// A worktree: its admin entry, the repository it is linked to, its files.
    Worktree { admin: PathBuf, common: PathBuf, files: PathBuf },
}

/// One git process that is yet to be started.
pub(super) struct Call<'a> {
    program: &'a Program,
    command: Command,
    name: String,
    input: Option<Vec<u8>>,
    limit: Duration,
    secret: Option<SecretString>,
    /// The repository whose refs and objects may be why it fails.
    mended: Option<PathBuf>,
    workplace: Workplace,
    gently: bool,
}

/// How a process ended.
pub(super) struct Output {
    /// Absent: ended by a signal.
    pub status: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    name: String,
    directory: PathBuf,
    secret: Option<SecretString>,
}

impl Program {
    /// A call of `git <name> …` (`name` may be two words, as in `worktree add`).
    pub fn call(&self, place: &Place, name: &str) -> Call<'_> {
        self.call_with(place, &[], name)
    }

    /// The same with settings for this one call.
    pub fn call_with(&self, place: &Place, settings: &[&str], name: &str) -> Call<'_> {
        let mut command = Command::new(&self.program);
        command.env_clear();
        command
            .env("PATH", PATH)
            .env("HOME", &self.files.home)
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_GLOBAL", &self.files.config)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_ALLOW_PROTOCOL", self.transports)
            .env("GIT_PAGER", "cat")
            .env("GIT_EDITOR", "false")
            // libgit2 reads no other.
            .env("GIT_DEFAULT_REF_FORMAT", "files")
            // Standard error is for warnings, which are taken seriously.
            .env("GIT_ADVICE", "0")
            // History is what it is: no replacements, no grafts (a file that does not exist).
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_GRAFT_FILE", self.files.home.join("no-grafts"))
            .envs(self.proxy.iter().map(|(name, value)| (name, value.expose_secret())));
        let mut workplace = Workplace::default();
        match place {
            Place::Nowhere => {
                command.current_dir(&self.files.home);
            }
            Place::Bare(directory) => {
                command.current_dir(directory).env("GIT_DIR", directory);
                workplace.repository = Some(directory.clone());
            }
            Place::Worktree { admin, common, files } => {
                command.current_dir(files);
                command.env("GIT_DIR", admin).env("GIT_COMMON_DIR", common).env("GIT_WORK_TREE", files);
                workplace = Workplace { repository: Some(common.clone()), files: Some(files.clone()) };
            }
        }
        for setting in NEUTRAL.iter().chain(settings) {
            command.arg("-c").arg(setting);
        }
        if let (Place::Worktree { .. }, Some(program)) = (place, &self.lfs) {
            for (name, value) in super::lfs::filters(program) {
                command.arg("-c").arg(format!("filter.lfs.{name}={value}"));
            }
        }
        command.args(name.split(' '));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let name = name.to_owned();
        Call {
            program: self,
            command,
            name,
            input: None,
            limit: SHORT,
            secret: None,
            mended: None,
            workplace,
            gently: false,
        }
    }
}

impl Call<'_> {
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Bytes for standard input; without this it is empty.
    pub fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = Some(bytes);
        self
    }

    /// No longer than this.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Nothing is taken away where it works, however long it takes.
    pub fn leaving_pipes(mut self) -> Self {
        self.workplace = Workplace::default();
        self
    }

    /// Makes way for everything else on the machine.
    pub fn gently(mut self) -> Self {
        self.gently = true;
        self
    }

    /// Network and checkouts may take longer than other calls.
    pub fn slow(mut self) -> Self {
        self.limit = LONG;
        self
    }

    /// Lets this one process speak with this remote, and authenticate when git asks for exactly its scheme and host.
    pub fn credential(mut self, remote: &RemoteUrl, credential: Option<&Credential>) -> Self {
        if remote.is_file() {
            // A repository here may name a program that brings what it lacks. It is not asked.
            self.command.env("GIT_ALLOW_PROTOCOL", "file").env("GIT_NO_LAZY_FETCH", "1");
        }
        if let Some(Credential { token, .. }) = credential {
            self.command
                .env("GIT_ASKPASS", &self.program.files.script)
                .env(askpass::TOKEN, token.expose_secret())
                .env(askpass::PLACE, remote.place(askpass::USER));
            self.secret = Some(token.clone());
        }
        self
    }

    /// When it fails, or complains of a ref, the refs of this repository and the objects it named are put right; after a
    /// failure it is run again then.
    pub fn mending(mut self, repository: &Path) -> Self {
        self.mended = Some(repository.to_owned());
        self
    }

    /// Runs to the end, whatever the exit status.
    pub async fn run(mut self) -> Result<Output, GitError> {
        let mut output = self.run_once().await?;
        let Some(repository) = self.mended.take() else { return Ok(output) };
        for _ in 0..MOST_MENDS {
            if !output.may_be_about_refs() {
                break;
            }
            let (said, has_failed) = (output.stderr.clone(), output.status != Some(0));
            let repository = repository.clone();
            // Git names one object at a time.
            let mend = move || (has_failed && loose_objects::mend(&repository, &said)) | broken_refs::mend(&repository);
            if !blocking(move || Ok(mend())).await? || !has_failed {
                break;
            }
            output = self.run_once().await?;
        }
        Ok(output)
    }

    async fn run_once(&mut self) -> Result<Output, GitError> {
        self.command.stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() });
        let child = self.command.spawn().map_err(|error| GitError::Failed {
            command: self.name.clone(),
            status: None,
            stderr: format!("{} could not be started: {error}", self.program.program.display()),
        })?;
        let mut running = Running::new(child);
        if self.gently {
            // Where that is not allowed it is only less gentle.
            let _ = setpriority_process(running.group, GENTLE);
        }
        let outcome = tokio::select! {
            outcome = tokio::time::timeout(self.limit, running.finish(self.input.as_deref())) => outcome,
            never = pipes::watch(self.workplace.clone(), self.program.pipe_pause) => match never {},
        };
        match outcome {
            Ok(Ok((status, stdout, stderr))) => {
                let directory = self.command.as_std().get_current_dir().map(Path::to_owned).unwrap_or_default();
                Ok(Output { status, stdout, stderr, name: self.name.clone(), directory, secret: self.secret.clone() })
            }
            Ok(Err(error)) => {
                running.end().await;
                Err(GitError::Failed { command: self.name.clone(), status: None, stderr: error.to_string() })
            }
            Err(_) => {
                running.end().await;
                Err(GitError::TimedOut { command: self.name.clone(), after: self.limit })
            }
        }
    }

    /// Standard output of a call that must succeed.
    pub async fn ok(self) -> Result<Vec<u8>, GitError> {
        let output = self.run().await?;
        match output.status {
            Some(0) => Ok(output.stdout),
            _ => Err(output.failure()),
        }
    }
}

impl Output {
    pub fn failure(&self) -> GitError {
        // Git LFS says why on either.
        let said = match self.name.starts_with("lfs ") {
            true => [&self.stderr[..], &self.stdout].join(&b'\n'),
            false => self.stderr.clone(),
        };
        match failure(&self.name, self.status, &said, self.secret.as_ref()) {
            // Git does not always say why it could not write.
            GitError::Failed { .. } | GitError::NotWritten { .. } if is_full(&self.directory) => GitError::DiskFull,
            error => error,
        }
    }

    /// Git names the refs that it passes over.
    fn may_be_about_refs(&self) -> bool {
        let says = |what: &[u8]| self.stderr.windows(what.len()).any(|part| part == what);
        !self.stderr.is_empty() && (self.status != Some(0) || says(b"refs/"))
    }

    /// Standard error, fit to be shown.
    pub fn remarks(&self) -> String {
        super::error::readable(&self.stderr, self.secret.as_ref())
    }
}

/// A child in a process group of its own, which is told to end when this is dropped early.
struct Running {
    child: Child,
    group: Option<Pid>,
}

impl Running {
    fn new(child: Child) -> Self {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { child, group }
    }

    async fn finish(&mut self, input: Option<&[u8]>) -> std::io::Result<(Option<i32>, Vec<u8>, Vec<u8>)> {
        let (stdin, stdout, stderr) = (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let write = async move {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // A process that does not want its input any more says why by its exit status.
                let _ = stdin.write_all(input).await;
            }
        };
        let ((), stdout, stderr) = tokio::join!(write, read_all(stdout), read_all(stderr));
        let (stdout, stderr) = (stdout?, stderr?);
        let status = self.child.wait().await?;
        self.group = None;
        Ok((status.code(), stdout, stderr))
    }

    fn signal(&self, signal: Signal) {
        // The leader has not been waited for, so its id, and with it the group's, cannot belong to anybody else.
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
    }

    /// Asks the group to end, so that git removes its lock files and half-made directories; then insists.
    async fn end(&mut self) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(GRACE, self.child.wait()).await.is_err() {
            self.signal(Signal::KILL);
            let _ = self.child.wait().await;
        }
        self.group = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
    }
}

async fn read_all(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(OUTPUT_LIMIT + 1).read_to_end(&mut bytes).await?;
    }
    match bytes.len() as u64 > OUTPUT_LIMIT {
        true => Err(std::io::Error::other("more output than can be right")),
        false => Ok(bytes),
    }
}

/// Whether the file system of a directory has no room, or no room for more files. Some count no files at all.
fn is_full(directory: &Path) -> bool {
    let told = rustix::fs::statvfs(directory);
    told.is_ok_and(|told| told.f_bavail * told.f_frsize < NO_ROOM || (told.f_files > 0 && told.f_favail == 0))
}

/// An absolute path of a program given by name, looked up where calls look.
pub(super) fn resolve(program: &Path) -> PathBuf {
    if program.components().count() > 1 {
        return program.to_owned();
    }
    let found = std::env::split_paths(PATH).map(|directory| directory.join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| program.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_lfs_may_say_why_on_standard_output() {
        let said = |name: &str| {
            let (stdout, stderr) = (b"Git LFS upload failed: x".to_vec(), b"batch".to_vec());
            let (name, directory) = (name.to_owned(), PathBuf::from("/"));
            Output { status: Some(2), stdout, stderr, name, directory, secret: None }.failure().to_string()
        };
        assert_eq!(said("lfs push"), "git lfs push failed (exit status 2): batch Git LFS upload failed: x");
        assert_eq!(said("ls-files"), "git ls-files failed (exit status 2): batch");
    }
}
