//! The nouns of Treewarden, as plain data: ids, names, states, events and the records the store keeps.
//!
//! What may not live here: I/O, async, a clock, randomness, SQL, or any decision. Every other room may import this one;
//! this one imports none. Text from outside becomes one of these types at the edge, so that inside no bare `String`
//! stands for a branch, a commit or a repository.

pub mod attempt;
pub mod check;
pub mod credential;
pub mod disk;
pub mod event;
pub mod furnished;
pub mod html;
pub mod id;
pub mod import;
pub mod installation;
pub mod maintenance;
pub mod markdown;
pub mod name;
pub mod needs;
pub mod outgoing;
pub mod pacing;
pub mod probe;
pub mod record;
pub mod repo_settings;
pub mod report;
pub mod state;
pub mod terminal;
pub mod time;
pub mod work;
pub mod worktree;

pub use attempt::*;
pub use check::*;
pub use credential::*;
pub use disk::*;
pub use event::*;
pub use furnished::*;
pub use html::*;
pub use id::*;
pub use import::*;
pub use installation::*;
pub use maintenance::*;
pub use markdown::markdown;
pub use name::*;
pub use needs::*;
pub use outgoing::*;
pub use pacing::*;
pub use probe::*;
pub use record::*;
pub use repo_settings::*;
pub use report::*;
pub use state::*;
pub use terminal::terminal_text;
pub use time::*;
pub use work::*;
pub use worktree::*;
