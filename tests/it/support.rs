//! What several test rooms share.

pub mod world;
