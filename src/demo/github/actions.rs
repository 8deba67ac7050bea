//! What can be done on the stand-in: each action checks, changes the world (and git, where commits are concerned) and
//! emits the webhook events GitHub would.
//!
//! Rights are not checked here (a test may act as anybody); `http` checks them before it calls. Actions on the world
//! alone are methods of `World`, those that need git are methods of `Hub`.

pub(super) mod checks;
pub(super) mod closing;
pub(super) mod installations;
pub(super) mod merge;
pub(super) mod pulls;
pub(super) mod refs;
pub(super) mod registration;
pub(super) mod repositories;
pub(super) mod reviews;
pub(super) mod threads;
