//! What a new worktree gets beside its checkout. Whatever fails here is told and ends nothing: the checkout is there.

use super::{Furnishing, IsolationError};
use crate::git::{GitError, Worktree};
use crate::model::{BroughtBack, Copies, Furnished, Lfs, Probe, Submodules};
use crate::telemetry::field::EFFECT;
use std::time::Duration;

/// How long all submodules of a worktree may take together.
pub const SUBMODULES: Duration = Duration::from_secs(600);

/// How long the objects of a checkout may take.
pub const LFS: Duration = Duration::from_secs(600);

/// Repeatable: what an earlier try left unfinished is made anew; what was finished is only told again.
pub(super) async fn furnish(worktree: &Worktree, wanted: &Furnishing) -> Result<Furnished, IsolationError> {
    if let Some(before) = worktree.furnished().await? {
        if wanted.keepsake.is_none() || before.work.keepsake == wanted.keepsake {
            return Ok(before);
        }
        // Somebody made it meanwhile who knows nothing of what is to come back. What comes is written over what is there.
        let furnished = Furnished { work: work(worktree, wanted, theirs(worktree).await).await, ..before };
        worktree.mark_furnished(&furnished).await?;
        return Ok(furnished);
    }
    // Copies come last: nothing is to be in the way of what belongs to the repository.
    let submodules = submodules(worktree, wanted).await;
    let lfs = if wanted.lfs { lfs(worktree, wanted).await } else { Lfs::default() };
    let work = work(worktree, wanted, None).await;
    let furnished = Furnished { submodules, lfs, work, copies: copies(worktree, wanted).await };
    worktree.mark_furnished(&furnished).await?;
    Ok(furnished)
}

async fn submodules(worktree: &Worktree, wanted: &Furnishing) -> Submodules {
    let failed =
        |error: GitError| Submodules { not_tried: Some(worktree.told_outside(&error)), ..Submodules::default() };
    worktree.fill_submodules(&wanted.submodules, wanted.credential.as_ref(), SUBMODULES).await.unwrap_or_else(failed)
}

async fn lfs(worktree: &Worktree, wanted: &Furnishing) -> Lfs {
    let failed = |error: GitError| Lfs { failed: Some(worktree.told_outside(&error)), ..Lfs::default() };
    worktree.pull_lfs(wanted.credential.as_ref(), LFS).await.unwrap_or_else(failed)
}

async fn work(worktree: &Worktree, wanted: &Furnishing, obstacle: Option<String>) -> BroughtBack {
    let Some(keepsake) = &wanted.keepsake else { return BroughtBack::default() };
    let tried = BroughtBack { keepsake: Some(keepsake.clone()), ..BroughtBack::default() };
    if obstacle.is_some() {
        return BroughtBack { failed: obstacle, ..tried };
    }
    match worktree.bring_back(keepsake).await {
        Ok(left) => {
            tracing::debug!(target: EFFECT, "uncommitted work brought back");
            BroughtBack { left, ..tried }
        }
        Err(error) => BroughtBack { failed: Some(worktree.told_outside(&error)), ..tried },
    }
}

/// What is in a worktree that was there already, and would be written over.
async fn theirs(worktree: &Worktree) -> Option<String> {
    match worktree.status().await {
        Probe::Known(status) if status.is_clean() => {}
        Probe::Known(_) => return Some("there is uncommitted work in the worktree at its place".to_owned()),
        Probe::Unknown(why) => return Some(why),
    }
    match (worktree.ignored_work().await, worktree.hidden_changes().await) {
        (Probe::Known(ignored), Probe::Known(false)) if ignored.is_empty() => None,
        (Probe::Known(ignored), Probe::Known(_)) => Some(format!(
            "somebody has files of their own in this worktree that git does not see{}",
            ignored.first().map(|path| format!(", such as {}", path.display())).unwrap_or_default()
        )),
        (Probe::Unknown(why), _) | (_, Probe::Unknown(why)) => Some(why),
    }
}

async fn copies(worktree: &Worktree, wanted: &Furnishing) -> Copies {
    let Some(source) = &wanted.copy_from else { return Copies::default() };
    let failed = |error: GitError| Copies { failed: Some(worktree.told_outside(&error)), ..Copies::default() };
    worktree.copy_in(source, &wanted.copy).await.unwrap_or_else(failed)
}
