//! Whether another process keeps this one from a SQLite file, asked without opening it as a database, which would leave
//! files beside it.

use rustix::{
    fs::OFlags,
    process::{Flock, FlockType, fcntl_getlk},
};
use std::{fs::File, os::unix::fs::OpenOptionsExt, path::Path, time::Duration};
use tokio::time::{Instant, sleep};

/// From the pending byte to the last shared one: <https://www.sqlite.org/fileformat.html#the_lock_byte_page>.
const LOCK_BYTES: (u64, u64) = (0x4000_0000, 512);
/// In the index of the log, the byte of whoever writes: <https://www.sqlite.org/walformat.html#locks>.
const WRITER: (u64, u64) = (120, 1);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A process that has a database to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Absent where it is none of this container's.
    pub process: Option<i32>,
}

/// Who still has the file after `patience`. Only for a process that has it not open: closing it again gives back every
/// lock that this process has on it.
pub(in crate::store) async fn holder(path: &Path, patience: Duration) -> Option<Holder> {
    let end = Instant::now() + patience;
    loop {
        let holder = holder_now(path)?;
        if Instant::now() >= end {
            return Some(holder);
        }
        sleep(LOOK_AGAIN).await;
    }
}

fn holder_now(path: &Path) -> Option<Holder> {
    let index = super::open::beside(path, "-shm");
    [(path, LOCK_BYTES), (&index, WRITER)].into_iter().find_map(|(file, (start, length))| {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(file).ok()?;
        let wanted = Flock { start, length, ..Flock::from(FlockType::ReadLock) };
        let lock = fcntl_getlk(&file, &wanted).ok()??;
        Some(Holder { process: lock.pid.map(|process| process.as_raw_nonzero().get()) })
    })
}
