//! The parts of GitHub's payloads that are decoded. Every field is optional and of the loosest type that works: a field of
//! an unexpected type counts as absent.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};

/// Decodes a field, or treats it as absent when it has another type than expected.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(input: D) -> Result<Option<T>, D::Error> {
    let value = serde_json::Value::deserialize(input)?;
    Ok(serde_json::from_value(value).ok())
}

macro_rules! shapes {
    ($($name:ident { $($(#[$attr:meta])* $field:ident: $kind:ty),* $(,)? })*) => {$(
        #[derive(Clone, Debug, Default, Deserialize)]
        pub struct $name {
            $($(#[$attr])* #[serde(default, deserialize_with = "lenient")] pub $field: Option<$kind>,)*
        }
    )*};
}

shapes! {
    Body {
        action: String,
        sender: User,
        installation: Installation,
        repository: Repository,
        issue: Shape,
        pull_request: Shape,
        comment: Comment,
        review: Comment,
        changes: Changes,
        before: String,
        repositories: Vec<Repository>,
        repositories_added: Vec<Repository>,
        repositories_removed: Vec<Repository>,
    }
    User { id: i64, login: String, #[serde(rename = "type")] kind: String }
    Installation { id: i64 }
    Repository { id: i64, full_name: String, default_branch: String }
    Shape {
        number: i64,
        title: String,
        body: String,
        html_url: String,
        created_at: String,
        user: User,
        state: String,
        merged: bool,
        merged_at: String,
        head: Head,
        pull_request: serde_json::Map<String, serde_json::Value>,
    }
    Head { sha: String }
    Comment {
        id: i64,
        body: String,
        html_url: String,
        created_at: String,
        submitted_at: String,
        user: User,
        path: String,
        line: i64,
        original_line: i64,
        diff_hunk: String,
        pull_request_review_id: i64,
    }
    Changes { body: Change, old_issue: Shape, new_issue: Shape, new_repository: Repository }
    Change { from: String }
}

impl Body {
    /// Whether the parts that tell events apart are those of `event`. Events we do not know fit any body.
    pub fn fits(&self, event: &str) -> bool {
        let has = (self.issue.is_some(), self.pull_request.is_some(), self.comment.is_some(), self.review.is_some());
        let lists = self.repositories_added.is_some() || self.repositories_removed.is_some();
        let about = (has != (false, false, false, false), self.repository.is_some(), lists);
        match event {
            "issues" => has == (true, false, false, false),
            "issue_comment" => has == (true, false, true, false),
            "pull_request" => has == (false, true, false, false),
            "pull_request_review" => has == (false, true, false, true),
            "pull_request_review_comment" => has == (false, true, true, false),
            "installation" => about == (false, false, false),
            "installation_repositories" => about == (false, false, true),
            "repository" => about == (false, true, false),
            _ => true,
        }
    }
}
