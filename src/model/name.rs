//! Names that came from outside and were checked: repositories, branches, commits. Constructing one is the check.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    fmt::{self, Write as _},
    net::IpAddr,
    path::Path,
    str::FromStr,
};

/// Owner of the repositories that are on this machine only. No account on GitHub begins like this.
const LOCAL_OWNER: &str = "_local";

/// Why a text is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid {what}: {why}")]
pub struct InvalidName {
    pub what: &'static str,
    pub text: String,
    pub why: &'static str,
}

pub(super) fn invalid(what: &'static str, text: &str, why: &'static str) -> InvalidName {
    const SHOWN: usize = 80;
    let cut = if text.chars().nth(SHOWN).is_some() { "…" } else { "" };
    InvalidName { what, text: text.chars().take(SHOWN).chain(cut.chars()).collect(), why }
}

/// `owner/name` of a repository, each part as GitHub allows it (letters, digits, `-`, `_`, `.`; never `.` or `..`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RepoName {
    owner: String,
    name: String,
}

impl RepoName {
    pub fn new(owner: &str, name: &str) -> Result<Self, InvalidName> {
        for part in [owner, name] {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if part.is_empty() || part.len() > 100 || !part.chars().all(plain) {
                return Err(invalid(
                    "repository name",
                    part,
                    "letters, digits, '-', '_' and '.' only, 1 to 100 of them",
                ));
            }
            if part == "." || part == ".." || part.starts_with('-') {
                return Err(invalid("repository name", part, "reserved"));
            }
        }
        Ok(Self { owner: owner.to_owned(), name: name.to_owned() })
    }

    /// Whether GitHub takes both for one name: it ignores case.
    pub fn is_called(&self, other: &Self) -> bool {
        self.owner.eq_ignore_ascii_case(&other.owner) && self.name.eq_ignore_ascii_case(&other.name)
    }

    /// What a repository on this machine is called, by its directory.
    pub fn of_directory(directory: &Path) -> Self {
        let stem = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
        let plain: String = stem.strip_suffix(".git").unwrap_or(&stem).chars().map(allowed).take(80).collect();
        let name = match plain.trim_start_matches(['-', '.']) {
            "" => "repository",
            name => name,
        };
        Self { owner: LOCAL_OWNER.to_owned(), name: name.to_owned() }
    }

    /// Whether a repository in this directory has the name, or has it with the end that tells it from another of that name.
    pub fn is_of_directory(&self, directory: &Path) -> bool {
        let plain = Self::of_directory(directory);
        let end = self.name.strip_prefix(&plain.name).or_else(|| self.name.strip_prefix(plain.name.get(..80)?));
        self.owner == plain.owner && end.is_some_and(|end| end.is_empty() || end.starts_with('-'))
    }

