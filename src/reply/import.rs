//! What people are told about an import: each row that was taken, and each that was not, with the reason and the way out.

use super::count;
use crate::decide::import::{Skip, Unreached};
use crate::model::*;

/// Longest text of a row that is repeated.
const LONGEST: usize = 200;

/// Why a row was not taken over, or its old place not taken along.
pub fn sentence(skip: &Skip) -> String {
    match skip {
        Skip::Column(column) => format!("its {column} is empty or not understood"),
        Skip::NoAddress => "it has neither an address nor a path".to_owned(),
        Skip::NoRepository { path, why } => {
            format!("there is no repository at {} that can be worked on: {}", plain(path), plain(why))
        }
        Skip::OtherHost(host) => {
            format!("it is on {}, which is not the GitHub this installation works with", plain(host))
        }
        Skip::Unreached(Unreached::NoApp) => {
            "this installation does not know the repository: connect the App first, then import again".to_owned()
        }
        Skip::Unreached(Unreached::NotInstalled) => {
            "the App is not installed on the repository (or it is gone): install it there, then import again".to_owned()
        }
        Skip::Unreached(Unreached::Refused(why)) => {
            format!("GitHub does not let the App see the repository ({}): mend that, then import again", plain(why))
        }
        Skip::UnknownPlatform(platform) => format!("there is no platform called {}", plain(platform)),
        Skip::ThreadGone => "GitHub knows no such issue or pull request any more".to_owned(),
        Skip::NoCodebase => "its codebase was not taken over".to_owned(),
        Skip::Twin(first) => format!("it is the same thread as the row {}", plain(first)),
        Skip::Destroyed => "it was removed there already".to_owned(),
        Skip::OtherProvider(provider) => format!("its kind, {}, is none that this version has", plain(provider)),
        Skip::WorktreeGone(path) => format!("there is no worktree at {} any more", plain(path)),
        Skip::NoWorktree(path) => format!("what is at {} is no worktree; it was left alone", plain(path)),
        Skip::Link(path) => format!(
            "what is at {} is a link, which is not followed: write the place of the worktree itself into the older database, or \
             into a copy of it, then import again",
            plain(path)
        ),
        Skip::WorkStays { path, branch, fetched } => {
            let on = match branch {
                Some(branch) => {
                    let push = format!("`git -C {} push origin {}`", quoted(path), quoted(branch.as_str()));
                    let branch = plain(branch.as_str());
                    let goes_on = format!("`/worktree create {branch}` in its thread goes on with them");
                    match fetched {
                        Probe::Known(true) => {
                            format!("what is committed on its branch {branch} is on the remote already, and {goes_on}")
                        }
                        Probe::Known(false) => format!(
                            "commits of its branch {branch} are not on the remote, as far as it was fetched: {push} brings \
                             them, and {goes_on}"
                        ),
                        Probe::Unknown(why) => format!(
                            "whether the commits of its branch {branch} are on the remote could not be asked ({}): {push} \
                             brings those that are not, and {goes_on}",
                            plain(why)
                        ),
                    }
                }
                None => "commit and push it on a branch, and `/worktree create` with its name goes on with it".to_owned(),
            };
            format!("its work stays where it is: {}; {on}", plain(path))
        }
        Skip::Broken(path) => format!(
            "what ties the worktree at {} to its repository is damaged, so it waits: `git worktree repair` there mends it as a \
             rule, and `import --backfill` takes it over then",
            plain(path)
        ),
        Skip::AtHome { path, branch } => {
            let on = match branch {
                Some(branch) => format!(
                    "its branch {name} is in the repository, and `/worktree create {name}` goes on with it once `git -C {path} switch \
                     --detach` has freed it",
                    name = plain(branch.as_str()),
                    path = quoted(path)
                ),
                None => "commit what matters on a branch".to_owned(),
            };
            format!("its worktree stays where it is: {}; {on}", plain(path))
        }
        Skip::ForksBranch { path, branch } => format!(
            "its branch {} may hold a fork's commits, so its thread itself takes over the worktree at {} when it is next used",
            plain(branch.as_str()),
            plain(path)
        ),
        Skip::OtherBranch { path, branch } => format!(
            "the worktree at {} is on the branch {}, on which this work cannot go on; it was left alone",
            plain(path),
            plain(branch.as_str())
        ),
        Skip::Outside(path) => {
            format!("the worktree at {} is not below WORKTREE_BASE; it was left alone", plain(path))
        }
        Skip::Locked { path, why } => {
            format!("the worktree at {} is locked by somebody else: {}", plain(path), plain(why))
        }
        Skip::Unclear { path, why } => {
            format!("{} cannot be taken over ({}); mend that, then import again", plain(path), plain(why))
        }
        Skip::OtherRepository(path) => format!("the worktree at {} is of another repository", plain(path)),
        Skip::Detached(path) => {
            format!("the worktree at {} is on no branch: switch to one there, then import again", plain(path))
        }
        Skip::NoEnvironmentRow(id) => format!("its environment {} is not in the database", plain(id)),
        Skip::NotActive => "it was over already".to_owned(),
        Skip::NoConversation => "its conversation was not taken over".to_owned(),
        Skip::NoEnvironment => {
            "its conversation has no environment here yet, so the agent begins there with a fresh memory".to_owned()
        }
        Skip::NoAdapter(PlatformKind::Local) => {
            "its conversation only goes on when somebody speaks in it here, and the agent begins there with a fresh memory".to_owned()
        }
        Skip::NoAdapter(
            platform @ (PlatformKind::Github | PlatformKind::Slack | PlatformKind::Discord | PlatformKind::Telegram),
        ) => format!("this version cannot talk on {platform} yet"),
        Skip::NewerSession => "its conversation has a newer one".to_owned(),
        Skip::InTheWay(what) => format!("something else is in its place here: {}", plain(what)),
        Skip::Forgotten => "its conversation is not here".to_owned(),
        Skip::Settled => "its conversation has an environment by now".to_owned(),
    }
}

