//! What GitHub publishes about itself: the OpenAPI description of its REST API, its GraphQL schema, and example payloads of
//! its webhooks. They lie in the directory that `TEST_OCTOKIT` names, where `.ci/run` puts them.

mod graphql;
mod openapi;

pub use openapi::Description;

use graphql::Schema;
use serde_json::Value;
use std::{path::PathBuf, sync::LazyLock};
use treewarden::github::payload::ASKED_FOR;

/// Where the stand-in and the tests' fake take questions in GraphQL.
pub const GRAPHQL: &str = "/api/graphql";

/// A request as it went out.
pub struct Asked<'a> {
    pub method: &'a str,
    /// [`GRAPHQL`], or below the REST API's address.
    pub path: &'a str,
    pub query: Option<&'a str>,
    /// Absent where it was none, or no JSON.
    pub body: Option<&'a Value>,
}

/// What GitHub does not describe about a request, or would not understand of it; nothing where its publications are not at
/// hand.
pub fn objection(asked: &Asked<'_>) -> Option<String> {
    match asked.path {
        GRAPHQL => schema()?.objection(asked.body?),
        _ => description()?.objection(asked),
    }
}

/// Absent where GitHub's publications are not at hand: a test that needs them leaves itself out and says so.
pub fn description() -> Option<&'static Description> {
    static DESCRIPTION: LazyLock<Option<Description>> =
        LazyLock::new(|| Some(Description::parse(&published("openapi.json")?)));
    DESCRIPTION.as_ref()
}

fn schema() -> Option<&'static Schema> {
    static SCHEMA: LazyLock<Option<Schema>> = LazyLock::new(|| Some(Schema::parse(published("schema.graphql")?)));
    SCHEMA.as_ref()
}

/// Event and body of every example payload; absent in the same way.
pub fn examples() -> Option<Vec<(String, Value)>> {
    #[derive(serde::Deserialize)]
    struct Event {
        name: String,
        examples: Vec<Value>,
    }
    let events: Vec<Event> = serde_json::from_str(&published("examples.json")?).unwrap();
    let all = events
        .into_iter()
        .flat_map(|Event { name, examples }| examples.into_iter().map(move |one| (name.clone(), one)));
    Some(all.collect())
}

fn published(file: &str) -> Option<String> {
    let Some(directory) = std::env::var_os("TEST_OCTOKIT") else {
        eprintln!("TEST_OCTOKIT names no directory with GitHub's {file}; nothing is compared with it");
        return None;
    };
    let path = PathBuf::from(directory).join(file);
    Some(std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// Whether an event is one that comes to the App. Those about installations come without asking.
pub fn comes_to_us(event: &str) -> bool {
    ASKED_FOR.contains(&event) || matches!(event, "installation" | "installation_repositories")
}
