//! Check runs on commits, and the buttons below them.

use crate::demo::github::{
    model::{Actor, CheckAction, CheckRun},
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
    pub actions: Option<Vec<CheckAction>>,
}

/// GitHub's limits, in characters.
const LABEL: usize = 20;
const DESCRIPTION: usize = 40;
const IDENTIFIER: usize = 20;
const MOST_ACTIONS: usize = 3;
const OUTPUT: usize = 65_535;

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
            actions: Vec::new(),
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
        within_limits(&change)?;
        let now = self.now();
        let check = self.repository_mut(repository)?.check_runs.get_mut(&id);
        let check = check.ok_or_else(|| Refusal::missing(format!("check run {id}")))?;
        let was_completed = check.conclusion.is_some();
        check.name = change.name.unwrap_or_else(|| check.name.clone());
        check.status = change.status.unwrap_or_else(|| check.status.clone());
        check.details_url = change.details_url.or_else(|| check.details_url.take());
        check.external_id = change.external_id.or_else(|| check.external_id.take());
        check.output = change.output.unwrap_or_else(|| check.output.take());
        check.actions = change.actions.unwrap_or_else(|| std::mem::take(&mut check.actions));
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

    /// Somebody presses a button below a completed check run, by its identifier; none: GitHub's own "Re-run".
    pub fn press_check_run(
        &mut self,
        repository: i64,
        id: i64,
        actor: Actor,
        identifier: Option<&str>,
    ) -> Result<(), Refusal> {
        let place = self.repository(repository)?;
        let check = place.check_runs.get(&id).ok_or_else(|| Refusal::missing(format!("check run {id}")))?;
        let has = |wanted: &str| check.actions.iter().any(|action| action.identifier == wanted);
        if check.conclusion.is_none() || identifier.is_some_and(|wanted| !has(wanted)) {
            return Err(Refusal::invalid("there is no such button"));
        }
        let mut details = json!({ "check_run": self.check_run_json(place, check) });
        let action = match identifier {
            Some(identifier) => {
                details["requested_action"] = json!({ "identifier": identifier });
                "requested_action"
            }
            None => "rerequested",
        };
        self.emit(repository, actor, "check_run", Some(action), details);
        Ok(())
    }
}

fn within_limits(change: &CheckRunChange) -> Result<(), Refusal> {
    let actions = change.actions.as_deref().unwrap_or_default();
    let is_long = |text: &str, most: usize| text.is_empty() || text.chars().count() > most;
    let wrong = |action: &CheckAction| {
        is_long(&action.label, LABEL)
            || is_long(&action.description, DESCRIPTION)
            || is_long(&action.identifier, IDENTIFIER)
    };
    if actions.len() > MOST_ACTIONS || actions.iter().any(wrong) {
        return Err(Refusal::invalid("actions are too many, or too long"));
    }
    let output = change.output.as_ref().unwrap_or(&Value::Null);
    if ["summary", "text"].iter().any(|part| output[part].as_str().unwrap_or_default().chars().count() > OUTPUT) {
        return Err(Refusal::invalid(format!("output is too long (maximum is {OUTPUT} characters)")));
    }
    Ok(())
}
