//! Addresses on GitHub, built from what we know; those that came with a payload are shown only when they are web addresses.

use crate::model::*;

/// Addresses of one repository.
#[derive(Clone, Debug)]
pub struct Links {
    base: String,
}

impl Links {
    /// `web_url` has no trailing slash.
    pub fn new(web_url: &str, repository: &RepoName) -> Self {
        Self { base: format!("{web_url}/{repository}") }
    }

    pub fn thread(&self, kind: ThreadKind, number: ThreadNumber) -> String {
        match kind {
            ThreadKind::Issue => format!("{}/issues/{number}", self.base),
            ThreadKind::PullRequest => format!("{}/pull/{number}", self.base),
        }
    }

    pub fn branch(&self, branch: &BranchName) -> String {
        format!("{}/tree/{}", self.base, branch.in_address())
    }

    pub fn commit(&self, sha: &CommitSha) -> String {
        format!("{}/commit/{sha}", self.base)
    }
}

/// An address from outside, if a browser may follow it.
pub fn web_address(url: &str) -> Option<String> {
    (url.starts_with("https://") || url.starts_with("http://")).then(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_what_github_uses() {
        let links = Links::new("https://github.com", &"octo/hello".parse().unwrap());
        assert_eq!(links.thread(ThreadKind::PullRequest, ThreadNumber(7)), "https://github.com/octo/hello/pull/7");
        let branch = BranchName::new("feature/a#b").unwrap();
        assert_eq!(links.branch(&branch), "https://github.com/octo/hello/tree/feature/a%23b");
        assert_eq!(web_address("javascript:alert(1)"), None);
    }
}
