//! Who may ask for work, and what an answer to those who may not looks like.

use crate::model::*;

/// What is known about somebody who addressed the bot.
#[derive(Clone, Debug)]
pub struct AdmitFacts<'a> {
    pub person: &'a Person,
    pub permission: Permission,
    /// What the request needs.
    pub needs: Needs,
    /// Runs this conversation started within the last ten minutes.
    pub recent_runs: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Welcome,
    /// One reaction, and one explanation per person and thread.
    Refuse,
    /// The loop breaker: too many runs in one thread at once.
    TooMany,
}

/// More runs than this within ten minutes in one conversation look like a loop.
pub const MAX_RECENT_RUNS: u32 = 20;

/// Why a text is passed over in silence, before anybody is asked: answering could start a loop between bots.
/// `carries_marker`: it carries the service's hidden marker.
pub fn passed_over(author: &Person, bot: &Person, carries_marker: bool) -> Option<&'static str> {
    match (author.id == bot.id, author.is_bot, carries_marker) {
        (true, ..) => Some("written by the bot itself"),
        (_, true, _) => Some("written by another bot"),
        (.., true) => Some("carries the service's own marker"),
        (false, false, false) => None,
    }
}

pub fn admit(facts: &AdmitFacts<'_>) -> Admission {
    if !facts.needs.met_by(facts.person, facts.permission) {
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

    fn admitted(permission: Permission, recent_runs: u32) -> Admission {
        let needs = Needs::at_least(Permission::Write);
        admit(&AdmitFacts { person: &person(5, false), permission, needs, recent_runs })
    }

    #[test]
    fn write_permission_is_welcome_and_less_is_refused() {
        assert_eq!(admitted(Permission::Write, 0), Admission::Welcome);
        for permission in [Permission::None, Permission::Read, Permission::Triage] {
            assert_eq!(admitted(permission, 0), Admission::Refuse);
        }
    }

    #[test]
    fn bots_and_markers_are_ignored_without_an_answer() {
        for author in [person(1, true), person(1, false), person(77, true)] {
            assert!(passed_over(&author, &person(1, true), false).is_some());
        }
        assert!(passed_over(&person(5, false), &person(1, true), true).is_some());
        assert_eq!(passed_over(&person(5, false), &person(1, true), false), None);
    }

    #[test]
    fn a_loop_is_broken() {
        assert_eq!(admitted(Permission::Write, MAX_RECENT_RUNS), Admission::TooMany);
    }
}
