//! What several rooms' tests share.

pub mod alone;
pub mod browser;
pub mod namespace;
pub mod postgres;
pub mod published;
pub mod tree;
pub mod world;
