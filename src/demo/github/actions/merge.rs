//! Merging pull requests on the server, with git plumbing: a merge commit, one squashed commit, or rebased commits.

use crate::demo::github::{
    Hub,
    git::Ident,
    model::{Actor, Merged},
    refusal::Refusal,
    world::World,
};

/// How a pull request is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MergeMethod {
    Merge,
    Squash,
    Rebase,
}

/// Everything a merge needs to know about its pull request.
struct Task {
    number: i64,
    title: String,
    body: String,
    author: Ident,
    label: String,
    base_branch: String,
    head: String,
}

impl Hub {
    /// Merges and returns the commit the base branch is at then. `expected_head` refuses when the head moved on.
    pub async fn merge_pull(
        &self,
        repository: i64,
        number: i64,
        actor: Actor,
        method: MergeMethod,
        expected_head: Option<&str>,
    ) -> Result<String, Refusal> {
        let _gate = self.refs.lock().await;
        let (task, committer) = {
            let world = self.world();
            (world.merge_task(repository, number, expected_head)?, world.ident(actor.account))
        };
        let before = self.git.branches(repository).await?;
        let base = before.get(&task.base_branch).ok_or_else(|| Refusal::NotAllowed("Base branch is gone".into()))?;
        let commit = match method {
            MergeMethod::Merge => self.merge_commit(repository, &task, base, &committer).await?,
            MergeMethod::Squash => self.squash_commit(repository, &task, base, &committer).await?,
            MergeMethod::Rebase => self.rebased_commits(repository, &task, base, &committer).await?,
        };
        self.git.set_ref(repository, &format!("refs/heads/{}", task.base_branch), &commit).await?;
        {
            let mut world = self.world();
            let merged = Merged { commit: commit.clone(), by: actor.account, at: world.now() };
            world.mark_merged(repository, number, actor, merged)?;
        }
        self.follow_refs(repository, actor, &before).await?;
        Ok(commit)
    }

    async fn merge_commit(&self, repo: i64, task: &Task, base: &str, committer: &Ident) -> Result<String, Refusal> {
        let tree = self.git.merge_tree(repo, base, &task.head, None).await?.ok_or_else(conflict)?;
        let message = format!("Merge pull request #{} from {}\n\n{}", task.number, task.label, task.title);
        self.git.commit_tree(repo, &tree, &[base, &task.head], (committer, &now()), committer, &message).await
    }

    async fn squash_commit(&self, repo: i64, task: &Task, base: &str, committer: &Ident) -> Result<String, Refusal> {
        let tree = self.git.merge_tree(repo, base, &task.head, None).await?.ok_or_else(conflict)?;
        let message = format!("{} (#{})\n\n{}", task.title, task.number, task.body);
        self.git.commit_tree(repo, &tree, &[base], (&task.author, &now()), committer, message.trim_end()).await
    }

    async fn rebased_commits(&self, repo: i64, task: &Task, base: &str, committer: &Ident) -> Result<String, Refusal> {
        let mut tip = base.to_owned();
        for commit in self.git.commits_between(repo, base, &task.head).await? {
            let parent = self.git.parent(repo, &commit.sha).await?;
            let tree = self.git.merge_tree(repo, &tip, &commit.sha, parent.as_deref()).await?.ok_or_else(conflict)?;
            let author = (&commit.author, commit.date.as_str());
            tip = self.git.commit_tree(repo, &tree, &[&tip], author, committer, &commit.message).await?;
        }
        Ok(tip)
    }
}

impl World {
    fn merge_task(&self, repository: i64, number: i64, expected_head: Option<&str>) -> Result<Task, Refusal> {
        let (thread, pull) = self.pull(repository, number)?;
        if !thread.open || pull.merged.is_some() || !pull.mergeable {
            return Err(Refusal::NotAllowed("Pull Request is not mergeable".to_owned()));
        }
        if pull.draft {
            return Err(Refusal::NotAllowed("Pull Request is still a draft".to_owned()));
        }
        if expected_head.is_some_and(|expected| expected != pull.head_sha) {
            return Err(Refusal::Conflict("Head branch was modified. Review and try the merge again.".to_owned()));
        }
        Ok(Task {
            number,
            title: thread.title.clone(),
            body: thread.body.clone(),
            author: self.ident(thread.author.account),
            label: format!("{}/{}", self.login(pull.head_owner), pull.head_branch),
            base_branch: pull.base_branch.clone(),
            head: pull.head_sha.clone(),
        })
    }

    /// Records the merge, closes the pull request and the issues it fixes, in this order.
    pub(super) fn mark_merged(
        &mut self,
        repository: i64,
        number: i64,
        actor: Actor,
        merged: Merged,
    ) -> Result<(), Refusal> {
        let fixed = self.closed_by(repository, number);
        self.pull_mut(repository, number)?.merged = Some(merged);
        self.set_open(repository, number, actor, false, None)?;
        for (place, issue) in fixed {
            self.set_open(place, issue, actor, false, Some("completed"))?;
        }
        Ok(())
    }
}

fn conflict() -> Refusal {
    Refusal::NotAllowed("Merge conflict".to_owned())
}

fn now() -> String {
    chrono::Utc::now().to_rfc3339()
}
