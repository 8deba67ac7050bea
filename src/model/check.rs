//! Things that have to be right for the service to work, as they were looked at.

use super::Timestamp;

/// What was found of one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Which thing, in a word.
    pub what: &'static str,
    pub fine: bool,
    /// What was seen, and what else has to be known before it is mended.
    pub seen: String,
    /// A command for a shell, or the page to open.
    pub mend: Option<String>,
    /// The account on GitHub that alone is concerned.
    pub account: Option<String>,
}

/// What was found of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examination {
    pub at: Timestamp,
    pub checks: Vec<Check>,
}