    pub fn owner(&self) -> &str {
        &self.owner
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for RepoName {
    type Err = InvalidName;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (owner, name) =
            text.split_once('/').ok_or_else(|| invalid("repository name", text, "expected owner/name"))?;
        Self::new(owner, name)
    }
}

impl fmt::Display for RepoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// What a thread is called on a platform that names threads by texts: anything of one line that can be shown as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ThreadName(String);

impl ThreadName {
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let refuse = |why| Err(invalid("name of a conversation", text, why));
        if text.is_empty() || text.len() > 200 {
            return refuse("1 to 200 bytes");
        }
        if text.trim() != text || text.chars().any(|c| c.is_control() || c == '`' || reorders(c)) {
            return refuse("no space at its ends, no control character, no back-tick, nothing that turns text around");
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A branch name that `git check-ref-format refs/heads/<name>` accepts and that no git command can take for an option
/// or a revision expression (no leading `-`, not `HEAD`, not `@`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BranchName(String);

/// Git makes a file of each part, and for a moment one with `.lock` at its end; file systems allow 255 bytes.
const MOST_OF_A_PART: usize = 250;

impl BranchName {
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let refuse = |why| Err(invalid("branch name", text, why));
        if text.is_empty() || text.len() > 400 {
            return refuse("1 to 400 bytes");
        }
        if text.starts_with('-') || text == "HEAD" || text == "@" {
            return refuse("reserved by git");
        }
        if text.chars().any(|c| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\')) {
            return refuse("contains a character git does not allow");
        }
        if text.contains("..") || text.contains("@{") || text.ends_with('.') {
            return refuse("contains a sequence git does not allow");
        }
        if text.split('/').any(|part| part.is_empty() || part.starts_with('.') || part.ends_with(".lock")) {
            return refuse("a part is empty, starts with '.' or ends with '.lock'");
        }
        if text.split('/').any(|part| part.len() > MOST_OF_A_PART) {
            return refuse("a part is longer than 250 bytes");
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `refs/heads/<name>`, the only form in which a branch is handed to git.
    pub fn full_ref(&self) -> String {
        format!("refs/heads/{}", self.0)
    }

    /// `refs/remotes/origin/<name>`.
    pub fn remote_ref(&self) -> String {
        format!("refs/remotes/origin/{}", self.0)
    }

    /// What a branch beside it cannot be called: the parts of its name that end before a `/`. Git keeps `a` and `a/b` in the
    /// same place.
    pub fn above(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(at, _)| &self.0[..at])
    }

    /// Whether a branch of that name is kept below this one.
    pub fn is_above(&self, name: &str) -> bool {
        name.strip_prefix(&self.0).is_some_and(|rest| rest.starts_with('/'))
    }

    /// As it stands in the path of an address: each part percent-encoded.
    pub fn in_address(&self) -> String {
        self.0.split('/').map(percent_encoded).collect::<Vec<_>>().join("/")
    }

    /// A name somebody writes for a branch that may not exist yet: nothing that git or a person takes for something else.
    /// Branches that are there already may be called so all the same.
    pub fn to_create(text: &str) -> Result<Self, InvalidName> {
        let refuse = |why| Err(invalid("branch name", text, why));
        let branch = Self::new(text)?;
        let is_id = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match text {
            _ if text.len() > 200 => refuse("it may have 200 bytes at most"),
            _ if text == "refs" || text.starts_with("refs/") => {
                refuse("a name of a branch is given without 'refs/heads/', and nothing else can be worked on")
            }
            _ if is_id => refuse("it looks like the id of a commit; name a branch"),
            _ if !branch.is_showable() => {
                refuse("it has a back-tick or a character that turns text around, which no comment can show safely")
            }
            _ => Ok(branch),
        }
    }

    /// Whether a comment can show it: branches stand in code spans there, in which a back-tick is no text, and beside other
    /// words, which a name must not reorder.
    pub fn is_showable(&self) -> bool {
        !self.0.contains(|c| c == '`' || reorders(c))
    }

    /// The directory name for this branch: characters outside `[A-Za-z0-9._-]` become `-`; when that loses
    /// information, the result is over 64 bytes, or upper-case letters could collide with lower-case ones, `-` and the
    /// first 8 hex digits of the branch's SHA-256 are added. Injective also on case-insensitive file systems.
    pub fn slug(&self) -> String {
        let plain: String = self
            .0
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
            .collect();
        let faithful = plain == self.0 && plain.len() <= 64 && !plain.chars().any(|c| c.is_ascii_uppercase());
        // A faithful name that itself looks like "<text>-<8 hex digits>" could meet another branch's hashed slug.
        let looks_hashed = plain
            .rsplit_once('-')
            .is_some_and(|(_, tail)| tail.len() == 8 && tail.bytes().all(|b| b.is_ascii_hexdigit()));
        if faithful && !looks_hashed {
            return plain;
        }
        let digest = hex::encode(Sha256::digest(self.0.as_bytes()));
        let head: String = plain.chars().take(55).collect();
        format!("{head}-{}", &digest[..8])
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A full commit id: 40 (SHA-1) or 64 (SHA-256) lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitSha(String);

impl CommitSha {
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let full = matches!(text.len(), 40 | 64);
        if !full || !text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return Err(invalid("commit id", text, "40 or 64 lower-case hex digits"));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first seven digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..7]
    }
}

impl fmt::Display for CommitSha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The full id of a file's content in git, in the form of a [`CommitSha`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobId(String);

impl BlobId {
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        match CommitSha::new(text) {
            Ok(CommitSha(id)) => Ok(Self(id)),
            Err(error) => Err(InvalidName { what: "blob id", ..error }),
        }
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Percent-encoded, for a part of an address's path or a value of its query.
pub fn percent_encoded(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    value.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Whether a host (a name, an address, an IPv6 one also in brackets) is this very machine.
pub fn is_loopback_host(host: &str) -> bool {
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Embeddings, overrides and isolates of direction: they make a text read as what it does not say.
pub fn reorders(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text as it is shown: what a terminal would obey, and what turns text around, is written out as in JSON (`\u202e`), but for
/// what `stays`.
pub fn written_out(text: &str, stays: &[char]) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match (c.is_control() || reorders(c)) && !stays.contains(&c) {
            // Writing to a text never fails.
            true => drop(write!(shown, "\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
    }
    shown
}

/// What stays of a text of several lines.
pub const LINES: &[char] = &['\n', '\r', '\t'];

/// The same on a terminal, where a carriage return would write over what stands in its line.
pub const TERMINAL_LINES: &[char] = &['\n', '\t'];

macro_rules! text_conversions {
    ($($name:ident by $make:expr),* $(,)?) => {$(
        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, Self::Error> {
                $make(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.to_string()
            }
        }
    )*};
}

text_conversions!(
    RepoName by |text: &str| text.parse(),
    ThreadName by ThreadName::new,
    BranchName by BranchName::new,
    CommitSha by CommitSha::new,
    BlobId by BlobId::new,
);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn what_would_be_obeyed_is_written_out() {
        assert_eq!(written_out("a\u{1b}[2Jb\n\u{202e}c\u{9b}é", &[]), r"a\u001b[2Jb\u000a\u202ec\u009bé");
        assert_eq!(written_out("a\tb\n\u{7f}", LINES), "a\tb\n\\u007f");
        assert_eq!(written_out("mine\ryours\n", TERMINAL_LINES), "mine\\u000dyours\n");
    }

    #[test]
    fn a_directory_gives_its_repository_a_name() {
        for (path, name) in [
            ("/w/hello", "hello"),
            ("/w/hello.git", "hello"),
            ("/w/My Work", "My-Work"),
            ("/w/.dot", "dot"),
            ("/w/…", "repository"),
            ("/", "repository"),
        ] {
            let found = RepoName::of_directory(Path::new(path));
            assert_eq!(found, RepoName::new("_local", name).unwrap(), "{path}");
        }
    }

    #[test]
    fn branch_names_follow_git() {
        for good in ["issue-42", "feature/x", "修复🚀", "a.b", "v1@x", "x-"] {
            assert!(BranchName::new(good).is_ok(), "{good}");
        }
        let bad = [
            "",
            "-x",
            "--lock",
            "HEAD",
            "@",
            "a b",
            "a\\b",
            "a..b",
            "x.lock",
            ".x",
            "a/.b",
            "a~b",
            "a^b",
            "a:b",
            "a?b",
            "a*b",
            "a[b",
            "a@{1}",
            "a/",
            "a//b",
            "a.",
            "/a",
            "a\nb",
            "x/y.lock/z",
        ];
        for text in bad {
            assert!(BranchName::new(text).is_err(), "{text:?}");
        }
        let (long, longer) = ("修".repeat(83), "修".repeat(84));
        assert!(BranchName::new(&format!("{long}/{long}")).is_err(), "more than 400 bytes");
        assert!(BranchName::new(&format!("x/{long}")).is_ok());
        assert!(BranchName::new(&format!("x/{longer}")).is_err(), "git has no room for its lock");
    }

    #[test]
    fn a_new_branch_is_not_called_like_something_else() {
        let long = "x".repeat(201);
        for text in ["refs/heads/x", "refs/pull/1/head", &"a1".repeat(20), &"A1".repeat(32), &long, "a`b", "a\u{202e}b"]
        {
            assert!(BranchName::to_create(text).is_err(), "{text}");
            assert!(BranchName::new(text).is_ok(), "it may be there already: {text}");
        }
        for text in ["issue-1", "feature/refs/x", &"a".repeat(41), &"x".repeat(200)] {
            assert!(BranchName::to_create(text).is_ok(), "{text}");
        }
        assert!(!BranchName::new("a\u{2066}b").unwrap().is_showable());
        let why = BranchName::to_create("refs/heads/x").unwrap_err().to_string();
        assert!(why.ends_with("a name of a branch is given without 'refs/heads/', and nothing else can be worked on"));
    }

    #[test]
    fn slugs_never_collide() {
        let names =
            ["feat/a-b", "feat-a/b", "feat-a-b", "Fix/A", "fix/a", "FIX-A", "fix-a", &"x".repeat(65), &"x".repeat(66)];
        let slugs: HashSet<String> =
            names.iter().map(|n| BranchName::new(n).unwrap().slug().to_ascii_lowercase()).collect();
        assert_eq!(slugs.len(), names.len());
        assert_eq!(BranchName::new("issue-42").unwrap().slug(), "issue-42");
        let hashed = BranchName::new("feat/x").unwrap().slug();
        assert_ne!(BranchName::new(&hashed).unwrap().slug(), hashed);
    }

    #[test]
    fn a_slug_of_more_than_64_bytes_ends_in_the_hash_of_its_branch() {
        let slug = |text: &str| BranchName::new(text).unwrap().slug();
        let (fits, too_long) = ("x".repeat(64), "x".repeat(65));
        assert_eq!(slug(&fits), fits);
        // printf %065d | tr 0 x | sha256sum, printf feat/x | sha256sum
        assert_eq!(slug(&too_long), format!("{}-9537c5fd", "x".repeat(55)));
        assert_eq!(slug("feat/x"), "feat-x-79b4cc55");
    }

    #[test]
    fn repository_names_cannot_climb() {
        assert!("acme/app".parse::<RepoName>().is_ok());
        for bad in ["acme", "../x", "acme/..", "a/b/c", "/x", "a/", "-x/y", "a b/c"] {
            assert!(bad.parse::<RepoName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn commit_ids_are_full() {
        assert!(CommitSha::new(&"a".repeat(40)).is_ok());
        assert!(CommitSha::new("abc1234").is_err());
        assert!(CommitSha::new(&"A".repeat(40)).is_err());
    }
}
