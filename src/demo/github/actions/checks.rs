//! Check runs on commits.

use crate::demo::github::{
    model::{Actor, CheckRun},
    refusal::Refusal,
    world::World,
};
use serde_json::{Value, json};

/// What a check run is given; what is absent stays (or is empty when it is new).
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(in crate::demo::github) struct CheckRunChange {
    pub name: Option<String>,
    pub head_sha: Option<String>,
    pub status: Option<String>,
    pub conclusion: Option<String>,
    pub details_url: Option<String>,
    pub external_id: Option<String>,
    pub output: Option<Value>,
}

impl World {
    pub fn create_check_run(&mut self, repository: i64, actor: Actor, change: CheckRunChange) -> Result<i64, Refusal> {
        let (Some(name), Some(head_sha)) = (change.name.clone(), change.head_sha.clone()) else {
            return Err(Refusal::invalid("name and head_sha are required"));
        };
        let (id, started_at) = (self.new_id(), self.now());
        let check = CheckRun {
            id,
            name,
            head_sha,
            status: "queued".to_owned(),
            conclusion: None,
            details_url: None,
            external_id: None,
            output: Value::Null,
            started_at,
            completed_at: None,
        };
        self.repository_mut(repository)?.check_runs.insert(id, check);
        if let Err(refused) = self.change_check_run(repository, id, actor, change, "created") {
            self.repository_mut(repository)?.check_runs.remove(&id);
            return Err(refused);
        }
        Ok(id)
    }

    pub fn update_check_run(
        &mut self,
        repository: i64,
        id: i64,
        actor: Actor,
        change: CheckRunChange,
    ) -> Result<(), Refusal> {
        self.change_check_run(repository, id, actor, change, "updated")
    }

    /// `action` is what the event says unless the run is completed by this change.
    fn change_check_run(
        &mut self,
        repository: i64,
        id: i64,
        actor: Actor,
        change: CheckRunChange,
        action: &str,
    ) -> Result<(), Refusal> {
        if change.status.as_deref() == Some("completed") && change.conclusion.is_none() {
            return Err(Refusal::invalid("conclusion is required when status is completed"));
        }
        let now = self.now();
        let check = self.repository_mut(repository)?.check_runs.get_mut(&id);
        let check = check.ok_or_else(|| Refusal::missing(format!("check run {id}")))?;
        let was_completed = check.conclusion.is_some();
        check.name = change.name.unwrap_or_else(|| check.name.clone());
        check.status = change.status.unwrap_or_else(|| check.status.clone());
        check.details_url = change.details_url.or_else(|| check.details_url.take());
        check.external_id = change.external_id.or_else(|| check.external_id.take());
        check.output = change.output.unwrap_or_else(|| check.output.take());
        if change.conclusion.is_some() {
            check.conclusion = change.conclusion;
            check.status = "completed".to_owned();
            check.completed_at = Some(now);
        }
        let action = if check.conclusion.is_some() && !was_completed { "completed" } else { action };
        let place = self.repository(repository)?;
        let details = place.check_runs.get(&id).map(|check| self.check_run_json(place, check));
        if matches!(action, "created" | "completed") {
            self.emit(repository, actor, "check_run", Some(action), json!({ "check_run": details }));
        }
        Ok(())
    }
}
