//! crate
pub mod decide;
pub mod model;
