//! The names of log fields, so that one search finds a run in every room. Dotted, noun first.
//!
//! Written out where an event is logged: `tracing::info!(run.id = %run.id, "run started")`. A test compares what is written
//! with [`FIELDS`].

/// Target of the events that mark external effects: each is logged just before it happens, or just after it took hold.
/// Reading them in order tells what a process had done when it died.
pub const EFFECT: &str = "treewarden::effect";

/// Every field there is, with what it holds.
pub const FIELDS: &[(&str, &str)] = &[
    ("app.slug", "the name GitHub gave the App"),
    ("audit.action", "an entry of the audit log"),
    ("codebase.access", "what GitHub lets the App do in a repository"),
    ("codebase.name", "owner/name"),
    ("conversation.id", "row of an issue or pull request"),
    ("delivery.event", "X-GitHub-Event"),
    ("delivery.guid", "X-GitHub-Delivery"),
    ("environment.branch", "its branch, also while it is made and removed"),
    ("environment.id", "row of an environment"),
    ("error", "why something failed; written once, at the boundary where it is handled"),
    ("forgotten.files", "how many logs of runs were deleted for their age"),
    ("forgotten.rows", "how many rows were deleted, or emptied, for their age"),
    ("git.commit", "full id of a commit"),
    ("git.directory", "a repository or worktree"),
    ("git.mended", "what of a worktree was put right"),
    ("github.ahead", "by how many seconds GitHub's clock is ahead of this machine's"),
    ("http.method", "of a request that was answered"),
    ("http.route", "its route, never its address"),
    ("installation.id", "GitHub's number of an installation"),
    ("listen", "address of the listener"),
    ("missed.fetched", "how many deliveries were fetched from GitHub"),
    ("outbox.attempts", "how often it was tried to send"),
    ("outbox.key", "what is said, once for each key"),
    ("outbox.paused_until", "when something is sent again"),
    ("outbox.sent", "whether it was sent"),
    ("path", "a file or directory outside repositories"),
    ("reason", "why something was done that is no failure of ours"),
    ("result", "how a piece of work ended, as metrics count it"),
    ("row.id", "a row that cannot be read"),
    ("row.table", "its table"),
    ("run.id", "row of a run"),
    ("run.processes", "how many processes were ended"),
    ("run.state", "the state a run enters or has"),
    ("settings.broken", "whether a repository's settings file cannot be followed"),
    ("stop.complete", "whether everything came to its end"),
    ("variable", "name of an environment variable"),
];
