//! Rows as people read them: moments, sizes, states, links. Plain data for the templates, no I/O.

mod links;
mod log;
mod mark;
mod pager;
mod prose;
mod when;

pub use links::{Links, web_address};
pub use log::{plain_log, straight};
pub use mark::{Mark, of_result};
pub use pager::{PAGE, Pager, offset};
pub use prose::Prose;
pub use when::{When, ago, bytes};
