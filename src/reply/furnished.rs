//! What a new worktree got beside its checkout, as lines of the status comment.

use super::count;
use crate::model::*;
use std::fmt::Write;

/// How many names one line shows.
const NAMES: usize = 8;
/// How many characters of a text from outside.
const SHOWN: usize = 200;

/// One line for each matter worth telling.
pub fn notes(furnished: &Furnished) -> Vec<String> {
    let before = submodules(&furnished.submodules).into_iter().chain(lfs(&furnished.lfs));
    before.chain(work(&furnished.work)).chain(copies(&furnished.copies)).collect()
}

fn work(work: &BroughtBack) -> Option<String> {
    let keepsake = work.keepsake.as_ref()?.short();
    let by_hand = format!(
        "In the worktree, `git diff {keepsake}^ {keepsake}` shows all that was kept (`git show {keepsake}^2:ignored/<file>` what \
         git ignores), and I can bring it in if you ask"
    );
    if let Some(why) = &work.failed {
        return Some(format!(
            "What was not committed could not be brought back whole: {}. It is still in the trash: when the cause is gone, \
             remove this worktree and restore it again. {by_hand}.",
            plain(why)
        ));
    }
    if work.is_whole() {
        return Some("What went to the trash is there again, as it was.".to_owned());
    }
    Some(format!(
        "What went to the trash is there again, apart from {}, which the branch has changed since. {by_hand}.",
        listed(&work.left)
    ))
}

/// Told when a fork's pull request is looked at and the operator keeps files for the repository.
pub fn withheld() -> String {
    "Files kept for this repository are not copied into the worktree of a fork's pull request: its code could read them."
        .to_owned()
}

/// Files of Git LFS that are not what they should be.
pub fn lfs(lfs: &Lfs) -> Option<String> {
    if lfs.without_program > 0 {
        return Some(format!(
            "{} of Git LFS {} left as pointers: this server has no `git-lfs`. Changes to such files are not committed.",
            count(lfs.without_program, "file"),
            if lfs.without_program == 1 { "is" } else { "are" },
        ));
    }
    let why = lfs.failed.as_ref()?;
    Some(format!("Not all files of Git LFS could be downloaded, so some are pointers: {}.", plain(why)))
}

/// Why files that were changed are in no commit.
pub fn kept_from_lfs(paths: &[std::path::PathBuf]) -> Option<String> {
    let first = paths.first()?.display().to_string();
    Some(format!(
        "{} that Git LFS is to keep, such as {}, cannot be committed without `git-lfs` on this server",
        count(paths.len() as u64, "changed file"),
        code(&first)
    ))
}

/// What a commit lacks, and why.
pub fn not_taken(places: &[NotTaken]) -> Option<String> {
    let NotTaken { path, why } = places.first()?;
    let path = code(&path.display().to_string());
    let more = match places.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(match why {
        NotTakenBecause::GitRefuses(words) => {
            format!("git could not take in {path} ({}){more}; mention me again when the cause is gone", plain(words))
        }
        NotTakenBecause::Copy => format!(
            "{path}{more}: {IS_KEPT}, and that may be secret. Who knows that it is not commits it by hand in another clone"
        ),
        NotTakenBecause::TooLarge { bytes, most } => format!(
            "{path}{more}: it has {}, and no file of more than {} goes into a commit (GitHub takes none). It stays in the \
             worktree; ask for it to be ignored, made smaller or kept by Git LFS",
            size(*bytes),
            size(*most)
        ),
        NotTakenBecause::GoesBack => format!(
            "the submodule {path}{more} stands at a commit that it was recorded at before, as merges leave it. If it is meant \
             to go back, ask for that change to be committed"
        ),
    })
}

/// Of files that nothing of ours publishes.
const IS_KEPT: &str = "a file that this server keeps for worktrees is there, or holds the same";

/// Why a branch is not pushed whose commits hold files that were copied into a worktree, or the same as they.
pub fn copies_committed(branch: &BranchName, paths: &[std::path::PathBuf]) -> String {
    let first = paths.first().map(|path| code(&path.display().to_string())).unwrap_or_default();
    format!(
        "not pushed: commits on `{branch}` hold {} that may be secret, such as {first}: {IS_KEPT}; nothing of it left the \
         server. Ask for those commits to be rewritten without it, then it can be pushed",
        count(paths.len() as u64, "file"),
    )
}

/// Why a branch is not pushed whose commits hold files that should be pointers.
pub fn blobs_committed(branch: &BranchName, paths: &[std::path::PathBuf]) -> String {
    let first = paths.first().map(|path| code(&path.display().to_string())).unwrap_or_default();
    format!(
        "not pushed: commits on `{branch}` hold {} that Git LFS is to keep, such as {first}, as they are, and not as pointers; \
         once pushed, they would be in the history for good. The work is kept on `{branch}`. Ask for those commits to be made \
         anew, with `git-lfs` at work, then it can be pushed",
        count(paths.len() as u64, "file"),
    )
}

