//! What a thread is told of the service's health: by areas, without anything of the server; the panel has the rest.

use super::{FOREIGN, agent_text};
use crate::model::*;

/// What was found of the repository that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// On GitHub, and git reads it.
    Read,
    /// On GitHub, and nothing of it is here yet.
    Named,
    /// Why not.
    Not(String),
    /// It is on the service's own machine.
    Here,
}

/// The answer to `/doctor`, as Markdown. `page`: the panel's.
pub fn told(found: &Examination, repository: &RepoName, reached: &Reached, page: &str, now: Timestamp) -> String {
    let owner = repository.owner();
    let concerned =
        found.checks.iter().filter(|check| check.account.as_deref().is_some_and(|one| one.eq_ignore_ascii_case(owner)));
    let own = concerned.map(|check| line(check.fine, &format!("App: {}", agent_text::said(&check.seen, FOREIGN))));
    let own: Vec<String> = [reach(reached)].into_iter().chain(own).collect();
    let areas: Vec<String> = areas(found).into_iter().map(|(what, fine)| format!("{} {what}", sign(fine))).collect();
    let healthy = found.checks.iter().all(|check| check.fine) && !matches!(reached, Reached::Not(_));
    let end = match healthy {
        true => "Everything is in order",
        false => "What is behind a ✘, and what mends it,",
    };
    let verb = if healthy { "; the details are" } else { " is" };
    format!(
        "**{repository}**\n{}\n\n**This service**, {}: {}\n\n{end}{verb} in the panel, for whoever runs it: {page}",
        own.join("\n"),
        looked(now.since(found.at).as_secs()),
        areas.join(" · ")
    )
}

fn reach(reached: &Reached) -> String {
    match reached {
        Reached::Read => line(true, "GitHub hands it over, and git reads it with a token of its own"),
        Reached::Named => line(true, "GitHub hands it over; nothing of it was fetched yet"),
        Reached::Not(why) => line(
            false,
            &format!("It is not read: {}. Worktrees that are there stay as they are", agent_text::said(why, FOREIGN)),
        ),
        Reached::Here => line(true, "It is on the machine of this service"),
    }
}

/// Each with whether all that was looked at in it is right, in the order of the examination.
fn areas(found: &Examination) -> Vec<(&'static str, bool)> {
    let mut areas: Vec<(&'static str, bool)> = Vec::new();
    for check in &found.checks {
        match areas.iter_mut().find(|(what, _)| *what == check.what) {
            Some((_, fine)) => *fine &= check.fine,
            None => areas.push((check.what, check.fine)),
        }
    }
    areas
}

fn looked(seconds: u64) -> String {
    match seconds {
        0..5 => "looked at just now".to_owned(),
        _ => format!("looked at {seconds} seconds ago"),
    }
}

fn line(fine: bool, text: &str) -> String {
    format!("- {} {text}", sign(fine))
}

fn sign(fine: bool) -> &'static str {
    if fine { "✔" } else { "✘" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(what: &'static str, fine: bool, seen: &str, account: Option<&str>) -> Check {
        let (seen, account) = (seen.to_owned(), account.map(str::to_owned));
        Check { what, fine, seen, mend: Some("sudo rm -rf /srv/tw".to_owned()), account }
    }

    #[test]
    fn a_thread_is_told_areas_and_what_concerns_it_and_no_more() {
        let checks = vec![
            check("home", true, "/srv/tw is ours alone", None),
            check("github", true, "this is the App @tw", None),
            check("github", false, "on Octo it does not have: issues: write", Some("Octo")),
            check("github", true, "it is installed on acme", Some("acme")),
            check("agent", false, "/opt/agent is not there", None),
        ];
        let at = Timestamp::from_unix(1_772_323_200);
        let (found, name) = (Examination { at, checks }, "octo/hello".parse().unwrap());
        let now = at.plus(std::time::Duration::from_secs(20));
        let not = Reached::Not("GitHub could not be reached".to_owned());
        insta::assert_snapshot!(told(&found, &name, &not, "http://127.0.0.1:3000/doctor", now), @r"
        **octo/hello**
        - ✘ It is not read: GitHub could not be reached. Worktrees that are there stay as they are
        - ✘ App: on Octo it does not have: issues: write

        **This service**, looked at 20 seconds ago: ✔ home · ✘ github · ✘ agent

        What is behind a ✘, and what mends it, is in the panel, for whoever runs it: http://127.0.0.1:3000/doctor
        ");
        let found = Examination { at, checks: vec![check("git", true, "git 2.39.5", None)] };
        let unread = told(&found, &name, &not, "http://127.0.0.1:3000/doctor", now);
        assert!(unread.contains("What is behind a ✘") && !unread.contains("in order"), "{unread}");
        insta::assert_snapshot!(told(&found, &name, &Reached::Read, "http://127.0.0.1:3000/doctor", at), @r"
        **octo/hello**
        - ✔ GitHub hands it over, and git reads it with a token of its own

        **This service**, looked at just now: ✔ git

        Everything is in order; the details are in the panel, for whoever runs it: http://127.0.0.1:3000/doctor
        ");
    }
}
