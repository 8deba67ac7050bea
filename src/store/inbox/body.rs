//! Bodies are kept compressed: small rows are what makes accepting fast.

use super::super::{StoreError, corrupt};
use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use std::io::{Read, Write};

/// Larger bodies are packed away from the threads that serve requests.
const LARGE: usize = 128 * 1024;

pub(super) async fn pack(body: Vec<u8>) -> Result<Vec<u8>, StoreError> {
    if body.len() < LARGE {
        return compress(&body);
    }
    tokio::task::spawn_blocking(move || compress(&body))
        .await
        .map_err(|error| StoreError::Failed(format!("packing a delivery: {error}")))?
}

/// What stands where a body was.
pub(in crate::store) async fn empty() -> Result<Vec<u8>, StoreError> {
    pack(Vec::new()).await
}

pub(super) fn unpack(packed: &[u8]) -> Result<Vec<u8>, StoreError> {
    let mut body = Vec::new();
    ZlibDecoder::new(packed).read_to_end(&mut body).map_err(|error| corrupt("body", error))?;
    Ok(body)
}

fn compress(body: &[u8]) -> Result<Vec<u8>, StoreError> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder
        .write_all(body)
        .and_then(|()| encoder.finish())
        .map_err(|error| StoreError::Failed(format!("packing a delivery: {error}")))
}
