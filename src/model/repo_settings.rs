//! What a repository asks for in its settings file, as plain data. Its text is read in the room `repo_settings`; what the
//! server allows caps every value.

use super::{BlobId, BranchName, InvalidName, name::invalid};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::{fmt, time::Duration};

/// Where the settings lie, on the default branch.
pub const REPO_SETTINGS_FILE: &str = ".github/treewarden.yml";

/// As many as a server may allow.
const WORKTREES: std::ops::RangeInclusive<u32> = 1..=10_000;

/// As many patterns a file may have.
const PATTERNS: usize = 50;

/// The settings of a repository. The field names are the keys of the file; what is left out is as the default says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RepoSettings {
    /// The branch new work starts from, and is to be merged into; absent: the default branch.
    #[serde(deserialize_with = "base")]
    pub base: Option<BranchName>,
    pub branch_prefix: Option<BranchPrefix>,
    pub share_linked: ShareLinked,
    pub pull_request: PullRequestMode,
    /// Live worktrees, where the server allows more.
    #[serde(deserialize_with = "worktrees")]
    pub max_worktrees: Option<u32>,
    /// For one run, where the server allows more.
    #[serde(deserialize_with = "time_limit", serialize_with = "in_words")]
    pub run_time_limit: Option<Duration>,
    /// Which of the operator's files are copied into a new worktree, besides what `.worktreeinclude` asks for.
    #[serde(deserialize_with = "patterns")]
    pub copy: Vec<CopyPattern>,
    /// Whether submodules are checked out in a new worktree.
    #[serde(deserialize_with = "yes_unless_said")]
    pub submodules: bool,
    /// Whether files that Git LFS keeps are downloaded into a new worktree.
    #[serde(deserialize_with = "yes_unless_said")]
    pub lfs: bool,
}

impl Default for RepoSettings {
    fn default() -> Self {
        Self {
            base: None,
            branch_prefix: None,
            share_linked: ShareLinked::default(),
            pull_request: PullRequestMode::default(),
            max_worktrees: None,
            run_time_limit: None,
            copy: Vec::new(),
            submodules: true,
            lfs: true,
        }
    }
}

impl RepoSettings {
    /// How many live worktrees the repository may have. Never more than the server allows.
    pub fn worktree_limit(&self, server: u32) -> u32 {
        self.max_worktrees.map_or(server, |own| own.min(server))
    }

    /// How long one run may take. Never longer than the server allows.
    pub fn time_limit(&self, server: Duration) -> Duration {
        self.run_time_limit.map_or(server, |own| own.min(server))
    }

    /// A branch that Treewarden names itself, with the repository's prefix.
    pub fn branch(&self, name: &str) -> Result<BranchName, InvalidName> {
        let prefix = self.branch_prefix.as_ref().map(BranchPrefix::as_str).unwrap_or_default();
        BranchName::to_create(&format!("{prefix}{name}"))
    }
}

/// Whether threads that belong together work in one worktree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShareLinked {
    /// Where that mixes no two lines of work.
    #[default]
    Auto,
    /// Also where the worktree lacks the pull request's head.
    Always,
    /// Only where a worktree is on the very branch that is wanted: git has a branch in one worktree only.
    Never,
}

/// What becomes of a pushed branch that has no open pull request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PullRequestMode {
    #[default]
    Draft,
    Open,
    /// A link with which a person opens one.
    Link,
    Never,
}

macro_rules! shown_as_written {
    ($($kind:ident { $($variant:ident => $text:literal),* $(,)? })*) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($kind::$variant => $text),* })
            }
        }
    )*};
}

shown_as_written! {
    ShareLinked { Auto => "auto", Always => "always", Never => "never" }
    PullRequestMode { Draft => "draft", Open => "open", Link => "link", Never => "never" }
}

/// What goes in front of every branch Treewarden itself names: the beginning of a valid branch name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BranchPrefix(String);

impl BranchPrefix {
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let refuse = |why| Err(invalid("branch prefix", text, why));
        if text.is_empty() || text.len() > 100 {
            return refuse("1 to 100 bytes");
        }
        // Whatever follows begins with a letter.
        match BranchName::to_create(&format!("{text}x")) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => refuse(error.why),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BranchPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for BranchPrefix {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        Self::new(&text)
    }
}

impl From<BranchPrefix> for String {
    fn from(prefix: BranchPrefix) -> String {
        prefix.0
    }
}

/// One line in the syntax of gitignore(5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CopyPattern(String);

