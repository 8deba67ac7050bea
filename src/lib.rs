//! crate
pub mod command;
pub mod decide;
pub mod model;
pub mod reply;
