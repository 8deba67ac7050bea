//! Questions about commits, answered in process by libgit2: no process is started, nothing is written.
//!
//! A shallow history would answer "no" where git does not know; it is refused instead.

use super::blocking;
use super::error::GitError;
use super::own_files::look;
use super::refs::{fetched_tips, hide_fetched};
use super::repository::Repository;
use super::standing::tip_of;
use crate::model::{BranchName, CommitSha, Timestamp};
use crate::plain_file::{self, Links};
use git2::{ErrorCode, Oid};
use std::{collections::HashSet, fmt, path::Path};

/// How much of a reflog is read; an agent may have written it.
const MOST_LOG: u64 = 1024 * 1024;

/// The size of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffStat {
    pub files: u64,
    pub insertions: u64,
    pub deletions: u64,
}

impl fmt::Display for DiffStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = if self.files == 1 { "file" } else { "files" };
        write!(f, "{} {files} changed, {} insertions, {} deletions", self.files, self.insertions, self.deletions)
    }
}

/// One commit, for lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    pub sha: CommitSha,
    /// First line of the message.
    pub subject: String,
    pub author: String,
    pub committed_at: Timestamp,
}

impl Repository {
    /// The commit a full ref name stands for.
    pub async fn tip(&self, full_ref: &str) -> Result<Option<CommitSha>, GitError> {
        let name = full_ref.to_owned();
        self.read(move |repository| tip_of(repository, &name)).await
    }

    /// Whether two commits have one in common that both come from.
    pub(super) async fn are_related(&self, one: &CommitSha, other: &CommitSha) -> Result<bool, GitError> {
        self.compare(one, other, |repository, one, other| match repository.merge_base(one, other) {
            Ok(_) => Ok(true),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        })
        .await
    }

    /// How many commits only `tip` has, and how many only `base` has.
    pub async fn ahead_behind(&self, tip: &CommitSha, base: &CommitSha) -> Result<(u64, u64), GitError> {
        self.compare(tip, base, |repository, tip, base| {
            let (ahead, behind) = repository.graph_ahead_behind(tip, base)?;
            Ok((ahead as u64, behind as u64))
        })
        .await
    }

    /// Whether every commit of `ancestor` is in `descendant`; true for equal commits.
    pub async fn is_ancestor(&self, ancestor: &CommitSha, descendant: &CommitSha) -> Result<bool, GitError> {
        self.compare(ancestor, descendant, |repository, ancestor, descendant| {
            Ok(ancestor == descendant || repository.graph_descendant_of(descendant, ancestor)?)
        })
        .await
    }

