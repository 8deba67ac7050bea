//! What `git stash` put aside: one list for all worktrees of a repository, which outlives each of them. Nothing of ours takes
//! anything out of it.

use super::blocking;
use super::error::GitError;
use super::own_files::look;
use super::repository::Repository;
use crate::model::BranchName;
use crate::plain_file::{self, Links};

/// Its log is the list, the newest at the end: git-stash(1).
const LIST: &str = "logs/refs/stash";
/// How much of it is read; an agent may have written it.
const MOST: u64 = 1024 * 1024;

impl Repository {
    /// How many changes were put aside on a branch and not taken out again. Starts no process.
    pub async fn stashed_on(&self, branch: &BranchName) -> Result<u64, GitError> {
        let (list, branch) = (self.directory().join(LIST), branch.clone());
        blocking(move || {
            // Git writes neither links nor pipes there.
            if !look(&list)?.is_some_and(|meta| meta.is_file()) {
                return Ok(0);
            }
            let text = plain_file::read_end(&list, Links::Refuse, MOST);
            let text = text.map_err(|error| GitError::file("reading", &list, &error))?;
            Ok(text
                .split(|byte| *byte == b'\n')
                .filter(|line| branch_in(line) == Some(branch.as_str().as_bytes()))
                .count() as u64)
        })
        .await
    }
}

/// `<before> <commit> <who and when> TAB WIP on <branch>: …`, or `On <branch>: …` where it was given words.
fn branch_in(line: &[u8]) -> Option<&[u8]> {
    let words = &line[line.iter().position(|byte| *byte == b'\t')? + 1..];
    let rest = words.strip_prefix(b"WIP on ").or_else(|| words.strip_prefix(b"On "))?;
    Some(&rest[..rest.iter().position(|byte| *byte == b':')?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_names_its_branch() {
        let entry = |words: &str| format!("0 1 ann <ann@example.org> 1 +0000\t{words}").into_bytes();
        assert_eq!(branch_in(&entry("WIP on feature/x: 1234567 Words: more")), Some(&b"feature/x"[..]));
        assert_eq!(branch_in(&entry("On issue-1: parser")), Some(&b"issue-1"[..]));
        for other in ["autostash", "On issue-1", ""] {
            assert_eq!(branch_in(&entry(other)), None, "{other}");
        }
        assert_eq!(branch_in(b"On issue-1: no tab"), None);
    }
}