/// Why a branch is not pushed whose commits hold pointers that lead nowhere.
pub fn without_objects(branch: &BranchName, paths: &[std::path::PathBuf]) -> String {
    let first = paths.first().map(|path| code(&path.display().to_string())).unwrap_or_default();
    format!(
        "not pushed: commits on `{branch}` hold {} of Git LFS, such as {first}, whose content is neither here nor on the remote. \
         The work is kept on `{branch}`. Ask for the pointers to be taken out of those commits, or for the files themselves to \
         be committed in their place, then it can be pushed",
        count(paths.len() as u64, "pointer"),
    )
}

fn submodules(submodules: &Submodules) -> Option<String> {
    if submodules.other_addresses {
        return Some(
            "The submodules are left empty: this fork's pull request changes `.gitmodules`, and I fetch from no place that \
             only a fork names."
                .to_owned(),
        );
    }
    if let Some(why) = &submodules.not_tried {
        return Some(format!("The submodules are left empty: {}.", plain(why)));
    }
    if let Some(why) = &submodules.not_moved {
        return Some(format!("The submodules stay at the commits they were at before: {}.", plain(why)));
    }
    let failed: Vec<String> =
        submodules.failed.iter().take(NAMES).map(|(path, why)| format!("{} ({})", code(path), plain(why))).collect();
    let more = match submodules.failed.len().saturating_sub(NAMES) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!failed.is_empty())
        .then(|| format!("Submodules that could not be fetched and are left empty: {}{more}.", failed.join(", ")))
}

fn copies(copies: &Copies) -> Option<String> {
    let mut told = Vec::new();
    if !copies.copied.is_empty() {
        told.push(format!("Copied into the worktree: {}.", listed(&copies.copied)));
    }
    if !copies.missing.is_empty() {
        told.push(format!("Asked for, but not kept on this server: {}.", listed(&copies.missing)));
    }
    if !copies.refused.is_empty() {
        let reasons: Vec<String> = copies.refused.iter().take(NAMES).map(refused).collect();
        let more = copies.refused.len().saturating_sub(NAMES);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        told.push(format!("Not copied: {}{more}.", reasons.join(", ")));
    }
    if let Some(why) = &copies.failed {
        told.push(format!("Not all files could be copied: {}.", plain(why)));
    }
    (!told.is_empty()).then(|| told.join(" "))
}

fn refused((path, why): &(String, NotCopied)) -> String {
    let why = match why {
        NotCopied::InTheWay => "the checkout has something there",
        NotCopied::LeadsOut => "a link that leads out of its directory",
        NotCopied::NotPlain => "no plain file",
        NotCopied::TooMuch => "more than a worktree is given",
    };
    format!("{} ({why})", code(path))
}

fn listed(names: &[String]) -> String {
    let mut text = names.iter().take(NAMES).map(|name| code(name)).collect::<Vec<_>>().join(", ");
    if let more @ 1.. = names.len().saturating_sub(NAMES) {
        let _ = write!(text, " and {more} more");
    }
    text
}

/// A name from outside as a code span, which it cannot leave; the middle of a long one is left out.
fn code(name: &str) -> String {
    let name: Vec<char> = harmless(name).collect();
    let shown: String = match name.len() {
        0..=SHOWN => name.iter().collect(),
        length => name[..SHOWN / 2].iter().chain(&['…']).chain(&name[length - SHOWN / 2..]).collect(),
    };
    format!("`{shown}`")
}

fn plain(text: &str) -> String {
    harmless(text).take(SHOWN).collect()
}

fn harmless(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| *c != '`' && !c.is_control() && !reorders(*c))
}

