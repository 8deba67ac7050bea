//! Whether a process works below a directory: its current directory or an open file is there. Linux only; what cannot be
//! seen (other users' processes) is not counted, and neither are the service's own git processes: they end by themselves.

use std::{fs, path::Path};

/// The id of some process with its current directory or an open file at or below `directory`.
pub(super) fn user_of(directory: &Path) -> Option<u32> {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| *id != own).find(|id| {
        let process = Path::new("/proc").join(id.to_string());
        let works_there = leads_below(&process.join("cwd"), directory)
            || fs::read_dir(process.join("fd"))
                .is_ok_and(|files| files.flatten().any(|file| leads_below(&file.path(), directory)));
        works_there && !is_git_of(&process, own)
    })
}

fn leads_below(link: &Path, directory: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target.starts_with(directory))
}

/// `<id> (git) <state> <parent> …`, as proc(5) describes it. What cannot be read any more has ended.
fn is_git_of(process: &Path, parent: u32) -> bool {
    let Ok(stat) = fs::read_to_string(process.join("stat")) else { return true };
    let Some((head, tail)) = stat.rsplit_once(") ") else { return false };
    head.ends_with("(git") && tail.split(' ').nth(1) == Some(parent.to_string().as_str())
}
