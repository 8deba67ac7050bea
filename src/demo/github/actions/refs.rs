//! Moving branches: whoever does it (a push over HTTP, a test, a merge), the same things follow: push events, heads of
//! pull requests, pull requests that are closed or merged by it.

use crate::demo::github::{
    Hub,
    git::{CommitInfo, Ident},
    model::{Actor, DiffStat, Merged},
    refusal::Refusal,
    render::Push,
};
use std::{collections::BTreeMap, future::Future};

type Branches = BTreeMap<String, String>;

/// What git says about the two sides of a pull request.
pub(super) struct PullFacts {
    pub head_sha: String,
    pub base_sha: String,
    pub commits: Vec<CommitInfo>,
    pub stat: DiffStat,
    pub mergeable: bool,
}

impl Hub {
    /// Runs `change` while nothing else moves branches, then lets the world know what moved, also when `change` failed
    /// half-way.
    pub async fn move_refs<T>(
        &self,
        repository: i64,
        actor: Actor,
        change: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let _gate = self.refs.lock().await;
        let before = self.git.branches(repository).await?;
        let result = change.await;
        self.follow_refs(repository, actor, &before).await?;
        result
    }

    /// A commit of these files on a branch; a new branch starts at the default branch.
    pub async fn commit(
        &self,
        repository: i64,
        actor: Actor,
        branch: &str,
        message: &str,
        files: &[(&str, Option<&str>)],
    ) -> Result<String, Refusal> {
        let (by, default) = {
            let world = self.world();
            (world.ident(actor.account), world.repository(repository)?.default_branch.clone())
        };
        self.move_refs(repository, actor, async {
            let start = self.git.commit_of(repository, &format!("refs/heads/{default}")).await?;
            self.git.commit_files(repository, branch, start.as_deref(), &by, message, files).await
        })
        .await
    }

    /// Points a branch somewhere else, as a forced push does; None deletes it.
    pub async fn reset_branch(
        &self,
        repository: i64,
        actor: Actor,
        branch: &str,
        commit: Option<&str>,
    ) -> Result<(), Refusal> {
        self.move_refs(repository, actor, async {
            match commit {
                Some(commit) => self.git.set_ref(repository, &format!("refs/heads/{branch}"), commit).await,
                None => self.git.delete_branch(repository, branch).await,
            }
        })
        .await
    }

    /// Compares the branches with what they were and draws all consequences. The caller holds the gate.
    pub(super) async fn follow_refs(&self, repository: i64, actor: Actor, before: &Branches) -> Result<(), Refusal> {
        let after = self.git.branches(repository).await?;
        let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
        names.sort();
        names.dedup();
        {
            let mut world = self.world();
            let now = world.now();
            let place = world.repository_mut(repository)?;
            place.empty = after.is_empty();
            if *before != after {
                place.pushed_at = now;
            }
        }
        for name in names.into_iter().filter(|name| before.get(*name) != after.get(*name)) {
            let (old, new) = (before.get(name).map(String::as_str), after.get(name).map(String::as_str));
            self.announce_push(repository, actor, name, old, new).await?;
            self.follow_head(repository, actor, name, old, new).await?;
            self.follow_base(repository, actor, name, new).await?;
        }
        Ok(())
    }

    pub(super) async fn pull_facts(
        &self,
        repository: i64,
        base_sha: &str,
        head_sha: &str,
    ) -> Result<PullFacts, Refusal> {
        // Sides without common history have no diff and cannot be merged; that is an answer, not a failure.
        let stat = self.git.diff_stat(repository, base_sha, head_sha).await.unwrap_or_default();
        let merged = self.git.merge_tree(repository, base_sha, head_sha, None).await;
        Ok(PullFacts {
            head_sha: head_sha.to_owned(),
            base_sha: base_sha.to_owned(),
            commits: self.git.commits_between(repository, base_sha, head_sha).await?,
            stat,
            mergeable: matches!(merged, Ok(Some(_))),
        })
    }

    /// Makes a head commit available in the base repository, as `refs/pull/<number>/head`.
    pub(super) async fn publish_head(
        &self,
        repository: i64,
        number: i64,
        head_repository: i64,
        branch: &str,
    ) -> Result<(), Refusal> {
        let refspec = format!("+refs/heads/{branch}:refs/pull/{number}/head");
        self.git.fetch(repository, head_repository, &refspec).await
    }

