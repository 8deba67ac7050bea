//! Room for the repository of a submodule that git is to make. Git would take one that is there, with its configuration,
//! and run what an agent wrote into it; and through a link it would write elsewhere.

use super::gone;
use crate::git::error::GitError;
use crate::git::own_files::look;
use crate::git::registry::AdminEntry;
use crate::git::worktree::{submodule_repository_has_commits, submodule_repository_in_use, take_out};
use std::{
    fs,
    path::{Component, Path, PathBuf},
};

/// What is kept of a repository that stood there, beside the others, where its commits are looked for.
const KEPT: &str = "treewarden-kept";

/// What stands at the place of a repository that git is to make.
pub(super) enum InTheWay {
    /// It is no directory: out of git's way, and kept.
    Odd(PathBuf),
    /// A repository without commits of its own.
    Spare(PathBuf),
    /// What has commits of its own, or cannot be looked at: kept.
    Work(PathBuf),
}

/// What stands at the place of the submodule called `name` in its parent's `own` part of a repository; one that a checkout
/// belongs to is a refusal.
pub(super) fn in_the_way(own: &Path, name: &Path) -> Result<Option<InTheWay>, GitError> {
    if name.components().any(|part| part == Component::ParentDir) {
        return Err(GitError::refused("its name leads elsewhere"));
    }
    // Git joins the text of the names, whatever they begin with.
    let parts = name.components().filter(|part| matches!(part, Component::Normal(_)));
    let mut place = own.to_owned();
    for part in Path::new("modules").components().chain(parts) {
        place.push(part);
        match look(&place)? {
            None => return Ok(None),
            Some(meta) if meta.is_dir() => {}
            Some(_) => return Ok(Some(InTheWay::Odd(place))),
        }
    }
    if place == own.join("modules") {
        return Err(GitError::refused("it has no name"));
    }
    if submodule_repository_in_use(&place).unwrap_or(false) {
        return Err(GitError::refused("its repository belongs to another checkout"));
    }
    Ok(Some(match submodule_repository_has_commits(&place).unwrap_or(true) {
        true => InTheWay::Work(place),
        false => InTheWay::Spare(place),
    }))
}

impl InTheWay {
    pub fn clear(self, own: &Path) -> Result<(), GitError> {
        match self {
            InTheWay::Odd(place) => take_out(&AdminEntry { directory: own.to_owned() }, &place),
            InTheWay::Spare(place) => gone(&place),
            InTheWay::Work(place) => {
                let kept = own.join("modules").join(format!("{KEPT}-{}", uuid::Uuid::now_v7()));
                tracing::warn!(path = %place.display(), "a repository in the place of a submodule's, not made just now: set aside");
                fs::rename(&place, kept).map_err(|error| GitError::file("setting aside", &place, &error))
            }
        }
    }
}
