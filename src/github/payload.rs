//! Webhook payloads, turned into our [`Event`]s.
//!
//! Only the fields we need are decoded, each optional where GitHub may leave it out or send `null`; unknown fields,
//! actions and events never fail a delivery. Source: GitHub's "Webhook events and payloads".

mod shapes;

use super::moment;
use crate::model::*;
use shapes::{Body, Comment, Shape};

/// A body that is not what GitHub sends at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is not a JSON object GitHub would send: {0}")]
pub struct BadPayload(String);

/// A body that was read, once for all that is asked about it.
pub struct Payload(Body);

impl Payload {
    pub fn read(body: &[u8]) -> Result<Self, BadPayload> {
        // A list in the right order would do for the decoder, too.
        if body.trim_ascii_start().starts_with(b"[") {
            return Err(BadPayload("it is not an object".to_owned()));
        }
        serde_json::from_slice(body).map(Self).map_err(|error| BadPayload(error.to_string()))
    }

    /// The key under which deliveries are put in order: `<repository id>#<number>`, or the repository, or the installation.
    /// Absent when the delivery is about none of them.
    pub fn conversation_key(&self) -> Option<String> {
        let Self(body) = self;
        let repository = body.repository.as_ref().and_then(|r| r.id);
        let number = body.issue.as_ref().and_then(|i| i.number).or(body.pull_request.as_ref().and_then(|p| p.number));
        let installation = body.installation.as_ref().and_then(|i| i.id);
        match (repository, number, installation) {
            (Some(repository), Some(number), _) => Some(format!("{repository}#{number}")),
            (Some(repository), None, _) => Some(format!("{repository}")),
            (None, _, Some(installation)) => Some(format!("installation {installation}")),
            (None, _, None) => None,
        }
    }

    /// Whether somebody pressed a button of a check run, ours or GitHub's own.
    pub fn is_pressed(&self, event: &str) -> bool {
        event == CHECK_RUN && is_wanted(event, self.0.action.as_deref())
    }

    /// What happened. What lacks a field it needs becomes [`Event::Nothing`] with the reason.
    ///
    /// Headers are not covered by the signature: a body that was sent as another event than `event` counts for nothing.
    pub fn understand(&self, event: &str) -> Event {
        let Self(body) = self;
        if !body.fits(event) {
            return Event::Nothing(format!("the body is not that of the event {event:?}"));
        }
        let action = body.action.as_deref().unwrap_or_default();
        let understood = match event {
            "issues" | "pull_request" => thread_event(body, action),
            "issue_comment" | "pull_request_review_comment" => comment_event(body, action),
            "pull_request_review" => review_event(body, action),
            "installation" => installation_event(body, action),
            "installation_repositories" => repositories_event(body),
            "repository" => repository_event(body, action),
            CHECK_RUN => check_run_event(body, action),
            _ => return Event::Nothing(format!("Treewarden does not act on the event {event:?}")),
        };
        understood.unwrap_or_else(|missing| {
            let action: String = action.chars().take(LONGEST_ACTION).collect();
            Event::Nothing(format!("{event} {action}: {missing}"))
        })
    }
}

/// Understands one delivery.
pub fn understand(event: &str, body: &[u8]) -> Result<Event, BadPayload> {
    Ok(Payload::read(body)?.understand(event))
}

/// The events the App subscribes to; the same as in `app-manifest.yml`. Those about installations come without asking.
pub const ASKED_FOR: [&str; 7] = [
    "check_run",
    "issues",
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "repository",
];

/// Whether a delivery is worth fetching. GitHub tells of every step of every check run, of all Apps.
pub fn is_wanted(event: &str, action: Option<&str>) -> bool {
    event != CHECK_RUN || matches!(action, Some(PRESSED | AGAIN))
}

/// GitHub's own are words.
const LONGEST_ACTION: usize = 100;
const CHECK_RUN: &str = "check_run";
/// A button of ours.
const PRESSED: &str = "requested_action";
/// GitHub's own, "Re-run".
const AGAIN: &str = "rerequested";

type Understood = Result<Event, &'static str>;

