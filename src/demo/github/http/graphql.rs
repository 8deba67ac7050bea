//! The GraphQL questions Treewarden asks: which issues a pull request closes, which pull requests close an issue, and which
//! merged pull requests branches had.
//! Not a GraphQL engine: queries are recognised by the field they ask for and answered in exactly that shape.

use super::{
    access::Caller,
    answer::{Answer, Input, ok},
};
use crate::demo::github::{Hub, auth::Level, refusal::Refusal, world::World};
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::HashMap, sync::Arc};

#[derive(Deserialize)]
pub(super) struct Request {
    query: String,
    #[serde(default)]
    variables: Value,
}

/// One of the two questions: the object asked about, and its connection.
struct Question {
    object: &'static str,
    connection: &'static str,
    area: &'static str,
}

const QUESTIONS: [Question; 2] = [
    Question { object: "pullRequest", connection: "closingIssuesReferences", area: "pull_requests" },
    Question { object: "issue", connection: "closedByPullRequestsReferences", area: "issues" },
];

/// How the question about branches is known.
const OF_BRANCHES: &str = "pullRequests(headRefName:";

/// Errors inside the question are answers with status 200, as on GitHub.
pub(super) async fn query(State(hub): State<Arc<Hub>>, caller: Caller, Input(request): Input<Request>) -> Answer {
    let world = hub.world();
    if request.query.contains(OF_BRANCHES) {
        return merged_of_branches(&world, &caller, &request);
    }
    let Some(question) = QUESTIONS.iter().find(|question| request.query.contains(question.connection)) else {
        return ok(json!({ "errors": [{ "message": "The stand-in does not know this query" }] }));
    };
    let repository = match repository_of(&world, &caller, &request) {
        Ok(repository) => repository,
        Err(unknown) => return ok(unknown),
    };
    caller.may(&world, repository, &[question.area], Level::Read)?;
    let number = request.variables["number"].as_i64().unwrap_or_default();
    match answer(&world, question, repository, number, &request) {
        Ok(connection) => {
            let object = json!({ question.connection: connection });
            ok(json!({ "data": { "repository": { question.object: object } } }))
        }
        Err(_) => {
            let message = format!("Could not resolve to {} with the number of {number}.", question.object);
            let error = json!({ "type": "NOT_FOUND", "path": ["repository", question.object], "message": message });
            ok(json!({ "data": { "repository": { question.object: null } }, "errors": [error] }))
        }
    }
}

/// The repository that is asked about, or the answer that there is none.
fn repository_of(world: &World, caller: &Caller, request: &Request) -> Result<i64, Value> {
    let text = |name: &str| request.variables[name].as_str().unwrap_or_default();
    let full_name = format!("{}/{}", text("owner"), text("name"));
    let repository = world.find_repository(&full_name).map(|place| place.id);
    let visible = repository.filter(|id| caller.may(world, *id, &["metadata"], Level::Read).is_ok());
    visible.ok_or_else(|| {
        let message = format!("Could not resolve to a Repository with the name '{full_name}'.");
        let error = json!({ "type": "NOT_FOUND", "path": ["repository"], "message": message });
        json!({ "data": { "repository": null }, "errors": [error] })
    })
}

/// For each variable `head<n>` what is asked for as `of<n>`: the merged pull requests of that branch, the newest first.
fn merged_of_branches(world: &World, caller: &Caller, request: &Request) -> Answer {
    let repository = match repository_of(world, caller, request) {
        Ok(repository) => repository,
        Err(unknown) => return ok(unknown),
    };
    caller.may(world, repository, &["pull_requests"], Level::Read)?;
    let mut merged: HashMap<&str, Vec<Value>> = HashMap::new();
    for thread in world.repository(repository)?.threads.values().rev() {
        let Some(pull) = thread.pull.as_ref().filter(|pull| pull.merged.is_some()) else { continue };
        merged.entry(&pull.head_branch).or_default().push(json!({
            "number": thread.number,
            "headRefOid": pull.head_sha,
            "baseRefName": pull.base_branch,
            "isCrossRepository": pull.head_repository != Some(repository),
        }));
    }
    let mut answers = serde_json::Map::new();
    for (name, head) in request.variables.as_object().into_iter().flatten() {
        if let (Some(number), Some(head)) = (name.strip_prefix("head"), head.as_str()) {
            let nodes = merged.get(head).map(|pulls| &pulls[..pulls.len().min(page_size(request))]).unwrap_or_default();
            answers.insert(format!("of{number}"), json!({ "nodes": nodes }));
        }
    }
    ok(json!({ "data": { "repository": answers } }))
}

fn answer(
    world: &World,
    question: &Question,
    repository: i64,
    number: i64,
    request: &Request,
) -> Result<Value, Refusal> {
    let found = if question.object == "pullRequest" {
        world.pull(repository, number)?;
        world.closed_by(repository, number)
    } else {
        let thread = world.thread(repository, number)?;
        if thread.pull.is_some() {
            return Err(Refusal::missing("issue"));
        }
        let with_closed = flag(request, "includeClosedPrs");
        world.closers_of(repository, number, with_closed)
    };
    let start = request.variables["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let size = page_size(request).min(world.graphql_page);
    let end = (start + size).min(found.len());
    let nodes = found
        .get(start..end)
        .unwrap_or_default()
        .iter()
        .map(|(place, number)| json!({ "number": number, "repository": named(world, *place) }));
    Ok(json!({
        "nodes": nodes.collect::<Vec<_>>(),
        "pageInfo": { "hasNextPage": end < found.len(), "endCursor": end.to_string() },
    }))
}

fn named(world: &World, repository: i64) -> Value {
    let name = world.repository(repository).ok().map(|place| world.full_name(place));
    json!({ "databaseId": repository, "nameWithOwner": name })
}

/// `first: 50` in the text, or a variable of that name.
fn page_size(request: &Request) -> usize {
    let written = request.query.split_once("first:").and_then(|(_, rest)| {
        let rest = rest.trim_start();
        rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
    });
    let variable = request.variables["first"].as_u64().and_then(|first| usize::try_from(first).ok());
    written.or(variable).unwrap_or(100).clamp(1, 100)
}

fn flag(request: &Request, name: &str) -> bool {
    let written =
        request.query.split_once(&format!("{name}:")).is_some_and(|(_, rest)| rest.trim_start().starts_with("true"));
    written || request.variables[name].as_bool().unwrap_or(false)
}
