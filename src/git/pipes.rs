//! Pipes where git reads files: whoever opens one waits until somebody writes, which nobody will. Any agent can leave one in its
//! worktree or, without a sandbox, in the repository. They are looked for when something takes long.

use super::error::GitError;
use super::{blocking, write_whole};
use std::{
    convert::Infallible,
    fs,
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// Before the first look; each further one is after twice as long.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// Files in a worktree that git reads on its own account; at others it only looks.
const READ_BY_GIT: [&str; 6] = [".git", ".gitattributes", ".gitignore", ".gitmodules", ".lfsconfig", ".mailmap"];

/// Says nothing to git.
const UNREADABLE: &[u8] = b"A pipe stood here.\n";

/// Where something works.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    pub repository: Option<PathBuf>,
    pub files: Option<PathBuf>,
}

/// For as long as something works there, lets it go on.
pub(super) async fn watch(places: Places) -> Infallible {
    let mut pause = FIRST_LOOK;
    loop {
        tokio::time::sleep(pause).await;
        pause *= 2;
        let places = places.clone();
        // What this look does not see, the next may.
        let _ = blocking(move || {
            let_go(&places);
            Ok(())
        })
        .await;
    }
}

fn let_go(places: &Places) {
    if let Some(directory) = &places.repository {
        for pipe in pipes_below(directory, &|_| true) {
            // What should stand there is looked for when git cannot read what does. A log may be gone.
            let holds_nothing_else = pipe.starts_with(directory.join("logs"));
            let_go_of(&pipe, if holds_nothing_else { None } else { Some(UNREADABLE) });
        }
    }
    if let Some(directory) = &places.files {
        let read_by_git =
            |path: &Path| path.file_name().is_some_and(|name| READ_BY_GIT.iter().any(|read| name == *read));
        for pipe in pipes_below(directory, &read_by_git) {
            let_go_of(&pipe, None);
        }
    }
}

fn pipes_below(directory: &Path, is_meant: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let (mut found, mut directories) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                Ok(kind) if kind.is_fifo() && is_meant(&entry.path()) => found.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    found
}

/// Takes the pipe away if somebody waits at it. It holds nothing, and who waits finds an empty file.
fn let_go_of(pipe: &Path, instead: Option<&[u8]>) {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    // An error: nobody waits there.
    let Ok(writer) = fs::OpenOptions::new().write(true).custom_flags(flags.bits().cast_signed()).open(pipe) else {
        return;
    };
    let taken = match instead {
        Some(text) => write_whole(pipe, text),
        None => fs::remove_file(pipe).map_err(|error| GitError::file("removing", pipe, &error)),
    };
    drop(writer);
    match taken {
        Ok(()) => {
            tracing::warn!(path = %pipe.display(), "git waited at a pipe in the place of a file: it was taken away")
        }
        Err(error) => {
            tracing::warn!(path = %pipe.display(), %error, "git waited at a pipe, which could not be taken away")
        }
    }
}