    /// Whether a branch that the last fetch brought has the commit.
    pub async fn was_fetched(&self, commit: &CommitSha) -> Result<bool, GitError> {
        let id = oid(commit)?;
        self.read(move |repository| {
            if !repository.odb()?.exists(id) {
                return Ok(false);
            }
            for fetched in fetched_tips(repository)? {
                let (_, tip) = fetched?;
                if tip == id || repository.graph_descendant_of(tip, id)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
        .await
    }

    /// Whether the branch at `tip` has ever stood at `commit` itself, as far as first parents tell: merging another branch
    /// brings that one's commits in beside the line.
    pub async fn stood_at(&self, tip: &CommitSha, commit: &CommitSha) -> Result<bool, GitError> {
        self.compare(tip, commit, |repository, tip, commit| {
            if tip == commit {
                return Ok(true);
            }
            let mut walk = repository.revwalk()?;
            walk.simplify_first_parent()?;
            walk.push(tip)?;
            walk.hide(commit)?;
            match walk.last().transpose()? {
                Some(first) => Ok(repository.find_commit(first)?.parent_id(0).is_ok_and(|parent| parent == commit)),
                None => Ok(false),
            }
        })
        .await
    }

    /// Whether the branch `base` of the remote was seen at this very commit by a fetch, as long as git remembers.
    pub async fn was_fetched_at(&self, base: &BranchName, commit: &CommitSha) -> Result<bool, GitError> {
        let (log, commit) = (self.directory().join("logs").join(base.remote_ref()), oid(commit)?);
        blocking(move || Ok(positions(&log)?.contains(&commit))).await
    }

    /// How many commits of `tip` the branch `base` of the remote had at an earlier fetch and has not any more: somebody
    /// rewrote it.
    pub async fn taken_off(&self, base: &BranchName, tip: &CommitSha) -> Result<u64, GitError> {
        self.count_taken_off(base, tip, false).await
    }

    /// The same without those that another branch of the remote has, so that a push of `tip` publishes nothing anew.
    pub async fn published_again(&self, base: &BranchName, tip: &CommitSha) -> Result<u64, GitError> {
        self.count_taken_off(base, tip, true).await
    }

    async fn count_taken_off(&self, base: &BranchName, tip: &CommitSha, nowhere_else: bool) -> Result<u64, GitError> {
        let Some(present) = self.tip(&base.remote_ref()).await? else { return Ok(0) };
        let log = self.directory().join("logs").join(base.remote_ref());
        self.compare(&present, tip, move |repository, present, tip| {
            let (mut off, mut of_tip) = (repository.revwalk()?, repository.revwalk()?);
            off.hide(present)?;
            of_tip.hide(present)?;
            for stood in positions(&log)? {
                if repository.find_commit(stood).is_ok() {
                    off.push(stood)?;
                }
            }
            let off = off.collect::<Result<HashSet<Oid>, _>>()?;
            if off.is_empty() {
                return Ok(0);
            }
            of_tip.push(tip)?;
            if nowhere_else {
                hide_fetched(repository, &mut of_tip)?;
            }
            let mut count = 0;
            for commit in of_tip {
                count += u64::from(off.contains(&commit?));
            }
            Ok(count)
        })
        .await
    }

    /// What `tip` changed since it left `base`; everything it has when the two have no common history.
    pub async fn diff_stat(&self, base: &CommitSha, tip: &CommitSha) -> Result<DiffStat, GitError> {
        self.compare(base, tip, |repository, base, tip| {
            let from = match repository.merge_base(base, tip) {
                Ok(fork) => Some(repository.find_commit(fork)?.tree()?),
                Err(error) if error.code() == ErrorCode::NotFound => None,
                Err(error) => return Err(error.into()),
            };
            let to = repository.find_commit(tip)?.tree()?;
            let mut diff = repository.diff_tree_to_tree(from.as_ref(), Some(&to), None)?;
            // Counted as git does by default: a moved file is one file.
            diff.find_similar(None)?;
            let stats = diff.stats()?;
            Ok(DiffStat {
                files: stats.files_changed() as u64,
                insertions: stats.insertions() as u64,
                deletions: stats.deletions() as u64,
            })
        })
        .await
    }

    /// The newest `limit` commits that `tip` has and `base` has not, newest first.
    pub async fn log(&self, base: &CommitSha, tip: &CommitSha, limit: usize) -> Result<Vec<CommitInfo>, GitError> {
        self.compare(base, tip, move |repository, base, tip| {
            let mut walk = repository.revwalk()?;
            walk.set_sorting(git2::Sort::TOPOLOGICAL)?;
            walk.push(tip)?;
            walk.hide(base)?;
            walk.take(limit).map(|id| describe(&repository.find_commit(id?)?)).collect()
        })
        .await
    }

    /// The commits on the line of `tip` that are not in `from`: how many, and the newest `limit` of them. What was merged in
    /// beside the line counts as its merge.
    pub async fn line(
        &self,
        from: &CommitSha,
        tip: &CommitSha,
        limit: usize,
    ) -> Result<(u64, Vec<CommitInfo>), GitError> {
        self.compare(from, tip, move |repository, from, tip| {
            let mut walk = repository.revwalk()?;
            walk.set_sorting(git2::Sort::TOPOLOGICAL)?;
            walk.simplify_first_parent()?;
            walk.push(tip)?;
            walk.hide(from)?;
            let (mut count, mut newest) = (0, Vec::new());
            for id in walk {
                let id = id?;
                if newest.len() < limit {
                    newest.push(describe(&repository.find_commit(id)?)?);
                }
                count += 1;
            }
            Ok((count, newest))
        })
        .await
    }

    async fn compare<T: Send + 'static>(
        &self,
        one: &CommitSha,
        other: &CommitSha,
        question: impl Fn(&git2::Repository, Oid, Oid) -> Result<T, GitError> + Send + 'static,
    ) -> Result<T, GitError> {
        let ids = [oid(one)?, oid(other)?];
        self.read(move |repository| {
            if repository.is_shallow() {
                return Err(GitError::refused("the history here is incomplete (a shallow clone)"));
            }
            // Walks tell a commit that is missing from one that is damaged by their words only.
            let objects = repository.odb()?;
            if let Some(missing) = ids.iter().find(|id| !objects.exists(**id)) {
                return Err(GitError::NotFound(format!("the commit {missing}")));
            }
            let [one, other] = ids;
            question(repository, one, other)
        })
        .await
    }
}

/// Where a fetch has seen a branch of the remote, by the end of the ref's log: `<before> <after> <who and when> TAB <why>`.
/// Anybody may have put the ref elsewhere besides.
fn positions(log: &Path) -> Result<HashSet<Oid>, GitError> {
    if !look(log)?.is_some_and(|meta| meta.is_file()) {
        return Ok(HashSet::new());
    }
    let text =
        plain_file::read_end(log, Links::Refuse, MOST_LOG).map_err(|error| GitError::file("reading", log, &error))?;
    let text = String::from_utf8_lossy(&text);
    // The first line may be a part of one.
    let fetched = text.lines().filter(|line| line.split_once('\t').is_some_and(|(_, why)| why.starts_with("fetch ")));
    // Not where it stood before a fetch: an agent may have put it there.
    let stood = fetched.filter_map(|line| Oid::from_str(line.split(' ').nth(1).filter(|id| id.len() == 40)?).ok());
    Ok(stood.filter(|id| !id.is_zero()).collect())
}

fn describe(commit: &git2::Commit<'_>) -> Result<CommitInfo, GitError> {
    let subject = String::from_utf8_lossy(commit.summary_bytes().unwrap_or_default()).into_owned();
    Ok(CommitInfo {
        sha: sha(commit.id())?,
        subject,
        author: String::from_utf8_lossy(commit.author().name_bytes()).into_owned(),
        committed_at: Timestamp::from_unix(commit.time().seconds()),
    })
}

pub(super) fn oid(sha: &CommitSha) -> Result<Oid, GitError> {
    Ok(Oid::from_str(sha.as_str())?)
}

pub(super) fn sha(oid: Oid) -> Result<CommitSha, GitError> {
    CommitSha::new(&oid.to_string()).map_err(|error| GitError::Unreadable(error.to_string()))
}
