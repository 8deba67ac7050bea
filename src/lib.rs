//! crate
pub mod model;
