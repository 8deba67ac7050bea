//! Sending one branch to the remote: one commit, to one full ref, never by force.

use super::error::GitError;
use super::repository::Repository;
use crate::model::{BranchName, CommitSha, Credential};
use std::path::PathBuf;

/// On this machine the receiving git runs as the service, so that it runs nothing the repository there names, changes no
/// branch that somebody has checked out, and overwrites none.
const RECEIVE_QUIETLY: &str = "--receive-pack=git -c core.hooksPath=/dev/null -c core.fsmonitor=false \
     -c core.alternateRefsCommand=true -c receive.autogc=false -c gc.auto=0 -c receive.denyCurrentBranch=refuse \
     -c receive.denyNonFastForwards=true receive-pack";

/// What the remote did. Whoever relies on it reads the branch back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    Pushed(CommitSha),
    UpToDate(CommitSha),
    Rejected { reason: Rejection },
}

/// Why the remote did not take the commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The remote branch has commits that are not here.
    NonFastForward,
    /// A branch protection or repository rule.
    Protected,
    /// Workflow files were changed, which the App has no permission for.
    Workflows,
    /// Somebody has the branch checked out in the repository on this machine.
    CheckedOut,
    /// It is only another name of this one, in a repository on this machine.
    NameOf(String),
    /// Files whose pointers lead nowhere: nobody has their objects of Git LFS. No commit was pushed; objects may have been.
    NoObjects(Vec<PathBuf>),
    /// The remote's own words.
    Other(String),
}

impl Repository {
    /// Pushes the branch's present commit to the branch of the same name.
    pub async fn push(&self, branch: &BranchName, credential: Option<&Credential>) -> Result<PushOutcome, GitError> {
        let remote = self.remote()?;
        remote.admits(credential)?;
        let full = branch.full_ref();
        let tip = self.tip(&full).await?.ok_or_else(|| GitError::NotFound(format!("the branch {branch}")))?;
        if self.is_of_this_machine()
            && let Some(other) = self.remote_alias(branch).await?
        {
            return Ok(PushOutcome::Rejected { reason: Rejection::NameOf(other) });
        }
        let call = self.call("push").await?.credential(&remote, credential).slow();
        let call = call.args(["--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"]);
        let call = match self.shared.origin {
            Some(_) => call.arg(RECEIVE_QUIETLY),
            None => call,
        };
        let call = call.args(["--no-signed", "--end-of-options", &remote.text]);
        // By commit, so that what is reported is what was sent, whatever moves the branch meanwhile.
        let output = call.arg(format!("{tip}:{full}")).run().await?;
        match (output.status, verdict(&output.stdout, &full)) {
            (Some(0), Some(line @ (Line::Pushed | Line::UpToDate))) => {
                self.note_remote(branch, &tip).await;
                Ok(if line == Line::Pushed { PushOutcome::Pushed(tip) } else { PushOutcome::UpToDate(tip) })
            }
            (Some(1), Some(Line::Rejected(reason))) => {
                Ok(PushOutcome::Rejected { reason: classify(&reason, &output.remarks()) })
            }
            _ => Err(output.failure()),
        }
    }

    /// What the remote has now, as a fetch would find it. Without it the next look is a fetch, which finds the same.
    async fn note_remote(&self, branch: &BranchName, tip: &CommitSha) {
        let name = branch.remote_ref();
        let noted = async {
            let before = self.tip(&name).await?;
            self.set_ref(&name, tip, before.as_ref()).await
        };
        if let Err(error) = noted.await {
            tracing::warn!(environment.branch = %branch, %error, "where the remote is now was not noted");
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    Pushed,
    UpToDate,
    /// The reason in parentheses.
    Rejected(String),
}

/// The line about one ref: `<flag> TAB <from>:<to> TAB <summary> (<reason>)`, as git-push(1) describes.
fn verdict(stdout: &[u8], full_ref: &str) -> Option<Line> {
    let text = String::from_utf8_lossy(stdout);
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, '\t');
        let (flag, refs, summary) = (fields.next()?, fields.next()?, fields.next()?);
        let (_, to) = refs.split_once(':')?;
        if to != full_ref {
            return None;
        }
        match flag {
            " " | "*" => Some(Line::Pushed),
            "=" => Some(Line::UpToDate),
            "!" => {
                let reason = summary.split_once(" (").map_or(summary, |(_, reason)| reason.trim_end_matches(')'));
                Some(Line::Rejected(reason.to_owned()))
            }
            _ => None,
        }
    })
}

/// The reasons are git's own words for what it found itself, GitHub's words otherwise; unknown ones are passed on.
fn classify(reason: &str, remarks: &str) -> Rejection {
    let says = |needle: &str| reason.contains(needle) || remarks.contains(needle);
    match reason {
        "non-fast-forward" | "fetch first" | "stale info" | "needs force" => Rejection::NonFastForward,
        "branch is currently checked out" => Rejection::CheckedOut,
        _ if says("without `workflows` permission") => Rejection::Workflows,
        _ if says("protected branch") || says("Protected branch") || says("rule violations") => Rejection::Protected,
        _ if remarks.is_empty() => Rejection::Other(reason.to_owned()),
        _ => Rejection::Other(format!("{reason}: {remarks}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn porcelain_lines_are_understood() {
        let of = |line: &str| verdict(format!("To https://h/r\n{line}\nDone\n").as_bytes(), "refs/heads/b");
        assert_eq!(of(" \tabc:refs/heads/b\t1..2"), Some(Line::Pushed));
        assert_eq!(of("*\tabc:refs/heads/b\t[new branch]"), Some(Line::Pushed));
        assert_eq!(of("=\tabc:refs/heads/b\t[up to date]"), Some(Line::UpToDate));
        let rejected = of("!\tabc:refs/heads/b\t[rejected] (fetch first)");
        assert_eq!(rejected, Some(Line::Rejected("fetch first".into())));
        assert_eq!(of("*\tabc:refs/heads/other\t[new branch]"), None);
    }

    #[test]
    fn rejections_are_named() {
        assert_eq!(classify("fetch first", ""), Rejection::NonFastForward);
        assert_eq!(classify("protected branch hook declined", "remote: GH006"), Rejection::Protected);
        let own_hook =
            classify("hook declined", "remote: error: GH006: Protected branch update failed for refs/heads/b");
        assert_eq!(own_hook, Rejection::Protected);
        let rules = classify("push declined due to repository rule violations", "remote: GH013");
        assert_eq!(rules, Rejection::Protected);
        let workflows =
            "refusing to allow a GitHub App to create or update workflow `x` without `workflows` permission";
        assert_eq!(classify(workflows, ""), Rejection::Workflows);
        let large = classify("pre-receive hook declined", "remote: error: File a is 120 MB");
        assert_eq!(large, Rejection::Other("pre-receive hook declined: remote: error: File a is 120 MB".into()));
    }
}
