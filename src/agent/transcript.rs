//! What is kept of an agent's output: in memory a limited answer, on disk a limited log, both with secrets taken out.
//!
//! However much an agent prints, memory stays flat: beginnings are kept as they come, ends in a window that slides.

use crate::model::terminal_text;
use crate::telemetry::{RedactStream, Redactor};
use std::{io, os::unix::fs::DirBuilderExt, path::Path};
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt;

/// Bytes of an answer kept from its beginning; more than the comments that one answer becomes can hold.
const ANSWER_HEAD: usize = 256 * 1024;
const ANSWER_TAIL: usize = 64 * 1024;
/// Bytes of the log's end that wait in memory until the turn is over.
const LOG_TAIL: usize = 256 * 1024;
/// Enough of standard error to quote its last line.
const ERROR_TAIL: usize = 4 * 1024;
/// Longest line taken for a status.
const MAX_STATUS: usize = 400;
const STATUS_MARK: &[u8] = b"::status ";

/// The last bytes of something longer.
struct Tail {
    bytes: Vec<u8>,
    limit: usize,
    total: u64,
    /// The window's first line may be half of one, even before the window has moved.
    cut: bool,
}

impl Tail {
    fn new(limit: usize, cut: bool) -> Self {
        Self { bytes: Vec::new(), limit, total: 0, cut }
    }

    fn push(&mut self, chunk: &[u8]) {
        self.total += chunk.len() as u64;
        let chunk = &chunk[chunk.len().saturating_sub(self.limit)..];
        self.bytes.extend_from_slice(chunk);
        // Moving the window only when twice as much has come makes each byte move once.
        if self.bytes.len() > 2 * self.limit {
            self.bytes.drain(..self.bytes.len() - self.limit);
        }
    }

    /// How much is left out before the window, and the window. Unless it holds everything, it begins behind a line
    /// break: half a line could be half a secret, which nothing would recognise.
    fn finish(mut self) -> (u64, Vec<u8>) {
        self.bytes.drain(..self.bytes.len().saturating_sub(self.limit));
        if self.cut || self.total > self.bytes.len() as u64 {
            let line_start = self.bytes.iter().position(|byte| *byte == b'\n').map_or(self.bytes.len(), |at| at + 1);
            self.bytes.drain(..line_start);
        }
        (self.total - self.bytes.len() as u64, self.bytes)
    }
}

/// Beginning and end of one stream.
pub(super) struct Excerpt {
    head: Vec<u8>,
    head_limit: usize,
    tail: Tail,
}

impl Excerpt {
    pub fn answer() -> Self {
        Self::new(ANSWER_HEAD, ANSWER_TAIL)
    }

    /// The last lines only.
    pub fn errors() -> Self {
        Self::new(0, ERROR_TAIL)
    }

    fn new(head_limit: usize, tail_limit: usize) -> Self {
        Self { head: Vec::new(), head_limit, tail: Tail::new(tail_limit, false) }
    }

    pub fn push(&mut self, chunk: &[u8]) {
        let (head, rest) = chunk.split_at(chunk.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.push(rest);
    }

    /// As text for people, redacted, without terminal control sequences, saying how much was left out.
    pub fn into_text(self, redactor: &Redactor) -> String {
        let (omitted, tail) = self.tail.finish();
        if omitted == 0 {
            return redactor.redact(&plain_text(&[self.head, tail].concat()));
        }
        // Not finished on purpose: what the stream holds back may be the beginning of a secret.
        let mut head = Vec::new();
        redactor.stream().push(plain_text(&self.head).as_bytes(), &mut head);
        let mut text = String::from_utf8_lossy(&head).into_owned();
        if self.head_limit > 0 {
            text.push_str(&format!("\n… {omitted} bytes left out …\n\n"));
        }
        text + &redactor.redact(&plain_text(&tail))
    }
}

/// Any bytes as text: invalid UTF-8 replaced.
fn plain_text(bytes: &[u8]) -> String {
    terminal_text(&String::from_utf8_lossy(bytes))
}

/// Finds `::status …` lines in a stream.
#[derive(Default)]
pub(super) struct StatusLines {
    line: Vec<u8>,
    /// The line is longer than any status.
    overlong: bool,
}

impl StatusLines {
    /// The statuses that `chunk` completes.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            self.overlong |= self.line.len() + text.len() > MAX_STATUS;
            if !self.overlong {
                self.line.extend_from_slice(text);
            }
            if ends {
                found.extend(self.line.strip_prefix(STATUS_MARK).filter(|_| !self.overlong).and_then(status));
                *self = Self::default();
            }
        }
        found
    }
}

