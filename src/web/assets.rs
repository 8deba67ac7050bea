//! Files embedded in the binary. Their addresses carry a hash of the content, so browsers may keep them for ever.

use super::error::WebError;
use axum::{
    extract::Path,
    http::header::{CACHE_CONTROL, CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use rust_embed::{EmbeddedFile, RustEmbed};

#[derive(RustEmbed)]
#[folder = "static/"]
struct Files;

/// The addresses every page needs.
pub struct Urls {
    pub css: String,
    pub icon: String,
}

impl Urls {
    pub fn new() -> Self {
        Self { css: url("treewarden.css"), icon: url("treewarden.svg") }
    }
}

/// `/assets/<first 12 digits of its SHA-256>/<name>`.
fn url(name: &str) -> String {
    format!("/assets/{}/{name}", Files::get(name).map(|file| hash(&file)).unwrap_or_default())
}

fn hash(file: &EmbeddedFile) -> String {
    hex::encode(&file.metadata.sha256_hash()[..6])
}

pub async fn serve(Path((wanted, name)): Path<(String, String)>) -> Result<Response, WebError> {
    let file = Files::get(&name).ok_or(WebError::NotFound)?;
    // A page of another version, during an upgrade: what this version has will do, but not for ever.
    let lifetime = if hash(&file) == wanted { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = [(CONTENT_TYPE, file.metadata.mimetype().to_owned()), (CACHE_CONTROL, lifetime.to_owned())];
    Ok((headers, file.data).into_response())
}
