//! The door to agent processes: starting one as the leader of its own group, and ending all of it.
//!
//! A process id is only safe to signal while its process was not waited for: afterwards the kernel may give the number
//! to somebody else. So an ended leader is seen without being reaped, its group is killed while the leader still holds
//! the number, and only then is it reaped. Processes that left the group (`setsid`) are found by the run's id in their
//! environment.

use crate::model::{AgentProcess, RunId};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::{fs, io, path::Path, process::ExitStatus, process::Stdio, time::Duration};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::time::timeout;

/// Marks every process of a run that has not cleared its environment.
pub const RUN_MARK: &str = "TREEWARDEN_RUN_ID";

/// What to start.
pub(super) struct Start<'a> {
    pub argv: &'a [String],
    pub cwd: &'a Path,
    /// The whole environment.
    pub env: &'a [(String, String)],
    /// Its standard input, whole from the start: nobody has to live on to feed it.
    pub input: fs::File,
}

/// A started agent. Dropping it kills its group.
pub(super) struct Group {
    leader: Child,
    process: AgentProcess,
    children: SignalStream,
    reaped: bool,
}

/// What the agent says.
pub(super) struct Streams {
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

impl Group {
    pub fn start(start: Start<'_>) -> io::Result<(Self, Streams)> {
        // Listening first: an agent that ends at once must not be missed.
        let children = signal(SignalKind::child())?;
        let (program, arguments) = start.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(start.cwd).env_clear().envs(start.env.iter().cloned());
        command.stdin(start.input).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut leader = command.spawn()?;
        let group = leader.id().and_then(|id| i32::try_from(id).ok()).ok_or(io::ErrorKind::NotFound)?;
        let streams = leader.stdout.take().zip(leader.stderr.take());
        let (stdout, stderr) = streams.ok_or(io::ErrorKind::BrokenPipe)?;
        // Where start times cannot be read, nothing is taken for this process after a restart.
        let process = AgentProcess { group, start_ticks: start_ticks(group).unwrap_or_default() };
        Ok((Self { leader, process, children, reaped: false }, Streams { stdout, stderr }))
    }

    pub fn process(&self) -> AgentProcess {
        self.process
    }

    /// Waits until the leader has ended, without reaping it.
    pub async fn ended(&mut self) -> io::Result<()> {
        while !has_ended(self.process.group)? {
            self.children.recv().await;
        }
        Ok(())
    }

    /// Asks the group to end, and kills it when the leader is still there after `grace`.
    pub async fn end(&mut self, grace: Duration) -> io::Result<()> {
        signal_group(self.process.group, Signal::TERM);
        if let Ok(ended) = timeout(grace, self.ended()).await {
            return ended;
        }
        signal_group(self.process.group, Signal::KILL);
        self.ended().await
    }

