//! crate
pub mod decide;
pub mod model;
pub mod reply;
