//! Setting up `tracing`: one line per event on standard error, as text or JSON, with secrets taken out of the finished
//! line, so that no field of any room can carry one out.

use super::Redactor;
use std::{fmt, io, str::FromStr};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{EnvFilter, fmt::MakeWriter, util::SubscriberInitExt};

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

impl FromStr for LogFormat {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("text or json"),
        }
    }
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("the log filter is not valid: {0}")]
    Filter(String),
    #[error("logging was set up twice in one process")]
    AlreadyStarted,
}

/// Whether `filter` is something like `info` or `treewarden=debug,warn`.
pub fn check_filter(filter: &str) -> Result<(), TelemetryError> {
    // A word that is no level would be taken for the name of a part of the program, and silence all others.
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let slip = filter.split(',').map(str::trim).find(|word| !word.contains(['=', '[', ']']) && !is_level(word));
    if let Some(word) = slip {
        return Err(TelemetryError::Filter(format!("{word} is no level")));
    }
    EnvFilter::try_new(filter).map(drop).map_err(|error| TelemetryError::Filter(error.to_string()))
}

/// What libraries say of things that are told in our own words, once (a failed request), or are of no interest (a cookie
/// older than its session). A filter that names them brings them back.
const SILENCED: &str = "octocrab=off,sqlx=error,tower_sessions=error,tower_sessions_core=error";

/// What this filter lets through, [`SILENCED`] aside.
fn quieter(filter: &str) -> Result<EnvFilter, TelemetryError> {
    EnvFilter::try_new(format!("{SILENCED},{filter}")).map_err(|error| TelemetryError::Filter(error.to_string()))
}

/// Sends the events of this process to standard error from here on. Once per process.
pub fn start(filter: &str, format: LogFormat, redactor: Redactor) -> Result<(), TelemetryError> {
    let filter = quieter(filter)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(RedactedWriter { inner: io::stderr, redactor })
        .with_ansi(false)
        // It would be said where nothing can be written any more, and end the process.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => builder.finish().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    }
    .map_err(|_| TelemetryError::AlreadyStarted)
}

/// Makes writers that redact each line before it goes on. The formatter hands over one whole line per write.
struct RedactedWriter<M> {
    inner: M,
    redactor: Redactor,
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for RedactedWriter<M> {
    type Writer = Redacted<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Redacted { inner: self.inner.make_writer(), redactor: self.redactor.clone() }
    }
}

struct Redacted<W> {
    inner: W,
    redactor: Redactor,
}

impl<W: io::Write> io::Write for Redacted<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut clean = Vec::with_capacity(line.len());
        let mut stream = self.redactor.stream();
        stream.push(line, &mut clean);
        stream.finish(&mut clean);
        self.inner.write_all(&clean)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<M> fmt::Debug for RedactedWriter<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedactedWriter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::SecretString;
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_secret_in_a_field_does_not_reach_the_log() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let redactor = Redactor::new([&SecretString::from("hunter2hunter2")]);
        let sink = SharedSink(lines.clone());
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_writer(RedactedWriter { inner: move || sink.clone(), redactor })
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(error = "bad password hunter2hunter2", "token ghs_0123456789abcdef01 refused");
        });
        let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
        assert!(text.contains("bad password [redacted]") && text.contains("token [redacted] refused"), "{text}");
    }

    #[derive(Clone)]
    struct SharedSink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for SharedSink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn libraries_are_quiet_unless_asked() {
        let heard = |filter: &str| {
            let lines = Arc::new(Mutex::new(Vec::new()));
            let sink = SharedSink(lines.clone());
            let subscriber = tracing_subscriber::fmt()
                .with_env_filter(quieter(filter).unwrap())
                .with_writer(RedactedWriter { inner: move || sink.clone(), redactor: Redactor::new([]) })
                .finish();
            tracing::subscriber::with_default(subscriber, || {
                tracing::error!(target: "octocrab", "failed with error");
                tracing::warn!(target: "tower_sessions_core::session", "possibly suspicious activity");
                tracing::info!(target: "treewarden::app", "own words");
            });
            let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
            ["failed with error", "suspicious", "own words"].map(|words| text.contains(words))
        };
        assert_eq!(heard("info"), [false, false, true]);
        assert_eq!(heard("warn"), [false, false, false]);
        assert_eq!(heard("info,octocrab=debug"), [true, false, true]);
        assert_eq!(heard("tower_sessions_core=warn"), [false, true, false]);
    }

    #[test]
    fn filters_and_formats_are_checked() {
        assert!(check_filter("treewarden=debug,warn").is_ok());
        assert!(check_filter("treewarden=loud").is_err());
        assert_eq!("json".parse(), Ok(LogFormat::Json));
        assert!("xml".parse::<LogFormat>().is_err());
    }
}
