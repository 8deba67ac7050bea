//! `/environments/{id}`: one isolated place, who uses it, what ran in it, why it is kept or why it was safe to remove, and
//! how to go on in it by hand.

use super::rows::{Catalog, EnvironmentRow, RunRow, Thread};
use super::{Frame, LiveQuery, PageQuery, render};
use crate::model::*;
use crate::reply::cleanup::{self, platform_name, restore_command};
use crate::reply::{bytes, count, days, shell::quoted};
use crate::store::RunFilter;
use crate::web::view::{Links, Mark, PAGE, Pager, Prose, When, ago, offset};
use crate::web::{WebState, error::WebError, guard::Actor, verbs};
use askama::Template;
use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use std::str::FromStr;
use tower_sessions::Session;

/// A commit or branch, linked to GitHub.
struct Named {
    text: String,
    url: Option<String>,
}

struct ReceiptView {
    when: When,
    trigger: String,
    /// Who had it removed.
    actor: Option<String>,
    /// How many of its own, and what the newest say of themselves.
    commits: Option<(String, Vec<String>)>,
    proof: Prose,
    tip: Option<String>,
    branch_deleted: bool,
    freed: Option<String>,
    /// Where what was not committed is kept, and until when.
    kept: Option<(String, String)>,
    /// Of that there are only files that git ignores.
    only_ignored: bool,
    /// Why the files still lie in the trash directory.
    held_up: Option<Prose>,
    /// A command, when the branch is gone.
    restore: Option<String>,
    /// What `/worktree restore` is asked for, where it brings this back.
    name: Option<String>,
}

#[derive(Template)]
#[template(path = "environment.html")]
struct Page {
    frame: Frame,
    row: EnvironmentRow,
    branch_url: Option<String>,
    /// What `/worktree link` calls it.
    name: String,
    not_examined: String,
    path: String,
    base: Option<String>,
    start: Option<Named>,
    transferred_to: Option<String>,
    /// Other work that belongs together with this.
    links: Vec<Thread>,
    /// The same in other repositories.
    links_elsewhere: Vec<Named>,
    can_change: bool,
    /// What a person can do about the reasons to keep it.
    next_steps: Vec<Prose>,
    /// Removing it by force is refused, too.
    beyond_force: bool,
    /// For how many days the trash keeps what is not committed.
    trash_days: u64,
    /// Nobody else comes into its home.
    service_user: u32,
    /// For a shell: directory and branch.
    quoted_path: String,
    quoted_branch: String,
    conversations: Vec<(Thread, Mark)>,
    /// Threads of platforms that no adapter speaks to.
    held: Vec<String>,
    runs: Vec<RunRow>,
    pager: Pager,
    receipt: Option<ReceiptView>,
    /// There is one, and why it cannot be shown.
    receipt_unreadable: Option<String>,
}

