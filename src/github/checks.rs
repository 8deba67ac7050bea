//! Check runs on commits: making one, changing it, finding it again. Source: "REST API endpoints for check runs".

use super::auth::Scope;
use super::client::InstallationClient;
use super::error::GithubError;
use super::rest::{IdShape, MAX_PAGES, PAGE_SIZE, access, pages_of};
use crate::model::*;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

/// What all of them are called: of several on a commit GitHub shows the newest.
const NAME: &str = "Treewarden";

#[derive(Deserialize)]
struct ListShape {
    check_runs: Vec<CheckRunShape>,
}

#[derive(Deserialize)]
struct CheckRunShape {
    id: i64,
    external_id: Option<String>,
}

/// Without its commit, which cannot be changed.
fn wanted(check: &CheckRun) -> Value {
    let action = |action: &CheckAction| {
        let CheckAction { button, label, description } = action;
        json!({"identifier": button, "label": label, "description": description})
    };
    let mut body = json!({
        "name": NAME,
        "external_id": check.run,
        "details_url": check.details_url,
        "status": "in_progress",
        "output": {"title": check.title, "summary": check.summary},
        "actions": check.actions.iter().map(action).collect::<Vec<_>>(),
    });
    if let Some(conclusion) = check.conclusion {
        body["status"] = json!("completed");
        body["conclusion"] = json!(conclusion);
    }
    body
}

impl InstallationClient {
    /// Answers with its id.
    pub async fn create_check_run(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        check: &CheckRun,
    ) -> Result<i64, GithubError> {
        let mut body = wanted(check);
        body["head_sha"] = json!(check.head);
        let path = format!("/repos/{name}/check-runs");
        let made: IdShape =
            self.request(access(repository, Scope::Check), Method::POST, &path, Some(&body)).await?.json()?;
        Ok(made.id)
    }

    pub async fn update_check_run(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        id: i64,
        check: &CheckRun,
    ) -> Result<(), GithubError> {
        let path = format!("/repos/{name}/check-runs/{id}");
        let body = wanted(check);
        let changed: IdShape =
            self.request(access(repository, Scope::Check), Method::PATCH, &path, Some(&body)).await?.json()?;
        match changed.id == id {
            true => Ok(()),
            false => Err(GithubError::BadAnswer("another check run".to_owned())),
        }
    }

    /// The check run of the same run on the same commit, made by the App with this id; others' count for nothing.
    pub async fn find_check_run(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        check: &CheckRun,
        app_id: u64,
    ) -> Result<Option<i64>, GithubError> {
        let (head, run) = (&check.head, check.run.to_string());
        let list = format!("/repos/{name}/commits/{head}/check-runs?check_name={NAME}&filter=all&app_id={app_id}");
        for page in 1..=MAX_PAGES {
            let path = format!("{list}&per_page={PAGE_SIZE}&page={page}");
            let answer = self.request(access(repository, Scope::Check), Method::GET, &path, None).await?;
            let listed: ListShape = answer.json()?;
            let found = listed.check_runs.into_iter().find(|shape| shape.external_id.as_ref() == Some(&run));
            if let Some(shape) = found {
                return Ok(Some(shape.id));
            }
            if page >= pages_of(&answer, page) {
                return Ok(None);
            }
        }
        Err(GithubError::BadAnswer("more check runs than can be looked through".to_owned()))
    }
}
