//! Smart HTTP: checks the caller, then lets `git http-backend` talk to the client, bodies streamed both ways.
//!
//! A push ends, for the client, only after the world has followed it: whoever saw a push succeed finds its pull requests
//! up to date.

use super::access::Caller;
use crate::demo::github::{Hub, auth::Level, model::Actor, refusal::Refusal};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures::StreamExt;
use std::{io, process::Stdio, sync::Arc};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout},
    sync::{mpsc, oneshot},
};

const CHUNK: usize = 64 * 1024;

pub(super) fn routes() -> Router<Arc<Hub>> {
    Router::new()
        .route("/{owner}/{repo}/info/refs", get(info_refs))
        .route("/{owner}/{repo}/git-upload-pack", post(upload_pack))
        .route("/{owner}/{repo}/git-receive-pack", post(receive_pack))
}

type Place = Path<(String, String)>;

async fn info_refs(State(hub): State<Arc<Hub>>, Path((owner, repo)): Place, request: Request) -> Response {
    let writes = request.uri().query().is_some_and(|query| query.contains("service=git-receive-pack"));
    let full_name = format!("{owner}/{}", repo.trim_end_matches(".git"));
    if let Some(location) = hub.moved_to(&full_name, &request) {
        return (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, location)]).into_response();
    }
    serve(hub, full_name, "info/refs", writes, false, request).await
}

async fn upload_pack(State(hub): State<Arc<Hub>>, Path((owner, repo)): Place, request: Request) -> Response {
    let full_name = format!("{owner}/{}", repo.trim_end_matches(".git"));
    serve(hub, full_name, "git-upload-pack", false, false, request).await
}

async fn receive_pack(State(hub): State<Arc<Hub>>, Path((owner, repo)): Place, request: Request) -> Response {
    let full_name = format!("{owner}/{}", repo.trim_end_matches(".git"));
    serve(hub, full_name, "git-receive-pack", true, true, request).await
}

/// `writes`: needs the right to push. `moves`: may move branches.
async fn serve(
    hub: Arc<Hub>,
    full_name: String,
    service: &'static str,
    writes: bool,
    moves: bool,
    request: Request,
) -> Response {
    let admitted = match hub.admit(&full_name, request.headers(), writes) {
        Ok(admitted) => admitted,
        Err(refused) => return plain(&refused),
    };
    let (parts, body) = request.into_parts();
    let query = parts.uri.query().unwrap_or_default();
    let child = match hub.backend(&admitted, service, parts.method.as_str(), query, &parts.headers) {
        Ok(child) => child,
        Err(error) => return plain(&Refusal::Git(error.to_string())),
    };
    let (head, answered) = oneshot::channel();
    let (chunks, received) = mpsc::channel(4);
    // A task of its own: a client that hangs up must not stop what git has begun.
    tokio::spawn(async move {
        let talk = converse(child, body, head, &chunks);
        let result = match moves {
            true => hub.move_refs(admitted.repository, admitted.actor, talk).await,
            false => talk.await,
        };
        if let Err(refusal) = result {
            tracing::warn!(codebase.name = %full_name, error = %refusal, "git http-backend failed in the stand-in");
            // The client may be gone; then nobody needs to know.
            let _ = chunks.send(Err(io::Error::other(refusal))).await;
        }
    });
    match answered.await {
        Ok((status, headers)) => {
            let rest = futures::stream::unfold(received, |mut received| async {
                received.recv().await.map(|chunk| (chunk, received))
            });
            (status, headers, Body::from_stream(rest)).into_response()
        }
        Err(_) => plain(&Refusal::Git("no answer from git http-backend".to_owned())),
    }
}

pub(super) struct Admitted {
    pub(super) repository: i64,
    actor: Actor,
    login: String,
    /// Apps without the permission `workflows` may not touch workflow files.
    workflows: bool,
}

impl Hub {
    pub(super) fn admit(&self, full_name: &str, headers: &HeaderMap, writes: bool) -> Result<Admitted, Refusal> {
        let caller = self.caller(headers)?;
        let world = self.world();
        let repository = world.repository_named(full_name)?.id;
        let level = if writes { Level::Write } else { Level::Read };
        caller.may(&world, repository, &["contents"], level)?;
        let actor = caller.actor(&world);
        let workflows = match &caller {
            Caller::Grant(grant) => grant.permissions.contains_key("workflows"),
            Caller::App | Caller::Person(_) => true,
        };
        Ok(Admitted { repository, actor, login: world.login(actor.account).to_owned(), workflows })
    }

