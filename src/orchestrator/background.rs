//! What an agent is told about its task: who said what in the thread, and how far the work is. Gathered when a run starts.

use super::{Orchestrator, StepError, gather, host::OnGithub, prepare::Prepared, retry};
use crate::agent::prompt::{Author, Changes, Comment, PromptFacts, ReviewPart, Task, Thread};
use crate::command::{grammar, mention};
use crate::github::{self, GithubError};
use crate::model::*;
use futures::future::join_all;
use std::collections::{HashMap, HashSet};

/// People in a thread whose permission is asked for, for the agent to know whom to trust.
const MOST_ASKED: usize = 30;
const ASKED_AT_ONCE: usize = 4;
/// Messages of a thread on this machine that are looked through, the oldest first.
const MOST_READ: u32 = 1000;

impl Orchestrator {
    /// What the agent is told, gathered at the moment the run starts.
    pub(super) async fn prompt_facts(&self, run: &Run, prepared: &Prepared) -> Result<PromptFacts, StepError> {
        let (codebase, conversation) = (&prepared.codebase, &prepared.conversation);
        let ((thread, comments), review) = match (&conversation.thread, self.on_github(codebase)?) {
            (ThreadId::Numbered { kind, number }, Some(github)) => tokio::try_join!(
                self.said_on_github(run, prepared, &github, (*kind, *number)),
                self.rest_of_review(run, &github, *number),
            )?,
            (ThreadId::Numbered { .. } | ThreadId::Named(_), _) => {
                (self.said_here(run, conversation).await?, Vec::new())
            }
        };
        let worktree = prepared.repository.worktree(&prepared.environment.path);
        Ok(PromptFacts {
            repository: codebase.name.clone(),
            branch: prepared.environment.branch.clone(),
            base: prepared.environment.base.clone(),
            work: gather::work_of(conversation),
            task: Task {
                text: run.request.text.clone(),
                requester: run.request.requester.clone(),
                source: run.request.source.clone(),
                written_at: run.request.written_at,
                review,
            },
            thread,
            comments,
            changes: self.changes(prepared).await?,
            unfinished: match worktree.operation_in_progress().await {
                Probe::Known(operation) => operation,
                Probe::Unknown(_) => None,
            },
            only_on_remote: only_on_remote(prepared).await?,
        })
    }

    /// The messages before the one that is answered; what the service wrote is no background.
    async fn said_here(&self, run: &Run, conversation: &Conversation) -> Result<(Thread, Vec<Comment>), StepError> {
        let writer = || Author { person: run.request.requester.clone(), permission: Probe::Known(Permission::Write) };
        let mut comments = Vec::new();
        for message in self.store().local_messages(conversation.id, 0, MOST_READ).await? {
            if message.author.is_some() && message.id.0 != run.delivery.0 {
                comments.push(Comment {
                    source: MessageSource::Local,
                    author: writer(),
                    body: message.body,
                    created_at: message.created_at,
                });
            }
        }
        let (id, title) = (conversation.thread.clone(), conversation.title.clone());
        Ok((Thread { id, title, body: String::new(), labels: Vec::new(), author: writer() }, comments))
    }

