//! One thing that has to be right for the service to work, as it was looked at.

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Which thing, in a word.
    pub what: &'static str,
    pub fine: bool,
    /// What was seen, and what else has to be known before it is mended.
    pub seen: String,
    /// A command for a shell, or the page to open.
    pub mend: Option<String>,
}
