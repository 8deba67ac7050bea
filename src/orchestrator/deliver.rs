//! After the agent: the service commits what is left, pushes without force, opens the pull request, and reads back what
//! is true. Each step looks first whether it was done already, so a restart repeats all of them safely.

use super::{
    Orchestrator, StepError, gather,
    prepare::{Prepared, dropped},
    retry,
};
use crate::agent::prompt::{Author, Changes, Comment, PromptFacts, Task, Thread};
use crate::decide::cleanup::Keep;
use crate::git::{CommitRequest, Ident, PushOutcome, Status};
use crate::model::*;
use crate::reply::{answers, cleanup, delivery, furnished};
use crate::telemetry::field::EFFECT;
use std::time::Duration;

/// How long a run waits for its pull request to be opened before it ends without one.
const PULL_REQUEST_WAIT: Duration = Duration::from_secs(120);

impl Orchestrator {
    /// Delivers the work of a run; what was verified is written into `run.outcome`.
    pub(super) async fn deliver(&self, run: &mut Run, prepared: &Prepared) -> Result<(), StepError> {
        let (repository, environment) = (&prepared.repository, &prepared.environment);
        let branch = &environment.branch;
        repository.restore_config().await?;
        // An agent may have deleted the ref its work stands on; what it changed is in the files.
        if repository.tip(&branch.full_ref()).await?.is_none()
            && let Some(head) = &run.outcome.head_before
        {
            tracing::warn!(run.id = %run.id, environment.branch = %branch, "the branch was deleted during the run; it is restored");
            repository.set_ref(&branch.full_ref(), head, None).await?;
        }
        let worktree = repository.worktree(&environment.path);
        let head = worktree.head().await?;
        if head.branch.as_ref() != Some(branch) {
            run.outcome.not_pushed_because = Some(answers::branch_drift(branch, head.branch.as_ref()));
            return Ok(());
        }
        effect(run, "commit");
        worktree.commit_all(&self.commit_request(run, prepared)).await?;
        effect(run, "committed");
        let kept = furnished::kept_from_lfs(&worktree.kept_from_lfs().await?);
        run.outcome.left_behind = kept.or(left_behind(worktree.status().await, worktree.nested_repositories().await));
        let tip =
            repository.tip(&branch.full_ref()).await?.ok_or_else(|| StepError::Refused(answers::environment_lost()))?;
        run.outcome.head_after = Some(tip.clone());
        let base_tip = match &environment.base {
            Some(base) => repository.tip(&base.remote_ref()).await?,
            None => None,
        };
        let Some(base_tip) = base_tip else {
            run.outcome.not_pushed_because = Some(answers::base_gone());
            return Ok(());
        };
        let (ahead, _) = repository.ahead_behind(&tip, &base_tip).await?;
        if ahead == 0 {
            return Ok(());
        }
        run.outcome.commits = Some(ahead);
        run.outcome.files_changed = Some(repository.diff_stat(&base_tip, &tip).await?.files);
        if environment.metadata.fork_head.is_some() {
            run.outcome.not_pushed_because = Some(answers::fork_not_pushed(branch));
            return Ok(());
        }
        // A branch may have become the default one since work on it began.
        if prepared.codebase.default_branch.as_ref() == Some(branch) {
            run.outcome.not_pushed_because = Some(answers::default_not_pushed(branch));
            return Ok(());
        }
        if prepared.settings.base.as_ref() == Some(branch) {
            run.outcome.not_pushed_because = Some(answers::base_not_pushed(branch));
            return Ok(());
        }
        if let Some(why) = self.taken_back(prepared, &tip).await? {
            run.outcome.not_pushed_because = Some(why);
            return Ok(());
        }
        run.outcome.not_pushed_because = furnished::copies_committed(branch, &worktree.copies_in_commits().await?);
        if run.outcome.not_pushed_because.is_some() {
            return Ok(());
        }
        effect(run, "push");
        let pushed = retry::patiently(|| self.push(prepared)).await?;
        effect(run, "push answered");
        match pushed {
            PushOutcome::Pushed(_) | PushOutcome::UpToDate(_) => {}
            PushOutcome::Rejected { reason } => {
                run.outcome.not_pushed_because = Some(answers::push_rejected(branch, &reason.to_string()));
                return Ok(());
            }
        }
        run.outcome.pushed = retry::patiently(|| self.read_back(prepared)).await?;
        let Some(pushed) = &run.outcome.pushed else {
            run.outcome.not_pushed_because = Some(answers::gone_after_the_push(branch));
            return Ok(());
        };
        self.note_agreement(environment.clone(), pushed.clone()).await?;
        effect(run, "pull request");
        self.ensure_pull_request(run, prepared).await
    }

