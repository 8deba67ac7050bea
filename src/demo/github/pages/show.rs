//! The pages that show something: all repositories, one repository, one issue or pull request.

use super::{
    diff::{self, FileDiff},
    markdown, page, refused,
};
use crate::{
    demo::github::{
        Hub,
        model::{Actor, CheckAction, CheckRun, Moment, Pull, Reaction, Repository, Thread},
        refusal::Refusal,
        world::World,
    },
    model::{BranchName, Permission},
};
use askama::Template;
use axum::{
    extract::{Path, State},
    http::{StatusCode, Uri},
    response::{IntoResponse, Redirect, Response},
};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "demo/home.html")]
struct Home {
    title: &'static str,
    names: Vec<String>,
}

pub(super) async fn home(State(hub): State<Arc<Hub>>) -> Response {
    let world = hub.world();
    let names = world.repositories.values().map(|repository| world.full_name(repository)).collect();
    page(StatusCode::OK, &Home { title: "Repositories", names })
}

/// A thread in a list.
struct Row {
    number: i64,
    title: String,
    author: String,
    mark: Mark,
    comments: usize,
}

/// How a thread's state is shown.
struct Mark {
    /// Class of the style sheet.
    class: &'static str,
    word: &'static str,
}

#[derive(Template)]
#[template(path = "demo/repository.html")]
struct RepositoryPage {
    title: String,
    full_name: String,
    visitor: String,
    issues: Vec<Row>,
    pulls: Vec<Row>,
    /// Each with how it stands in an address.
    branches: Vec<(String, String)>,
    files: Vec<String>,
    default_branch: String,
}

pub(super) async fn repository(State(hub): State<Arc<Hub>>, Path((owner, repo)): Path<(String, String)>) -> Response {
    match hub.repository_page(&format!("{owner}/{repo}")).await {
        Ok(shown) => page(StatusCode::OK, &shown),
        Err(refusal) => refused(&refusal),
    }
}

struct Entry {
    /// What a link to it ends in, as on GitHub.
    anchor: String,
    author: String,
    bot: bool,
    when: String,
    body: String,
    reactions: Vec<(&'static str, usize)>,
}

struct PullPart {
    head: String,
    base: String,
    draft: bool,
    mergeable: bool,
    merged_as: Option<String>,
    commits: usize,
    additions: u64,
    deletions: u64,
    diff: Vec<FileDiff>,
}

/// A check run on the head of a pull request.
struct CheckPart {
    id: i64,
    /// How it came out; how far it is while it is not completed.
    word: String,
    title: String,
    details: Option<String>,
    /// Only of a completed one, as on GitHub.
    actions: Vec<CheckAction>,
}

#[derive(Template)]
#[template(path = "demo/thread.html")]
struct ThreadPage {
    title: String,
    full_name: String,
    number: i64,
    heading: String,
    mark: Mark,
    open: bool,
    entries: Vec<Entry>,
    labels: Vec<String>,
    pull: Option<PullPart>,
    checks: Vec<CheckPart>,
    visitor: String,
    may_write: bool,
}

pub(super) async fn thread(
    State(hub): State<Arc<Hub>>,
    Path((owner, repo, number)): Path<(String, String, i64)>,
    uri: Uri,
) -> Response {
    let full_name = format!("{owner}/{repo}");
    match hub.thread_page(&full_name, number).await {
        // One page for both; the address says what it is, as on GitHub.
        Ok(shown) if shown.pull.is_some() && uri.path().ends_with(&format!("/issues/{number}")) => {
            Redirect::to(&format!("/{full_name}/pull/{number}")).into_response()
        }
        Ok(shown) => page(StatusCode::OK, &shown),
        Err(refusal) => refused(&refusal),
    }
}

impl Hub {
    async fn repository_page(&self, full_name: &str) -> Result<RepositoryPage, Refusal> {
        let (id, default_branch) = {
            let world = self.world();
            let place = world.repository_named(full_name)?;
            (place.id, place.default_branch.clone())
        };
        let branches: Vec<String> = self.git.branches(id).await?.into_keys().collect();
        let files = match branches.contains(&default_branch) {
            true => self.git.files(id, &format!("refs/heads/{default_branch}")).await?,
            false => Vec::new(),
        };
        let world = self.world();
        let place = world.repository(id)?;
        let (pulls, issues) = place.threads.values().rev().partition::<Vec<_>, _>(|thread| thread.pull.is_some());
        let row = |thread: &&Thread| Row {
            number: thread.number,
            title: thread.title.clone(),
            author: world.login(thread.author.account).to_owned(),
            mark: mark(thread),
            comments: place.comments.values().filter(|comment| comment.thread == thread.number).count(),
        };
        Ok(RepositoryPage {
            title: full_name.to_owned(),
            full_name: world.full_name(place),
            visitor: world.login(self.visitor).to_owned(),
            issues: issues.iter().map(row).collect(),
            pulls: pulls.iter().map(row).collect(),
            branches: branches.into_iter().map(|branch| (branch.clone(), in_address(branch))).collect(),
            files,
            default_branch,
        })
    }

