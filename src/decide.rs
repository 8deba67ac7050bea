//! Policy: pure functions from facts to decisions.
//!
//! What may not live here: I/O, async, a clock, randomness, logging, or text for people. Facts are gathered first
//! (`orchestrator::gather`), a function here decides, and the orchestrator carries the decision out. A probe that
//! failed arrives as `Probe::Unknown` and only ever makes an answer more careful.

pub mod access;
pub mod admit;
pub mod approve;
pub mod authority;
pub mod branches;
pub mod cleanup;
pub mod create;
pub mod deliver;
pub mod disk;
pub mod flood;
pub mod follow;
pub mod import;
pub mod late;
pub mod maintenance;
pub mod missed;
pub mod orphans;
pub mod pristine;
pub mod reconcile;
pub mod resolve;
pub mod restore;
pub mod retire;
pub mod schedule;
pub mod staged;