    /// Kills what is left of the group and reaps the leader, which must have ended.
    pub async fn finish(mut self) -> io::Result<ExitStatus> {
        signal_group(self.process.group, Signal::KILL);
        self.reaped = true;
        self.leader.wait().await
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.reaped {
            signal_group(self.process.group, Signal::KILL);
        }
    }
}

/// Kills the process group of a run that outlived the service; only when it is still the very process that was recorded.
/// Says whether it was.
pub fn end_leftover(process: AgentProcess) -> bool {
    let same = process.start_ticks != 0 && start_ticks(process.group) == Some(process.start_ticks);
    same && signal_group(process.group, Signal::KILL)
}

/// Kills every process that carries the run's id in its environment, until none is found; says how many there were.
/// Reads all of `/proc`, so not for async code.
pub fn end_strays(run: RunId) -> usize {
    // A process that forks faster than it is killed must not keep the service busy for ever.
    const ROUNDS: usize = 20;
    let mark = format!("{RUN_MARK}={run}").into_bytes();
    let mut ended = 0;
    for _ in 0..ROUNDS {
        match strays::kill(&mark) {
            0 => break,
            found => ended += found,
        }
    }
    ended
}

/// Kills every process that carries the id of one of these runs in its environment and works below a directory, by its current
/// directory or an open file; says how many there were. Reads all of `/proc`, so not for async code.
pub fn end_leftovers_in(directory: &Path, runs: &[RunId]) -> usize {
    strays::kill_in(directory, &marks(runs))
}

/// Which ones those are.
pub fn leftovers_in(directory: &Path, runs: &[RunId]) -> Vec<u32> {
    strays::find_in(directory, &marks(runs))
}

fn marks(runs: &[RunId]) -> Vec<Vec<u8>> {
    runs.iter().map(|run| format!("{RUN_MARK}={run}").into_bytes()).collect()
}

/// When a process started, in clock ticks since boot: field 22 of `/proc/<pid>/stat`. None when there is no such process.
fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // Field 2 is the program's name in parentheses and may hold anything, also parentheses and spaces.
    let after_name = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(stat.get(after_name + 1..)?).ok()?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Whether our child has ended; it stays waitable.
fn has_ended(pid: i32) -> io::Result<bool> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    Ok(waitid(WaitId::Pid(pid), options)?.is_some())
}

/// Says whether there was anything to signal. Group 1 would mean every process there is.
fn signal_group(group: i32, signal: Signal) -> bool {
    match Pid::from_raw(group) {
        Some(pid) if group > 1 => kill_process_group(pid, signal).is_ok(),
        _ => false,
    }
}

#[cfg(target_os = "linux")]
mod strays {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    use std::{fs, path::Path};

    /// Kills each process whose environment holds `mark`, and says how many there were.
    pub fn kill(mark: &[u8]) -> usize {
        each(|pid| kill_if(pid, |variable| variable == mark))
    }

    /// The same for any of several marks, of those at work below a directory.
    pub fn kill_in(directory: &Path, marks: &[Vec<u8>]) -> usize {
        each(|pid| works_below(pid, directory) && kill_if(pid, |variable| marks.iter().any(|mark| variable == mark)))
    }

    pub fn find_in(directory: &Path, marks: &[Vec<u8>]) -> Vec<u32> {
        let mut found = Vec::new();
        each(|pid| {
            let is_one =
                works_below(pid, directory) && is_marked(pid, |variable| marks.iter().any(|mark| variable == mark));
            found.extend(u32::try_from(pid).ok().filter(|_| is_one));
            is_one
        });
        found
    }

    fn works_below(pid: i32, directory: &Path) -> bool {
        let process = Path::new("/proc").join(pid.to_string());
        let leads_below = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(directory));
        leads_below(&process.join("cwd"))
            || fs::read_dir(process.join("fd")).is_ok_and(|files| files.flatten().any(|file| leads_below(&file.path())))
    }

    /// How many of all processes but our own something holds for.
    fn each(mut holds: impl FnMut(i32) -> bool) -> usize {
        let own = i32::try_from(std::process::id()).ok();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| Some(*pid) != own && holds(*pid)).count()
    }

    /// Opens the process before looking at it, so that the signal can only reach the process that was looked at.
    fn kill_if(pid: i32, is_mark: impl Fn(&[u8]) -> bool) -> bool {
        let Some(handle) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
            return false;
        };
        is_marked(pid, is_mark) && pidfd_send_signal(&handle, Signal::KILL).is_ok()
    }

    fn is_marked(pid: i32, is_mark: impl Fn(&[u8]) -> bool) -> bool {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(is_mark)
    }
}

#[cfg(not(target_os = "linux"))]
mod strays {
    use std::path::Path;

    /// Without `/proc` nothing is found.
    pub fn kill(_mark: &[u8]) -> usize {
        0
    }

    pub fn kill_in(_directory: &Path, _marks: &[Vec<u8>]) -> usize {
        0
    }

    pub fn find_in(_directory: &Path, _marks: &[Vec<u8>]) -> Vec<u32> {
        Vec::new()
    }
}
