//! Bodies are kept compressed: small rows are what makes accepting fast.

use super::super::{StoreError, corrupt};
use flate2::{Compress, Compression, FlushCompress, Status, read::ZlibDecoder};
use std::{cell::RefCell, io::Read};

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
    // Making one anew takes longer than most bodies do.
    thread_local! {
        static PACKER: RefCell<Compress> = RefCell::new(Compress::new(Compression::fast(), true));
    }
    PACKER.with_borrow_mut(|packer| {
        packer.reset();
        let mut packed = Vec::with_capacity(body.len() / 4 + 64);
        loop {
            let rest = &body[packer.total_in() as usize..];
            match packer.compress_vec(rest, &mut packed, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => return Ok(packed),
                Ok(Status::Ok | Status::BufError) => packed.reserve(body.len() / 4 + 64),
                Err(error) => return Err(StoreError::Failed(format!("packing a delivery: {error}"))),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_packed_comes_back_whatever_was_packed_before_it() {
        let noise = |length: u32| (0..length).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        for body in [Vec::new(), b"{}".to_vec(), noise(100_000), vec![b'x'; 100_000], noise(1), noise(3_000_000)] {
            let packed = pack(body.clone()).await.unwrap();
            assert!(unpack(&packed).unwrap() == body, "{} bytes", body.len());
        }
    }
}
