//! What is said where the bot is not on: what it would do, and how it is switched on.

use super::marker;
use crate::command::grammar::Entry;
use crate::decide::staged::{Foreseen, Place, Then};
use crate::model::*;

/// As in "this repository is …".
pub fn in_words(mode: CodebaseMode) -> &'static str {
    match mode {
        CodebaseMode::On => "switched on",
        CodebaseMode::Staged => "staged",
        CodebaseMode::Off => "switched off",
    }
}

/// A request for work. `slug`: how the bot is mentioned where it has to be.
pub fn request(name: &RepoName, foreseen: &Foreseen, slug: Option<&str>) -> String {
    let steps = [place(&foreseen.place), "let the agent work on this there".to_owned(), then(&foreseen.then)];
    let steps: Vec<String> = steps.iter().enumerate().map(|(at, step)| format!("{}. {step}", at + 1)).collect();
    format!("{} For this request I would\n\n{}\n\n{}", staged(name), steps.join("\n"), way_out(slug))
}

/// A command that changes something.
pub fn command(name: &RepoName, entry: &Entry, slug: Option<&str>) -> String {
    format!("{} I would carry out `{}`, which {}.\n\n{}", staged(name), entry.name, entry.does, way_out(slug))
}

/// One that can be tried out, with what came of that.
pub fn tried_out(name: &RepoName, entry: &Entry, foreseen: &str, slug: Option<&str>) -> String {
    format!("{} So `{}` was only tried out.\n\n{}\n\n{}", staged(name), entry.name, foreseen.trim(), way_out(slug))
}

/// A button of a check run that changes something.
pub fn button(name: &RepoName, slug: &str) -> String {
    format!("{} So the button changed nothing.\n\n{}", staged(name), way_out(Some(slug)))
}

/// `/enable`. `changed`: it was not on.
pub fn enabled(name: &RepoName, changed: bool) -> String {
    match changed {
        true => format!(
            "**{name}** is switched on: from now on I do what people ask me for here. What was asked for before was not done; \
             ask for it again."
        ),
        false => format!("**{name}** is switched on already, so nothing was changed."),
    }
}

/// A run that waited when its repository was staged, or switched off.
pub fn not_begun(mode: CodebaseMode) -> String {
    format!(
        "This repository is {} by now, so the work did not begin. Nothing was run, and what was done before is kept. Once an \
         admin of it writes `/enable`, or it is switched on in the panel, mention me again.",
        in_words(mode)
    )
}

/// A line more of `/status`.
pub fn in_status(mode: CodebaseMode) -> String {
    match mode {
        CodebaseMode::On => String::new(),
        CodebaseMode::Staged | CodebaseMode::Off => {
            format!(
                "\n- this repository is {}: nothing is run or changed until an admin of it writes `/enable`",
                in_words(mode)
            )
        }
    }
}

/// On this machine, where somebody waits for an answer.
pub fn off_here(key: &str) -> String {
    format!(
        "This repository is switched off, so nothing was run or changed. `/enable` switches it on, or its line in the panel.\n\n{}",
        marker(key)
    )
}

fn staged(name: &RepoName) -> String {
    format!("**{name}** is staged: I say what I would do, and do nothing.")
}

fn way_out(slug: Option<&str>) -> String {
    let mention = slug.map(|slug| format!("@{slug} ")).unwrap_or_default();
    format!(
        "That is by what I know without a look at the repository. Nothing was run or changed. An admin of the repository \
         switches it on with `{mention}/enable`, or whoever runs this service in the panel; then ask again."
    )
}

fn place(place: &Place) -> String {
    match place {
        Place::There { work, branch } => format!("go on in the worktree **{work}** on branch `{branch}`"),
        Place::PullRequest(number) => format!(
            "make a worktree on the branch of pull request #{number} (where that is in a fork, only once its head is approved)"
        ),
        Place::New { work, branch, base } => {
            let branch = branch.as_ref().map(|branch| format!(" on the branch `{branch}`")).unwrap_or_default();
            let base = base.as_ref().map(|base| format!(", from `{base}`")).unwrap_or_default();
            format!("make the worktree **{work}**{branch}{base}")
        }
    }
}

fn then(then: &Then) -> String {
    match then {
        Then::Stays => "commit what it changed, and push nothing: the commits are a fork's".to_owned(),
        Then::Pushed => "commit what it changed, and push the branch".to_owned(),
        Then::Proposed { into, draft } => {
            let kind = if *draft { "a draft pull request" } else { "a pull request" };
            let into = into.as_ref().map(|into| format!(" into `{into}`")).unwrap_or_default();
            format!("commit what it changed, push the branch, and open {kind}{into}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::grammar::{Request, parse};

    #[test]
    fn it_says_what_it_would_do_and_how_that_begins() {
        let name: RepoName = "octo/hello".parse().unwrap();
        let branch = |name: &str| BranchName::new(name).unwrap();
        let work = Work { kind: WorkKind::Issue, id: "7".to_owned() };
        let place = Place::New { work, branch: Some(branch("issue-7")), base: Some(branch("main")) };
        let then = Then::Proposed { into: Some(branch("main")), draft: true };
        insta::assert_snapshot!(request(&name, &Foreseen { place, then }, Some("treewarden")), @"
        **octo/hello** is staged: I say what I would do, and do nothing. For this request I would

        1. make the worktree **issue-7** on the branch `issue-7`, from `main`
        2. let the agent work on this there
        3. commit what it changed, push the branch, and open a draft pull request into `main`

        That is by what I know without a look at the repository. Nothing was run or changed. An admin of the repository switches it on with `@treewarden /enable`, or whoever runs this service in the panel; then ask again.
        ");
        let Request::Command(entry, _) = parse("/worktree pin") else { panic!("no command") };
        let told = command(&name, entry, None);
        assert!(
            told.contains("carry out `/worktree pin`, which protects this thread's worktree from cleanup."),
            "{told}"
        );
        assert!(told.contains("with `/enable`"), "{told}");
        assert!(in_status(CodebaseMode::On).is_empty() && enabled(&name, false).contains("already"));
    }
}
