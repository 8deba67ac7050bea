//! Whether a process works below a directory: its current directory or an open file is there. Linux only; what cannot be
//! seen (other users' processes) is not counted, and neither are the service's own git processes: they end by themselves.
//! Nor is a process that is about to become one: between its birth and its program it has all files open that we have.

use std::{fs, path::Path};

/// The id of some process with its current directory or an open file at or below `directory`, apart from some.
pub(super) fn user_of(directory: &Path, apart_from: &[u32]) -> Option<u32> {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| *id != own && !apart_from.contains(id)).find(|id| {
        let process = Path::new("/proc").join(id.to_string());
        let works_there = leads_below(&process.join("cwd"), directory)
            || fs::read_dir(process.join("fd"))
                .is_ok_and(|files| files.flatten().any(|file| leads_below(&file.path(), directory)));
        works_there && !is_ours(&process, own)
    })
}

fn leads_below(link: &Path, directory: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target.starts_with(directory))
}

/// `<id> (git) <state> <parent> …`, as proc(5) describes it. What cannot be read any more has ended.
fn is_ours(process: &Path, own: u32) -> bool {
    let Ok(stat) = fs::read_to_string(process.join("stat")) else { return true };
    let Some((head, tail)) = stat.rsplit_once(") ") else { return false };
    let is_child = tail.split(' ').nth(1) == Some(own.to_string().as_str());
    is_child && (head.ends_with("(git") || is_about_to_start(process))
}

/// It still has our own command line.
fn is_about_to_start(process: &Path) -> bool {
    let line = fs::read(process.join("cmdline"));
    line.is_ok_and(|line| fs::read("/proc/self/cmdline").is_ok_and(|own| own == line))
}
