//! How branches stand to their bases: questions about many of them, answered in one look at the repository.

use super::error::GitError;
use super::history::{oid, sha};
use super::repository::Repository;
use crate::model::{CommitSha, Timestamp};
use git2::{ErrorCode, Oid, ReferenceType, Repository as Objects, Tree};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Two ends of a comparison: a branch, and what it is to be merged into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ends {
    pub tip: CommitSha,
    pub base: CommitSha,
}

/// How a branch stands to its base. What two commits are to each other never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Commits that only the branch has.
    pub ahead: u64,
    /// When the newest of those was made, by the clock of whoever made it.
    pub last_commit: Option<Timestamp>,
    /// What merging it may do to the base's files.
    pub merging: Merging,
}

/// What can be told of a merge without making it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// The branch's own commits together change nothing, or there are none.
    NothingToMerge,
    /// It changes the base: something that the branch changed is in the base as it was before, or the two have no commit in
    /// common.
    Changes,
    /// Everything that the branch changed is different in the base, too: perhaps the same way. Only the merge itself tells.
    Unknown,
}

impl Repository {
    /// The commits that full ref names stand for; one that is not there is left out. One that cannot be read fails all.
    pub async fn tips(&self, names: Vec<String>) -> Result<HashMap<String, CommitSha>, GitError> {
        self.read(move |repository| {
            let mut tips = HashMap::new();
            for name in &names {
                if let Some(tip) = tip_of(repository, name)? {
                    tips.insert(name.clone(), tip);
                }
            }
            Ok(tips)
        })
        .await
    }

    /// How each of them stands; one walk through history for all that have a base in common. One that cannot be told fails all.
    pub async fn standings(&self, asked: Vec<Ends>) -> Result<HashMap<Ends, Standing>, GitError> {
        let mut by_base: BTreeMap<CommitSha, Vec<CommitSha>> = BTreeMap::new();
        for Ends { tip, base } in asked {
            by_base.entry(base).or_default().push(tip);
        }
        self.read(move |repository| {
            if repository.is_shallow() {
                return Err(GitError::refused("the history here is incomplete (a shallow clone)"));
            }
            let mut all = HashMap::new();
            for (base, tips) in &by_base {
                let known = commits_of(repository, std::iter::once(base).chain(tips))?;
                let (base_id, ids) = (known[0], &known[1..]);
                let own = Own::of(repository, base_id, ids)?;
                for (tip, id) in tips.iter().zip(ids) {
                    let standing = own.standing(repository, base_id, *id)?;
                    all.insert(Ends { tip: tip.clone(), base: base.clone() }, standing);
                }
            }
            Ok(all)
        })
        .await
    }
}

/// As [`Repository::tip`] answers.
pub(super) fn tip_of(repository: &Objects, name: &str) -> Result<Option<CommitSha>, GitError> {
    match repository.find_reference(name) {
        // Ours are never names of others: what is done to one would be done to another.
        Ok(reference) if super::broken_refs::is_branch(name) && reference.kind() == Some(ReferenceType::Symbolic) => {
            Err(GitError::Unreadable(format!("{name} is another name of a branch")))
        }
        Ok(reference) => match reference.peel_to_commit() {
            Ok(commit) => Ok(Some(sha(commit.id())?)),
            // A ref that is there and leads nowhere is no ref that is not there.
            Err(error) => Err(GitError::Unreadable(error.message().to_owned())),
        },
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Walks tell a commit that is missing from one that is damaged by their words only.
fn commits_of<'a>(repository: &Objects, commits: impl Iterator<Item = &'a CommitSha>) -> Result<Vec<Oid>, GitError> {
    let objects = repository.odb()?;
    let ids = commits.map(oid).collect::<Result<Vec<Oid>, _>>()?;
    match ids.iter().find(|id| !objects.exists(**id)) {
        Some(missing) => Err(GitError::NotFound(format!("the commit {missing}"))),
        None => Ok(ids),
    }
}

/// The commits that some branches have and their base has not, with their parents.
struct Own(HashMap<Oid, Vec<Oid>>);

impl Own {
    fn of(repository: &Objects, base: Oid, tips: &[Oid]) -> Result<Self, GitError> {
        let mut walk = repository.revwalk()?;
        for tip in tips {
            walk.push(*tip)?;
        }
        walk.hide(base)?;
        let mut own = HashMap::new();
        for id in walk {
            let id = id?;
            own.insert(id, repository.find_commit(id)?.parent_ids().collect());
        }
        Ok(Self(own))
    }

    fn standing(&self, repository: &Objects, base: Oid, tip: Oid) -> Result<Standing, GitError> {
        let (ahead, forks) = self.below(tip);
        if ahead == 0 {
            return Ok(Standing { ahead, last_commit: None, merging: Merging::NothingToMerge });
        }
        let commit = repository.find_commit(tip)?;
        // With one commit that all its way into the base leads through, no search through the base's history is needed.
        let fork = match forks.iter().copied().collect::<Vec<_>>()[..] {
            [] => None,
            [fork] => Some(fork),
            [..] => Some(repository.merge_base(base, tip)?),
        };
        let merging = match fork {
            Some(fork) => merging(repository, fork, base, &commit.tree()?)?,
            None => Merging::Changes,
        };
        Ok(Standing { ahead, last_commit: Some(Timestamp::from_unix(commit.time().seconds())), merging })
    }

    /// How many a branch has, and the commits of the base that they came after.
    fn below(&self, tip: Oid) -> (u64, HashSet<Oid>) {
        let (mut seen, mut forks, mut pending) = (HashSet::new(), HashSet::new(), vec![tip]);
        while let Some(id) = pending.pop() {
            match self.0.get(&id) {
                Some(parents) if seen.insert(id) => pending.extend(parents),
                Some(_) => {}
                None => drop(forks.insert(id)),
            }
        }
        (seen.len() as u64, forks)
    }
}

/// A merge takes the branch's version of whatever only the branch changed since the fork.
fn merging(repository: &Objects, fork: Oid, base: Oid, tip: &Tree<'_>) -> Result<Merging, GitError> {
    let tree = |commit: Oid| Ok::<_, GitError>(repository.find_commit(commit)?.tree()?);
    let (fork, base) = (tree(fork)?, tree(base)?);
    if fork.id() == tip.id() {
        return Ok(Merging::NothingToMerge);
    }
    let entry = |tree: &Tree<'_>, path: &std::path::Path| {
        let entry = tree.get_path(path).ok();
        entry.map(|entry| (entry.id(), entry.filemode()))
    };
    let diff = repository.diff_tree_to_tree(Some(&fork), Some(tip), None)?;
    let only_here = diff.deltas().any(|delta| {
        let path = delta.new_file().path().or(delta.old_file().path());
        path.is_some_and(|path| entry(&base, path) == entry(&fork, path))
    });
    Ok(if only_here { Merging::Changes } else { Merging::Unknown })
}
