//! The trial merge that proves squash merges: would merging this branch change the base at all?

use super::error::GitError;
use super::history::oid;
use super::repository::Repository;
use super::standing::Ends;
use crate::model::CommitSha;
use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::Path,
};

/// How many merges one process is given.
const AT_ONCE: usize = 200;
/// Some git versions read attributes from HEAD in a bare repository: `merge=union` would make of a branch that deletes
/// lines one that adds nothing. In any repository there is this tree.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

impl Repository {
    /// Whether merging `tip` into `base` would leave `base`'s files as they are. A conflict means no, and so does a
    /// base that shares no commit with it (its history was replaced).
    pub async fn merge_adds_nothing(&self, base: &CommitSha, tip: &CommitSha) -> Result<bool, GitError> {
        if !self.are_related(base, tip).await? {
            return Ok(false);
        }
        let ends = Ends { tip: tip.clone(), base: base.clone() };
        Ok(self.merges_that_add_nothing(vec![ends.clone()]).await?.get(&ends) == Some(&true))
    }

    /// For each whether the same is true; the ends of each have a commit in common. Nothing is written to the
    /// repository: new objects go to a throw-away store.
    pub async fn merges_that_add_nothing(&self, asked: Vec<Ends>) -> Result<HashMap<Ends, bool>, GitError> {
        let mut answers = HashMap::new();
        for some in asked.chunks(AT_ONCE) {
            let trees = self.trees_of(some).await?;
            let scratch = self.scratch()?;
            let call = self.call("merge-tree").await?.env("GIT_OBJECT_DIRECTORY", scratch.path());
            let call = call.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&self.directory().join("objects")));
            let call = call.env("GIT_ATTR_SOURCE", EMPTY_TREE);
            let call = call.args(["--write-tree", "--no-messages", "--name-only", "--stdin"]);
            let lines: String = some.iter().map(|ends| format!("{} {}\n", ends.base, ends.tip)).collect();
            let output = call.input(lines.into_bytes()).ok().await?;
            let results = results(&output).filter(|results| results.len() == some.len()).ok_or_else(no_answer)?;
            for (ends, result) in some.iter().zip(results) {
                let tree = trees.get(&ends.base).map(String::as_bytes);
                answers.insert(ends.clone(), result.is_some() && result == tree);
            }
        }
        Ok(answers)
    }

    /// The trees of their bases.
    async fn trees_of(&self, asked: &[Ends]) -> Result<HashMap<CommitSha, String>, GitError> {
        let bases: HashSet<CommitSha> = asked.iter().map(|ends| ends.base.clone()).collect();
        self.read(move |repository| {
            let tree = |base: &CommitSha| Ok((base.clone(), repository.find_commit(oid(base)?)?.tree_id().to_string()));
            bases.iter().map(tree).collect()
        })
        .await
    }
}

fn no_answer() -> GitError {
    GitError::Unreadable("git merge-tree did not answer what it was asked".to_owned())
}

/// What git says of each merge, as git-merge-tree(1) describes it for `--stdin`: `1 NUL <tree> NUL` for a clean one, `0
/// NUL <tree> NUL` and the names of what is in conflict, each with its `NUL`, otherwise; and a `NUL` at the end. `None`
/// of a merge: it is in conflict.
fn results(output: &[u8]) -> Option<Vec<Option<&[u8]>>> {
    let mut results = Vec::new();
    let mut fields = output.split(|byte| *byte == 0).peekable();
    loop {
        let status = fields.next()?;
        if status.is_empty() && fields.peek().is_none() {
            return Some(results);
        }
        let tree = fields.next()?;
        results.push(match status {
            b"1" => Some(tree),
            b"0" => None,
            _ => return None,
        });
        while !fields.next()?.is_empty() {}
    }
}

/// A path in a colon-separated list, in the quoted form git documents for names with odd characters.
fn quoted(path: &Path) -> OsString {
    let mut bytes = vec![b'"'];
    for byte in path.as_os_str().as_encoded_bytes() {
        if matches!(byte, b'"' | b'\\') {
            bytes.push(b'\\');
        }
        bytes.push(*byte);
    }
    bytes.push(b'"');
    OsString::from_vec(bytes)
}
