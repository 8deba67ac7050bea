//! What comes from the remote: fetches (merged while they wait) and single questions.

use super::command::Place;
use super::error::GitError;
use super::repository::Repository;
use super::{blocking, loose_objects, small_file, write_whole};
use crate::model::{BranchName, CommitSha, Credential, Timestamp};
use std::sync::{Mutex, PoisonError};
use tokio::sync::oneshot;

/// Holds the time of the last fetch in the repository; gitrepository-layout(5) reserves no such name.
pub(super) const FETCHED: &str = "treewarden-fetched";

/// How often a fetch is tried, when objects turn out to be damaged.
const MOST_ROUNDS: usize = 4;

/// What to bring here. Remote branches go to `refs/remotes/origin/`, never to `refs/heads/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchRequest {
    /// All branches; those that are gone on the remote go here too.
    pub branches: bool,
    /// Further refs, as (remote ref, local ref), taken as they are even when history was rewritten.
    pub extra: Vec<(String, String)>,
}

impl FetchRequest {
    fn merge(mut self, other: &FetchRequest) -> FetchRequest {
        self.branches |= other.branches;
        for pair in &other.extra {
            if !self.extra.contains(pair) {
                self.extra.push(pair.clone());
            }
        }
        self
    }

    fn refspecs(&self) -> Result<Vec<String>, GitError> {
        let mut specs = Vec::new();
        if self.branches {
            specs.push("+refs/heads/*:refs/remotes/origin/*".to_owned());
        }
        for (from, to) in &self.extra {
            let plain = |name: &str| name.starts_with("refs/") && git2::Reference::is_valid_name(name);
            if !plain(from) || !plain(to) || to.starts_with("refs/heads/") {
                return Err(GitError::refused(format!("{from} cannot be fetched into {to}")));
            }
            specs.push(format!("+{from}:{to}"));
        }
        Ok(specs)
    }
}

/// Requests that arrived while the repository was busy; whoever gets the next turn carries all of them out.
#[derive(Default)]
pub(super) struct Waiting(Mutex<Vec<Waiter>>);

struct Waiter {
    request: FetchRequest,
    done: oneshot::Sender<Result<(), GitError>>,
}

impl Waiting {
    fn join(&self, request: FetchRequest) -> oneshot::Receiver<Result<(), GitError>> {
        let (done, answer) = oneshot::channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Waiter { request, done });
        answer
    }

    fn take(&self) -> Vec<Waiter> {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        all.into_iter().filter(|waiter| !waiter.done.is_closed()).collect()
    }
}

impl Repository {
    /// Brings the remote's state here. Sees everything that was on the remote when it was called.
    pub async fn fetch(&self, request: &FetchRequest, credential: Option<&Credential>) -> Result<(), GitError> {
        self.remote()?.admits(credential)?;
        if request.refspecs()?.is_empty() {
            return Ok(());
        }
        loop {
            let mut answer = self.shared.waiting.join(request.clone());
            tokio::select! {
                // An answer that is there goes before a turn that is free.
                biased;
                answer = &mut answer => match answer {
                    Ok(result) => return result,
                    // Whoever carried it out was dropped in the middle.
                    Err(_) => continue,
                },
                _turn = self.turn() => self.fetch_waiting(credential).await,
            }
            if let Ok(result) = answer.try_recv() {
                return result;
            }
        }
    }

    /// Remembers when the last fetch of all branches was, to tell people how old a view of the remote is.
    pub async fn note_fetch(&self, at: Timestamp) -> Result<(), GitError> {
        let path = self.directory().join(FETCHED);
        blocking(move || write_whole(&path, at.unix().to_string().as_bytes())).await
    }

    /// When [`Repository::note_fetch`] was last told of one; absent when nobody knows.
    pub fn fetched_at(&self) -> Option<Timestamp> {
        let text = small_file(&self.directory().join(FETCHED)).ok()?;
        String::from_utf8(text).ok()?.trim().parse().ok().map(Timestamp::from_unix)
    }

    async fn fetch_waiting(&self, credential: Option<&Credential>) {
        let waiters = self.shared.waiting.take();
        if waiters.is_empty() {
            return;
        }
        let merged = waiters.iter().fold(FetchRequest::default(), |all, waiter| all.merge(&waiter.request));
        let together = self.fetch_patiently(&merged, credential).await;
        let alone = waiters.len() == 1;
        for waiter in waiters {
            let result = match &together {
                // One bad request must not fail the others.
                Err(error) if !alone && !error.is_transient() => self.fetch_now(&waiter.request, credential).await,
                result => result.clone(),
            };
            let _ = waiter.done.send(result);
        }
    }

    async fn fetch_patiently(&self, request: &FetchRequest, credential: Option<&Credential>) -> Result<(), GitError> {
        match self.fetch_now(request, credential).await {
            Err(error) if self.clear_leftovers(None, &error).await? => self.fetch_now(request, credential).await,
            result => result,
        }
    }