    async fn announce_push(
        &self,
        repository: i64,
        actor: Actor,
        branch: &str,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<(), Refusal> {
        let default = self.world().repository(repository)?.default_branch.clone();
        let (forced, commits) = match (before, after) {
            (_, None) => (false, Vec::new()),
            (Some(before), Some(after)) => (
                !self.git.is_ancestor(repository, before, after).await?,
                self.git.commits_between(repository, before, after).await?,
            ),
            (None, Some(after)) => {
                let known = self.git.commit_of(repository, &format!("refs/heads/{default}")).await?;
                let from = known.filter(|_| branch != default);
                let new = match from {
                    Some(from) => self.git.commits_between(repository, &from, after).await?,
                    None => Vec::new(),
                };
                (false, new)
            }
        };
        let mut world = self.world();
        let push = Push { branch, before, after, forced, commits: &commits };
        let details = world.push_json(world.repository(repository)?, actor, &push);
        world.emit(repository, actor, "push", None, details);
        Ok(())
    }

    /// Pull requests from this branch follow it (closed ones silently); when it is gone they are closed.
    async fn follow_head(
        &self,
        repository: i64,
        actor: Actor,
        branch: &str,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<(), Refusal> {
        let heads: Vec<(i64, i64, bool)> = {
            let world = self.world();
            let threads = world.repositories.values().flat_map(|place| {
                place.threads.values().filter_map(move |thread| Some((place.id, thread, thread.pull.as_ref()?)))
            });
            let from_here = threads.filter(|(_, _, pull)| {
                pull.head_repository == Some(repository) && pull.head_branch == branch && pull.merged.is_none()
            });
            from_here.map(|(place, thread, _)| (place, thread.number, thread.open)).collect()
        };
        for (place, number, open) in heads {
            let Some(after) = after else {
                self.world().set_open(place, number, actor, false, None)?;
                continue;
            };
            self.publish_head(place, number, repository, branch).await?;
            let base = self.world().pull(place, number)?.1.base_branch.clone();
            if let Some(base_sha) = self.git.commit_of(place, &format!("refs/heads/{base}")).await? {
                let facts = self.pull_facts(place, &base_sha, after).await?;
                self.world().take_facts(place, number, facts)?;
            }
            if open {
                let details = serde_json::json!({ "before": before, "after": after });
                let mut world = self.world();
                world.touch(place, number);
                world.emit_thread(place, number, actor, "synchronize", details);
            }
        }
        Ok(())
    }

    /// Open pull requests into this branch: merged when it contains their head now, else looked at anew.
    async fn follow_base(
        &self,
        repository: i64,
        actor: Actor,
        branch: &str,
        after: Option<&str>,
    ) -> Result<(), Refusal> {
        let Some(after) = after else { return Ok(()) };
        let waiting: Vec<(i64, String)> = {
            let world = self.world();
            let open = world.repository(repository)?.threads.values().filter(|thread| thread.open);
            open.filter_map(|thread| Some((thread.number, thread.pull.as_ref()?)))
                .filter(|(_, pull)| pull.base_branch == branch)
                .map(|(number, pull)| (number, pull.head_sha.clone()))
                .collect()
        };
        for (number, head) in waiting {
            if self.git.is_ancestor(repository, &head, after).await? {
                let mut world = self.world();
                let at = world.now();
                let merged = Merged { commit: after.to_owned(), by: actor.account, at };
                world.mark_merged(repository, number, actor, merged)?;
                continue;
            }
            let facts = self.pull_facts(repository, after, &head).await?;
            self.world().take_facts(repository, number, facts)?;
        }
        Ok(())
    }
}

impl crate::demo::github::world::World {
    /// How an account signs commits.
    pub fn ident(&self, account: i64) -> Ident {
        let login = self.login(account);
        Ident { name: login.to_owned(), email: format!("{account}+{login}@users.noreply.localhost") }
    }

    fn take_facts(&mut self, repository: i64, number: i64, facts: PullFacts) -> Result<(), Refusal> {
        let pull = self.pull_mut(repository, number)?;
        pull.head_sha = facts.head_sha;
        pull.base_sha = facts.base_sha;
        pull.commits = facts.commits.into_iter().map(|commit| commit.sha).collect();
        pull.stat = facts.stat;
        pull.mergeable = facts.mergeable;
        Ok(())
    }
}
