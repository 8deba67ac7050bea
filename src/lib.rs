//! crate
pub mod command;
pub mod decide;
pub mod github;
pub mod model;
pub mod platform;
pub mod reply;
pub mod store;
