//! Pipes where git reads files: whoever opens one waits for somebody at its other end, where nobody is. Any agent can leave
//! one in its worktree or, without a sandbox, in the repository. They are looked for when something takes long.

use super::error::GitError;
use super::{blocking, write_whole};
use std::{
    convert::Infallible,
    fs,
    io::{self, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Files in a worktree that git reads on its own account; at others it only looks.
const READ_BY_GIT: [&str; 6] = [".git", ".gitattributes", ".gitignore", ".gitmodules", ".lfsconfig", ".mailmap"];

/// Longer than git takes to write what it has to say.
const LONGEST_HEARING: Duration = Duration::from_secs(5);
const BETWEEN_WORDS: Duration = Duration::from_millis(10);

/// Says nothing to git.
pub(super) const UNREADABLE: &[u8] = b"A pipe stood here.\n";

/// Where something works.
#[derive(Clone, Debug, Default)]
pub(super) struct Workplace {
    pub repository: Option<PathBuf>,
    pub files: Option<PathBuf>,
}

/// For as long as something works there, lets it go on. `pause` is before the first look; each further one is after twice as
/// long.
pub(super) async fn watch(workplace: Workplace, mut pause: Duration) -> Infallible {
    loop {
        tokio::time::sleep(pause).await;
        pause *= 2;
        let workplace = workplace.clone();
        // What this look does not see, the next may.
        let _ = blocking(move || {
            let_go(&workplace);
            Ok(())
        })
        .await;
    }
}

fn let_go(workplace: &Workplace) {
    if let Some(directory) = &workplace.repository {
        for path in waited_at_below(directory, &|_| true) {
            take_away(&path, Some(instead(directory, &path)));
        }
    }
    if let Some(directory) = &workplace.files {
        // Also all of a repository inside, whose HEAD git reads where it is one of its files.
        let own = |path: &Path| {
            let mut above = path.ancestors().skip(1).take_while(|above| above.starts_with(directory));
            above.find(|above| above.ends_with(".git")).map(Path::to_owned)
        };
        let read_by_git = |path: &Path| {
            path.file_name().is_some_and(|name| READ_BY_GIT.iter().any(|read| name == *read)) || own(path).is_some()
        };
        for path in waited_at_below(directory, &read_by_git) {
            take_away(&path, own(&path).map(|own| instead(&own, &path)));
        }
    }
}

/// A log begins anew. Where git cannot read what stands there, it is looked for what should.
fn instead(repository: &Path, path: &Path) -> &'static [u8] {
    if path.starts_with(repository.join("logs")) { b"" } else { UNREADABLE }
}

/// Pipes, and links to some.
fn waited_at_below(directory: &Path, is_meant: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let (mut found, mut directories) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type());
            let leads_to_pipe = || fs::metadata(&path).is_ok_and(|meta| meta.file_type().is_fifo());
            match kind {
                Ok(kind) if kind.is_dir() => directories.push(path),
                Ok(kind) if (kind.is_fifo() || kind.is_symlink()) && is_meant(&path) && leads_to_pipe() => {
                    found.push(path)
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    found
}

/// Takes it away. It holds nothing: who waits to read finds an empty file, and who waits to write is heard to the end, since
/// nobody writes on into a pipe that is not read. One that cannot be opened stays for the next look: who waits at it would
/// never go on.
fn take_away(pipe: &Path, instead: Option<&[u8]>) {
    let open = |options: &mut fs::OpenOptions| {
        let flags = rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed()).open(pipe)
    };
    let Ok(reader) = open(fs::OpenOptions::new().read(true)) else { return };
    // An error: nobody waits to read, since there is a reader.
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
    hear(reader);
}

/// Until nobody has it open to write any more, those who still wait for it included.
fn hear(mut reader: fs::File) {
    let end = Instant::now() + LONGEST_HEARING;
    let mut words = [0; 4096];
    while Instant::now() < end {
        match reader.read(&mut words) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(BETWEEN_WORDS),
            Err(_) => return,
        }
    }
}
