//! What is told about a repository's own settings file.

use super::{FOREIGN, agent_text, marker};
use crate::model::*;

/// The comment about a settings file that cannot be followed.
pub fn settings_broken(problem: &SettingsProblem, in_force: &RepoSettings, key: &str) -> String {
    let meanwhile = match *in_force == RepoSettings::default() {
        true => "the defaults apply",
        false => "what its last good version said stays in force",
    };
    format!(
        "`{REPO_SETTINGS_FILE}` on the default branch cannot be followed: {}.\n\nWork goes on; until the file is right, \
         {meanwhile}. I say this once for each version of the file.\n\n{}",
        agent_text::foreign(&problem.to_string(), FOREIGN),
        marker(key)
    )
}
