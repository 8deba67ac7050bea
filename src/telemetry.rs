//! What operators see: log lines, metrics, and the redaction that both they and everything else that leaves go through.
//!
//! No policy and no knowledge of any other room lives here. Like `tracing` itself this room is for everybody: each room
//! with I/O may use its names and its [`Redactor`]; it uses none of them.

pub mod field;
mod log;
pub mod metric;
mod redact;

pub use log::{LogFormat, TelemetryError, check_filter, start};
pub use metric::Metrics;
pub use redact::{RedactStream, Redactor};