pub async fn show(
    State(state): State<WebState>,
    session: Session,
    Path(id): Path<String>,
    Query(PageQuery { page }): Query<PageQuery>,
    Query(live): Query<LiveQuery>,
) -> Result<Response, WebError> {
    let environment = load(&state, &id).await?;
    let (store, catalog) = (&state.inner.store, Catalog::load(&state).await?);
    let of_this = RunFilter::Environment(environment.id);
    let mut runs = store.list_runs(of_this, PAGE + 1, offset(page)).await?;
    let pager = Pager::cut(&mut runs, page, &[]);
    let runs = RunRow::load_all(&catalog, &runs).await?;
    let conversations = store.conversations_of(environment.id).await?;
    let conversations = conversations.iter().map(|c| (Thread::of_conversation(&catalog, c), c.state.into())).collect();
    let held = store.held_conversations_of(environment.id).await?;
    let held =
        held.iter().map(|held| format!("{} {}", platform_name(held.platform), state.shown(&held.thread))).collect();
    let mut links = Vec::new();
    for work in &environment.metadata.links {
        links.push(Thread::of_work(&catalog, environment.codebase, work).await?);
    }
    let elsewhere = environment.metadata.links_elsewhere.iter().map(|link| Named {
        text: link.to_string(),
        // GitHub leads on to a pull request from there.
        url: Some(Links::new(&state.inner.web_url, &link.name).thread(ThreadKind::Issue, link.number)),
    });
    let links_elsewhere = elsewhere.collect();
    let repository = store.load_codebase(environment.codebase).await?;
    let repository = repository.map(|codebase| state.inner.orchestrator.repository_path(&codebase)).unwrap_or_default();
    let (receipt, receipt_unreadable) = match store.receipt_of(environment.id).await {
        Ok(receipt) => (receipt.map(|receipt| view(&state, receipt, &environment.work, &repository)), None),
        Err(error) if error.is_corrupt() => (None, Some(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let mut frame = Frame::load(&state, &session, "/environments").await?;
    let going_on = runs.iter().any(|run| run.live) || in_transition(environment.state);
    frame.follow(going_on && pager.is_first(), live);
    let github = catalog.links(environment.codebase);
    Ok(render(&Page {
        frame,
        row: EnvironmentRow::load(&catalog, &environment).await?,
        branch_url: github.as_ref().map(|links| links.branch(&environment.branch)),
        name: state.shown(&environment.work.to_string()),
        not_examined: cleanup::not_examined(),
        path: environment.path.display().to_string(),
        base: environment.base.as_ref().map(|base| state.shown(base.as_str())),
        transferred_to: environment.metadata.transferred_to.as_deref().map(|place| state.shown(place)),
        start: environment
            .start
            .as_ref()
            .map(|sha| Named { text: sha.short().to_owned(), url: github.as_ref().map(|links| links.commit(sha)) }),
        links,
        links_elsewhere,
        can_change: environment.state == EnvironmentState::Active,
        next_steps: environment.metadata.next_steps.iter().map(|step| state.prose(step)).collect(),
        beyond_force: environment.metadata.beyond_force,
        trash_days: days(state.inner.orchestrator.trash_for()),
        service_user: rustix::process::geteuid().as_raw(),
        quoted_path: quoted(&environment.path.display().to_string()),
        quoted_branch: quoted(&state.shown(environment.branch.as_str())),
        conversations,
        held,
        runs,
        pager,
        receipt,
        receipt_unreadable,
    }))
}

async fn load(state: &WebState, id: &str) -> Result<Environment, WebError> {
    let id = id.parse().map_err(|_| WebError::NotFound)?;
    state.inner.store.load_environment(id).await?.ok_or(WebError::NotFound)
}

fn in_transition(state: EnvironmentState) -> bool {
    match state {
        EnvironmentState::Creating | EnvironmentState::Removing => true,
        EnvironmentState::Active | EnvironmentState::Destroyed => false,
    }
}

fn view(state: &WebState, receipt: Receipt, work: &Work, repository: &std::path::Path) -> ReceiptView {
    let details = receipt.details;
    let restore = restore_command(&details, repository);
    ReceiptView {
        when: ago(receipt.created_at, state.now()),
        trigger: receipt.trigger.as_str().replace('_', " "),
        actor: details.actor.as_deref().map(|actor| state.shown(actor)),
        commits: details.commits.map(|own| {
            let subjects = details.subjects.iter().map(|subject| state.shown(subject)).collect();
            (count(own, "commit"), subjects)
        }),
        proof: state.prose(&details.proof),
        tip: details.tip.map(String::from),
        branch_deleted: details.branch_deleted,
        freed: details.bytes_freed.map(bytes),
        kept: details.safety_ref.zip(details.kept_until.map(Timestamp::date)),
        only_ignored: details.only_ignored,
        held_up: details.held_up.as_deref().map(|why| state.prose(why)),
        restore: restore.map(|command| state.shown(&command)),
        name: (!details.released).then(|| state.shown(&work.to_string())),
    }
}

/// What a button of the page asks for: the end of its address.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Remove,
    RemoveByForce,
    ForeseeRemoval,
    ForeseeRemovalByForce,
    Restore,
    Pin,
    Unpin,
}

impl FromStr for Verb {
    type Err = WebError;

    fn from_str(text: &str) -> Result<Self, WebError> {
        match text {
            "remove" => Ok(Verb::Remove),
            "remove-by-force" => Ok(Verb::RemoveByForce),
            "foresee-removal" => Ok(Verb::ForeseeRemoval),
            "foresee-removal-by-force" => Ok(Verb::ForeseeRemovalByForce),
            "restore" => Ok(Verb::Restore),
            "pin" => Ok(Verb::Pin),
            "unpin" => Ok(Verb::Unpin),
            _ => Err(WebError::NotFound),
        }
    }
}

pub async fn act(
    State(state): State<WebState>,
    session: Session,
    actor: Actor,
    Path((id, verb)): Path<(String, String)>,
) -> Result<Response, WebError> {
    let verb: Verb = verb.parse()?;
    let environment = load(&state, &id).await?;
    let page = format!("/environments/{}", environment.id);
    let told = match verb {
        Verb::Remove => verbs::remove(&state, environment, false, actor).await?,
        Verb::RemoveByForce => verbs::remove(&state, environment, true, actor).await?,
        Verb::ForeseeRemoval => verbs::foresee(&state, environment, false, actor).await?,
        Verb::ForeseeRemovalByForce => verbs::foresee(&state, environment, true, actor).await?,
        Verb::Restore => verbs::restore(&state, environment, actor).await?,
        Verb::Pin => verbs::pin(&state, environment, true, actor).await?,
        Verb::Unpin => verbs::pin(&state, environment, false, actor).await?,
    };
    told.on(&session, &page).await
}
