//! Whether a process works below a directory: its current directory or an open file is there. Linux only; what cannot be
//! seen (other users' processes) is not counted.

use std::{fs, path::Path};

/// The id of some process with its current directory or an open file at or below `directory`.
pub(super) fn user_of(directory: &Path) -> Option<u32> {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| *id != own).find(|id| {
        let process = Path::new("/proc").join(id.to_string());
        leads_below(&process.join("cwd"), directory)
            || fs::read_dir(process.join("fd"))
                .is_ok_and(|files| files.flatten().any(|file| leads_below(&file.path(), directory)))
    })
}

fn leads_below(link: &Path, directory: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target.starts_with(directory))
}
