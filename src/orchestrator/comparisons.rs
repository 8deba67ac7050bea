//! What comparisons of commits said: it is true for good, so that only branches that moved, or whose base did, are compared
//! again.

use crate::git::{Ends, GitError, Standing};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// More than live environments have; then all is forgotten.
const MOST: usize = 20_000;

#[derive(Default)]
pub(super) struct Comparisons {
    standings: Mutex<HashMap<Ends, Standing>>,
    /// Whether merging adds nothing.
    merges: Mutex<HashMap<Ends, bool>>,
}

/// Those that are known, and those that are to be asked for.
type Known<T> = (HashMap<Ends, Result<T, GitError>>, Vec<Ends>);

impl Comparisons {
    pub fn standings(&self, asked: Vec<Ends>) -> Known<Standing> {
        known(&self.standings, asked)
    }

    pub fn merges(&self, asked: Vec<Ends>) -> Known<bool> {
        known(&self.merges, asked)
    }

    pub fn remember<'a>(&self, new: impl Iterator<Item = (&'a Ends, &'a Standing)>) {
        remember(&self.standings, new.map(|(ends, standing)| (ends, *standing)));
    }

    pub fn remember_merges<'a>(&self, new: impl Iterator<Item = (&'a Ends, bool)>) {
        remember(&self.merges, new);
    }
}

fn known<T: Copy>(all: &Mutex<HashMap<Ends, T>>, asked: Vec<Ends>) -> Known<T> {
    let all = all.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut known, mut unknown) = (HashMap::new(), Vec::new());
    for ends in asked {
        match all.get(&ends) {
            Some(answer) => drop(known.insert(ends, Ok(*answer))),
            None => unknown.push(ends),
        }
    }
    (known, unknown)
}

fn remember<'a, T>(all: &Mutex<HashMap<Ends, T>>, new: impl Iterator<Item = (&'a Ends, T)>) {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() > MOST {
        all.clear();
    }
    all.extend(new.map(|(ends, answer)| (ends.clone(), answer)));
}
