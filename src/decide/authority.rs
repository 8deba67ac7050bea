//! Who may ask for what: the table's defaults, as far as the rules of whoever runs the service leave them.

use crate::model::{Needs, Permission, UserId};
use std::collections::{BTreeMap, BTreeSet};

/// What a rule calls requests in words, for the agent.
pub const REQUESTS: &str = "requests";
/// What a rule calls everything.
const EVERYTHING: &str = "*";
const APPROVE: &str = "/approve";

/// Rules by what they are for; without any, the table's defaults hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authority {
    rules: BTreeMap<String, Needs>,
    /// Who may do everywhere what takes admin permission.
    admins: BTreeSet<UserId>,
}

impl Authority {
    /// `/worktree cleanup = maintain; requests = write, @ann:583231`: a command or the beginning of its name, `requests` or `*`; then
    /// the least permission, and people, one of which is enough.
    pub fn parse(text: &str, commands: &[&str]) -> Result<Self, String> {
        let mut rules = BTreeMap::new();
        for rule in text.split(';').map(str::trim).filter(|rule| !rule.is_empty()) {
            let (what, who) = rule
                .split_once('=')
                .ok_or("expected rules like `/worktree cleanup = maintain; requests = write, @ann:583231`")?;
            let what = what.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase();
            if what != REQUESTS && what != EVERYTHING && !commands.iter().any(|name| covers(&what, name)) {
                return Err(format!("there is no command {what:?}; `requests` and `*` are understood, too"));
            }
            let needs = needs(who)?;
            if covers(&what, APPROVE) && confined(&needs) != needs {
                return Err("/approve takes at least write permission: it lets strangers' code run".to_owned());
            }
            if rules.insert(what.clone(), needs).is_some() {
                return Err(format!("there are two rules for {what:?}"));
            }
        }
        Ok(Self { rules, admins: BTreeSet::new() })
    }

    /// The same rules, under which these people may do what takes admin permission by the table.
    #[must_use]
    pub fn with_admins(self, admins: BTreeSet<UserId>) -> Self {
        Self { admins, ..self }
    }

    /// For a command, or [`REQUESTS`]; `usual` is what it takes without rules.
    pub fn needs(&self, name: &str, usual: Permission) -> Needs {
        // The longest name is the most exact one.
        let named = self.rules.iter().filter(|(what, _)| covers(what, name)).max_by_key(|(what, _)| what.len());
        let needs = match (named, usual) {
            (Some((_, needs)), _) => needs.clone(),
            // What only admins may is left to others by its name, not along with everything.
            (None, Permission::Admin) => Needs::at_least(Permission::Admin),
            (None, _) => self.rules.get(EVERYTHING).cloned().unwrap_or_else(|| Needs::at_least(usual)),
        };
        match (name, usual) {
            (APPROVE, _) => confined(&needs),
            (_, Permission::Admin) => Needs { people: &needs.people | &self.admins, ..needs },
            (_, _) => needs,
        }
    }
}

