//! The end of what nobody needs any more: logs of runs, and rows of the database. What is kept for ever, and why, is said at
//! [`crate::store::Outlived`].

use super::{Orchestrator, StepError};
use crate::model::{RunId, Timestamp};
use crate::store::{Edge, Outlived};
use crate::telemetry::metric;
use std::{
    fs, io,
    path::Path,
    time::{Duration, SystemTime},
};
use tokio_util::sync::CancellationToken;

/// Between two pieces: who waits to write comes first.
const PAUSE: Duration = Duration::from_millis(20);

/// What stands beside each other in the folder of runs, by how its name ends.
const FILES: [&str; 2] = ["log", "prompt"];

impl Orchestrator {
    /// Forgets what was over longer ago than is kept. Answers with how much that was; can be stopped and repeated at any
    /// moment.
    pub async fn forget_outlived(&self, stop: &CancellationToken) -> Result<u64, StepError> {
        let live = self.store().live_environments(None).await?.into_iter().map(|environment| environment.id);
        self.inner.backoffs.keep_only(&live.collect());
        let now = self.now();
        let before = now.minus(self.settings().retain_for);
        let mut all = 0;
        for what in Outlived::ALL {
            let mut from = Some(Edge::START);
            while let Some(edge) = from.take().filter(|_| !stop.is_cancelled()) {
                let (forgotten, next) = self.store().forget_piece(what, edge, before).await?;
                count(what.as_str(), forgotten);
                all += forgotten;
                from = next;
                if from.is_some() {
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        let sessions = self.store().forget_web_sessions(now).await?;
        count("web_sessions", sessions);
        let folder = self.settings().home.join("runs");
        let files = tokio::task::spawn_blocking(move || forget_files(&folder, before)).await;
        let files = files.unwrap_or_else(|error| Err(io::Error::other(error)));
        let files = files.unwrap_or_else(|error| {
            tracing::warn!(%error, "old logs of runs were not deleted; the next pass tries again");
            0
        });
        count("run_files", files);
        all += sessions + files;
        if all > 0 {
            tracing::info!(
                forgotten.rows = all - files,
                forgotten.files = files,
                "what is older than is kept was forgotten"
            );
        }
        Ok(all)
    }

    /// For how long logs, and rows that are over, are kept.
    pub fn retain_for(&self) -> Duration {
        self.settings().retain_for
    }
}

fn count(what: &'static str, how_many: u64) {
    metrics::counter!(metric::FORGOTTEN, "what" => what).increment(how_many);
}

/// Only what is called like a run's file.
fn forget_files(folder: &Path, before: Timestamp) -> io::Result<u64> {
    let before = SystemTime::from(before.datetime());
    let mut forgotten = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let ends = path.extension().and_then(|end| end.to_str()).is_some_and(|end| FILES.contains(&end));
        let is_of_run =
            path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| stem.parse::<RunId>().is_ok());
        let is_old = || {
            fs::symlink_metadata(&path)
                .is_ok_and(|meta| !meta.is_dir() && meta.modified().is_ok_and(|changed| changed < before))
        };
        if !ends || !is_of_run || !is_old() {
            continue;
        }
        match fs::remove_file(&path) {
            Ok(()) => forgotten += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(path = %path.display(), %error, "an old log cannot be deleted; it stays"),
        }
    }
    Ok(forgotten)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_files_of_runs_go() {
        let folder = tempfile::tempdir().unwrap();
        let id = "0193f000-0000-7000-8000-000000000001";
        let other = "0193f000-0000-7000-8000-000000000002";
        let names = [
            format!("{id}.log"),
            format!("{id}.prompt"),
            format!("{other}.log"),
            "notes.log".into(),
            format!("{id}.txt"),
        ];
        let now = SystemTime::now();
        for name in &names {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            let age = if name.starts_with(other) { 1 } else { 3 };
            file.set_modified(now - Duration::from_secs(age * 86_400)).unwrap();
        }
        fs::create_dir(folder.path().join(format!("{other}.prompt"))).unwrap();
        let before = Timestamp::new(now.into()).minus(Duration::from_secs(2 * 86_400));
        assert_eq!(forget_files(folder.path(), before).unwrap(), 2);
        let left = names.iter().filter(|name| folder.path().join(name).exists()).collect::<Vec<_>>();
        assert_eq!(left, [&names[2], &names[3], &names[4]]);
        assert_eq!(forget_files(folder.path(), before).unwrap(), 0);
    }
}
