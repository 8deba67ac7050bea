//! Pipes where git reads files: whoever opens one waits for somebody at its other end, where nobody is. Any agent can leave one in its
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
    let (mut pause, mut heard) = (FIRST_LOOK, Vec::new());
    loop {
        tokio::time::sleep(pause).await;
        pause *= 2;
        let places = places.clone();
        // What this look does not see, the next may.
        heard.extend(blocking(move || Ok(let_go(&places))).await.unwrap_or_default());
    }
}

fn let_go(places: &Places) -> Vec<fs::File> {
    let mut heard = Vec::new();
    if let Some(directory) = &places.repository {
        for pipe in pipes_below(directory, &|_| true) {
            // What should stand there is looked for when git cannot read what does. A log begins anew.
            let is_log = pipe.starts_with(directory.join("logs"));
            heard.extend(let_go_of(&pipe, Some(if is_log { b"" } else { UNREADABLE })));
        }
    }
    if let Some(directory) = &places.files {
        let read_by_git =
            |path: &Path| path.file_name().is_some_and(|name| READ_BY_GIT.iter().any(|read| name == *read));
        for pipe in pipes_below(directory, &read_by_git) {
            heard.extend(let_go_of(&pipe, None));
        }
    }
    heard
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

/// Takes the pipe away. It holds nothing: who waits to read finds an empty file, and who waits to write is heard by what is
/// answered, for as long as that is kept.
fn let_go_of(pipe: &Path, instead: Option<&[u8]>) -> Option<fs::File> {
    let open = |options: &mut fs::OpenOptions| {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed()).open(pipe).ok()
    };
    let reader = open(fs::OpenOptions::new().read(true));
    let writer = open(fs::OpenOptions::new().write(true));
    let taken = match instead {
        Some(text) => write_whole(pipe, text),
        None => fs::remove_file(pipe).map_err(|error| GitError::file("removing", pipe, &error)),
    };
    drop(writer);
    match taken {
        Ok(()) => tracing::warn!(path = %pipe.display(), "a pipe in the place of a file that git reads was taken away"),
        Err(error) => {
            tracing::warn!(path = %pipe.display(), %error, "a pipe in the place of a file that git reads stays")
        }
    }
    reader
}