    async fn said_on_github(
        &self,
        run: &Run,
        prepared: &Prepared,
        github: &OnGithub<'_>,
        (kind, number): (ThreadKind, ThreadNumber),
    ) -> Result<(Thread, Vec<Comment>), StepError> {
        let (codebase, conversation) = (&prepared.codebase, &prepared.conversation);
        let OnGithub { client, id, name, .. } = github;
        let id = *id;
        let issue = retry::patiently(|| async { Ok(client.issue(id, name, number).await?) });
        let comments = retry::patiently(|| async { Ok(client.comments(id, name, number).await?) });
        let (issue, comments, in_reviews) = tokio::try_join!(issue, comments, said_in_reviews(github, (kind, number)))?;
        self.seen_as(conversation, issue.state, prepared.pull.as_ref()).await?;
        let comments = comments.into_iter().map(|comment| {
            (comment.author, MessageSource::IssueComment { id: comment.id }, comment.body, comment.created_at)
        });
        let in_reviews =
            in_reviews.into_iter().filter_map(|part| Some((part.author, part.source, part.body, part.written_at?)));
        let mut written = Vec::new();
        for (author, source, body, created_at) in comments.chain(in_reviews) {
            // The request itself, and what was handed in with it, is the task; what the service wrote is no background.
            let with_request = run.request.review.is_some() && source.review() == run.request.review;
            let task = with_request || source.is_same(&run.request.source);
            // Nor is what other programs wrote.
            let program = |author: &Person| author.is_bot || author.id == self.identity().bot.id;
            let Some(author) = author.filter(|author| !program(author) && !task) else { continue };
            written.push((author, source, body, created_at));
        }
        written.sort_by_key(|(.., created_at)| *created_at);
        let opener = issue.author.unwrap_or_else(ghost);
        let authors = std::iter::once(&opener).chain(written.iter().rev().map(|(author, ..)| author));
        let permissions = self.permissions(codebase, &first_distinct(authors)).await;
        let with_permission = |person: Person| {
            let unknown = || Probe::Unknown("too many people wrote here".to_owned());
            let permission = permissions.get(&person.id).cloned().unwrap_or_else(unknown);
            Author { person, permission }
        };
        let comments = written.into_iter().map(|(author, source, body, created_at)| Comment {
            source,
            author: with_permission(author),
            body,
            created_at,
        });
        let thread = Thread {
            id: conversation.thread.clone(),
            title: issue.title,
            body: issue.body,
            labels: issue.labels,
            author: with_permission(opener),
        };
        Ok((thread, comments.collect()))
    }

    /// What the requester handed in together with the request, whether or not it mentions the bot.
    async fn rest_of_review(
        &self,
        run: &Run,
        github: &OnGithub<'_>,
        number: ThreadNumber,
    ) -> Result<Vec<ReviewPart>, StepError> {
        let parts = self.review_of(run, github, number).await?;
        let slug = &self.identity().slug;
        let wanted = parts.into_iter().filter_map(|part| {
            let text = match mention::find(&part.body, slug) {
                // Commands are answered by themselves.
                Some(text) => matches!(grammar::parse(&text), grammar::Request::Agent(_)).then_some(text)?,
                None => part.body,
            };
            Some(ReviewPart { text, source: part.source })
        });
        Ok(wanted.collect())
    }

    /// The first other part of a run's review that mentions the bot, without the mention.
    pub(super) async fn next_of_review(
        &self,
        codebase: &Codebase,
        number: ThreadNumber,
        run: &Run,
    ) -> Result<Option<(String, MessageSource)>, StepError> {
        let Some(github) = self.on_github(codebase)? else { return Ok(None) };
        let slug = &self.identity().slug;
        let mut asking = self.review_of(run, &github, number).await?.into_iter().filter_map(|part| {
            let text = mention::find(&part.body, slug)?;
            matches!(grammar::parse(&text), grammar::Request::Agent(_)).then_some((text, part.source))
        });
        Ok(asking.next())
    }

    /// The requester's other parts of the review that a run answers; none of one that is gone.
    async fn review_of(
        &self,
        run: &Run,
        github: &OnGithub<'_>,
        number: ThreadNumber,
    ) -> Result<Vec<github::ReviewPart>, StepError> {
        let Some(review) = run.request.review else { return Ok(Vec::new()) };
        let OnGithub { client, id, name, .. } = github;
        let parts = retry::patiently(|| async { Ok(client.review_parts(*id, name, number, review).await?) }).await;
        // With the last comment of a review without a text, it goes, too.
        let others = none_where_unknown(parts)?.into_iter().filter(|part| {
            let same_person = part.author.as_ref().is_some_and(|author| author.id == run.request.requester.id);
            same_person && part.source.comment() != run.request.source.comment()
        });
        Ok(others.collect())
    }