    /// The address of a repository that has another name now.
    fn moved_to(&self, full_name: &str, request: &Request) -> Option<String> {
        let world = self.world();
        if world.find_repository(full_name).is_some() {
            return None;
        }
        let id = world.former_names.get(&full_name.to_ascii_lowercase())?;
        let query = request.uri().query().unwrap_or_default();
        Some(format!("{}/{}.git/info/refs?{query}", world.base, world.full_name(world.repository(*id).ok()?)))
    }

    /// Starts git's own CGI program, which also unpacks compressed bodies.
    fn backend(
        &self,
        admitted: &Admitted,
        service: &str,
        method: &str,
        query: &str,
        headers: &HeaderMap,
    ) -> io::Result<Child> {
        let mut command = self.git.command();
        command
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", self.git.root())
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("PATH_INFO", format!("/{}.git/{service}", admitted.repository))
            .env("REQUEST_METHOD", method)
            .env("QUERY_STRING", query)
            .env("REMOTE_USER", &admitted.login)
            .env("REMOTE_ADDR", "127.0.0.1");
        if !admitted.workflows {
            command.env("STANDIN_NO_WORKFLOWS", "1");
        }
        let passed = [
            ("content-type", "CONTENT_TYPE"),
            ("content-length", "CONTENT_LENGTH"),
            ("content-encoding", "HTTP_CONTENT_ENCODING"),
            ("git-protocol", "GIT_PROTOCOL"),
        ];
        for (name, variable) in passed {
            if let Some(value) = headers.get(name).and_then(|value| value.to_str().ok()) {
                command.env(variable, value);
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    }
}

type Head = (StatusCode, HeaderMap);
type Chunk = Result<Bytes, io::Error>;

/// Feeds the request to the program and its answer to the client until it ends.
async fn converse(
    mut child: Child,
    body: Body,
    head: oneshot::Sender<Head>,
    chunks: &mpsc::Sender<Chunk>,
) -> Result<(), Refusal> {
    let failed = |error: io::Error| Refusal::Git(error.to_string());
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Refusal::Git("git http-backend has no pipes".to_owned()));
    };
    let feeding = tokio::spawn(feed(stdin, body));
    let mut stdout = BufReader::with_capacity(CHUNK, stdout);
    let answer = read_head(&mut stdout).await.map_err(failed)?;
    // A client that is gone hears nothing; git is still read to its end.
    let _ = head.send(answer);
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        if stdout.read_buf(&mut chunk).await.map_err(failed)? == 0 {
            break;
        }
        let _ = chunks.send(Ok(chunk.into())).await;
    }
    feeding.abort();
    child.wait().await.map_err(failed)?;
    Ok(())
}

async fn feed(mut stdin: ChildStdin, body: Body) {
    let mut body = body.into_data_stream();
    while let Some(Ok(chunk)) = body.next().await {
        // The program may answer without reading everything.
        if stdin.write_all(&chunk).await.is_err() {
            return;
        }
    }
}

/// The header lines of a CGI answer: `Status:` (200 without it) and others, up to an empty line.
async fn read_head(stdout: &mut BufReader<ChildStdout>) -> io::Result<Head> {
    let (mut status, mut headers) = (StatusCode::OK, HeaderMap::new());
    loop {
        let mut line = String::new();
        if stdout.read_line(&mut line).await? == 0 {
            return Err(io::Error::other("git http-backend ended without an answer"));
        }
        let line = line.trim_end();
        if line.is_empty() {
            return Ok((status, headers));
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().and_then(|code| code.parse().ok());
            status = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        } else if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
}

/// Refusals in plain text, which git shows to its user as `remote: …`.
pub(super) fn plain(refusal: &Refusal) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    match refusal {
        Refusal::Unauthorized(_) => {
            let ask = [(header::WWW_AUTHENTICATE, "Basic realm=\"GitHub\"")];
            (StatusCode::UNAUTHORIZED, kind, ask, "Invalid username or token.\n").into_response()
        }
        Refusal::NotFound(_) => (StatusCode::NOT_FOUND, kind, "Repository not found.\n").into_response(),
        Refusal::Git(error) => (StatusCode::INTERNAL_SERVER_ERROR, kind, format!("{error}\n")).into_response(),
        Refusal::Forbidden(_) | Refusal::NotAllowed(_) | Refusal::Conflict(_) | Refusal::Invalid(_) => {
            (StatusCode::FORBIDDEN, kind, "Write access to repository not granted.\n").into_response()
        }
    }
}
