//! Which branch an issue's work goes on: the one it had, as long as something on it is not merged, else a name that nobody has.

use crate::model::*;

/// A branch that the work had, or a name that its next one may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameFacts {
    pub branch: BranchName,
    /// Here or on the remote.
    pub exists: bool,
    /// All that is on it, wherever it is, is known to be in the base. Asked of the last branch and of the first name, unless
    /// that is a base; of the others it makes no difference.
    pub merged: bool,
    /// The default branch, or the base of new work.
    pub is_base: bool,
    /// An environment has it.
    pub in_use: bool,
    /// There are branches below it, here or on the remote, beside which git cannot have it. Asked of names after the first
    /// only: whoever put one below that is told. So is whoever put one above, which would be above all further names, too.
    pub has_below: bool,
}

/// What became of the branches that work on an issue had, and which names it may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branches {
    /// The last one is still there, with something that is not merged. It may be called otherwise than it would be now.
    pub last: Option<BranchName>,
    /// The newest one of which all is merged.
    pub merged: Option<BranchName>,
    /// The first names ([`branch_name`]) that it does not get.
    pub taken: Vec<BranchName>,
}

impl Branches {
    /// Of work whose last environment had this branch.
    pub fn after(last: Option<NameFacts>) -> Self {
        // Nothing is pushed to a base, and a name that no comment can show is not gone on with.
        match last.filter(|last| last.exists && !last.is_base && last.branch.is_showable()) {
            Some(NameFacts { branch, merged: true, .. }) => Self { merged: Some(branch), ..Self::default() },
            Some(NameFacts { branch, merged: false, .. }) => Self { last: Some(branch), ..Self::default() },
            None => Self::default(),
        }
    }

    /// Looks at the next name. True: the work may have it.
    pub fn may_have(&mut self, name: NameFacts) -> bool {
        // One of the first name is continued as it is, whoever made it; on a merged one, a new pull request would propose
        // once more what the base has.
        let is_others = !self.taken.is_empty() && (name.exists || name.in_use || name.has_below);
        if name.merged {
            self.merged.get_or_insert_with(|| name.branch.clone());
        }
        let free = !name.merged && !name.is_base && !is_others;
        if !free {
            self.taken.push(name.branch);
        }
        free
    }
}

/// What the branch of an issue's work is called when this many names are taken.
pub fn branch_name(work: &Work, taken: usize) -> String {
    match taken {
        0 => work.branch(),
        taken => format!("{}-{}", work.branch(), taken + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(branch: &str) -> NameFacts {
        let branch = BranchName::new(branch).unwrap();
        NameFacts { branch, exists: true, merged: false, is_base: false, in_use: false, has_below: false }
    }

    #[test]
    fn the_last_branch_is_gone_on_with_until_it_is_merged() {
        let last = |facts| Branches::after(Some(facts));
        assert_eq!(last(name("old/issue-1")).last, Some(name("old/issue-1").branch));
        let merged = last(NameFacts { merged: true, ..name("issue-1") });
        assert_eq!((merged.last, merged.merged), (None, Some(name("issue-1").branch)));
        let over = [
            NameFacts { exists: false, ..name("issue-1") },
            NameFacts { is_base: true, ..name("trunk") },
            name("a`@ann`b"),
        ];
        for facts in over {
            assert_eq!(last(facts.clone()), Branches::default(), "{facts:?}");
        }
        assert_eq!(Branches::after(None), Branches::default());
    }

    #[test]
    fn the_first_name_is_continued_and_later_ones_are_nobodys() {
        let mut fresh = Branches::default();
        assert!(fresh.may_have(name("issue-1")), "whoever made it");
        for not in [NameFacts { merged: true, ..name("issue-1") }, NameFacts { is_base: true, ..name("issue-1") }] {
            let mut branches = Branches::default();
            assert!(!branches.may_have(not.clone()));
            assert_eq!(branches.merged.is_some(), not.merged);
            assert!(!branches.may_have(name("issue-1-2")), "somebody else's");
            assert!(!branches.may_have(NameFacts { exists: false, in_use: true, ..name("issue-1-3") }));
            assert!(!branches.may_have(NameFacts { exists: false, has_below: true, ..name("issue-1-4") }));
            assert!(branches.may_have(NameFacts { exists: false, ..name("issue-1-5") }));
            assert_eq!(branches.taken.len(), 4);
        }
    }
}