/// As GitHub counts.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["MB", "GB", "TB", "PB"];
    let mut amount = bytes as f64 / f64::from(1 << 20);
    let mut units = UNITS.into_iter();
    let mut unit = units.next().unwrap_or_default();
    while amount >= 1000.0
        && let Some(next) = units.next()
    {
        (amount, unit) = (amount / 1024.0, next);
    }
    // A little more than the limit must not read like it.
    format!("{} {unit}", (amount * 10.0).ceil() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_told_with_its_size_and_a_long_name_with_both_ends() {
        let most = 100 << 20;
        let told = |path: &str, bytes| {
            not_taken(&[NotTaken { path: path.into(), why: NotTakenBecause::TooLarge { bytes, most } }]).unwrap()
        };
        let said = "`disk.img`: it has 2 TB, and no file of more than 100 MB goes into a commit (GitHub takes none). It stays in \
                    the worktree; ask for it to be ignored, made smaller or kept by Git LFS";
        assert_eq!(told("disk.img", 2 << 40), said);
        assert!(told("x", most + 1).contains("it has 100.1 MB"));
        let long = told(&format!("a{}z", "b".repeat(5000)), most * 2);
        assert!(
            long.starts_with("`abb") && long.contains("b…b") && long.contains("bbz`") && long.len() < 500,
            "{long}"
        );
    }

    #[test]
    fn a_submodule_that_is_empty_is_never_hidden() {
        let told = |submodules| notes(&Furnished { submodules, ..Furnished::default() });
        let failed = vec![("lib".to_owned(), "git submodule update failed: `x`\ny".to_owned())];
        assert_eq!(
            told(Submodules { failed, ..Submodules::default() }),
            ["Submodules that could not be fetched and are left empty: `lib` (git submodule update failed: xy)."]
        );
        assert!(told(Submodules { other_addresses: true, ..Submodules::default() })[0].contains("fork"));
        let not_tried = Some("no".to_owned());
        assert_eq!(told(Submodules { not_tried, ..Submodules::default() }), ["The submodules are left empty: no."]);
    }

    #[test]
    fn pointers_are_told() {
        let told = |without_program, failed: Option<&str>| {
            lfs(&Lfs { without_program, failed: failed.map(str::to_owned) }).unwrap_or_default()
        };
        assert_eq!(told(0, None), "");
        assert!(told(2, None).starts_with("2 files of Git LFS are left as pointers: this server has no `git-lfs`."));
        assert!(told(0, Some("no")).ends_with("so some are pointers: no."));
        let said = "1 changed file that Git LFS is to keep, such as `a.bin`, cannot be committed without `git-lfs` on this \
                    server";
        assert_eq!((kept_from_lfs(&[]), kept_from_lfs(&["a.bin".into()]).as_deref()), (None, Some(said)));
    }

    #[test]
    fn what_git_does_not_take_is_named_with_the_reason() {
        let place = |path: &str, why: NotTakenBecause| NotTaken { path: path.into(), why };
        let denied = |path: &str| place(path, NotTakenBecause::GitRefuses("Permission denied".to_owned()));
        assert_eq!(not_taken(&[]), None);
        let said =
            "git could not take in `data/` (Permission denied) and 1 more; mention me again when the cause is gone";
        assert_eq!(not_taken(&[denied("data/"), denied("x")]).as_deref(), Some(said));
        let said = "`.nvmrc`: a file that this server keeps for worktrees is there, or holds the same, and that may be secret. \
                    Who knows that it is not commits it by hand in another clone";
        assert_eq!(not_taken(&[place(".nvmrc", NotTakenBecause::Copy)]).as_deref(), Some(said));
        let said = "the submodule `sub` stands at a commit that it was recorded at before, as merges leave it. If it is meant \
                    to go back, ask for that change to be committed";
        assert_eq!(not_taken(&[place("sub", NotTakenBecause::GoesBack)]).as_deref(), Some(said));
    }

    #[test]
    fn a_committed_copy_is_named() {
        let branch = BranchName::new("b").unwrap();
        let said = "not pushed: commits on `b` hold 1 file that may be secret, such as `.env`: a file that this server keeps \
                    for worktrees is there, or holds the same; nothing of it left the server. Ask for those commits to be \
                    rewritten without it, then it can be pushed";
        assert_eq!(copies_committed(&branch, &[".env".into()]), said);
    }

    #[test]
    fn what_lfs_cannot_take_is_named() {
        let branch = BranchName::new("b").unwrap();
        let said = "not pushed: commits on `b` hold 1 file that Git LFS is to keep, such as `a.bin`, as they are, and not as \
                    pointers; once pushed, they would be in the history for good. The work is kept on `b`. Ask for those commits \
                    to be made anew, with `git-lfs` at work, then it can be pushed";
        assert_eq!(blobs_committed(&branch, &["a.bin".into()]), said);
        let said = "not pushed: commits on `b` hold 1 pointer of Git LFS, such as `a.bin`, whose content is neither here nor on the \
                    remote. The work is kept on `b`. Ask for the pointers to be taken out of those commits, or for the files \
                    themselves to be committed in their place, then it can be pushed";
        assert_eq!(without_objects(&branch, &["a.bin".into()]), said);
    }

    #[test]
    fn one_line_says_what_was_copied_and_what_was_not() {
        assert!(notes(&Furnished::default()).is_empty());
        let names = |count: usize| (0..count).map(|n| format!("f{n}")).collect::<Vec<_>>();
        let copies = Copies {
            copied: names(9),
            missing: vec!["a`b".into()],
            refused: vec![("up".into(), NotCopied::LeadsOut), ("f".into(), NotCopied::InTheWay)],
            failed: Some("the disk is full".into()),
        };
        assert_eq!(
            notes(&Furnished { copies, ..Furnished::default() }),
            [
                "Copied into the worktree: `f0`, `f1`, `f2`, `f3`, `f4`, `f5`, `f6`, `f7` and 1 more. Asked for, but not \
                 kept on this server: `ab`. Not copied: `up` (a link that leads out of its directory), `f` (the checkout \
                 has something there). Not all files could be copied: the disk is full."
            ]
        );
    }
}
