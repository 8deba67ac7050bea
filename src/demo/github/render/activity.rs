//! What happens on threads and commits: comments, reviews, reactions, check runs, pushes, deliveries.

use super::{iso, threads::rollup};
use crate::demo::github::{
    git::CommitInfo,
    model::{Actor, CheckRun, Comment, Pull, Reaction, Repository, Review, ReviewComment},
    post::DeliveryRecord,
    world::World,
};
use serde_json::{Value, json};

impl World {
    pub fn comment_json(&self, repository: &Repository, comment: &Comment) -> Value {
        let full_name = self.full_name(repository);
        let url = format!("{}/repos/{full_name}/issues/comments/{}", self.api(), comment.id);
        let thread = repository.threads.get(&comment.thread);
        let kind = if thread.is_some_and(|thread| thread.pull.is_some()) { "pull" } else { "issues" };
        json!({
            "id": comment.id,
            "node_id": self.node_id("IC", comment.id),
            "url": url,
            "html_url": format!("{}/{full_name}/{kind}/{}#issuecomment-{}", self.base, comment.thread, comment.id),
            "issue_url": format!("{}/repos/{full_name}/issues/{}", self.api(), comment.thread),
            "user": self.account_json(comment.author.account),
            "author_association": self.association(repository, comment.author.account),
            "performed_via_github_app": self.via_app(comment.author),
            "body": comment.body,
            "created_at": iso(comment.created_at),
            "updated_at": iso(comment.updated_at),
            "reactions": rollup(&format!("{url}/reactions"), &comment.reactions),
        })
    }

    pub fn review_json(&self, repository: &Repository, review: &Review, lower_case: bool) -> Value {
        let full_name = self.full_name(repository);
        let page = format!("{}/{full_name}/pull/{}", self.base, review.thread);
        // Webhooks spell the state in lower case, REST in upper case.
        let state = if lower_case { review.state.to_ascii_lowercase() } else { review.state.clone() };
        json!({
            "id": review.id,
            "node_id": self.node_id("PRR", review.id),
            "user": self.account_json(review.author.account),
            "author_association": self.association(repository, review.author.account),
            "body": if review.body.is_empty() { Value::Null } else { json!(review.body) },
            "state": state,
            "commit_id": review.commit,
            "submitted_at": iso(review.submitted_at),
            "html_url": format!("{page}#pullrequestreview-{}", review.id),
            "pull_request_url": format!("{}/repos/{full_name}/pulls/{}", self.api(), review.thread),
        })
    }

    pub fn review_comment_json(&self, repository: &Repository, comment: &ReviewComment) -> Value {
        let full_name = self.full_name(repository);
        let url = format!("{}/repos/{full_name}/pulls/comments/{}", self.api(), comment.id);
        let mut body = json!({
            "id": comment.id,
            "node_id": self.node_id("PRRC", comment.id),
            "url": url,
            "html_url": format!("{}/{full_name}/pull/{}#discussion_r{}", self.base, comment.thread, comment.id),
            "pull_request_url": format!("{}/repos/{full_name}/pulls/{}", self.api(), comment.thread),
            "pull_request_review_id": comment.review,
            "user": self.account_json(comment.author.account),
            "author_association": self.association(repository, comment.author.account),
            "body": comment.body,
            "path": comment.path,
            "line": comment.line,
            "original_line": comment.line,
            "side": "RIGHT",
            "start_line": null,
            "subject_type": "line",
            "diff_hunk": comment.diff_hunk,
            "commit_id": comment.commit,
            "original_commit_id": comment.commit,
            "created_at": iso(comment.created_at),
            "updated_at": iso(comment.updated_at),
            "reactions": rollup(&format!("{url}/reactions"), &comment.reactions),
        });
        if let Some(earlier) = comment.in_reply_to {
            body["in_reply_to_id"] = json!(earlier);
        }
        body
    }

    pub fn reaction_json(&self, reaction: &Reaction) -> Value {
        json!({
            "id": reaction.id,
            "node_id": self.node_id("REA", reaction.id),
            "user": self.account_json(reaction.author),
            "content": reaction.content,
            "created_at": iso(reaction.created_at),
        })
    }

