//! The parts of GitHub's payloads that are decoded. Every field is optional and of the loosest type that works: a field of
//! an unexpected type counts as absent. What is not decoded is passed over as text and takes no memory.

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// Decodes a field, or treats it as absent when it has another type than expected.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(input: D) -> Result<Option<T>, D::Error> {
    let text = <&RawValue>::deserialize(input)?;
    Ok(serde_json::from_str(text.get()).ok())
}

/// Those of a list of repositories that say which they are: number and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named(pub Vec<(i64, String)>);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Rows;
        impl<'de> Visitor<'de> for Rows {
            type Value = Named;

            fn expecting(&self, text: &mut std::fmt::Formatter) -> std::fmt::Result {
                text.write_str("a list of repositories")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Named, A::Error> {
                let mut named = Named::default();
                while let Some(row) = rows.next_element::<&RawValue>()? {
                    let row: Repository = serde_json::from_str(row.get()).unwrap_or_default();
                    named.0.extend(row.id.zip(row.full_name));
                }
                Ok(named)
            }
        }
        input.deserialize_seq(Rows)
    }
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
        check_run: CheckRun,
        requested_action: RequestedAction,
        changes: Changes,
        before: String,
        repositories: Named,
        repositories_added: Named,
        repositories_removed: Named,
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
        pull_request: Merge,
    }
    Merge { merged_at: String }
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
    CheckRun { external_id: String, app: App }
    App { id: i64 }
    RequestedAction { identifier: String }
    Changes { body: Change, old_issue: Shape, new_issue: Shape, new_repository: Repository }
    Change { from: String }
}

impl Body {
    /// Whether the parts that tell events apart are those of `event`. Events we do not know fit any body.
    pub fn fits(&self, event: &str) -> bool {
        let has = (self.issue.is_some(), self.pull_request.is_some(), self.comment.is_some(), self.review.is_some());
        let lists = self.repositories_added.is_some() || self.repositories_removed.is_some();
        let none = has == (false, false, false, false);
        let about = (!none || self.check_run.is_some(), self.repository.is_some(), lists);
        match event {
            "issues" => has == (true, false, false, false),
            "issue_comment" => has == (true, false, true, false),
            "pull_request" => has == (false, true, false, false),
            "pull_request_review" => has == (false, true, false, true),
            "pull_request_review_comment" => has == (false, true, true, false),
            "check_run" => none && self.check_run.is_some(),
            "installation" => about == (false, false, false),
            "installation_repositories" => about == (false, false, true),
            "repository" => about == (false, true, false),
            _ => true,
        }
    }
}
