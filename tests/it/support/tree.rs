//! Everything below a directory, to be compared.

use std::{collections::BTreeMap, fs, os::unix::ffi::OsStrExt, path::Path};

/// By relative path, what is there: the bytes of a file, where a link leads, or that it is a directory or something else.
pub fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let holds = if meta.is_dir() {
            // What nobody may look into is compared by its being there.
            pending.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
            b"a directory".to_vec()
        } else if meta.is_symlink() {
            fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
        } else if meta.is_file() {
            fs::read(&path).unwrap_or_default()
        } else {
            b"something else".to_vec()
        };
        found.insert(name, holds);
    }
    found
}
