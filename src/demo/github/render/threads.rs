//! Issues and pull requests.

use super::iso;
use crate::demo::github::{
    model::{Pull, REACTIONS, Reaction, Repository, Thread},
    world::World,
};
use serde_json::{Value, json};

impl World {
    /// An issue; also a pull request seen through the issues API, which then has the field `pull_request`.
    pub fn issue_json(&self, repository: &Repository, thread: &Thread) -> Value {
        let url = format!("{}/repos/{}/issues/{}", self.api(), self.full_name(repository), thread.number);
        let mut body = self.common_json(repository, thread);
        body["id"] = json!(thread.id);
        body["node_id"] = json!(self.node_id("I", thread.id));
        body["url"] = json!(url);
        body["repository_url"] = json!(format!("{}/repos/{}", self.api(), self.full_name(repository)));
        body["comments_url"] = json!(format!("{url}/comments"));
        body["labels_url"] = json!(format!("{url}/labels{{/name}}"));
        body["events_url"] = json!(format!("{url}/events"));
        body["state_reason"] = json!(thread.state_reason);
        body["closed_by"] = thread.closed_by.map_or(Value::Null, |by| self.account_json(by));
        body["reactions"] = rollup(&format!("{url}/reactions"), &thread.reactions);
        if let Some(pull) = &thread.pull {
            let page = body["html_url"].clone();
            body["draft"] = json!(pull.draft);
            body["pull_request"] = json!({
                "url": format!("{}/repos/{}/pulls/{}", self.api(), self.full_name(repository), thread.number),
                "html_url": page,
                "diff_url": self.textual_url(repository, thread, "diff"),
                "patch_url": self.textual_url(repository, thread, "patch"),
                "merged_at": pull.merged.as_ref().map(|merged| iso(merged.at)),
            });
        }
        body
    }

    pub fn pull_json(&self, repository: &Repository, thread: &Thread, pull: &Pull) -> Value {
        let url = format!("{}/repos/{}/pulls/{}", self.api(), self.full_name(repository), thread.number);
        let head_repository = pull.head_repository.and_then(|id| self.repositories.get(&id));
        let mut body = self.common_json(repository, thread);
        body["id"] = json!(pull.id);
        body["node_id"] = json!(self.node_id("PR", pull.id));
        body["url"] = json!(url);
        body["diff_url"] = json!(self.textual_url(repository, thread, "diff"));
        body["patch_url"] = json!(self.textual_url(repository, thread, "patch"));
        body["issue_url"] =
            json!(format!("{}/repos/{}/issues/{}", self.api(), self.full_name(repository), thread.number));
        body["comments_url"] = json!(format!("{}/comments", body["issue_url"].as_str().unwrap_or_default()));
        body["review_comments_url"] = json!(format!("{url}/comments"));
        body["commits_url"] = json!(format!("{url}/commits"));
        body["draft"] = json!(pull.draft);
        body["head"] = self.side_json(pull.head_owner, head_repository, &pull.head_branch, &pull.head_sha);
        body["base"] = self.side_json(repository.owner, Some(repository), &pull.base_branch, &pull.base_sha);
        body["merged"] = json!(pull.merged.is_some());
        body["merged_at"] = json!(pull.merged.as_ref().map(|merged| iso(merged.at)));
        body["merged_by"] = pull.merged.as_ref().map_or(Value::Null, |merged| self.account_json(merged.by));
        body["merge_commit_sha"] = json!(pull.merged.as_ref().map(|merged| merged.commit.as_str()));
        body["mergeable"] = if thread.open { json!(pull.mergeable) } else { Value::Null };
        body["rebaseable"] = body["mergeable"].clone();
        body["mergeable_state"] = json!(match (thread.open, pull.draft, pull.mergeable) {
            (false, ..) => "unknown",
            (true, _, false) => "dirty",
            (true, true, true) => "draft",
            (true, false, true) => "clean",
        });
        body["auto_merge"] = Value::Null;
        body["maintainer_can_modify"] = json!(false);
        body["requested_reviewers"] = json!([]);
        body["requested_teams"] = json!([]);
        body["commits"] = json!(pull.commits.len());
        body["additions"] = json!(pull.stat.additions);
        body["deletions"] = json!(pull.stat.deletions);
        body["changed_files"] = json!(pull.stat.files);
        body["review_comments"] =
            json!(repository.review_comments.values().filter(|comment| comment.thread == thread.number).count());
        body
    }

    /// What both views of a thread share.
    fn common_json(&self, repository: &Repository, thread: &Thread) -> Value {
        let kind = if thread.pull.is_some() { "pull" } else { "issues" };
        let comments = repository.comments.values().filter(|comment| comment.thread == thread.number).count();
        let labels: Vec<Value> = thread
            .labels
            .iter()
            .map(|label| {
                json!({
                    "id": label.id, "node_id": self.node_id("LA", label.id), "name": label.name,
                    "color": "ededed", "default": false, "description": null,
                })
            })
            .collect();
        json!({
            "html_url": format!("{}/{}/{kind}/{}", self.base, self.full_name(repository), thread.number),
            "number": thread.number,
            "title": thread.title,
            "body": if thread.body.is_empty() { Value::Null } else { json!(thread.body) },
            "user": self.account_json(thread.author.account),
            "author_association": self.association(repository, thread.author.account),
            "performed_via_github_app": self.via_app(thread.author),
            "state": if thread.open { "open" } else { "closed" },
            "locked": false,
            "active_lock_reason": null,
            "assignee": null,
            "assignees": [],
            "milestone": null,
            "labels": labels,
            "comments": comments,
            "created_at": iso(thread.created_at),
            "updated_at": iso(thread.updated_at),
            "closed_at": thread.closed_at.map(iso),
        })
    }

    fn textual_url(&self, repository: &Repository, thread: &Thread, kind: &str) -> String {
        format!("{}/{}/pull/{}.{kind}", self.base, self.full_name(repository), thread.number)
    }

    fn side_json(&self, owner: i64, repository: Option<&Repository>, branch: &str, sha: &str) -> Value {
        json!({
            "label": format!("{}:{branch}", self.login(owner)),
            "ref": branch,
            "sha": sha,
            "user": self.account_json(owner),
            "repo": repository.map(|repository| self.repository_json(repository)),
        })
    }
}

/// The counts GitHub shows beside a text.
pub(super) fn rollup(url: &str, reactions: &[Reaction]) -> Value {
    let mut body = json!({ "url": url, "total_count": reactions.len() });
    for content in REACTIONS {
        body[content] = json!(reactions.iter().filter(|reaction| reaction.content == content).count());
    }
    body
}
