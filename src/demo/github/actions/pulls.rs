//! Opening pull requests, from a branch of the same repository or of a fork.

use super::refs::PullFacts;
use crate::demo::github::{
    Hub,
    model::{Actor, Pull, Repository},
    refusal::Refusal,
    world::World,
};
use serde_json::json;

/// A pull request to be opened.
#[derive(Clone, Debug, Default)]
pub(in crate::demo::github) struct NewPull {
    pub title: String,
    pub body: String,
    /// `branch`, or `owner:branch` for a branch of the owner's fork (or of the same repository).
    pub head: String,
    pub base: String,
    pub draft: bool,
}

/// Where the head of a new pull request is.
struct Head {
    repository: i64,
    owner: i64,
    branch: String,
}

impl Hub {
    /// Opens it, or refuses with GitHub's reasons: one is open already, or there are no commits between.
    pub async fn open_pull(&self, repository: i64, actor: Actor, new: NewPull) -> Result<i64, Refusal> {
        if new.title.trim().is_empty() {
            return Err(Refusal::invalid("title can't be blank"));
        }
        let _gate = self.refs.lock().await;
        let head = self.world().head_of(repository, &new.head)?;
        let tip = self.git.commit_of(head.repository, &format!("refs/heads/{}", head.branch)).await?;
        let tip = tip.ok_or_else(|| Refusal::invalid("head invalid"))?;
        let base_sha = self.git.commit_of(repository, &format!("refs/heads/{}", new.base)).await?;
        let base_sha = base_sha.ok_or_else(|| Refusal::invalid("base invalid"))?;
        self.world().refuse_second_pull(repository, &head, &new.base)?;
        // Brings the commits over under a passing name: the number is not known before they were looked at.
        let incoming = format!("+refs/heads/{}:refs/standin/incoming", head.branch);
        self.git.fetch(repository, head.repository, &incoming).await?;
        let facts = self.pull_facts(repository, &base_sha, &tip).await?;
        if facts.commits.is_empty() {
            let between = format!("No commits between {} and {}", new.base, head.branch);
            return Err(Refusal::invalid(between));
        }
        let number = self.world().add_pull(repository, actor, &new, head, facts)?;
        self.git.set_ref(repository, &format!("refs/pull/{number}/head"), &tip).await?;
        self.world().emit_thread(repository, number, actor, "opened", json!({}));
        Ok(number)
    }
}

impl World {
    /// Marks as ready for review, or back as a draft.
    pub fn set_draft(&mut self, repository: i64, number: i64, actor: Actor, draft: bool) -> Result<(), Refusal> {
        let pull = self.pull_mut(repository, number)?;
        if std::mem::replace(&mut pull.draft, draft) != draft {
            let action = if draft { "converted_to_draft" } else { "ready_for_review" };
            self.emit_thread(repository, number, actor, action, json!({}));
        }
        Ok(())
    }

    fn head_of(&self, repository: i64, head: &str) -> Result<Head, Refusal> {
        let place = self.repository(repository)?;
        let (owner, branch) = match head.split_once(':') {
            Some((login, branch)) => (self.find_account(login).map(|account| account.id), branch),
            None => (Some(place.owner), head),
        };
        let owner = owner.ok_or_else(|| Refusal::invalid("head invalid"))?;
        let root = place.fork_of.unwrap_or(place.id);
        let related = |other: &&Repository| other.id == root || other.fork_of == Some(root);
        let source = if owner == place.owner {
            Some(place)
        } else {
            self.repositories.values().filter(related).find(|other| other.owner == owner)
        };
        let repository = source.ok_or_else(|| Refusal::invalid("head invalid"))?.id;
        Ok(Head { repository, owner, branch: branch.to_owned() })
    }

    fn refuse_second_pull(&self, repository: i64, head: &Head, base: &str) -> Result<(), Refusal> {
        let open = self.repository(repository)?.threads.values().filter(|thread| thread.open);
        let twin = open.filter_map(|thread| thread.pull.as_ref()).any(|pull| {
            pull.head_repository == Some(head.repository) && pull.head_branch == head.branch && pull.base_branch == base
        });
        if twin {
            let label = format!("{}:{}", self.login(head.owner), head.branch);
            return Err(Refusal::invalid(format!("A pull request already exists for {label}.")));
        }
        Ok(())
    }

    fn add_pull(
        &mut self,
        repository: i64,
        actor: Actor,
        new: &NewPull,
        head: Head,
        facts: PullFacts,
    ) -> Result<i64, Refusal> {
        let number = self.next_number(repository)?;
        let mut thread = self.new_thread(number, actor, &new.title, &new.body, &[]);
        thread.pull = Some(Pull {
            id: self.new_id(),
            head_repository: Some(head.repository),
            head_owner: head.owner,
            head_branch: head.branch,
            head_sha: facts.head_sha,
            base_branch: new.base.clone(),
            base_sha: facts.base_sha,
            draft: new.draft,
            commits: facts.commits.into_iter().map(|commit| commit.sha).collect(),
            stat: facts.stat,
            mergeable: facts.mergeable,
            merged: None,
        });
        self.repository_mut(repository)?.threads.insert(number, thread);
        Ok(number)
    }
}
