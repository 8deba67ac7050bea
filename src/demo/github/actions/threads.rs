//! Issues, and what pull requests share with them: comments, edits, closing and reopening, labels, reactions.

use crate::demo::github::{model::*, refusal::Refusal, world::World};
use serde_json::{Value, json};

/// GitHub's limit for bodies, in characters.
const BODY_LIMIT: usize = 65_536;

/// Changes to an issue or pull request; what is absent stays.
#[derive(Clone, Debug, Default)]
pub(in crate::demo::github) struct ThreadEdit {
    pub title: Option<String>,
    pub body: Option<String>,
    pub open: Option<bool>,
    pub state_reason: Option<String>,
    pub labels: Option<Vec<String>>,
}

/// What a reaction is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::demo::github) enum ReactionTarget {
    Thread(i64),
    Comment(i64),
    ReviewComment(i64),
}

impl World {
    pub fn open_issue(
        &mut self,
        repository: i64,
        actor: Actor,
        title: &str,
        body: &str,
        labels: &[String],
    ) -> Result<i64, Refusal> {
        if title.trim().is_empty() {
            return Err(Refusal::invalid("title can't be blank"));
        }
        within_limit(body)?;
        let number = self.next_number(repository)?;
        let thread = self.new_thread(number, actor, title, body, labels);
        self.repository_mut(repository)?.threads.insert(number, thread);
        self.emit_thread(repository, number, actor, "opened", json!({}));
        Ok(number)
    }

    /// The number the next issue or pull request gets.
    pub fn next_number(&self, repository: i64) -> Result<i64, Refusal> {
        Ok(self.repository(repository)?.threads.last_key_value().map_or(0, |(number, _)| *number) + 1)
    }

    pub fn new_thread(&mut self, number: i64, author: Actor, title: &str, body: &str, labels: &[String]) -> Thread {
        let now = self.now();
        Thread {
            id: self.new_id(),
            number,
            title: title.to_owned(),
            body: body.to_owned(),
            author,
            open: true,
            state_reason: None,
            labels: self.labels(labels),
            reactions: Vec::new(),
            pull: None,
            created_at: now,
            updated_at: now,
            closed_at: None,
            closed_by: None,
        }
    }

    /// Applies an edit and emits `edited`, `labeled`, `unlabeled`, `closed`, `reopened` for what really changed.
    pub fn edit_thread(&mut self, repository: i64, number: i64, actor: Actor, edit: ThreadEdit) -> Result<(), Refusal> {
        within_limit(edit.body.as_deref().unwrap_or_default())?;
        if edit.title.as_ref().is_some_and(|title| title.trim().is_empty()) {
            return Err(Refusal::invalid("title can't be blank"));
        }
        let thread = self.thread_mut(repository, number)?;
        let mut changes = json!({});
        if let Some(title) = edit.title.filter(|title| *title != thread.title) {
            changes["title"] = json!({ "from": std::mem::replace(&mut thread.title, title) });
        }
        if let Some(body) = edit.body.filter(|body| *body != thread.body) {
            changes["body"] = json!({ "from": std::mem::replace(&mut thread.body, body) });
        }
        if changes != json!({}) {
            self.touch(repository, number);
            self.emit_thread(repository, number, actor, "edited", json!({ "changes": changes }));
        }
        if let Some(labels) = edit.labels {
            self.set_labels(repository, number, actor, &labels)?;
        }
        match edit.open {
            Some(open) => self.set_open(repository, number, actor, open, edit.state_reason.as_deref()),
            None => Ok(()),
        }
    }

