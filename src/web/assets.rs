//! Files embedded in the binary. Their addresses carry a hash of the content, so browsers may keep them for ever.

use super::error::WebError;
use axum::{
    extract::Path,
    http::header::{CACHE_CONTROL, CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "static/"]
struct Files;

/// The address of a file: `/assets/<first 12 digits of its SHA-256>/<name>`.
pub fn url(name: &str) -> String {
    let hash = Files::get(name).map(|file| hex::encode(&file.metadata.sha256_hash()[..6])).unwrap_or_default();
    format!("/assets/{hash}/{name}")
}

pub async fn serve(Path(path): Path<String>) -> Result<Response, WebError> {
    let (_, name) = path.split_once('/').ok_or(WebError::NotFound)?;
    let file = Files::get(name).ok_or(WebError::NotFound)?;
    let headers = [
        (CONTENT_TYPE, file.metadata.mimetype().to_owned()),
        (CACHE_CONTROL, "public, max-age=31536000, immutable".to_owned()),
    ];
    Ok((headers, file.data).into_response())
}
