//! Rows as people read them: moments, sizes, states, links. Plain data for the templates, no I/O.

mod links;
mod mark;
mod pager;
mod prose;
mod when;

pub use links::{Links, web_address};
pub use mark::{Mark, of_check, of_result};
pub use pager::{PAGE, Pager, offset};
pub use prose::Prose;
pub use when::{When, ago};

use crate::model::reorders;

/// Text from outside, without what makes it read as what it does not say.
pub fn straight(text: &str) -> String {
    text.chars().filter(|c| !reorders(*c)).collect()
}