    fn commit_request(&self, run: &Run, prepared: &Prepared) -> CommitRequest {
        let bot = &self.parts().identity.bot;
        let ident = |person: &Person| Ident {
            name: person.login.clone(),
            email: format!("{}+{}@users.noreply.github.com", person.id, person.login),
        };
        CommitRequest {
            message: delivery::commit_message(&run.request, &prepared.conversation),
            author: ident(bot),
            committer: ident(bot),
            co_authors: vec![ident(&run.request.requester)],
            branch: prepared.environment.branch.clone(),
        }
    }

    /// Commits that people took off the branch on the remote would come back with a push; why not to, if so.
    async fn taken_back(&self, prepared: &Prepared, tip: &CommitSha) -> Result<Option<String>, StepError> {
        let (repository, branch) = (&prepared.repository, &prepared.environment.branch);
        let Some(remote) = repository.tip(&branch.remote_ref()).await? else { return Ok(None) };
        Ok(match dropped(repository, &prepared.environment, &remote).await? {
            Some(seen) if repository.is_ancestor(&seen, tip).await? => {
                Some(answers::push_rejected(branch, &answers::taken_back(branch)))
            }
            Some(_) | None => None,
        })
    }

    /// To where the repository is now: it may have been renamed while the agent was at work.
    async fn push(&self, prepared: &Prepared) -> Result<PushOutcome, StepError> {
        let (codebase, clone_url) = &self.refreshed(&prepared.codebase).await?;
        prepared.repository.ensure(clone_url).await?;
        let (repository, branch) = (&prepared.repository, &prepared.environment.branch);
        self.with_credential(codebase, true, |credential| async move {
            // Objects first: a commit whose pointers lead nowhere is no good to anybody.
            repository.push_lfs(branch, Some(&credential)).await?;
            repository.push(branch, Some(&credential)).await
        })
        .await
    }

    async fn read_back(&self, prepared: &Prepared) -> Result<Option<CommitSha>, StepError> {
        let codebase = &prepared.codebase;
        let (repository, branch) = (&prepared.repository, &prepared.environment.branch);
        let read = |credential| async move { repository.remote_branch(branch, Some(&credential)).await };
        self.with_credential(codebase, false, read).await
    }

    /// Whether the branch's content is all in the base; a question that has no answer is a no.
    async fn adds_nothing(&self, prepared: &Prepared, base: &BranchName) -> bool {
        let (repository, branch) = (&prepared.repository, &prepared.environment.branch);
        let tips = (repository.tip(&base.remote_ref()).await, repository.tip(&branch.full_ref()).await);
        let (Ok(Some(base)), Ok(Some(tip))) = tips else { return false };
        repository.merge_adds_nothing(&base, &tip).await.unwrap_or(false)
    }

    /// The pull request of this branch: the one that is open, or what the repository asks for.
    async fn ensure_pull_request(&self, run: &mut Run, prepared: &Prepared) -> Result<(), StepError> {
        let environment = &prepared.environment;
        let codebase = &prepared.codebase;
        // As it is now: a person may have merged or closed it while the agent was at work.
        if let Some(pull) = prepared.pull.as_ref().filter(|pull| pull.head == environment.branch) {
            let ask = || async {
                let client = self.client(codebase);
                Ok(client.pull_request(codebase.github_id, &codebase.name, pull.number).await?)
            };
            if retry::patiently(ask).await?.state == ThreadState::Open {
                run.outcome.pull_request = Some(pull.number);
                return Ok(());
            }
        }
        let open = retry::patiently(|| async {
            let client = self.client(codebase);
            Ok(client.find_open_pull_request(codebase.github_id, &codebase.name, &environment.branch).await?)
        });
        if let Some(pull) = open.await? {
            run.outcome.pull_request = Some(pull.number);
            return Ok(());
        }
        let Some(base) = environment.base.clone() else { return Ok(()) };
        // What was merged before needs no review again.
        if self.adds_nothing(prepared, &base).await {
            return Ok(());
        }
        let draft = match prepared.settings.pull_request {
            PullRequestMode::Draft => true,
            PullRequestMode::Open => false,
            PullRequestMode::Link => {
                run.outcome.to_open_into = Some(base);
                return Ok(());
            }
            PullRequestMode::Never => return Ok(()),
        };
        let key = format!("pull/{}", run.id);
        let outgoing = Outgoing::PullRequest {
            head: environment.branch.clone(),
            base,
            title: delivery::pull_request_title(&prepared.conversation),
            body: delivery::pull_request_body(run, &prepared.conversation, &environment.work),
            draft,
        };
        self.say(key.clone(), codebase.id, Some(run.conversation), outgoing).await?;
        match self.wait_until_sent(&key, PULL_REQUEST_WAIT).await? {
            Ok(number) => run.outcome.pull_request = number.map(ThreadNumber),
            Err(why) => run.outcome.not_pushed_because = Some(answers::no_pull_request(&why)),
        }
        Ok(())
    }