    /// Closes or reopens; nothing happens when it is so already.
    pub fn set_open(
        &mut self,
        repository: i64,
        number: i64,
        actor: Actor,
        open: bool,
        reason: Option<&str>,
    ) -> Result<(), Refusal> {
        let now = self.now();
        let thread = self.thread_mut(repository, number)?;
        if thread.open == open {
            return Ok(());
        }
        if open && thread.pull.as_ref().is_some_and(|pull| pull.merged.is_some()) {
            return Err(Refusal::invalid("state cannot be changed. The pull request was merged."));
        }
        thread.open = open;
        thread.closed_at = (!open).then_some(now);
        thread.closed_by = (!open).then_some(actor.account);
        if thread.pull.is_none() {
            let usual = if open { "reopened" } else { "completed" };
            thread.state_reason = Some(reason.unwrap_or(usual).to_owned());
        }
        self.touch(repository, number);
        let action = if open { "reopened" } else { "closed" };
        self.emit_thread(repository, number, actor, action, json!({}));
        Ok(())
    }

    /// Moves an issue with its comments; answers with its number there.
    pub fn transfer_issue(&mut self, repository: i64, number: i64, actor: Actor, to: i64) -> Result<i64, Refusal> {
        if self.thread_mut(repository, number)?.pull.is_some() || repository == to {
            return Err(Refusal::invalid("only issues are transferred, and to another repository"));
        }
        let there = self.next_number(to)?;
        let target = self.repository(to)?;
        let new = json!({
            "new_issue": { "number": there },
            "new_repository": { "id": to, "full_name": self.full_name(target) },
        });
        self.emit_thread(repository, number, actor, "transferred", json!({ "changes": new }));
        let (id, place) = (self.new_id(), self.repository_mut(repository)?);
        let Some(thread) = place.threads.remove(&number) else { return Err(Refusal::missing("issue")) };
        let of_it: Vec<i64> = place.comments.values().filter(|c| c.thread == number).map(|c| c.id).collect();
        let comments: Vec<Comment> = of_it.iter().filter_map(|id| place.comments.remove(id)).collect();
        let target = self.repository_mut(to)?;
        target.threads.insert(there, Thread { id, number: there, ..thread });
        target.comments.extend(comments.into_iter().map(|c| (c.id, Comment { thread: there, ..c })));
        let old = json!({ "changes": { "old_issue": { "number": number } } });
        self.emit_thread(to, there, actor, "opened", old);
        Ok(there)
    }

    pub fn set_labels(&mut self, repository: i64, number: i64, actor: Actor, names: &[String]) -> Result<(), Refusal> {
        let wanted = self.labels(names);
        let thread = self.thread_mut(repository, number)?;
        let (kept, removed): (Vec<_>, Vec<_>) =
            thread.labels.drain(..).partition(|label| wanted.iter().any(|other| other.name == label.name));
        let added: Vec<_> =
            wanted.into_iter().filter(|label| !kept.iter().any(|other| other.name == label.name)).collect();
        thread.labels = kept.into_iter().chain(added.iter().cloned()).collect();
        for (action, labels) in [("unlabeled", removed), ("labeled", added)] {
            for label in labels {
                let details = json!({ "label": { "id": label.id, "name": label.name, "color": "ededed" } });
                self.emit_thread(repository, number, actor, action, details);
            }
        }
        Ok(())
    }

    pub fn comment(&mut self, repository: i64, number: i64, actor: Actor, body: &str) -> Result<i64, Refusal> {
        self.thread(repository, number)?;
        not_blank(body)?;
        let (id, now) = (self.new_id(), self.now());
        let comment = Comment {
            id,
            thread: number,
            author: actor,
            body: body.to_owned(),
            reactions: Vec::new(),
            created_at: now,
            updated_at: now,
        };
        self.repository_mut(repository)?.comments.insert(id, comment);
        self.touch(repository, number);
        self.emit_comment(repository, id, actor, "created", json!({}))?;
        Ok(id)
    }

    pub fn edit_comment(&mut self, repository: i64, id: i64, actor: Actor, body: &str) -> Result<(), Refusal> {
        not_blank(body)?;
        let now = self.now();
        let comment = self.comment_mut(repository, id)?;
        let before = std::mem::replace(&mut comment.body, body.to_owned());
        comment.updated_at = now;
        let changes = json!({ "changes": { "body": { "from": before } } });
        self.emit_comment(repository, id, actor, "edited", changes)
    }

