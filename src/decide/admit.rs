//! Who may ask for work, and what an answer to those who may not looks like.

use crate::model::*;

/// What is known about somebody who addressed the bot.
#[derive(Clone, Debug)]
pub struct AdmitFacts {
    pub author: Person,
    /// The bot's own account.
    pub bot: Person,
    /// The text carries the service's hidden marker.
    pub carries_marker: bool,
    pub permission: Permission,
    /// What the request needs.
    pub needs: Permission,
    /// Runs this conversation started within the last ten minutes.
    pub recent_runs: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Welcome,
    /// Silently: answering could start a loop between bots.
    Ignore(&'static str),
    /// One reaction, and one explanation per person and thread.
    Refuse,
    /// The loop breaker: too many runs in one thread at once.
    TooMany,
}

/// More runs than this within ten minutes in one conversation look like a loop.
pub const MAX_RECENT_RUNS: u32 = 20;

pub fn admit(facts: &AdmitFacts) -> Admission {
    if facts.author.id == facts.bot.id {
        return Admission::Ignore("written by the bot itself");
    }
    if facts.author.is_bot {
        return Admission::Ignore("written by another bot");
    }
    if facts.carries_marker {
        return Admission::Ignore("carries the service's own marker");
    }
    if facts.permission < facts.needs {
        return Admission::Refuse;
    }
    if facts.recent_runs >= MAX_RECENT_RUNS {
        return Admission::TooMany;
    }
    Admission::Welcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(id: i64, is_bot: bool) -> Person {
        Person { id: UserId(id), login: format!("user{id}"), is_bot }
    }

    fn facts() -> AdmitFacts {
        AdmitFacts {
            author: person(5, false),
            bot: person(1, true),
            carries_marker: false,
            permission: Permission::Write,
            needs: Permission::Write,
            recent_runs: 0,
        }
    }

    #[test]
    fn write_permission_is_welcome_and_less_is_refused() {
        assert_eq!(admit(&facts()), Admission::Welcome);
        for permission in [Permission::None, Permission::Read, Permission::Triage] {
            assert_eq!(admit(&AdmitFacts { permission, ..facts() }), Admission::Refuse);
        }
    }

    #[test]
    fn bots_and_markers_are_ignored_without_an_answer() {
        for author in [person(1, true), person(1, false), person(77, true)] {
            assert!(matches!(admit(&AdmitFacts { author, ..facts() }), Admission::Ignore(_)));
        }
        assert!(matches!(admit(&AdmitFacts { carries_marker: true, ..facts() }), Admission::Ignore(_)));
    }

    #[test]
    fn a_loop_is_broken() {
        assert_eq!(admit(&AdmitFacts { recent_runs: MAX_RECENT_RUNS, ..facts() }), Admission::TooMany);
    }
}
