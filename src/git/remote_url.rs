//! Where a canonical repository is fetched from: checked once, so that no credential, option or odd transport gets in.

use super::error::GitError;
use crate::model::{Credential, percent_encoded};

/// An address git may talk to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemoteUrl {
    pub text: String,
    /// `https`, `http` or `file`.
    scheme: &'static str,
    /// With its port, as written; empty for files.
    host: String,
}

impl RemoteUrl {
    /// `files`: whether a local path is an allowed remote.
    pub fn new(text: &str, files: bool) -> Result<Self, GitError> {
        let refuse = |why: &str| Err(GitError::refused(format!("the remote address is not usable: {why}")));
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return refuse("it contains white space");
        }
        for (scheme, prefix) in [("https", "https://"), ("http", "http://")] {
            let Some(rest) = text.strip_prefix(prefix) else { continue };
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            return match host {
                "" => refuse("it names no host"),
                host if host.contains('@') => refuse("it contains a user name or password"),
                host => Ok(Self { text: text.to_owned(), scheme, host: host.to_owned() }),
            };
        }
        if files && (text.starts_with('/') || text.starts_with("file:///")) {
            return Ok(Self { text: text.to_owned(), scheme: "file", host: String::new() });
        }
        refuse("only https and http are spoken")
    }

    /// A repository on this machine, by its absolute path.
    pub fn local(path: &str) -> Result<Self, GitError> {
        match path.starts_with('/') && !path.chars().any(char::is_control) {
            true => Ok(Self { text: path.to_owned(), scheme: "file", host: String::new() }),
            false => Err(GitError::refused(
                "the path of the repository is not usable: it is not absolute, or has a line break",
            )),
        }
    }

    /// Where its LFS objects are, as git-lfs derives it.
    pub fn lfs(&self) -> String {
        let text = self.text.trim_end_matches('/');
        match self.scheme {
            "file" if text.starts_with('/') => {
                format!("file://{}", text.split('/').map(percent_encoded).collect::<Vec<_>>().join("/"))
            }
            "file" => text.to_owned(),
            _ => format!("{}.git/info/lfs", text.strip_suffix(".git").unwrap_or(text)),
        }
    }

    /// What all addresses of its host begin with; `None` for files.
    pub fn root(&self) -> Option<String> {
        (self.scheme != "file").then(|| format!("{}://{}/", self.scheme, self.host))
    }

    pub fn is_file(&self) -> bool {
        self.scheme == "file"
    }

    /// Whether both are on one host, and spoken to alike.
    pub fn is_at(&self, other: &Self) -> bool {
        !self.is_file() && self.scheme == other.scheme && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// Only what was configured so speaks it: a stand-in, or a server inside.
    pub fn is_plain_http(&self) -> bool {
        self.scheme == "http"
    }

    /// How git spells this place, with a user, when it asks for a password.
    pub fn place(&self, user: &str) -> String {
        format!("{}://{user}@{}", self.scheme, self.host)
    }

    /// A token is for one host; it is not even brought along for another.
    pub fn admits(&self, credential: Option<&Credential>) -> Result<(), GitError> {
        match credential {
            Some(credential) if self.scheme != "file" && !credential.host.eq_ignore_ascii_case(&self.host) => {
                Err(GitError::refused("the access token is for another host than the remote"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_addresses_pass() {
        for good in ["https://github.com/octo/hello.git", "http://127.0.0.1:4000/a/b.git"] {
            assert!(RemoteUrl::new(good, false).is_ok(), "{good}");
        }
        let bad = [
            "https://x:y@h/a",
            "ssh://h/a",
            "git@h:a",
            "--upload-pack=x",
            "ext::sh -c x",
            "/srv/r.git",
            "https:///a",
            "",
        ];
        for bad in bad {
            assert!(RemoteUrl::new(bad, false).is_err(), "{bad}");
        }
        assert!(RemoteUrl::new("/srv/r.git", true).is_ok());
    }

    #[test]
    fn a_repository_here_is_named_by_its_whole_path() {
        assert!(RemoteUrl::local("/home/ann/My Work").unwrap().is_file());
        for bad in ["", "hello", "./hello", "-x", "/a\nb", "file:///x"] {
            assert!(RemoteUrl::local(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn objects_of_lfs_are_beside_the_repository() {
        let of = |text: &str| RemoteUrl::new(text, true).unwrap().lfs();
        assert_eq!(RemoteUrl::local("/My 50%/#1").unwrap().lfs(), "file:///My%2050%25/%231");
        assert_eq!(of("https://h/a/b"), "https://h/a/b.git/info/lfs");
        assert_eq!(of("https://h/a/b.git"), "https://h/a/b.git/info/lfs");
        assert_eq!(
            (of("/srv/r.git"), of("file:///srv/r.git")),
            ("file:///srv/r.git".into(), "file:///srv/r.git".into())
        );
    }

    #[test]
    fn a_token_is_for_its_host() {
        let remote = RemoteUrl::new("https://github.com/a/b", false).unwrap();
        let to = |host: &str| Credential { host: host.into(), token: "t".into() };
        assert!(remote.admits(Some(&to("GitHub.com"))).is_ok());
        assert!(remote.admits(Some(&to("evil.example"))).is_err());
        assert!(remote.admits(Some(&to("github.com:444"))).is_err());
    }
}
