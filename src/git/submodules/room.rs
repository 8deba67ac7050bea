//! Room for the repository of a submodule that git is to make. Git would take one that is there, with its configuration,
//! and run what an agent wrote into it; and through a link it would write elsewhere.

use super::gone;
use crate::git::error::GitError;
use crate::git::own_files::look;
use crate::git::registry::AdminEntry;
use crate::git::worktree::{submodule_repository_has_commits, submodule_repository_in_use, take_out};
use std::{
    fs,
    path::{Component, Path},
};

/// What is kept of a repository that stood there, beside the others, where its commits are looked for.
const KEPT: &str = "treewarden-kept";

/// Takes away what stands at the place of the submodule called `name` in its parent's `own` part of a repository. What has
/// commits of its own, or cannot be looked at, is kept; one that a checkout belongs to is a refusal.
pub(super) fn make_room(own: &Path, name: &Path) -> Result<(), GitError> {
    if name.components().any(|part| part == Component::ParentDir) {
        return Err(GitError::refused("its name leads elsewhere"));
    }
    // Git joins the text of the names, whatever they begin with.
    let parts = name.components().filter(|part| matches!(part, Component::Normal(_)));
    let modules = own.join("modules");
    let mut place = own.to_owned();
    for part in Path::new("modules").components().chain(parts) {
        place.push(part);
        match look(&place)? {
            None => return Ok(()),
            Some(meta) if meta.is_dir() => {}
            Some(_) => return take_out(&AdminEntry { directory: own.to_owned() }, &place),
        }
    }
    match place == modules {
        true => Err(GitError::refused("it has no name")),
        false => empty_place(&modules, &place),
    }
}

fn empty_place(modules: &Path, place: &Path) -> Result<(), GitError> {
    if submodule_repository_in_use(place).unwrap_or(false) {
        return Err(GitError::refused("its repository belongs to another checkout"));
    }
    if !submodule_repository_has_commits(place).unwrap_or(true) {
        return gone(place);
    }
    let kept = modules.join(format!("{KEPT}-{}", uuid::Uuid::now_v7()));
    tracing::warn!(path = %place.display(), "a repository in the place of a submodule's, not made just now: set aside");
    fs::rename(place, kept).map_err(|error| GitError::file("setting aside", place, &error))
}
