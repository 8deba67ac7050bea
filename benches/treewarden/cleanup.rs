//! Part `cleanup`: a scheduled pass over many environments of one repository, and a look at the state of each of them, beside what
//! scripts do for each worktree: `git branch --merged`, `git status --porcelain`, `git log -1`. In turns, in one run.
//!
//! Each environment has a worktree with all files, and a branch with a commit of its own. One in twenty is done with: merged
//! (by a merge, or squashed) or stale. The passes of the service are dry runs, so that all rounds meet the same; the last one is real.

use super::{Service, git, median, timed};
use secrecy::SecretString;
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use treewarden::{
    demo::github::{Standin, StandinOptions},
    model::*,
    store::{Inserted, NewEnvironment, Store},
};