fn status(text: &[u8]) -> Option<String> {
    let text = plain_text(text).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// The log of one turn. What is beyond its limit is left out between beginning and end.
pub(super) struct Log {
    file: File,
    redactor: Redactor,
    stdout: RedactStream,
    stderr: RedactStream,
    head_left: u64,
    tail: Tail,
    /// The first failure to write; the agent goes on without a log.
    broken: Option<io::Error>,
}

#[derive(Clone, Copy)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Log {
    /// Appends to `path`, which only the owner can read.
    pub async fn open(path: &Path, limit: u64, redactor: &Redactor) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).await?;
        let tail_limit = LOG_TAIL.min(usize::try_from(limit / 4).unwrap_or(LOG_TAIL));
        Ok(Self {
            file,
            redactor: redactor.clone(),
            stdout: redactor.stream(),
            stderr: redactor.stream(),
            head_left: limit - tail_limit as u64,
            tail: Tail::new(tail_limit, true),
            broken: None,
        })
    }

    pub async fn push(&mut self, stream: Stream, chunk: &[u8]) {
        let in_head = chunk.len().min(usize::try_from(self.head_left).unwrap_or(usize::MAX));
        let (head, rest) = chunk.split_at(in_head);
        self.head_left -= in_head as u64;
        if !head.is_empty() {
            let mut clean = Vec::with_capacity(head.len());
            match stream {
                Stream::Stdout => self.stdout.push(head, &mut clean),
                Stream::Stderr => self.stderr.push(head, &mut clean),
            }
            if self.broken.is_none() {
                self.broken = append(&mut self.file, &clean).await.err();
            }
        }
        self.tail.push(rest);
    }

    /// Writes what was held back. The failure that made the log incomplete, when there was one.
    pub async fn finish(self) -> Option<io::Error> {
        let Self { mut file, redactor, stdout, stderr, head_left, tail, broken } = self;
        let (omitted, tail) = tail.finish();
        let mut rest = Vec::new();
        if head_left > 0 {
            stdout.finish(&mut rest);
            stderr.finish(&mut rest);
        } else {
            // What the streams hold back may be the beginning of a secret and is left out with the middle.
            rest.extend_from_slice(format!("\n… {omitted} bytes left out …\n").as_bytes());
            let mut ending = redactor.stream();
            ending.push(&tail, &mut rest);
            ending.finish(&mut rest);
        }
        match broken {
            None => append(&mut file, &rest).await.err(),
            broken => broken,
        }
    }
}

/// Keeps what the agent is told beside what it says, in `<run>.prompt` next to `<run>.log`: the file that it reads from its
/// beginning, whatever becomes of the service meanwhile.
pub(super) async fn keep_prompt(log: &Path, prompt: &str, redactor: &Redactor) -> io::Result<std::fs::File> {
    let path = log.with_extension("prompt");
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&path).await?;
    append(&mut file, redactor.redact(prompt).as_bytes()).await?;
    // Another handle, which can only be read and stands at the beginning.
    Ok(File::open(&path).await?.into_std().await)
}

/// Flushed at once: readers follow the log while the agent works.
async fn append(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes).await?;
    file.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answers_keep_both_ends() {
        let mut excerpt = Excerpt::new(10, 10);
        for chunk in [b"one\ntwo\nth".as_slice(), b"ree\n", &b"middle\n".repeat(50), b"last\nend\n"] {
            excerpt.push(chunk);
        }
        assert_eq!(excerpt.into_text(&Redactor::new([])), "one\ntwo\nth\n… 354 bytes left out …\n\nlast\nend\n");
        let mut short = Excerpt::new(4, 10);
        short.push(b"all of it");
        assert_eq!(short.into_text(&Redactor::new([])), "all of it");
    }

    #[test]
    fn a_secret_cut_by_the_window_is_not_shown_in_part() {
        let mut excerpt = Excerpt::new(24, 24);
        excerpt.push(format!("a\nghs_{0}\n{1}\nghs_{0}\nb\n", "0123456789".repeat(3), "x".repeat(99)).as_bytes());
        let text = excerpt.into_text(&Redactor::new([]));
        assert!(!text.contains("0123"), "{text}");
    }

    #[test]
    fn terminal_sequences_and_binary_become_text() {
        assert_eq!(plain_text(b"\x1b[1;31mred\x1b[0m\x00 \xff\r\n\tok\x1b"), "red \u{fffd}\n\tok");
        assert_eq!(plain_text(b"\x1b]0;title\x07answer"), "answer");
    }

    #[test]
    fn statuses_are_found_across_chunks() {
        let mut lines = StatusLines::default();
        assert_eq!(lines.push(b"noise\n::sta"), Vec::<String>::new());
        assert_eq!(lines.push(b"tus running tests\n::status \n::status two\x1b[0m\r\nx"), ["running tests", "two"]);
        assert_eq!(lines.push(b"::status not at the start\n"), Vec::<String>::new());
        assert_eq!(lines.push(&[b"::status ", "x".repeat(500).as_bytes(), b"\n"].concat()), Vec::<String>::new());
        assert_eq!(lines.push(b"::status again\n"), ["again"]);
    }
}
