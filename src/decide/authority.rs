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
    /// Who may do what else takes admin permission.
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

    pub fn with_admins(self, admins: BTreeSet<UserId>) -> Self {
        Self { admins, ..self }
    }

    /// For a command, or [`REQUESTS`]; `usual` is what it takes without rules.
    pub fn needs(&self, name: &str, usual: Permission) -> Needs {
        // The longest name is the most exact one.
        let named = self.rules.iter().filter(|(what, _)| covers(what, name)).max_by_key(|(what, _)| what.len());
        // What is about the service takes a rule of its own to be opened.
        let everything = || self.rules.get(EVERYTHING).filter(|_| usual < Permission::Admin);
        let needs = named.map(|(_, needs)| needs).or_else(everything);
        let needs = needs.cloned().unwrap_or_else(|| self.usual(usual));
        if name == APPROVE { confined(&needs) } else { needs }
    }

    fn usual(&self, permission: Permission) -> Needs {
        let people = if permission < Permission::Admin { BTreeSet::new() } else { self.admins.clone() };
        Needs { people, ..Needs::at_least(permission) }
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
            (Some(login), _) if is_login(login) => {
                return Err(format!(
                    "{word} may be somebody else tomorrow: write {word}:<number>, with the number that GitHub gives as `id` \
                     (on github.com: `curl -s https://api.github.com/users/{login}`)"
                ));
            }
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

/// People with rights on everything, as `ann:583231, bob:17`; the numbers count.
pub fn admins(text: &str) -> Result<BTreeSet<UserId>, String> {
    let words = text.split([',', ' ', '\n']).map(str::trim).filter(|word| !word.is_empty());
    let one = |word: &str| {
        let word = word.strip_prefix('@').unwrap_or(word);
        person(word).ok_or_else(|| match is_login(word) {
            true => format!(
                "{word} may be somebody else tomorrow: write {word}:<number>, with the number that GitHub gives as `id` (on \
                 github.com: `curl -s https://api.github.com/users/{word}`)"
            ),
            false => "expected people like ann:583231, bob:17".to_owned(),
        })
    };
    words.map(one).collect()
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
    use crate::model::{Person, UserId};

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
    fn admins_may_what_takes_admin_permission_and_no_rule_for_everything_opens_that() {
        let admins = admins("ann:7, @Bob:8").unwrap();
        assert_eq!(admins, BTreeSet::from([UserId(7), UserId(8)]));
        let needed = |rules: &str, usual| {
            Authority::parse(rules, &COMMANDS).unwrap().with_admins(admins.clone()).needs("/status", usual)
        };
        let both = Needs { permission: Some(Permission::Admin), people: admins.clone() };
        assert_eq!(needed("", Permission::Admin), both);
        assert_eq!(needed("* = read", Permission::Admin), both);
        assert_eq!(needed("/status = read", Permission::Admin), Needs::at_least(Permission::Read));
        assert_eq!(needed("", Permission::Write), Needs::at_least(Permission::Write));
        for bad in ["ann", "ann:", "ann:0", "ann:x", ":7", "a/b:7"] {
            assert!(super::admins(bad).is_err(), "{bad}");
        }
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
