//! The names of log fields, so that one search finds a run in every room. Dotted, noun first.
//!
//! Used as `tracing::info!({ field::RUN } = %run.id, "run started")`, or spelled out where that reads better.

pub const DELIVERY: &str = "delivery.guid";
pub const EVENT: &str = "delivery.event";
pub const CODEBASE: &str = "codebase.name";
pub const CONVERSATION: &str = "conversation.id";
pub const ENVIRONMENT: &str = "environment.id";
pub const BRANCH: &str = "environment.branch";
pub const RUN: &str = "run.id";
pub const OUTGOING: &str = "outbox.key";
/// Target of the events that mark external effects: each is logged just before it happens, or just after it took hold.
/// Reading them in order tells what a process had done when it died.
pub const EFFECT: &str = "treewarden::effect";
/// Why something failed; written once, at the boundary where it is handled.
pub const ERROR: &str = "error";
