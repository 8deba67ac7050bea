//! What `treewarden demo` and the tests play against: a stand-in for GitHub and a toy agent.
//!
//! Nothing here knows the rest of Treewarden (only a few nouns of `model`), and nothing else may rely on it but the demo
//! command and the tests: the service must not be able to tell the stand-in from the real thing.

pub mod agent;
pub mod github;