    pub fn check_run_json(&self, repository: &Repository, check: &CheckRun) -> Value {
        let full_name = self.full_name(repository);
        let url = format!("{}/repos/{full_name}/check-runs/{}", self.api(), check.id);
        json!({
            "id": check.id,
            "node_id": self.node_id("CR", check.id),
            "name": check.name,
            "head_sha": check.head_sha,
            "external_id": check.external_id,
            "url": url,
            "html_url": format!("{}/{full_name}/runs/{}", self.base, check.id),
            "details_url": check.details_url,
            "status": check.status,
            "conclusion": check.conclusion,
            "started_at": iso(check.started_at),
            "completed_at": check.completed_at.map(iso),
            "output": {
                "title": check.output["title"],
                "summary": check.output["summary"],
                "text": check.output["text"],
                "annotations_count": 0,
                "annotations_url": format!("{url}/annotations"),
            },
            "app": self.app_json(),
            "pull_requests": self.pulls_at(repository, &check.head_sha),
        })
    }

    /// Open pull requests of this repository's own whose head a commit is, in the short form.
    fn pulls_at(&self, repository: &Repository, sha: &str) -> Vec<Value> {
        let url = format!("{}/repos/{}", self.api(), self.full_name(repository));
        let here = json!({ "id": repository.id, "url": url, "name": repository.name });
        let is_here = |pull: &&Pull| pull.head_repository == Some(repository.id) && pull.head_sha == sha;
        let open = repository.threads.values().filter(|thread| thread.open);
        let pulls = open.filter_map(|thread| Some((thread, thread.pull.as_ref().filter(is_here)?)));
        let short = pulls.map(|(thread, pull)| {
            json!({
                "id": thread.id,
                "number": thread.number,
                "url": format!("{url}/pulls/{}", thread.number),
                "head": { "ref": pull.head_branch, "sha": pull.head_sha, "repo": here },
                "base": { "ref": pull.base_branch, "sha": pull.base_sha, "repo": here },
            })
        });
        short.collect()
    }

    /// The fields of a push event beside repository, installation and sender. `commits` are new on this branch, oldest
    /// first; GitHub lists the last 2048 at most.
    pub fn push_json(&self, repository: &Repository, actor: Actor, push: &Push<'_>) -> Value {
        const NOTHING: &str = "0000000000000000000000000000000000000000";
        let page = format!("{}/{}", self.base, self.full_name(repository));
        let commit = |commit: &CommitInfo| {
            let by = json!({ "name": commit.author.name, "email": commit.author.email });
            json!({
                "id": commit.sha, "message": commit.message, "timestamp": commit.date, "distinct": true,
                "url": format!("{page}/commit/{}", commit.sha), "author": by, "committer": by,
            })
        };
        let login = self.login(actor.account);
        json!({
            "ref": format!("refs/heads/{}", push.branch),
            "before": push.before.unwrap_or(NOTHING),
            "after": push.after.unwrap_or(NOTHING),
            "created": push.before.is_none(),
            "deleted": push.after.is_none(),
            "forced": push.forced,
            "base_ref": null,
            "compare": format!("{page}/compare/{}...{}", push.before.unwrap_or(NOTHING), push.after.unwrap_or(NOTHING)),
            "commits": push.commits.iter().map(commit).collect::<Vec<_>>(),
            "head_commit": push.commits.last().map(commit),
            "pusher": { "name": login, "email": format!("{login}@users.noreply.localhost") },
        })
    }

    pub fn delivery_json(&self, record: &DeliveryRecord, with_bodies: bool) -> Value {
        let outcome = record.outcome.as_ref();
        let mut body = json!({
            "id": record.id,
            "guid": record.guid,
            "delivered_at": iso(outcome.map_or(record.sent_at, |outcome| outcome.delivered_at)),
            "redelivery": record.redelivery,
            "duration": outcome.map_or(0.0, |outcome| outcome.duration.as_secs_f64()),
            "status": outcome.map_or("pending", |outcome| outcome.status.as_str()),
            "status_code": outcome.map_or(0, |outcome| outcome.status_code),
            "event": record.event,
            "action": record.action,
            "installation_id": record.installation,
            "repository_id": record.repository,
            "throttled_at": null,
        });
        if with_bodies {
            let payload: Value = serde_json::from_slice(&record.body).unwrap_or_default();
            let headers = json!({ "X-GitHub-Delivery": record.guid, "X-GitHub-Event": record.event });
            body["request"] = json!({ "headers": headers, "payload": payload });
            body["response"] = json!({ "headers": {}, "payload": null });
        }
        body
    }

    /// The App when its bot did it through an installation token, else null.
    pub fn via_app(&self, actor: Actor) -> Value {
        if actor.via_app { self.app_json() } else { Value::Null }
    }
}

/// One branch that moved.
pub(in crate::demo::github) struct Push<'a> {
    pub branch: &'a str,
    pub before: Option<&'a str>,
    pub after: Option<&'a str>,
    pub forced: bool,
    pub commits: &'a [CommitInfo],
}