impl CopyPattern {
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let refuse = |why| Err(invalid("pattern", text, why));
        match text {
            _ if text.trim().is_empty() || text.len() > 200 => refuse("1 to 200 bytes"),
            _ if text.chars().any(char::is_control) => refuse("one line of visible characters"),
            _ => Ok(Self(text.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for CopyPattern {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        Self::new(&text)
    }
}

impl From<CopyPattern> for String {
    fn from(pattern: CopyPattern) -> String {
        pattern.0
    }
}

/// Why a settings file is not in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsProblem {
    /// Line and column, both from 1, where the file could be read that far.
    pub at: Option<(u64, u64)>,
    /// One clause for people, with foreign text shortened.
    pub what: String,
}

impl fmt::Display for SettingsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "line {line}, column {column}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// What is known of a repository's settings: the file as last seen, and what is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownSettings {
    /// Absent: there is no file.
    pub file: Option<BlobId>,
    /// What that file says; when it is broken, what the last good one said, or the defaults.
    pub in_force: RepoSettings,
    pub problem: Option<SettingsProblem>,
}

fn base<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BranchName>, D::Error> {
    let branch: Option<BranchName> = Option::deserialize(deserializer)?;
    match branch {
        Some(branch) if !branch.is_showable() => {
            Err(D::Error::custom("a base with a back-tick in its name cannot be shown in comments"))
        }
        branch => Ok(branch),
    }
}

fn worktrees<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    match Option::<u32>::deserialize(deserializer)? {
        Some(number) if !WORKTREES.contains(&number) => {
            Err(D::Error::custom("expected a whole number from 1 to 10000"))
        }
        number => Ok(number),
    }
}

fn yes_unless_said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<bool>::deserialize(deserializer)?.unwrap_or(true))
}

fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CopyPattern>, D::Error> {
    let patterns = Option::<Vec<CopyPattern>>::deserialize(deserializer)?.unwrap_or_default();
    match patterns.len() > PATTERNS {
        true => Err(D::Error::custom("expected at most 50 patterns")),
        false => Ok(patterns),
    }
}

/// As the server's own limit is written.
fn time_limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let allowed = Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3600);
    match humantime::parse_duration(&text) {
        Ok(limit) if allowed.contains(&limit) => Ok(Some(limit)),
        _ => Err(D::Error::custom("expected a time from 1s to 7d, for example 90m")),
    }
}

fn in_words<S: serde::Serializer>(limit: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    limit.map(|limit| humantime::format_duration(limit).to_string()).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_repository_gets_more_than_the_server_allows() {
        let hour = Duration::from_secs(3600);
        let greedy = RepoSettings { max_worktrees: Some(1000), run_time_limit: Some(hour * 9), ..Default::default() };
        assert_eq!((greedy.worktree_limit(25), greedy.time_limit(hour)), (25, hour));
        let modest = RepoSettings { max_worktrees: Some(2), run_time_limit: Some(hour / 2), ..Default::default() };
        assert_eq!((modest.worktree_limit(25), modest.time_limit(hour)), (2, hour / 2));
        let silent = RepoSettings::default();
        assert_eq!((silent.worktree_limit(25), silent.time_limit(hour)), (25, hour));
    }

    #[test]
    fn a_prefix_is_the_beginning_of_a_branch() {
        for good in ["treewarden/", "bot-", "a/b/", "x", "修复/"] {
            let settings = RepoSettings { branch_prefix: BranchPrefix::new(good).ok(), ..Default::default() };
            assert_eq!(settings.branch("issue-42").unwrap().as_str(), format!("{good}issue-42"));
        }
        for bad in [
            "",
            "/",
            "-x",
            "a b/",
            "a//",
            "a/.",
            "../",
            "a..",
            "x.lock/",
            "a`b/",
            "a:b",
            "refs/",
            "refs/heads/",
            "\u{202d}/",
            &"x".repeat(101),
        ] {
            assert!(BranchPrefix::new(bad).is_err(), "{bad}");
        }
        assert_eq!(RepoSettings::default().branch("issue-42").unwrap().as_str(), "issue-42");
        let long = RepoSettings { branch_prefix: BranchPrefix::new(&"é".repeat(50)).ok(), ..Default::default() };
        assert!(long.branch(&"x".repeat(100)).is_ok() && long.branch(&"x".repeat(101)).is_err());
    }

    #[test]
    fn what_is_remembered_is_read_back() {
        let settings = RepoSettings {
            base: BranchName::new("dev").ok(),
            branch_prefix: BranchPrefix::new("bot/").ok(),
            share_linked: ShareLinked::Never,
            pull_request: PullRequestMode::Link,
            max_worktrees: Some(3),
            run_time_limit: Some(Duration::from_millis(5_400_500)),
            copy: vec![CopyPattern::new(".env").unwrap()],
            submodules: false,
            lfs: false,
        };
        let known = KnownSettings {
            file: BlobId::new(&"a".repeat(40)).ok(),
            in_force: settings,
            problem: Some(SettingsProblem { at: Some((3, 1)), what: "no".into() }),
        };
        let value = serde_json::to_value(&known).unwrap();
        assert_eq!(serde_json::from_value::<KnownSettings>(value).unwrap(), known);
    }
}