fn thread_event(body: &Body, action: &str) -> Understood {
    let thread = thread(body)?;
    let shape = body.pull_request.as_ref().or(body.issue.as_ref()).ok_or("no issue or pull request")?;
    match action {
        "opened" if body.changes.as_ref().is_some_and(|changes| changes.old_issue.is_some()) => {
            Err("it was transferred from another repository, nobody wrote it just now")
        }
        "opened" => Ok(Event::Written(thread_message(thread, shape)?)),
        "edited" => edited(body, thread_message(thread, shape)?),
        "closed" => {
            let merged = shape.merged == Some(true);
            let head = shape.head.as_ref().and_then(|head| head.sha.as_deref());
            let merged_head = head.filter(|_| merged).and_then(|sha| CommitSha::new(sha).ok());
            Ok(Event::Closed { thread, merged_head, by: actor(body) })
        }
        "reopened" => Ok(Event::Reopened { thread, by: actor(body) }),
        "synchronize" => {
            let head = shape.head.as_ref().and_then(|head| head.sha.as_deref()).ok_or("no head commit")?;
            let head = CommitSha::new(head).map_err(|_| "no head commit")?;
            let before = body.before.as_deref().and_then(|sha| CommitSha::new(sha).ok());
            Ok(Event::HeadMoved { thread, before, head, by: actor(body) })
        }
        "transferred" => Ok(Event::Transferred { thread, to: transferred_to(body), by: actor(body) }),
        _ => Err("nothing to do for this action"),
    }
}

/// An edit of the text. Edits of a title or a base branch bring no text to answer.
fn edited(body: &Body, message: Message) -> Understood {
    let change = body.changes.as_ref().and_then(|changes| changes.body.as_ref()).ok_or("its text did not change")?;
    // GitHub names no earlier text when there was none.
    let previous = Some(change.from.clone().unwrap_or_default());
    Ok(Event::Edited { message, previous, editor: person(&body.sender)? })
}

fn transferred_to(body: &Body) -> Option<String> {
    let changes = body.changes.as_ref()?;
    let repository: RepoName = changes.new_repository.as_ref()?.full_name.as_deref()?.parse().ok()?;
    let number = changes.new_issue.as_ref()?.number?;
    Some(format!("{repository}#{number}"))
}

fn comment_event(body: &Body, action: &str) -> Understood {
    let thread = thread(body)?;
    let comment = body.comment.as_ref().ok_or("no comment")?;
    let id = CommentId(comment.id.ok_or("no comment id")?);
    let source = match (&comment.path, &body.issue) {
        (Some(path), None) => MessageSource::ReviewComment {
            id,
            review: comment.pull_request_review_id.map(CommentId),
            path: path.clone(),
            line: comment.line.or(comment.original_line),
            diff_hunk: comment.diff_hunk.clone().unwrap_or_default(),
        },
        _ => MessageSource::IssueComment { id },
    };
    match action {
        "created" => Ok(Event::Written(message(thread, source, comment)?)),
        "edited" => edited(body, message(thread, source, comment)?),
        "deleted" => Ok(Event::Deleted { thread, source, author: person(&comment.user).ok() }),
        _ => Err("nothing to do for this action"),
    }
}

fn review_event(body: &Body, action: &str) -> Understood {
    let thread = thread(body)?;
    let review = body.review.as_ref().ok_or("no review")?;
    let source = MessageSource::Review { id: CommentId(review.id.ok_or("no review id")?) };
    match action {
        "submitted" => Ok(Event::Written(message(thread, source, review)?)),
        "edited" => edited(body, message(thread, source, review)?),
        _ => Err("nothing to do for this action"),
    }
}

fn installation_event(body: &Body, action: &str) -> Understood {
    let installation = installation(body)?;
    let access = match action {
        // One that is made anew has another number, and names what it reaches.
        "created" if body.repositories.is_some() => {
            Access::Repositories { added: named(&body.repositories), removed: Vec::new() }
        }
        "created" | "unsuspend" | "new_permissions_accepted" => Access::Granted,
        "suspend" => Access::Suspended,
        "deleted" => Access::Uninstalled,
        _ => return Err("nothing to do for this action"),
    };
    Ok(Event::Installation { installation, access })
}

fn named(list: &Option<shapes::Named>) -> Vec<(RepositoryId, RepoName)> {
    let rows = list.iter().flat_map(|list| &list.0);
    rows.filter_map(|(id, name)| Some((RepositoryId(*id), name.parse().ok()?))).collect()
}

fn repositories_event(body: &Body) -> Understood {
    let access =
        Access::Repositories { added: named(&body.repositories_added), removed: named(&body.repositories_removed) };
    Ok(Event::Installation { installation: installation(body)?, access })
}

fn repository_event(body: &Body, action: &str) -> Understood {
    match action {
        "renamed" | "transferred" | "edited" => Ok(Event::Renamed { repository: repository(body)? }),
        "deleted" => fate(body, Fate::Deleted),
        "archived" => fate(body, Fate::Archived),
        "unarchived" => fate(body, Fate::Unarchived),
        _ => Err("nothing to do for this action"),
    }
}

