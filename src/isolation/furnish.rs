//! What a new worktree gets beside its checkout. Whatever fails here is told and ends nothing: the checkout is there.

use super::{Furnishing, IsolationError};
use crate::git::{GitError, Worktree};
use crate::model::{Copies, Furnished};

/// Repeatable: what an earlier try left unfinished is made anew; what was finished is only told again.
pub(super) async fn furnish(worktree: &Worktree, wanted: &Furnishing) -> Result<Furnished, IsolationError> {
    if let Some(before) = worktree.furnished().await? {
        return Ok(before);
    }
    let furnished = Furnished { copies: copies(worktree, wanted).await };
    worktree.mark_furnished(&furnished).await?;
    Ok(furnished)
}

async fn copies(worktree: &Worktree, wanted: &Furnishing) -> Copies {
    let Some(source) = &wanted.copy_from else { return Copies::default() };
    let failed = |error: GitError| Copies { failed: Some(error.to_string()), ..Copies::default() };
    worktree.copy_in(source, &wanted.copy).await.unwrap_or_else(failed)
}
