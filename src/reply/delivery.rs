//! The words in commits and pull requests the service makes.

use super::agent_text;
use crate::model::*;

/// Longest subject line of a commit, in characters.
const SUBJECT: usize = 72;
/// How much of the agent's answer goes into a pull request.
const SUMMARY: usize = 8_000;

/// Subject from the request's first line, or from the thread's title; the rest says who asked, and where.
pub fn commit_message(request: &RunRequest, conversation: &Conversation) -> String {
    let first = one_line(&request.text);
    let subject = if first.is_empty() { one_line(&conversation.title) } else { first };
    let subject = if subject.is_empty() { work_on(conversation) } else { capitalised(&subject) };
    let subject = agent_text::defuse(&shortened(&subject, SUBJECT));
    format!("{subject}\n\n{}", asked(request, conversation))
}

fn work_on(conversation: &Conversation) -> String {
    match &conversation.thread {
        ThreadId::Numbered { number, .. } => format!("Work on #{number}"),
        ThreadId::Named(_) => "Work on a request".to_owned(),
    }
}

/// Who asked, and where.
fn asked(request: &RunRequest, conversation: &Conversation) -> String {
    match request.source {
        MessageSource::Local => {
            format!("Requested on the machine of the service ({})", Work::of_thread(&conversation.thread))
        }
        MessageSource::ThreadBody
        | MessageSource::IssueComment { .. }
        | MessageSource::Review { .. }
        | MessageSource::ReviewComment { .. } => format!("Requested by {} in {}", request.requester.login, request.url),
    }
}

/// What a thread is called whose first message this is.
pub fn title_of(text: &str) -> String {
    shortened(&one_line(text), 120)
}

pub fn pull_request_title(conversation: &Conversation) -> String {
    let title = one_line(&conversation.title);
    let title = if title.is_empty() { work_on(conversation) } else { title };
    // Written by anybody; it may become the message of a squash commit on the default branch.
    agent_text::defuse(&shortened(&title, 200))
}

/// Links the issue, names who asked, and quotes the agent's summary, which cannot link or mention anything itself.
pub fn pull_request_body(run: &Run, conversation: &Conversation, work: &Work) -> String {
    let link = match (work.kind, conversation.thread.number()) {
        (WorkKind::Issue, _) => Some(format!("Fixes #{}", work.id)),
        (WorkKind::PullRequest | WorkKind::Review | WorkKind::Thread | WorkKind::Task, Some(number)) => {
            Some(format!("Continues #{number}"))
        }
        (WorkKind::PullRequest | WorkKind::Review, None) => Some(format!("Continues #{}", work.id)),
        (WorkKind::Thread | WorkKind::Task, None) => None,
    };
    let summary = run.answer.as_deref().map(str::trim).filter(|summary| !summary.is_empty());
    let summary = summary.map(|summary| agent_text::present(summary, SUMMARY));
    let parts = link.into_iter().chain(summary).chain([asked(&run.request, conversation)]);
    parts.collect::<Vec<_>>().join("\n\n")
}

fn one_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !c.is_control() && !reorders(*c)).collect()
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

fn shortened(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn conversation(title: &str) -> Conversation {
        Conversation {
            id: ConversationId(Uuid::nil()),
            platform: PlatformKind::Github,
            codebase: CodebaseId(Uuid::nil()),
            thread: ThreadId::Numbered { kind: ThreadKind::Issue, number: ThreadNumber(1) },
            title: title.into(),
            state: ThreadState::Open,
            merged_head: None,
            environment: None,
            created_at: Timestamp::from_unix(0),
            updated_at: Timestamp::from_unix(0),
        }
    }

    fn request(text: &str) -> RunRequest {
        RunRequest {
            requester: Person { id: UserId(5), login: "ann".into(), is_bot: false },
            text: text.into(),
            source: MessageSource::ThreadBody,
            url: "https://g.example/1".into(),
            written_at: None,
            review: None,
        }
    }

    #[test]
    fn a_conversation_on_this_machine_names_no_number_and_nobody() {
        let name = ThreadName::new("fixes #7 @all").unwrap();
        let thread = Conversation { thread: ThreadId::Named(name), ..conversation("") };
        let asked = RunRequest { source: MessageSource::Local, ..request("") };
        let message = commit_message(&asked, &thread);
        let work = Work::of_thread(&thread.thread);
        assert_eq!(message, format!("Work on a request\n\nRequested on the machine of the service ({work})"));
        assert_eq!(title_of("  \n add a\u{202e} greeting\nplease"), "add a greeting");
    }

    #[test]
    fn titles_are_not_turned_around() {
        assert_eq!(pull_request_title(&conversation("a\u{202e}b\u{2066}c")), "abc");
    }

    #[test]
    fn the_subject_comes_from_the_request_or_the_title() {
        let message = commit_message(&request("add a greeting\nplease"), &conversation("T"));
        assert_eq!(message, "Add a greeting\n\nRequested by ann in https://g.example/1");
        assert!(commit_message(&request(" "), &conversation("Greet people")).starts_with("Greet people\n\n"));
        assert!(commit_message(&request(""), &conversation("")).starts_with("Work on #1\n\n"));
        let long = commit_message(&request(&"ä".repeat(200)), &conversation(""));
        assert_eq!(long.lines().next().unwrap().chars().count(), 72);
    }
}