    async fn fetch_now(&self, request: &FetchRequest, credential: Option<&Credential>) -> Result<(), GitError> {
        self.restore_refs().await?;
        let remote = self.remote()?;
        let before = if request.branches { self.remote_branches().await? } else { Vec::new() };
        let promised = if request.branches { self.promised()? } else { Vec::new() };
        for round in 1.. {
            if loose_objects::are_lacking(self.directory()) {
                self.refill(credential).await?;
            }
            let call = self.call("fetch").await?.credential(&remote, credential).slow();
            let call = call.args(["--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"]);
            // Of a remote that is shallow itself, git would else bring nothing, and call that a success.
            let call = call.args(["--no-recurse-submodules", "--prune", "--update-shallow"]);
            let call = call.args(self.missing_parts(&promised)?).args(["--end-of-options", &remote.text]);
            let outcome = call.args(request.refspecs()?).ok().await;
            if round == MOST_ROUNDS || !loose_objects::are_lacking(self.directory()) {
                outcome?;
                break;
            }
        }
        self.forget_promises(&promised)?;
        self.forget_false_ends_anew().await?;
        self.refuse_cut_off_remote()?;
        match before.is_empty() || self.has_remote_branches().await? {
            true => Ok(()),
            false => self.put_back(&before).await,
        }
    }

    /// Brings all objects of the remote's branches again, from a repository without refs: from here git would ask for nothing that
    /// it has a ref to, and stop at those that lead to objects which are not here.
    async fn refill(&self, credential: Option<&Credential>) -> Result<(), GitError> {
        let (remote, repository) = (self.remote()?, self.clone());
        let scratch = blocking(move || {
            let scratch = repository.scratch()?;
            git2::Repository::init_bare(scratch.path())?;
            Ok(scratch)
        })
        .await?;
        let place = Place::Bare(scratch.path().to_owned());
        let call = self.git.program().call(&place, "fetch").credential(&remote, credential).slow();
        let call = call.mending(self.directory()).env("GIT_OBJECT_DIRECTORY", self.directory().join("objects"));
        let call = call.args(["--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"]);
        let call = call.args(["--no-recurse-submodules", "--update-shallow", "--end-of-options", &remote.text]);
        call.arg("+refs/heads/*:refs/remotes/origin/*").ok().await?;
        loose_objects::all_fetched(self.directory())
    }

    /// A login page, or nothing at all, with status 200 looks to git like a repository without a branch. What was known is
    /// put back: of all branches at once only the whole repository can be rid, and that says so.
    async fn put_back(&self, branches: &[(String, CommitSha)]) -> Result<(), GitError> {
        let lines: String = branches.iter().map(|(name, sha)| format!("create {name} {sha}\n")).collect();
        // They are again where a fetch saw them.
        let call = self.call("update-ref").await?.args(["-m", "fetch put back", "--stdin"]);
        call.input(lines.into_bytes()).ok().await?;
        Err(GitError::Unreachable(
            "its answer names no branch at all, although there were some; what was known of them is kept".to_owned(),
        ))
    }

    /// The branch the remote calls its default; `None` when it has no commit yet.
    pub async fn remote_head(&self, credential: Option<&Credential>) -> Result<Option<BranchName>, GitError> {
        let text = self.ask(&["--symref"], "HEAD", credential).await?;
        let name = text.lines().find_map(|line| line.strip_prefix("ref: refs/heads/")?.strip_suffix("\tHEAD"));
        Ok(name.and_then(|name| BranchName::new(name).ok()))
    }

    /// Where a branch stands on the remote right now; `None` when it is not there.
    pub async fn remote_branch(
        &self,
        branch: &BranchName,
        credential: Option<&Credential>,
    ) -> Result<Option<CommitSha>, GitError> {
        let wanted = branch.full_ref();
        let text = self.ask(&[], &wanted, credential).await?;
        // The pattern also matches refs that merely end like this.
        let sha = text.lines().find_map(|line| line.split_once('\t').filter(|(_, name)| *name == wanted));
        sha.map(|(sha, _)| CommitSha::new(sha)).transpose().map_err(|error| GitError::Unreadable(error.to_string()))
    }

    /// The branch that one of the remote only stands for: git would write through it, whatever that is.
    pub(super) async fn remote_alias(&self, branch: &BranchName) -> Result<Option<String>, GitError> {
        let full = branch.full_ref();
        let text = self.ask(&["--symref"], &full, None).await?;
        let alias = text.lines().find_map(|line| line.strip_prefix("ref: ")?.strip_suffix(&full)?.strip_suffix('\t'));
        Ok(alias.map(|name| name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()))
    }

    async fn ask(&self, options: &[&str], what: &str, credential: Option<&Credential>) -> Result<String, GitError> {
        let remote = self.remote()?;
        remote.admits(credential)?;
        let call = self.call("ls-remote").await?.credential(&remote, credential).slow();
        let call = call.arg("--quiet").args(options).args(["--end-of-options", &remote.text, what]);
        Ok(String::from_utf8_lossy(&call.ok().await?).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extra(from: &str, to: &str) -> FetchRequest {
        FetchRequest { branches: false, extra: vec![(from.into(), to.into())] }
    }

    #[test]
    fn nothing_is_fetched_into_branches() {
        for (from, to) in
            [("refs/pull/7/head", "refs/heads/main"), ("--upload-pack=x", "refs/x/y"), ("refs/a:refs/b", "refs/c/d")]
        {
            assert!(extra(from, to).refspecs().is_err(), "{from} {to}");
        }
    }

    #[test]
    fn merging_keeps_each_ref_once() {
        let one = extra("refs/pull/1/head", "refs/treewarden/pr/1");
        let all = FetchRequest { branches: true, extra: vec![] }.merge(&one).merge(&one);
        assert_eq!(
            all.refspecs().unwrap(),
            ["+refs/heads/*:refs/remotes/origin/*", "+refs/pull/1/head:refs/treewarden/pr/1"]
        );
    }
}