fn check_run_event(body: &Body, action: &str) -> Understood {
    let identifier = body.requested_action.as_ref().and_then(|requested| requested.identifier.as_deref());
    let button = match action {
        PRESSED => identifier.and_then(|text| text.parse().ok()).ok_or("no button of Treewarden's")?,
        AGAIN => Button::Retry,
        _ => return Err("nobody pressed a button"),
    };
    let check = body.check_run.as_ref().ok_or("no check run")?;
    let app = check.app.as_ref().and_then(|app| app.id).and_then(|id| u64::try_from(id).ok()).ok_or("no App")?;
    let run = check.external_id.as_deref().and_then(|id| id.parse().ok()).ok_or("it is of no run of Treewarden's")?;
    Ok(Event::Pressed(Press { repository: repository(body)?, app, run, button, by: person(&body.sender)? }))
}

fn fate(body: &Body, fate: Fate) -> Understood {
    let RepositoryRef { id, installation, .. } = repository(body)?;
    Ok(Event::Installation { installation, access: Access::Repository { id, fate } })
}

fn installation(body: &Body) -> Result<InstallationId, &'static str> {
    body.installation.as_ref().and_then(|i| i.id).map(InstallationId).ok_or("no installation")
}

fn repository(body: &Body) -> Result<RepositoryRef, &'static str> {
    let shape = body.repository.as_ref().ok_or("no repository")?;
    Ok(RepositoryRef {
        id: RepositoryId(shape.id.ok_or("no repository id")?),
        name: shape.full_name.as_deref().and_then(|name| name.parse().ok()).ok_or("no usable repository name")?,
        installation: installation(body)?,
        default_branch: shape.default_branch.as_deref().and_then(|name| BranchName::new(name).ok()),
    })
}

/// The issue or pull request a delivery is about. A comment on a pull request arrives with an `issue` that has a
/// `pull_request` member.
fn thread(body: &Body) -> Result<ThreadRef, &'static str> {
    let (shape, kind) = match (&body.issue, &body.pull_request) {
        (Some(issue), _) if issue.pull_request.is_some() => (issue, ThreadKind::PullRequest),
        (Some(issue), _) => (issue, ThreadKind::Issue),
        (None, Some(pull)) => (pull, ThreadKind::PullRequest),
        (None, None) => return Err("no issue or pull request"),
    };
    Ok(ThreadRef {
        repository: repository(body)?,
        number: ThreadNumber(shape.number.ok_or("no number")?),
        kind,
        title: shape.title.clone().unwrap_or_default(),
        state: state(shape),
    })
}

/// An issue that stands for a pull request keeps the time of the merge in its `pull_request` member.
fn state(shape: &Shape) -> ThreadState {
    let merged_at = shape.merged_at.as_ref().or(shape.pull_request.as_ref().and_then(|pull| pull.merged_at.as_ref()));
    let merged = shape.merged == Some(true) || merged_at.is_some();
    match shape.state.as_deref() {
        Some("closed") if merged => ThreadState::Merged,
        Some("closed") => ThreadState::Closed,
        Some(_) | None => ThreadState::Open,
    }
}

fn thread_message(thread: ThreadRef, shape: &Shape) -> Result<Message, &'static str> {
    Ok(Message {
        thread,
        source: MessageSource::ThreadBody,
        author: person(&shape.user)?,
        body: text(&shape.body)?,
        url: shape.html_url.clone().unwrap_or_default(),
        written_at: moment(shape.created_at.as_deref()),
    })
}

fn message(thread: ThreadRef, source: MessageSource, comment: &Comment) -> Result<Message, &'static str> {
    Ok(Message {
        thread,
        source,
        author: person(&comment.user)?,
        body: text(&comment.body)?,
        url: comment.html_url.clone().unwrap_or_default(),
        written_at: moment(comment.created_at.as_deref().or(comment.submitted_at.as_deref())),
    })
}

/// GitHub takes 65,536 characters, of four bytes at most.
const LONGEST_TEXT: usize = 4 * 65_536;

fn text(body: &Option<String>) -> Result<String, &'static str> {
    match body {
        Some(body) if body.len() > LONGEST_TEXT => Err("its text is longer than GitHub lets any be"),
        Some(body) => Ok(body.clone()),
        None => Ok(String::new()),
    }
}

/// Who did it; GitHub's stand-in for deleted accounts when it does not say.
fn actor(body: &Body) -> Person {
    let ghost = || Person { id: UserId(0), login: "ghost".to_owned(), is_bot: false };
    person(&body.sender).unwrap_or_else(|_| ghost())
}

/// Deleted accounts arrive as `null` ("ghost"): nobody who could be answered.
fn person(user: &Option<shapes::User>) -> Result<Person, &'static str> {
    let user = user.as_ref().ok_or("its author no longer exists")?;
    Ok(Person {
        id: UserId(user.id.ok_or("its author has no id")?),
        login: user.login.clone().ok_or("its author has no login")?,
        is_bot: user.kind.as_deref().is_some_and(|kind| kind != "User"),
    })
}

#[cfg(test)]
#[path = "payload/tests.rs"]
mod tests;
