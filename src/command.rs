//! Text people write, turned into what they want: mention, command, closing reference. Pure.
//!
//! What may not live here: permissions, platforms, answers. [`grammar::COMMANDS`] is the one table from which parsing,
//! help, the README and the needed permissions come.

pub mod closing;
pub mod grammar;
pub mod help;
mod markdown;
pub mod mention;
