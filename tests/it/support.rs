//! What several rooms' tests share.

pub mod postgres;
pub mod world;
