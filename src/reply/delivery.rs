//! The words in commits and pull requests the service makes.

use super::agent_text;
use crate::model::*;

/// Longest subject line of a commit, in characters.
const SUBJECT: usize = 72;
/// How much of the agent's answer goes into a pull request.
const SUMMARY: usize = 8_000;

/// Subject from the request's first line, or from the thread's title; the rest says who asked, and where.
pub fn commit_message(request: &RunRequest, conversation: &Conversation) -> String {
    let asked = one_line(&request.text);
    let subject = if asked.is_empty() { one_line(&conversation.title) } else { asked };
    let subject = if subject.is_empty() { format!("Work on #{}", conversation.number) } else { capitalised(&subject) };
    let subject = agent_text::defuse(&shortened(&subject, SUBJECT));
    format!("{subject}\n\nRequested by {} in {}", request.requester.login, request.url)
}

pub fn pull_request_title(conversation: &Conversation) -> String {
    let title = one_line(&conversation.title);
    let title = if title.is_empty() { format!("Work on #{}", conversation.number) } else { title };
    // Written by anybody; it may become the message of a squash commit on the default branch.
    agent_text::defuse(&shortened(&title, 200))
}

/// Links the issue, names who asked, and quotes the agent's summary, which cannot link or mention anything itself.
pub fn pull_request_body(run: &Run, conversation: &Conversation, work: &Work) -> String {
    let link = match work.kind {
        WorkKind::Issue => format!("Fixes #{}", work.id),
        WorkKind::PullRequest | WorkKind::Review | WorkKind::Thread | WorkKind::Task => {
            format!("Continues #{}", conversation.number)
        }
    };
    let summary = run.answer.as_deref().unwrap_or_default().trim();
    let summary = match summary.is_empty() {
        true => String::new(),
        false => format!("\n\n{}", agent_text::present(summary, SUMMARY)),
    };
    format!("{link}{summary}\n\nRequested by {} in {}", run.request.requester.login, run.request.url)
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
            kind: ThreadKind::Issue,
            number: ThreadNumber(1),
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
        }
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
