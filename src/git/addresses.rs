//! Where submodules come from, as `.gitmodules` says: resolved and checked here, before git is told to go anywhere. Git
//! itself would take `https::https://elsewhere/` for a helper's address, which no rule about beginnings of addresses meets.

use super::error::GitError;
use super::remote_url::RemoteUrl;
use super::worktree::path_of;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// What one `.gitmodules` says. Every value counts, not just the one that git would take.
#[derive(Debug, Default)]
pub(super) struct Addresses(BTreeMap<Vec<u8>, Named>);

#[derive(Debug, Default)]
struct Named {
    paths: Vec<PathBuf>,
    urls: Vec<String>,
}

impl Addresses {
    /// Of `git config --list -z`: `<key> LF <value> NUL`, where keys end in lower case.
    pub fn parse(output: &[u8]) -> Self {
        let mut all = Self::default();
        for record in output.split(|byte| *byte == 0) {
            let mut parts = record.splitn(2, |byte| *byte == b'\n');
            let (Some(key), Some(value)) = (parts.next(), parts.next()) else { continue };
            let Some(key) = key.strip_prefix(b"submodule.") else { continue };
            let Some(dot) = key.iter().rposition(|byte| *byte == b'.') else { continue };
            let named = all.0.entry(key[..dot].to_vec()).or_default();
            match &key[dot + 1..] {
                b"path" => named.paths.push(path_of(value)),
                b"url" => named.urls.push(String::from_utf8_lossy(value).into_owned()),
                _ => {}
            }
        }
        all
    }

    /// The address of the submodule at `path` in a repository that is fetched from `parent`. `remote` is the canonical
    /// repository's own, whose host is the only one; `files`: whether local paths are allowed.
    pub fn of(&self, path: &Path, parent: &RemoteUrl, remote: &RemoteUrl, files: bool) -> Result<RemoteUrl, GitError> {
        let named = self.0.values().filter(|named| named.paths.iter().any(|named| named == path));
        let mut address = Err(GitError::refused("`.gitmodules` names no address for it"));
        for url in named.flat_map(|named| &named.urls) {
            address = Ok(admitted(&resolve(&parent.text, url), remote, files)?);
        }
        address
    }

    /// What the submodule at `path` is called, by every value.
    pub fn names_of(&self, path: &Path) -> Vec<PathBuf> {
        let named = self.0.iter().filter(|(_, named)| named.paths.iter().any(|named| named == path));
        named.map(|(name, _)| path_of(name)).collect()
    }
}

fn admitted(address: &str, remote: &RemoteUrl, files: bool) -> Result<RemoteUrl, GitError> {
    let usable = RemoteUrl::new(address, files).ok().filter(|address| address.is_file() || address.is_at(remote));
    usable.ok_or_else(|| {
        GitError::refused(
            "its address is on another host than the repository, or of a kind that is not spoken, and was not asked",
        )
    })
}

/// Against the parent's address, as git-submodule(1) describes it and git's `relative_url` does it: each `../` takes the
/// last part off, wherever that leads.
fn resolve(parent: &str, url: &str) -> String {
    let (mut base, mut rest, mut joint) = (parent.strip_suffix('/').unwrap_or(parent), url, '/');
    loop {
        if let Some(after) = rest.strip_prefix("../") {
            rest = after;
            match (base.rfind('/'), base.rfind(':')) {
                (Some(cut), _) => base = &base[..cut],
                (None, Some(cut)) => (base, joint) = (&base[..cut], ':'),
                (None, None) => return String::new(),
            }
        } else if let Some(after) = rest.strip_prefix("./") {
            rest = after;
        } else {
            break;
        }
    }
    match rest.len() == url.len() {
        true => url.to_owned(),
        false => format!("{base}{joint}{}", rest.strip_suffix('/').unwrap_or(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(remote: &str, url: &str, files: bool) -> Option<String> {
        let remote = RemoteUrl::new(remote, files).unwrap();
        let listed = format!("submodule.a.b.path\nlib\0submodule.a.b.url\n{url}\0submodule.x.active\0");
        Addresses::parse(listed.as_bytes()).of(Path::new("lib"), &remote, &remote, files).ok().map(|url| url.text)
    }

    #[test]
    fn only_the_remotes_own_host_is_an_address() {
        let remote = "https://github.com/octo/hello.git";
        for (url, address) in [
            ("https://github.com/a/b", "https://github.com/a/b"),
            ("https://GitHub.com/a/b", "https://GitHub.com/a/b"),
            ("../other.git", "https://github.com/octo/other.git"),
            ("./../../a/b/", "https://github.com/a/b"),
            ("./sub", "https://github.com/octo/hello.git/sub"),
        ] {
            assert_eq!(of(remote, url, false).as_deref(), Some(address), "{url}");
        }
        for url in [
            "https::https://127.0.0.1/x",
            "http::http://github.com/x",
            "http://github.com/a/b",
            "https://github.com.evil.example/a",
            "https://github.com:444/a",
            "https://github.com@evil.example/a",
            "https://github.com\\@evil.example/a",
            "../../../../evil.example/x",
            "../../../../../ext::sh -c x",
            "../../../../../../../../x",
            "ssh://github.com/a/b",
            "git@github.com:a/b",
            "ext::sh -c x",
            "/srv/r.git",
            "file:///srv/r.git",
            "-x",
            "",
        ] {
            assert_eq!(of(remote, url, false), None, "{url}");
        }
        assert_eq!(of("/srv/r.git", "../s", true).as_deref(), Some("/srv/s"));
        assert_eq!(of("/srv/r.git", "https://github.com/a/b", true), None);
    }

    #[test]
    fn every_value_has_to_be_fine() {
        let remote = RemoteUrl::new("https://h/a/b", false).unwrap();
        let parse = |text: &str| Addresses::parse(text.as_bytes()).of(Path::new("lib"), &remote, &remote, false);
        assert!(parse("submodule.a.path\nlib\0submodule.a.url\n../c\0submodule.a.url\nhttps://x/\0").is_err());
        assert!(parse("submodule.a.path\nlib\0submodule.a.url\nhttps://x/\0submodule.a.url\n../c\0").is_err());
        assert!(parse("submodule.a.path\nlib\0").unwrap_err().to_string().contains("names no address"));
        assert!(parse("").is_err());
    }
}