    async fn thread_page(&self, full_name: &str, number: i64) -> Result<ThreadPage, Refusal> {
        let (id, pull) = {
            let world = self.world();
            let id = world.repository_named(full_name)?.id;
            (id, world.thread(id, number)?.pull.clone())
        };
        let diff = match &pull {
            Some(pull) => diff::files(&self.git.diff(id, &pull.base_sha, &pull.head_sha).await?),
            None => Vec::new(),
        };
        let world = self.world();
        let place = world.repository(id)?;
        let thread = world.thread(id, number)?;
        Ok(ThreadPage {
            title: format!("{} · #{number}", thread.title),
            full_name: world.full_name(place),
            number,
            heading: thread.title.clone(),
            mark: mark(thread),
            open: thread.open,
            entries: entries(&world, place, thread),
            labels: thread.labels.iter().map(|label| label.name.clone()).collect(),
            checks: pull.as_ref().map(|pull| check_parts(place, pull)).unwrap_or_default(),
            pull: pull.map(|pull| pull_part(&world, place, pull, diff)),
            visitor: world.login(self.visitor).to_owned(),
            may_write: place.permission_of(self.visitor) >= Permission::Write,
        })
    }
}

fn check_parts(place: &Repository, pull: &Pull) -> Vec<CheckPart> {
    let here = place.check_runs.values().filter(|check| check.head_sha == pull.head_sha);
    let part = |check: &CheckRun| CheckPart {
        id: check.id,
        word: check.conclusion.as_ref().unwrap_or(&check.status).replace('_', " "),
        title: format!("{}: {}", check.name, check.output["title"].as_str().unwrap_or_default()),
        details: check.details_url.clone(),
        actions: check.conclusion.as_ref().map(|_| check.actions.clone()).unwrap_or_default(),
    };
    here.map(part).collect()
}

fn in_address(branch: String) -> String {
    BranchName::new(&branch).map(|name| name.in_address()).unwrap_or(branch)
}

fn mark(thread: &Thread) -> Mark {
    let (class, word) = match &thread.pull {
        Some(pull) if pull.merged.is_some() => ("merged", "Merged"),
        Some(pull) if thread.open && pull.draft => ("draft", "Draft"),
        _ if thread.open => ("open", "Open"),
        Some(_) => ("closed", "Closed"),
        None => ("done", "Closed"),
    };
    Mark { class, word }
}

/// The opening text and everything written since, in order of time.
fn entries(world: &World, place: &Repository, thread: &Thread) -> Vec<Entry> {
    let entry = |anchor: String, author: Actor, at: Moment, body: &str, reactions: &[Reaction]| Entry {
        anchor,
        author: world.login(author.account).to_owned(),
        bot: author.via_app,
        when: at.format("%-d %b %Y, %H:%M:%S UTC").to_string(),
        body: markdown::render(body),
        reactions: counted(reactions),
    };
    let mut later: Vec<(i64, Entry)> = Vec::new();
    for comment in place.comments.values().filter(|comment| comment.thread == thread.number) {
        let anchor = format!("issuecomment-{}", comment.id);
        later.push((comment.id, entry(anchor, comment.author, comment.created_at, &comment.body, &comment.reactions)));
    }
    for review in place.reviews.values().filter(|review| review.thread == thread.number) {
        let state = review.state.to_ascii_lowercase().replace('_', " ");
        let body = format!("*Review: {state}*\n\n{}", review.body);
        let anchor = format!("pullrequestreview-{}", review.id);
        later.push((review.id, entry(anchor, review.author, review.submitted_at, &body, &[])));
    }
    for comment in place.review_comments.values().filter(|comment| comment.thread == thread.number) {
        let body = format!("On `{}`:\n\n{}", comment.path, comment.body);
        let anchor = format!("discussion_r{}", comment.id);
        later.push((comment.id, entry(anchor, comment.author, comment.created_at, &body, &comment.reactions)));
    }
    // Ids come from one sequence, so they are in order of time.
    later.sort_by_key(|(id, _)| *id);
    let first =
        entry(format!("issue-{}", thread.id), thread.author, thread.created_at, &thread.body, &thread.reactions);
    std::iter::once(first).chain(later.into_iter().map(|(_, entry)| entry)).collect()
}

fn pull_part(world: &World, place: &Repository, pull: Pull, diff: Vec<FileDiff>) -> PullPart {
    let head = if pull.head_owner == place.owner {
        pull.head_branch
    } else {
        format!("{}:{}", world.login(pull.head_owner), pull.head_branch)
    };
    PullPart {
        head,
        base: pull.base_branch,
        draft: pull.draft,
        mergeable: pull.mergeable,
        merged_as: pull.merged.map(|merged| merged.commit[..7].to_owned()),
        commits: pull.commits.len(),
        additions: pull.stat.additions,
        deletions: pull.stat.deletions,
        diff,
    }
}

fn counted(reactions: &[Reaction]) -> Vec<(&'static str, usize)> {
    const FACES: [(&str, &str); 8] = [
        ("+1", "👍"),
        ("-1", "👎"),
        ("laugh", "😄"),
        ("hooray", "🎉"),
        ("confused", "😕"),
        ("heart", "❤️"),
        ("rocket", "🚀"),
        ("eyes", "👀"),
    ];
    let count = |name: &str| reactions.iter().filter(|reaction| reaction.content == name).count();
    FACES.iter().map(|(name, face)| (*face, count(name))).filter(|(_, count)| *count > 0).collect()
}