    pub fn delete_comment(&mut self, repository: i64, id: i64, actor: Actor) -> Result<(), Refusal> {
        self.emit_comment(repository, id, actor, "deleted", json!({}))?;
        self.repository_mut(repository)?.comments.remove(&id);
        Ok(())
    }

    pub fn comment_mut(&mut self, repository: i64, id: i64) -> Result<&mut Comment, Refusal> {
        let comment = self.repository_mut(repository)?.comments.get_mut(&id);
        comment.ok_or_else(|| Refusal::missing(format!("comment {id}")))
    }

    /// Adds a reaction; the same one by the same account exists once. Says whether it is new.
    pub fn react(
        &mut self,
        repository: i64,
        target: ReactionTarget,
        actor: Actor,
        content: &str,
    ) -> Result<(Reaction, bool), Refusal> {
        if !REACTIONS.contains(&content) {
            return Err(Refusal::invalid(format!("{content} is not a reaction")));
        }
        let (id, now) = (self.new_id(), self.now());
        let reactions = self.reactions_mut(repository, target)?;
        if let Some(there) = reactions.iter().find(|r| r.author == actor.account && r.content == content) {
            return Ok((there.clone(), false));
        }
        let reaction = Reaction { id, author: actor.account, content: content.to_owned(), created_at: now };
        reactions.push(reaction.clone());
        Ok((reaction, true))
    }

    pub fn reactions_mut(&mut self, repository: i64, target: ReactionTarget) -> Result<&mut Vec<Reaction>, Refusal> {
        let found = match target {
            ReactionTarget::Thread(number) => return Ok(&mut self.thread_mut(repository, number)?.reactions),
            ReactionTarget::Comment(id) => return Ok(&mut self.comment_mut(repository, id)?.reactions),
            ReactionTarget::ReviewComment(id) => self.repository_mut(repository)?.review_comments.get_mut(&id),
        };
        found.map(|comment| &mut comment.reactions).ok_or_else(|| Refusal::missing("review comment"))
    }

    /// Emits an event about an issue (`issues`) or a pull request (`pull_request`).
    pub fn emit_thread(&mut self, repository: i64, number: i64, actor: Actor, action: &str, mut details: Value) {
        let (Ok(place), Ok(thread)) = (self.repository(repository), self.thread(repository, number)) else { return };
        let event = if let Some(pull) = &thread.pull {
            details["number"] = json!(number);
            details["pull_request"] = self.pull_json(place, thread, pull);
            "pull_request"
        } else {
            details["issue"] = self.issue_json(place, thread);
            "issues"
        };
        self.emit(repository, actor, event, Some(action), details);
    }

    fn emit_comment(
        &mut self,
        repository: i64,
        id: i64,
        actor: Actor,
        action: &str,
        mut details: Value,
    ) -> Result<(), Refusal> {
        let place = self.repository(repository)?;
        let comment = place.comments.get(&id).ok_or_else(|| Refusal::missing(format!("comment {id}")))?;
        let thread = self.thread(repository, comment.thread)?;
        details["comment"] = self.comment_json(place, comment);
        details["issue"] = self.issue_json(place, thread);
        self.emit(repository, actor, "issue_comment", Some(action), details);
        Ok(())
    }

    fn labels(&mut self, names: &[String]) -> Vec<Label> {
        names.iter().map(|name| Label { id: self.new_id(), name: name.clone() }).collect()
    }
}

fn not_blank(body: &str) -> Result<(), Refusal> {
    if body.trim().is_empty() {
        return Err(Refusal::invalid("Body can't be blank"));
    }
    within_limit(body)
}

fn within_limit(body: &str) -> Result<(), Refusal> {
    if body.chars().count() > BODY_LIMIT {
        return Err(Refusal::invalid("Body is too long (maximum is 65536 characters)"));
    }
    Ok(())
}
