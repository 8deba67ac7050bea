//! The report of an import, for people and for machines.

use super::super::commands::say;
use crate::decide::import::Skip;
use crate::model::*;
use crate::reply::import as words;
use serde::Serialize;
use std::{collections::BTreeMap, path::PathBuf};

#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub stage: Option<OldStage>,
    pub dry_run: bool,
    pub rows: Vec<Line>,
    /// What was looked at again.
    pub waiting: Vec<Waits>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Taken,
    Present,
    Skipped,
}

/// One row of the older database.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    #[serde(flatten)]
    row: OldName,
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// It became an environment.
pub(super) const TAKEN: &str = "taken";

/// A worktree that waits to become an environment.
#[derive(Debug, Serialize)]
pub(super) struct Waits {
    pub about: String,
    pub outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Report {
    /// `notes`: one for each conversation; `not_locked`: worktrees of environments, with the reason.
    pub fn add(
        &mut self,
        plan: &ImportPlan,
        notes: &[Option<Skip>],
        skipped: &[(OldName, Skip)],
        imported: &Imported,
        not_locked: &BTreeMap<PathBuf, String>,
    ) {
        for (new, outcome) in plan.codebases.iter().zip(&imported.codebases) {
            if let Some(row) = &new.row {
                self.push(row, outcome, &Skip::NoCodebase, None);
            }
        }
        for (new, outcome) in plan.environments.iter().zip(&imported.environments) {
            let note = not_locked.get(&new.path).map(|why| words::not_locked(why));
            self.push(&new.row, outcome, &Skip::NoCodebase, note);
        }
        for ((new, note), outcome) in plan.conversations.iter().zip(notes).zip(&imported.conversations) {
            self.push(&new.row, outcome, &Skip::NoCodebase, note_of(new, note.as_ref()));
        }
        for (new, outcome) in plan.sessions.iter().zip(&imported.sessions) {
            self.push(&new.row, outcome, &Skip::NoEnvironment, None);
        }
        for (row, why) in skipped {
            self.rows.push(Line { row: row.clone(), outcome: Outcome::Skipped, note: Some(words::sentence(why)) });
        }
        self.rows.sort_by_key(|line| line.row.table);
    }

    fn push(&mut self, row: &OldName, import: &Import, dangling: &Skip, note: Option<String>) {
        let (outcome, note) = match import {
            Import::Taken => (Outcome::Taken, note),
            Import::Present => (Outcome::Present, note),
            Import::InTheWay(what) => (Outcome::Skipped, Some(words::sentence(&Skip::InTheWay(what.clone())))),
            Import::Dangling => (Outcome::Skipped, Some(words::sentence(dangling))),
        };
        self.rows.push(Line { row: row.clone(), outcome, note });
    }

    pub fn print(&self) {
        if let Some(stage) = self.stage {
            say(words::stage(stage));
        }
        for Line { row, outcome, note } in &self.rows {
            let verb = match outcome {
                Outcome::Taken if self.dry_run => "would be taken",
                Outcome::Taken => "taken",
                Outcome::Present => "here already",
                Outcome::Skipped => "skipped",
            };
            let table = row.table;
            say(format_args!("{verb:<14}  {table:<21}  {}{}", words::row(row), after(note.as_deref())));
        }
        for Waits { about, outcome, note } in &self.waiting {
            let outcome = if self.dry_run && *outcome == TAKEN { "would be taken" } else { *outcome };
            say(format_args!("{outcome:<14}  {}{}", words::plain(about), after(note.as_deref())));
        }
        let count = |wanted| self.rows.iter().filter(|line| line.outcome == wanted).count();
        if self.stage.is_some() {
            let (taken, present) = (count(Outcome::Taken), count(Outcome::Present));
            say(words::summary(taken, present, count(Outcome::Skipped), self.dry_run));
        } else if self.waiting.is_empty() {
            say("No worktree waits to become an environment.");
        }
    }
}

/// What is special about a conversation that was taken.
fn note_of(new: &ConversationImport, lost: Option<&Skip>) -> Option<String> {
    let held = match &new.thread {
        ThreadImport::Held { platform, thread, .. } => Some(words::held(*platform, thread)),
        ThreadImport::Github(_) => None,
    };
    let place = match (&new.place, lost) {
        (PlaceImport::Legacy(path), None) => Some(words::waits_at(&path.to_string_lossy())),
        (PlaceImport::Nothing | PlaceImport::Environment(_) | PlaceImport::Legacy(_), lost) => {
            lost.map(words::sentence)
        }
    };
    let notes: Vec<String> = held.into_iter().chain(place).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

fn after(note: Option<&str>) -> String {
    note.map(|note| format!(": {note}")).unwrap_or_default()
}
