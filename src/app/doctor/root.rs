//! What root is asked to do: nothing that a link leads elsewhere, or that only a settings file in the home says. Agents run as
//! the user of the service, so what lies in a directory of this user's may have been put there by one. Only commands are
//! built here.

use super::asked::{Asked, is_own, quoted};
use super::mend::{Mend, run};
use crate::config::{Config, Origin};
use crate::reply::shell;
use rustix::fs::{Access, access};
use rustix::process::getegid;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

/// A command of root's about `place`. Where a link of somebody else's is on the way there, the link goes aside instead.
pub(super) fn by_root(place: &Path, command: String) -> Mend {
    link_aside(place).unwrap_or_else(|| run(format!("sudo {command}")))
}

/// Moves the first link on the way to `place` that root has not made, by whoever it belongs to.
pub(super) fn link_aside(place: &Path) -> Option<Mend> {
    let link = foreign_link(place)?;
    let target = fs::read_link(&link).unwrap_or_default();
    let seen = format!(
        "{} is a link to {}; it is not root's, so what it leads to stays as it is",
        link.display(),
        target.display()
    );
    let line = match link.parent().is_some_and(|directory| access(directory, Access::WRITE_OK).is_ok()) {
        true => moved(&link),
        // A link is moved, not followed.
        false => format!("sudo {}", moved(&link)),
    };
    Some(Mend::Aside { line, seen })
}

/// Where a link that is not root's alone is on the way to the file that root writes settings to. It stays: the service starts
/// with what it leads to.
pub(super) fn not_written_through(file: &Path) -> Option<Mend> {
    let link = foreign_link(file)?;
    let is_roots = link.symlink_metadata().is_ok_and(|there| there.uid() == 0);
    let directory = link.parent().filter(|directory| is_roots && is_own(directory)).map(quoted);
    let (line, why) = match directory {
        Some(directory) => (
            format!("sudo chown 0:{} {directory} && sudo chmod 750 {directory}", getegid().as_raw()),
            "lies in a directory that is not root's, so root writes nothing through it",
        ),
        None => (
            format!("sudo ls -l {}", quoted(&link)),
            "is not root's, so root writes nothing through it; what is meant has to lie there itself",
        ),
    };
    let target = fs::read_link(&link).unwrap_or_default();
    Some(Mend::Aside { line, seen: format!("{} is a link to {}, and {why}", link.display(), target.display()) })
}

/// A link counts as root's where all that it lies in is root's, too.
fn foreign_link(place: &Path) -> Option<PathBuf> {
    let mut roots = true;
    for at in place.ancestors().collect::<Vec<_>>().into_iter().rev() {
        let there = at.symlink_metadata().ok()?;
        if there.is_symlink() && !(roots && there.uid() == 0) {
            return Some(at.to_owned());
        }
        roots &= at.metadata().is_ok_and(|there| there.uid() == 0);
    }
    None
}

/// The settings file, where it alone names this place outside of the home, and root would be asked about it: agents may
/// have written it.
pub(super) fn by_settings(variable: &str, place: &Path, config: &Config, asked: &Asked) -> Option<Mend> {
    match config.origin(variable)? {
        Origin::File(settings) if !is_in_home(place, config) && !is_own(place) && may_be_agents(settings) => {
            Some(asked.edit(settings))
        }
        Origin::File(_) | Origin::Environment | Origin::Flag => None,
    }
}

/// By its name. One that climbs may lead anywhere.
pub(super) fn is_in_home(place: &Path, config: &Config) -> bool {
    place.starts_with(&config.home) && !place.components().any(|part| part == Component::ParentDir)
}

/// Whether a file, or another one in its place, may have been written by this user.
pub(super) fn may_be_agents(file: &Path) -> bool {
    let may_write = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    is_own(file) || may_write(file) || file.parent().is_some_and(may_write)
}

/// Beside where it is. Nothing is overwritten by it, and a directory that has that name does not get it.
pub(super) fn moved(path: &Path) -> String {
    format!("mv -T --backup=t {} {}", quoted(path), shell::quoted(&format!("{}.aside", path.display())))
}
