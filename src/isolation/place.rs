//! Where worktrees may be. Paths are compared by their parts, with links resolved; never as texts.

use super::IsolationError;
use std::path::{Component, Path, PathBuf};

/// The path with the links on the way to it resolved, when that lies strictly below `base` (which has none). The last
/// part itself is not followed.
pub(super) fn below(base: &Path, path: &Path) -> Result<PathBuf, IsolationError> {
    let outside = || IsolationError::Outside(path.to_owned());
    let plain = |part: Component| matches!(part, Component::RootDir | Component::Normal(_));
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(outside()) };
    if !path.is_absolute() || !path.components().all(plain) {
        return Err(outside());
    }
    let real = resolve(parent).ok_or_else(outside)?.join(name);
    match real != base && real.starts_with(base) {
        true => Ok(real),
        false => Err(outside()),
    }
}

/// Resolves the part that exists; what does not exist yet has no links.
fn resolve(path: &Path) -> Option<PathBuf> {
    match path.canonicalize() {
        Ok(real) => Some(real),
        // A dangling link exists, as a link, and leads nobody knows where.
        Err(_) if path.symlink_metadata().is_ok() => None,
        Err(_) => Some(resolve(path.parent()?)?.join(path.file_name()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn containment_goes_by_parts() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let app = root.join("app");
        std::fs::create_dir_all(&app).unwrap();
        std::fs::create_dir(root.join("app-2")).unwrap();
        symlink(root.join("app-2"), app.join("out")).unwrap();
        symlink(&app, root.join("link")).unwrap();
        symlink("/nowhere/at/all", app.join("dangling")).unwrap();
        for inside in ["app/..x", "app/x/y", "link/w", "app/out"] {
            let real = below(&app, &root.join(inside));
            assert!(real.is_ok_and(|real| real.starts_with(&app)), "{inside}");
        }
        for outside in ["app-2/w", "app/../lib", "app", "app/out/w", "app/dangling/w", "app/x/../../y"] {
            assert!(below(&app, &root.join(outside)).is_err(), "{outside}");
        }
        assert!(below(&app, Path::new("app/x")).is_err());
    }
}
