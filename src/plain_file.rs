//! Reading files in whose place anything may stand: a pipe, a directory, a link to elsewhere, more than anybody could hold.
//! Nothing here waits for a writer, and nothing reads on without an end.
//!
//! What may not live here: what a file means, or what follows from one that is none. Every room that reads files which
//! others can write may use this.

use rustix::fs::OFlags;
use std::{
    fs,
    io::{self, ErrorKind, Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// What becomes of a link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    Follow,
    /// It is no file.
    Refuse,
}

/// Opens a file for reading. What is none is an error of the kind [`ErrorKind::InvalidData`].
pub fn open(path: &Path, links: Links) -> io::Result<fs::File> {
    let (flags, meta) = match links {
        Links::Follow => (OFlags::NONBLOCK, fs::metadata(path)),
        Links::Refuse => (OFlags::NONBLOCK | OFlags::NOFOLLOW, fs::symlink_metadata(path)),
    };
    // Before it is opened, which has effects on some devices; and after, as it may have become another one.
    check(&meta?)?;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// All of a file that has at most `most` bytes; a longer one is an error of the kind [`ErrorKind::InvalidData`].
pub fn read(path: &Path, links: Links, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path, links)?;
    let too_long = || io::Error::new(ErrorKind::InvalidData, format!("it is longer than {most} bytes"));
    if file.metadata()?.len() > most {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    // It may be growing, or have no length, as in procfs.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_long()) } else { Ok(bytes) }
}

/// The same of a file that holds text.
pub fn read_text(path: &Path, links: Links, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, links, most)?).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is no text"))
}

/// The first `most` bytes of a file, or all of it.
pub fn read_start(path: &Path, links: Links, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, links)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The last `most` bytes of a file, or all of it.
pub fn read_end(path: &Path, links: Links, most: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path, links)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn check(meta: &fs::Metadata) -> io::Result<()> {
    match meta.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(ErrorKind::InvalidData, "it is no file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::{fs::symlink, net::UnixListener};

    #[test]
    fn only_a_file_is_read_and_nobody_is_waited_for() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let kind = |name: &str, links| open(&at(name), links).map(drop).map_err(|error| error.kind());
        fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        symlink("pipe", at("link to a pipe")).unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        for links in [Links::Follow, Links::Refuse] {
            assert_eq!(kind("file", links), Ok(()));
            assert_eq!(kind("none", links), Err(ErrorKind::NotFound));
            for name in [".", "pipe", "socket", "link to a pipe"] {
                assert_eq!(kind(name, links), Err(ErrorKind::InvalidData), "{name}");
            }
        }
        assert_eq!(kind("link", Links::Follow), Ok(()));
        assert_eq!(kind("link", Links::Refuse), Err(ErrorKind::InvalidData));
    }

    #[test]
    fn no_more_is_read_than_was_asked_for() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, Links::Refuse, 5).unwrap(), b"12345");
        assert_eq!(read(&path, Links::Refuse, 4).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(read_text(&path, Links::Refuse, 5).unwrap(), "12345");
        assert_eq!(read_end(&path, Links::Refuse, 2).unwrap(), b"45");
        assert_eq!(read_end(&path, Links::Refuse, 9).unwrap(), b"12345");
        // A file without a length.
        assert!(read(Path::new("/proc/self/status"), Links::Follow, 10).is_err());
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, Links::Follow, 9).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
