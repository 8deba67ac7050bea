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
    /// Of the codebase.
    pub mode: CodebaseMode,
    pub asks: Asks,
}

/// What a request is for, as far as the mode of a codebase makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// That the codebase is switched on.
    Enable,
    /// That work ends.
    End,
    /// To be told something.
    Tell,
    /// Work, or any other change.
    Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Welcome,
    /// The codebase is staged: it is said what would be done.
    Staged,
    /// The codebase is switched off: nothing is said.
    Off,
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

/// Whether anybody looks at a request at all.
pub fn is_heard(mode: CodebaseMode, asks: Asks) -> bool {
    match mode {
        CodebaseMode::On | CodebaseMode::Staged => true,
        // Its runs are at work until somebody ends them.
        CodebaseMode::Off => matches!(asks, Asks::Enable | Asks::End),
    }
}

pub fn admit(facts: &AdmitFacts<'_>) -> Admission {
    let may = facts.needs.met_by(facts.person, facts.permission);
    match (facts.mode, facts.asks) {
        (mode, asks) if !is_heard(mode, asks) => return Admission::Off,
        (CodebaseMode::Off, _) if !may => return Admission::Off,
        _ if !may => return Admission::Refuse,
        (CodebaseMode::Staged, Asks::Change) => return Admission::Staged,
        (
            CodebaseMode::On | CodebaseMode::Staged | CodebaseMode::Off,
            Asks::Enable | Asks::End | Asks::Tell | Asks::Change,
        ) => {}
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
        let (mode, asks) = (CodebaseMode::On, Asks::Change);
        admit(&AdmitFacts { person: &person(5, false), permission, needs, recent_runs, mode, asks })
    }

    #[test]
    fn the_mode_decides_what_comes_of_a_request() {
        use {Admission::*, Asks::*, CodebaseMode::On, CodebaseMode::Staged as InStages};
        let admitted = |mode, asks, permission| {
            let least = if asks == Enable { Permission::Admin } else { Permission::Write };
            let (person, needs) = (person(5, false), Needs::at_least(least));
            admit(&AdmitFacts { person: &person, permission, needs, recent_runs: 0, mode, asks })
        };
        for (mode, asks, by_admin, by_writer, by_reader) in [
            (On, Enable, Welcome, Refuse, Refuse),
            (On, Tell, Welcome, Welcome, Refuse),
            (On, Change, Welcome, Welcome, Refuse),
            (InStages, Enable, Welcome, Refuse, Refuse),
            (InStages, End, Welcome, Welcome, Refuse),
            (InStages, Tell, Welcome, Welcome, Refuse),
            (InStages, Change, Admission::Staged, Admission::Staged, Refuse),
            (CodebaseMode::Off, Enable, Welcome, Off, Off),
            (CodebaseMode::Off, End, Welcome, Welcome, Off),
            (CodebaseMode::Off, Tell, Off, Off, Off),
            (CodebaseMode::Off, Change, Off, Off, Off),
        ] {
            let by = |permission| admitted(mode, asks, permission);
            let all = (by(Permission::Admin), by(Permission::Write), by(Permission::Read));
            assert_eq!(all, (by_admin, by_writer, by_reader), "{mode} {asks:?}");
        }
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