/// What is special about an environment that was taken.
pub fn not_locked(why: &str) -> String {
    format!(
        "its worktree could not be locked as one of this installation's, so a `git worktree prune` may drop it: {}",
        plain(why)
    )
}

/// What is special about a conversation that was taken.
pub fn waits_at(path: &str) -> String {
    format!("the worktree at {} becomes its environment when it is next used", plain(path))
}

/// The same; `thread`: its name there.
pub fn held(platform: PlatformKind, thread: &str) -> String {
    match platform {
        PlatformKind::Local => match ThreadName::new(thread) {
            Ok(name) => format!(
                "kept until somebody goes on in it, in its repository: `treewarden say --conversation {} …`",
                quoted(name.as_str())
            ),
            Err(_) => "kept, though nobody can go on in it: no conversation here can have its name".to_owned(),
        },
        PlatformKind::Github | PlatformKind::Slack | PlatformKind::Discord | PlatformKind::Telegram => {
            format!("kept until this version can talk on {platform}")
        }
    }
}

/// The heading of a report.
pub fn stage(stage: OldStage) -> &'static str {
    match stage {
        OldStage::Paths => "The older database names worktrees by their paths.",
        OldStage::Providers => "The older database names worktrees by provider and path.",
        OldStage::Environments => "The older database has environments of its own.",
    }
}

/// A row's name: what it is about, else its id.
pub fn row(name: &OldName) -> String {
    let about = if name.about.is_empty() { &name.id } else { &name.about };
    plain(about)
}

/// The last line.
pub fn summary(taken: usize, present: usize, skipped: usize, dry_run: bool) -> String {
    let verb = if dry_run { "would be taken over" } else { "taken over" };
    let end = if dry_run { " Nothing was changed." } else { "" };
    format!("{} {verb}, {present} here already, {skipped} skipped.{end}", count(taken as u64, "row"))
}

/// The same as one argument of a command.
fn quoted(text: &str) -> String {
    super::shell::quoted(&written_out(text, &[]))
}

/// What a row holds, fit for a line of a terminal.
pub fn plain(text: &str) -> String {
    let mut shown = written_out(&text.chars().take(LONGEST).collect::<String>(), &[]);
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_stays_is_named_with_the_way_on() {
        let stays = |fetched: Probe<bool>| {
            let (path, branch) = ("/old/my issue".to_owned(), BranchName::new("issue-1").ok());
            sentence(&Skip::WorkStays { path, branch, fetched })
        };
        insta::assert_snapshot!(stays(Probe::Known(false)), @"its work stays where it is: /old/my issue; commits of its branch issue-1 are not on the remote, as far as it was fetched: `git -C '/old/my issue' push origin issue-1` brings them, and `/worktree create issue-1` in its thread goes on with them");
        insta::assert_snapshot!(stays(Probe::Known(true)), @"its work stays where it is: /old/my issue; what is committed on its branch issue-1 is on the remote already, and `/worktree create issue-1` in its thread goes on with them");
        insta::assert_snapshot!(stays(Probe::Unknown("no repository".to_owned())), @"its work stays where it is: /old/my issue; whether the commits of its branch issue-1 are on the remote could not be asked (no repository): `git -C '/old/my issue' push origin issue-1` brings those that are not, and `/worktree create issue-1` in its thread goes on with them");
    }

    #[test]
    fn a_chat_is_kept_with_the_way_to_go_on_in_it() {
        insta::assert_snapshot!(held(PlatformKind::Local, "my chat"), @"kept until somebody goes on in it, in its repository: `treewarden say --conversation 'my chat' …`");
        insta::assert_snapshot!(held(PlatformKind::Local, "two\nlines"), @"kept, though nobody can go on in it: no conversation here can have its name");
        insta::assert_snapshot!(held(PlatformKind::Slack, "C1"), @"kept until this version can talk on slack");
    }

    #[test]
    fn rows_cannot_move_the_cursor() {
        assert_eq!(plain("a\u{1b}[2Jb\n\u{202e}c"), r"a\u001b[2Jb\u000a\u202ec");
        assert_eq!(plain(&"x".repeat(201)).chars().count(), 201);
    }
}
