//! The metrics Treewarden publishes, in one table from which their help texts come, and the recorder behind `/metrics`.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::sync::OnceLock;

pub const WEBHOOKS: &str = "treewarden_webhooks_total";
pub const DELIVERIES: &str = "treewarden_deliveries_total";
pub const MISSED: &str = "treewarden_missed_deliveries_total";
pub const RUNS: &str = "treewarden_runs_total";
pub const RUN_SECONDS: &str = "treewarden_run_seconds";
pub const OUTBOX_SENT: &str = "treewarden_outbox_sent_total";
pub const ENVIRONMENTS: &str = "treewarden_environments";
pub const ORPHANS: &str = "treewarden_orphans";
pub const ENVIRONMENTS_REMOVED: &str = "treewarden_environments_removed_total";
pub const MAINTENANCE: &str = "treewarden_maintenance_total";
pub const FORGOTTEN: &str = "treewarden_forgotten_total";
pub const QUEUE_DEPTH: &str = "treewarden_queue_depth";
const BUILD_INFO: &str = "treewarden_build_info";

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// One published metric. Labels have few, fixed values: never a repository, a person or an id.
#[derive(Debug)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub label: Option<&'static str>,
    pub meaning: &'static str,
}

/// Every metric there is; `/metrics` and the documentation follow this table.
pub const METRICS: &[Metric] = &[
    Metric {
        name: WEBHOOKS,
        kind: Kind::Counter,
        label: Some("result"),
        meaning: "Webhook requests by result: accepted, duplicate, refused (could not be stored), rejected (not from GitHub, or the secret is wrong)",
    },
    Metric {
        name: DELIVERIES,
        kind: Kind::Counter,
        label: Some("result"),
        meaning: "Stored deliveries by what came of them: done, ignored (most of them at the door), retried, failed, given back (the service stopped)",
    },
    Metric {
        name: MISSED,
        kind: Kind::Counter,
        label: Some("result"),
        meaning: "Deliveries that GitHub did not bring here, by result: fetched, given_up",
    },
    Metric {
        name: RUNS,
        kind: Kind::Counter,
        label: Some("result"),
        meaning: "Runs by final state: succeeded, failed, cancelled, timed_out, interrupted",
    },
    Metric { name: RUN_SECONDS, kind: Kind::Histogram, label: None, meaning: "Seconds from a run's start to its end" },
    Metric {
        name: ENVIRONMENTS_REMOVED,
        kind: Kind::Counter,
        label: Some("trigger"),
        meaning: "Environments that were removed by what led to it: thread_closed, schedule, limit, command, panel, cli, made_way",
    },
    Metric {
        name: MAINTENANCE,
        kind: Kind::Counter,
        label: Some("result"),
        meaning: "Times a repository was to be packed, by result: packed, failed",
    },
    Metric {
        name: FORGOTTEN,
        kind: Kind::Counter,
        label: Some("what"),
        meaning: "What was deleted because it was older than RETENTION_DAYS: deliveries, delivery_bodies, outgoing, sessions, reports, local_messages, web_sessions, run_files",
    },
    Metric {
        name: OUTBOX_SENT,
        kind: Kind::Counter,
        label: Some("result"),
        meaning: "Attempts to send something to a platform by result: sent, retried, failed",
    },
    Metric {
        name: ENVIRONMENTS,
        kind: Kind::Gauge,
        label: Some("state"),
        meaning: "Live environments by state: creating, active, removing",
    },
    Metric {
        name: ORPHANS,
        kind: Kind::Gauge,
        label: Some("kind"),
        meaning: "What no environment has, as the last pass over everything saw it, by kind: orphan, registration, unregistered, foreign; unheard: directories of repositories that the database has not heard from",
    },
    Metric { name: QUEUE_DEPTH, kind: Kind::Gauge, label: Some("queue"), meaning: "What waits: inbox, runs, outbox" },
    Metric {
        name: BUILD_INFO,
        kind: Kind::Gauge,
        label: Some("version"),
        meaning: "Always 1; the version that is running",
    },
];

/// Upper bounds of the run histogram: from a toy agent to the default time limit.
const RUN_BUCKETS: &[f64] = &[1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0];

/// The recorder that counts for this process. A cheap handle.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
}

impl Metrics {
    /// Starts counting; the second and later calls in one process give the same recorder. When another recorder was
    /// installed before, that one keeps counting and this one shows nothing.
    pub fn start() -> Self {
        static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
        let handle = RECORDER.get_or_init(install).clone();
        Self { handle }
    }

    /// The text Prometheus reads.
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Folds what histograms have gathered; to be called every few seconds, so that memory stays flat when nobody reads.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

fn install() -> PrometheusHandle {
    let builder = PrometheusBuilder::new();
    let recorder = match builder.set_buckets_for_metric(Matcher::Full(RUN_SECONDS.to_owned()), RUN_BUCKETS) {
        Ok(builder) => builder.build_recorder(),
        // Only empty bucket lists are refused.
        Err(_) => PrometheusBuilder::new().build_recorder(),
    };
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_err() {
        tracing::warn!("another metrics recorder is installed; /metrics stays empty");
    }
    for metric in METRICS {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.meaning),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.meaning),
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.meaning),
        }
    }
    metrics::gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    handle
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn what_is_counted_is_rendered_with_its_help() {
        let metrics = Metrics::start();
        metrics::counter!(DELIVERIES, "result" => "done").increment(2);
        metrics::histogram!(RUN_SECONDS).record(20.0);
        metrics.upkeep();
        let text = Metrics::start().render();
        assert!(text.contains("# HELP treewarden_deliveries_total Stored deliveries"), "{text}");
        assert!(text.contains("treewarden_deliveries_total{result=\"done\"} 2"), "{text}");
        assert!(text.contains("treewarden_run_seconds_bucket{le=\"30\"} 1"), "{text}");
        assert!(text.contains("treewarden_build_info{version="), "{text}");
    }

    #[test]
    fn names_are_unique_and_carry_our_prefix() {
        let names: HashSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        assert!(METRICS.iter().all(|metric| metric.name.starts_with("treewarden_")));
        assert!(METRICS.iter().all(|metric| (metric.kind == Kind::Counter) == metric.name.ends_with("_total")));
    }
}