/// Whether a rule for `what` is one for `name`: all of its words, or the first ones.
fn covers(what: &str, name: &str) -> bool {
    name.strip_prefix(what).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// For what only writers may do, whatever the rules say.
fn confined(needs: &Needs) -> Needs {
    Needs::at_least(needs.permission.map_or(Permission::Write, |least| least.max(Permission::Write)))
}

fn needs(who: &str) -> Result<Needs, String> {
    let mut needs = Needs::default();
    for word in who.split(',').map(str::trim) {
        match (word.strip_prefix('@'), word.parse::<Permission>()) {
            (Some(login), _) if is_login(login) => return Err(without_number(word, login)),
            (Some(named), _) if person(named).is_some() => needs.people.extend(person(named)),
            (None, Ok(permission)) if permission != Permission::None && needs.permission.is_none() => {
                needs.permission = Some(permission);
            }
            _ => {
                return Err(format!(
                    "expected one of read, triage, write, maintain, admin and people like @ann:583231 behind `=`, not {word:?}"
                ));
            }
        }
    }
    Ok(needs)
}

/// One of the people who run the service: `ann:583231`.
pub fn person_named(word: &str) -> Result<UserId, String> {
    match person(word) {
        Some(id) => Ok(id),
        None if is_login(word) && !word.chars().all(|c| c.is_ascii_digit()) => Err(without_number(word, word)),
        None => Err(format!("expected people like ann:583231, not {word:?}")),
    }
}

fn without_number(word: &str, login: &str) -> String {
    format!(
        "{word} may be somebody else tomorrow: write {word}:<number>, with the number that GitHub gives as `id` (on github.com: \
         `curl -s https://api.github.com/users/{login}`)"
    )
}

/// `<login>:<number>`; the number counts, the login is for whoever reads it.
fn person(text: &str) -> Option<UserId> {
    let (login, number) = text.split_once(':')?;
    // Nobody has 0: it stands for those who are not known.
    number.parse().ok().filter(|number| is_login(login) && *number > 0).map(UserId)
}

fn is_login(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !text.is_empty() && text.len() <= 100 && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Person;

    const COMMANDS: [&str; 5] = ["/help", "/status", "/approve", "/worktree list", "/worktree cleanup stale"];

    fn needed(rules: &str, name: &str) -> Needs {
        Authority::parse(rules, &COMMANDS).unwrap().needs(name, Permission::Write)
    }

    #[test]
    fn without_rules_everything_takes_write_permission() {
        for name in [REQUESTS, "/help", "/worktree cleanup stale"] {
            assert_eq!(needed("", name), Needs::at_least(Permission::Write), "{name}");
        }
    }

    #[test]
    fn the_most_exact_rule_counts_and_one_of_its_conditions_is_enough() {
        let rules = "* = triage; /worktree = maintain; /Worktree  Cleanup = admin, @Ann:7 ;requests=@bob:8;";
        let ann = BTreeSet::from([UserId(7)]);
        assert_eq!(needed(rules, "/status"), Needs::at_least(Permission::Triage));
        assert_eq!(needed(rules, "/worktree list"), Needs::at_least(Permission::Maintain));
        assert_eq!(
            needed(rules, "/worktree cleanup stale"),
            Needs { permission: Some(Permission::Admin), people: ann }
        );
        let requests = needed(rules, REQUESTS);
        assert_eq!(requests, Needs { permission: None, people: BTreeSet::from([UserId(8)]) });
        let person = |id, login: &str| Person { id: UserId(id), login: login.into(), is_bot: false };
        assert!(requests.met_by(&person(8, "robert"), Permission::None));
        assert!(!requests.met_by(&person(9, "bob"), Permission::Admin), "no name and no permission is enough");
    }

    #[test]
    fn nobody_but_writers_lets_strangers_code_run() {
        assert_eq!(needed("* = read, @ann:7", APPROVE), Needs::at_least(Permission::Write));
        assert_eq!(needed("* = admin, @ann:7", APPROVE), Needs::at_least(Permission::Admin));
        assert_eq!(needed("/approve = maintain", APPROVE), Needs::at_least(Permission::Maintain));
        for bad in ["/approve = read", "/approve = write, @ann:7", "/approve = @ann:7"] {
            assert!(Authority::parse(bad, &COMMANDS).unwrap_err().contains("at least write"), "{bad}");
        }
    }

    #[test]
    fn what_takes_admin_permission_is_given_away_by_name_only() {
        let commands = ["/enable", "/status"];
        let needed = |rules: &str| {
            let rules = Authority::parse(rules, &commands).unwrap().with_admins(BTreeSet::from([UserId(9)]));
            (rules.needs("/enable", Permission::Admin), rules.needs("/status", Permission::Write))
        };
        let admins = Needs { permission: Some(Permission::Admin), people: BTreeSet::from([UserId(9)]) };
        assert_eq!(needed(""), (admins.clone(), Needs::at_least(Permission::Write)));
        assert_eq!(needed("* = read, @ann:7").0, admins, "not along with everything");
        let named = Needs { permission: Some(Permission::Maintain), people: BTreeSet::from([UserId(7), UserId(9)]) };
        assert_eq!(needed("/enable = maintain, @ann:7").0, named);
    }

    #[test]
    fn what_is_no_rule_is_named() {
        for bad in [
            "read",
            "/deploy = read",
            "/work = read",
            "/status = all",
            "/status =",
            "/status = none",
            "/status = @",
            "/status = @a b",
            "/status = @ann",
            "/status = @ann:0",
            "/status = @ann:-1",
            "/status = @ann:x",
            "/status = @:7",
            "/status = 7",
            "/status = read, write",
            "/status = read; /STATUS = write",
            "/status = @a[bot]",
            "/status = ann",
        ] {
            assert!(Authority::parse(bad, &COMMANDS).is_err(), "{bad}");
        }
    }
}
