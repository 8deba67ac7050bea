//! Requests that were not taken up: who may ask, and what was given up.

use super::{FOREIGN, agent_text, marker};
use crate::model::*;

/// The one explanation for people who may not ask for this.
pub fn refusal(login: &str, needs: &Needs, key: &str) -> String {
    format!(
        "Sorry `{login}`, this needs {}. Nothing was run. Ask somebody who may to mention me.\n\n{}",
        needed(needs),
        marker(key)
    )
}

/// The same for what is said on this machine.
pub fn refusal_here(key: &str) -> String {
    format!(
        "The settings of this service (`TREEWARDEN_ALLOW`) leave this to people with a login on GitHub, and nobody has one here. \
         Nothing was run. Ask for it on GitHub, or let a permission do as well there.\n\n{}",
        marker(key)
    )
}

/// For people of whom GitHub does not say what they may do.
pub fn permission_unknown(login: &str, why: &str, key: &str) -> String {
    format!(
        "Sorry `{login}`, I could not find out whether you may ask for this: {}. Nothing was started; mention me again in a \
         while.\n\n{}",
        agent_text::said(why, FOREIGN),
        marker(key)
    )
}

/// As in "this needs …".
pub fn needed(needs: &Needs) -> String {
    let named = "to be named in the settings of this service";
    match (needs.permission, needs.people.is_empty()) {
        (Some(permission), true) => format!("{permission} permission on the repository"),
        (Some(permission), false) => format!("{permission} permission on the repository, or {named}"),
        (None, _) => named.to_owned(),
    }
}

pub fn too_many_runs(key: &str) -> String {
    format!(
        "This thread started too many runs within ten minutes, which looks like a loop. Nothing was run; \
         mention me again in a while.\n\n{}",
        marker(key)
    )
}

pub fn too_many_messages(login: &str, most: u32, key: &str) -> String {
    format!(
        "`{login}`, these are more than {most} messages to me in this repository within a minute. The others of this minute are \
         left alone; mention me again in a while. `/stop` is always heard.\n\n{}",
        marker(key)
    )
}

/// A delivery that was given up after several tries.
pub fn gave_up(why: &str, key: &str) -> String {
    format!(
        "I could not handle this request to its end: {}. No work is lost. Mention me again when the cause is gone.\n\n{}",
        agent_text::said(why, FOREIGN),
        marker(key)
    )
}

/// A delivery whose tries all ended without a word.
pub fn cut_short(tries: i64) -> String {
    format!("all {tries} tries to handle it were cut short")
}
