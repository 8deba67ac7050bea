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

fn repository_json() -> Value {
    json!({"id": 1, "full_name": "acme/app", "default_branch": "main", "archived": false, "clone_url": "https://elsewhere.example/x.git"})
}

fn pull_json(number: i64, head: &str, base: &str) -> Value {
    let side = |name: &str| json!({"ref": name, "sha": "a".repeat(40), "repo": {"id": 1}});
    json!({"number": number, "title": "T", "body": null, "state": "open", "merged_at": null, "head": side(head), "base": side(base)})
}
