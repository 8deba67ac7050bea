//! Worktrees outside of our directory, which somebody else made: which of them may be used where they are.

use super::IsolationError;
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Component, Path},
};

/// What is ours on this machine, with links resolved.
pub(super) struct Ours<'a> {
    pub home: &'a Path,
    pub base: &'a Path,
    pub repository: &'a Path,
}

/// Refuses a place that could be another than it seems, or that holds, or lies in, what is ours. One that is not there is
/// admitted as long as the directory it was in is. That it is registered, and belongs to the repository, is for git.
pub(super) fn admit(path: &Path, ours: &Ours<'_>) -> Result<(), IsolationError> {
    let refused = |why| Err(IsolationError::NotAdmitted(why));
    let plain = |part: Component| matches!(part, Component::RootDir | Component::Normal(_));
    let Some(parent) = path.parent().filter(|_| path.is_absolute() && path.components().all(plain)) else {
        return refused("its path is not a plain one");
    };
    match parent.canonicalize() {
        Ok(real) if real == parent => {}
        Ok(_) => return refused("a link leads to it"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return refused("the directory it was in is not there (is its file system mounted?)");
        }
        Err(_) => return refused("the way to it cannot be looked at"),
    }
    for ours in [ours.home, ours.base, ours.repository] {
        if path.starts_with(ours) || ours.starts_with(path) {
            return refused("holds, or lies in, a directory of mine");
        }
    }
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => return refused("it cannot be looked at"),
        Ok(meta) => meta,
    };
    if !meta.is_dir() {
        return refused("no directory is there");
    }
    let me = rustix::process::geteuid().as_raw();
    let link = fs::symlink_metadata(path.join(".git"));
    if meta.uid() != me || link.is_ok_and(|link| link.uid() != me) {
        return refused("belongs to another user");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_a_plain_place_apart_from_ours_is_admitted() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let [home, base, repository] = ["h/home", "trees/base", "h/home/repos/r.git"].map(|name| root.join(name));
        for directory in [&home, &base, &repository, &root.join("other/w"), &root.join("home-2")] {
            fs::create_dir_all(directory).unwrap();
        }
        symlink(root.join("other"), root.join("link")).unwrap();
        symlink(root.join("other/w"), root.join("other/link")).unwrap();
        fs::write(root.join("other/file"), "").unwrap();
        let ours = Ours { home: &home, base: &base, repository: &repository };
        for admitted in ["other/w", "other/gone", "home-2", "trees/w"] {
            assert_eq!(admit(&root.join(admitted), &ours), Ok(()), "{admitted}");
        }
        for refused in [
            "link/w",
            "other/link",
            "other/file",
            "other/../other/w",
            "nowhere/w",
            "h",
            "h/home",
            "h/home/agents/w",
            "h/home/repos/r.git/w",
            "trees",
        ] {
            let error = admit(&root.join(refused), &ours);
            assert!(matches!(error, Err(IsolationError::NotAdmitted(_))), "{refused}: {error:?}");
        }
        assert!(admit(Path::new("other/w"), &ours).is_err());
        assert!(admit(Path::new("/"), &ours).is_err());
    }
}
