//! The GitHub room against real HTTP on loopback.

mod client;
mod deliveries;
mod fake;
mod platform;
mod published;
mod tokens;

use serde_json::{Value, json};
use treewarden::model::*;

const REPOSITORY: RepositoryId = RepositoryId(1);
const ISSUE: ThreadNumber = ThreadNumber(5);

fn name() -> RepoName {
    "acme/app".parse().unwrap()
}

fn ann() -> Person {
    Person { id: UserId(5), login: "ann".to_owned(), is_bot: false }
}

/// With as many buttons as there can be, each as long as it may be.
fn check_run(head: CommitSha, conclusion: Option<Conclusion>) -> CheckRun {
    let action = |button: &Button| CheckAction { button: *button, label: "x".repeat(20), description: "x".repeat(40) };
    CheckRun {
        head,
        run: RunId(uuid::Uuid::nil()),
        conclusion,
        title: "Working".to_owned(),
        summary: "It *works*.".to_owned(),
        details_url: "http://panel/runs/1".to_owned(),
        actions: Button::ALL.iter().map(action).collect(),
    }
}

fn repository_json() -> Value {
    json!({"id": 1, "full_name": "acme/app", "default_branch": "main", "archived": false, "clone_url": "https://elsewhere.example/x.git"})
}

fn pull_json(number: i64, head: &str, base: &str) -> Value {
    let side = |name: &str| json!({"ref": name, "sha": "a".repeat(40), "repo": {"id": 1}});
    json!({"number": number, "title": "T", "body": null, "state": "open", "merged_at": null, "head": side(head), "base": side(base)})
}
