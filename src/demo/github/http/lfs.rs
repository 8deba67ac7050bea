//! Git LFS: the batch API, and the objects themselves, which lie beside a repository's own and are named by their SHA-256.

use super::git::plain;
use crate::demo::github::{Hub, refusal::Refusal};
use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{path::PathBuf, sync::Arc};

pub(super) fn routes() -> Router<Arc<Hub>> {
    Router::new()
        .route("/{owner}/{repo}/info/lfs/objects/batch", post(batch))
        .route("/{owner}/{repo}/info/lfs/objects/{oid}", get(download).put(upload))
}

#[derive(serde::Deserialize)]
struct Batch {
    operation: String,
    objects: Vec<Wanted>,
}

#[derive(serde::Deserialize)]
struct Wanted {
    oid: String,
    size: u64,
}

type Place = Path<(String, String)>;
type ObjectPlace = Path<(String, String, String)>;

async fn batch(
    State(hub): State<Arc<Hub>>,
    Path((owner, repo)): Place,
    headers: HeaderMap,
    Json(asked): Json<Batch>,
) -> Response {
    let uploads = asked.operation == "upload";
    let address = format!("{}/{owner}/{repo}/info/lfs/objects", hub.world().base);
    // Whoever may ask here may ask there.
    let access = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let answer = |object: &Wanted| -> Result<Value, Refusal> {
        let there = hub.object(&owner, &repo, &headers, &object.oid, uploads)?.is_file();
        let action = json!({
            "href": format!("{address}/{}", object.oid),
            "header": { "Authorization": access },
        });
        let mut answer = json!({ "oid": object.oid, "size": object.size });
        match (uploads, there) {
            (true, true) => {}
            (true, false) => answer["actions"] = json!({ "upload": action }),
            (false, true) => answer["actions"] = json!({ "download": action }),
            (false, false) => answer["error"] = json!({ "code": 404, "message": "Object does not exist" }),
        }
        Ok(answer)
    };
    match asked.objects.iter().map(answer).collect::<Result<Vec<_>, _>>() {
        Ok(objects) => Json(json!({ "transfer": "basic", "objects": objects })).into_response(),
        Err(refusal) => plain(&refusal),
    }
}

async fn download(State(hub): State<Arc<Hub>>, Path((owner, repo, oid)): ObjectPlace, headers: HeaderMap) -> Response {
    let read = hub
        .object(&owner, &repo, &headers, &oid, false)
        .and_then(|path| std::fs::read(path).map_err(|_| Refusal::missing("object")));
    read.map_or_else(|refusal| plain(&refusal), IntoResponse::into_response)
}

async fn upload(
    State(hub): State<Arc<Hub>>,
    Path((owner, repo, oid)): ObjectPlace,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let kept = hub.object(&owner, &repo, &headers, &oid, true).and_then(|path| {
        if hex::encode(Sha256::digest(&body)) != oid {
            return Err(Refusal::invalid("the object is another one"));
        }
        let directory = path.parent().unwrap_or(&path);
        let kept = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, &body));
        kept.map_err(|error| Refusal::Git(error.to_string()))
    });
    kept.map_or_else(|refusal| plain(&refusal), IntoResponse::into_response)
}

impl Hub {
    /// Where an object of a repository is, or would be, for a caller who may read it, or write there.
    fn object(
        &self,
        owner: &str,
        repo: &str,
        headers: &HeaderMap,
        oid: &str,
        writes: bool,
    ) -> Result<PathBuf, Refusal> {
        let full_name = format!("{owner}/{}", repo.trim_end_matches(".git"));
        let repository = self.admit(&full_name, headers, writes)?.repository;
        if oid.len() != 64 || !oid.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Refusal::invalid("not the name of an object"));
        }
        Ok(self.git.dir(repository).join("lfs/objects").join(oid))
    }
}
