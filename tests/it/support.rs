//! What several rooms' tests share.

pub mod alone;
pub mod browser;
pub mod postgres;
pub mod tree;
pub mod world;