    /// What each of these people may do.
    async fn permissions(&self, codebase: &Codebase, people: &[Person]) -> HashMap<UserId, Probe<Permission>> {
        let mut known = HashMap::new();
        for group in people.chunks(ASKED_AT_ONCE) {
            let asked = join_all(group.iter().map(|person| self.permission(codebase, person))).await;
            known.extend(group.iter().map(|person| person.id).zip(asked.into_iter().map(Probe::from)));
        }
        known
    }

    /// For pull requests: how far the branch is from its base. What GitHub calls the head may be gone from git after a push
    /// by force, or not be there yet.
    async fn changes(&self, prepared: &Prepared) -> Result<Option<Changes>, StepError> {
        let Prepared { repository, environment, .. } = prepared;
        let (Some(_), Some(base)) = (&prepared.pull, &environment.base) else { return Ok(None) };
        let (base, tip) =
            (repository.tip(&base.remote_ref()).await?, repository.tip(&environment.branch.full_ref()).await?);
        let (Some(base), Some(tip)) = (base, tip) else { return Ok(None) };
        let stat = repository.diff_stat(&base, &tip).await?;
        Ok(Some(Changes { files: stat.files, insertions: stat.insertions, deletions: stat.deletions }))
    }
}

/// What people wrote in the reviews of a pull request. Comments on lines are all in one.
async fn said_in_reviews(
    github: &OnGithub<'_>,
    (kind, number): (ThreadKind, ThreadNumber),
) -> Result<Vec<github::ReviewPart>, StepError> {
    match kind {
        ThreadKind::Issue => return Ok(Vec::new()),
        ThreadKind::PullRequest => {}
    }
    let OnGithub { client, id, name, .. } = github;
    let texts = retry::patiently(|| async { Ok(client.review_texts(*id, name, number).await?) });
    let on_lines = retry::patiently(|| async { Ok(client.line_comments(*id, name, number).await?) });
    let (texts, on_lines) = tokio::join!(texts, on_lines);
    let mut said = none_where_unknown(texts)?;
    said.extend(none_where_unknown(on_lines)?);
    Ok(said)
}

/// None of what GitHub does not know, or not any more.
fn none_where_unknown(parts: Result<Vec<github::ReviewPart>, StepError>) -> Result<Vec<github::ReviewPart>, StepError> {
    match parts {
        Err(StepError::Github(GithubError::NotFound(_))) => Ok(Vec::new()),
        parts => parts,
    }
}

async fn only_on_remote(prepared: &Prepared) -> Result<u64, StepError> {
    let (repository, branch) = (&prepared.repository, &prepared.environment.branch);
    let (here, there) = (repository.tip(&branch.full_ref()).await?, repository.tip(&branch.remote_ref()).await?);
    match (here, there) {
        (Some(here), Some(there)) => Ok(repository.ahead_behind(&here, &there).await?.1),
        (Some(_), None) | (None, _) => Ok(0),
    }
}

/// The people of a thread, each once; the first ones only when there are many.
fn first_distinct<'a>(people: impl Iterator<Item = &'a Person>) -> Vec<Person> {
    let mut met = HashSet::new();
    people.filter(|person| met.insert(person.id)).take(MOST_ASKED).cloned().collect()
}

/// GitHub's stand-in for deleted accounts.
fn ghost() -> Person {
    Person { id: UserId(10_137), login: "ghost".to_owned(), is_bot: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_asked_about_twice_and_not_about_everybody() {
        let person = |id| Person { id: UserId(id), login: format!("p{id}"), is_bot: false };
        let people: Vec<Person> = (0..200).map(|number| person(number / 2)).collect();
        let asked: Vec<i64> = first_distinct(people.iter()).iter().map(|person| person.id.0).collect();
        assert_eq!(asked, (0..30).collect::<Vec<i64>>());
    }
}