    /// What the agent is told, gathered at the moment the run starts.
    pub(super) async fn prompt_facts(&self, run: &Run, prepared: &Prepared) -> Result<PromptFacts, StepError> {
        let (codebase, conversation) = (&prepared.codebase, &prepared.conversation);
        let client = self.client(codebase);
        let (id, name, number) = (codebase.github_id, &codebase.name, conversation.number);
        let issue = retry::patiently(|| async { Ok(client.issue(id, name, number).await?) }).await?;
        let mut comments = Vec::new();
        for comment in retry::patiently(|| async { Ok(client.comments(id, name, number).await?) }).await? {
            // The request itself is the task; what the service wrote is no background.
            let own = |author: &Person| author.id == self.parts().identity.bot.id;
            let request = matches!(run.request.source, MessageSource::IssueComment { id } if id == comment.id);
            let Some(author) = comment.author.filter(|author| !own(author) && !request) else { continue };
            let author = self.author(codebase, author).await;
            comments.push(Comment { id: comment.id, author, body: comment.body, created_at: comment.created_at });
        }
        Ok(PromptFacts {
            repository: name.clone(),
            branch: prepared.environment.branch.clone(),
            base: prepared.environment.base.clone(),
            work: gather::work_of(conversation),
            task: Task {
                text: run.request.text.clone(),
                requester: run.request.requester.clone(),
                source: run.request.source.clone(),
                written_at: run.request.written_at,
            },
            thread: Thread {
                number,
                kind: conversation.kind,
                title: issue.title,
                body: issue.body,
                labels: issue.labels,
                author: self.author(codebase, issue.author.unwrap_or_else(ghost)).await,
            },
            comments,
            changes: self.changes(prepared).await?,
        })
    }

    async fn author(&self, codebase: &Codebase, person: Person) -> Author {
        let permission = self.permission(codebase, &person).await.into();
        Author { person, permission }
    }

    /// For pull requests: how far the head is from its base.
    async fn changes(&self, prepared: &Prepared) -> Result<Option<Changes>, StepError> {
        let (Some(pull), Some(base)) = (&prepared.pull, &prepared.environment.base) else { return Ok(None) };
        let Some(base) = prepared.repository.tip(&base.remote_ref()).await? else { return Ok(None) };
        let stat = prepared.repository.diff_stat(&base, &pull.head_sha).await?;
        Ok(Some(Changes { files: stat.files, insertions: stat.insertions, deletions: stat.deletions }))
    }
}

/// What git would not commit: a repository of its own inside, most of the time.
fn left_behind(status: Probe<Status>, nested: Probe<Vec<String>>) -> Option<String> {
    let reason = match (status, nested) {
        (Probe::Known(status), _) if status.is_clean() => return None,
        (_, Probe::Known(nested)) if !nested.is_empty() => Keep::NestedRepository(nested[0].clone()),
        (Probe::Known(status), _) => {
            Keep::UncommittedChanges { changed: status.tracked + status.conflicted, untracked: status.untracked }
        }
        (Probe::Unknown(why), _) => Keep::CannotVerify(why),
    };
    Some(cleanup::sentence(&reason))
}

/// GitHub's stand-in for deleted accounts.
fn ghost() -> Person {
    Person { id: UserId(10_137), login: "ghost".to_owned(), is_bot: false }
}

fn effect(run: &Run, what: &'static str) {
    tracing::info!(target: EFFECT, { run.id = %run.id }, "{what}");
}
