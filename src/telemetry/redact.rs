//! Takes secrets out of text that leaves: log lines, comments, run logs. Pure.
//!
//! Known secrets are found as they are, in base64 (in each of the three ways they can lie in the encoding) and
//! percent-encoded; unknown ones by the shape of GitHub's tokens and of PEM keys. Text may come in chunks cut anywhere:
//! [`RedactStream`] holds back just those last bytes that may be the beginning of a secret.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::{Engine, alphabet, engine::GeneralPurpose, engine::general_purpose::NO_PAD};
use secrecy::{ExposeSecret, SecretString};
use std::{fmt, mem, sync::Arc};

const MARK: &[u8] = b"[redacted]";
/// Shorter known secrets are not looked for: they would take ordinary words out of every text.
const MIN_SECRET: usize = 8;
/// Lines of a PEM file shorter than this are not specific to it.
const MIN_LINE: usize = 16;
/// Fewer characters behind a token's prefix are prose about tokens, not a token.
const MIN_TOKEN: usize = 10;
/// GitHub's documented token prefixes; `ghs_` is an App's installation token.
const TOKEN_PREFIXES: [&str; 6] = ["ghs_", "ghp_", "gho_", "ghu_", "ghr_", "github_pat_"];
const KEY_BEGIN: &str = "-----BEGIN ";
const KEY_END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";
/// `RSA PRIVATE KEY`, `PGP PRIVATE KEY BLOCK` and the like.
const MAX_LABEL: usize = 40;
/// A key without an end is over after this many bytes, so that one line cannot hide a whole log.
const MAX_KEY: usize = 16 * 1024;

/// Knows what to take out. A cheap handle.
#[derive(Clone)]
pub struct Redactor {
    patterns: Arc<Patterns>,
}

struct Patterns {
    /// Token prefixes, then [`KEY_BEGIN`], then the known secrets' variants.
    needles: Vec<Vec<u8>>,
    automaton: Option<AhoCorasick>,
    longest: usize,
}

impl Redactor {
    /// Knows `secrets` and the common token shapes.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a SecretString>) -> Self {
        let mut known: Vec<Vec<u8>> = secrets.into_iter().flat_map(|secret| variants(secret.expose_secret())).collect();
        known.sort();
        known.dedup();
        let shapes = TOKEN_PREFIXES.iter().chain([&KEY_BEGIN]).map(|shape| shape.as_bytes().to_vec());
        let needles: Vec<Vec<u8>> = shapes.chain(known).collect();
        let longest = needles.iter().map(Vec::len).max().unwrap_or_default();
        // A full table of transitions takes 7 MB for one private key, and each run has a redactor of its own.
        let mut builder = AhoCorasick::builder();
        builder.match_kind(MatchKind::LeftmostLongest).kind(Some(AhoCorasickKind::ContiguousNFA));
        // Building fails only for more than two billion patterns.
        let automaton = builder.build(&needles).ok();
        Self { patterns: Arc::new(Patterns { needles, automaton, longest }) }
    }

    /// The text with `[redacted]` in the place of each secret.
    pub fn redact(&self, text: &str) -> String {
        let mut clean = Vec::with_capacity(text.len());
        let mut stream = self.stream();
        stream.push(text.as_bytes(), &mut clean);
        stream.finish(&mut clean);
        String::from_utf8_lossy(&clean).into_owned()
    }

    /// For text that comes in chunks.
    pub fn stream(&self) -> RedactStream {
        RedactStream { patterns: self.patterns.clone(), held: Vec::new(), state: State::Text }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

/// One text in chunks. Dropping it without [`finish`](Self::finish) forgets the few bytes that were held back.
pub struct RedactStream {
    patterns: Arc<Patterns>,
    held: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Text,
    /// Within a token whose mark was written already.
    Token,
    /// Within a PEM key whose mark was written already.
    Key {
        swallowed: usize,
    },
}

/// What a find in the text turned out to be.
enum Verdict {
    Secret { end: usize, then: State },
    Harmless,
    Undecided,
}

impl RedactStream {
    /// Appends to `out` what of `chunk`, and of what was held back before, is known to be clean.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(chunk);
        self.advance(out, false);
    }

    /// The text is over: appends the rest to `out`.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.advance(out, true);
    }

    fn advance(&mut self, out: &mut Vec<u8>, last: bool) {
        let buffer = mem::take(&mut self.held);
        let mut at = 0;
        while at < buffer.len() {
            let (next, go_on) = match self.state {
                State::Token => (self.skip_token(&buffer, at), true),
                State::Key { swallowed } => self.skip_key(&buffer, at, swallowed, last),
                State::Text => self.copy_text(&buffer, at, out, last),
            };
            at = next;
            if !go_on {
                break;
            }
        }
        self.held = buffer[at..].to_vec();
    }

    fn skip_token(&mut self, buffer: &[u8], at: usize) -> usize {
        let length = token_length(&buffer[at..]);
        if at + length < buffer.len() {
            self.state = State::Text;
        }
        at + length
    }

    fn skip_key(&mut self, buffer: &[u8], at: usize, swallowed: usize, last: bool) -> (usize, bool) {
        if let Some(end) = find(&buffer[at..], KEY_END).map(|offset| at + offset) {
            let label = end + KEY_END.len();
            let window = &buffer[label..buffer.len().min(label + MAX_LABEL + DASHES.len())];
            return match find(window, DASHES) {
                None if !last && buffer.len() < label + MAX_LABEL + DASHES.len() => (end, false),
                closing => {
                    self.state = State::Text;
                    (label + closing.map_or(0, |offset| offset + DASHES.len()), true)
                }
            };
        }
        // The end mark itself may be cut by the border of the chunk.
        let next = if last { buffer.len() } else { at.max((buffer.len() + 1).saturating_sub(KEY_END.len())) };
        let swallowed = swallowed + (next - at);
        self.state = if swallowed > MAX_KEY { State::Text } else { State::Key { swallowed } };
        (next, swallowed > MAX_KEY)
    }

    /// Copies clean text up to the next secret, or up to where a secret may begin. Says where to go on and whether that
    /// can be done before more text has come.
    fn copy_text(&mut self, buffer: &[u8], at: usize, out: &mut Vec<u8>, last: bool) -> (usize, bool) {
        let hold = if last { buffer.len() } else { self.patterns.may_begin_at(buffer, at) };
        let found = self.patterns.find(buffer, at).filter(|(start, ..)| *start < hold);
        let Some((start, end, needle)) = found else {
            out.extend_from_slice(&buffer[at..hold]);
            return (hold, false);
        };
        match judge(buffer, end, needle, last) {
            Verdict::Secret { end, then } => {
                out.extend_from_slice(&buffer[at..start]);
                out.extend_from_slice(MARK);
                self.state = then;
                (end, true)
            }
            // Only its first byte is known to be clean: another secret may begin within it.
            Verdict::Harmless => {
                out.extend_from_slice(&buffer[at..=start]);
                (start + 1, true)
            }
            Verdict::Undecided => {
                out.extend_from_slice(&buffer[at..start]);
                (start, false)
            }
        }
    }
}

/// Decides about the find of `needle` that ends at `end`.
fn judge(buffer: &[u8], end: usize, needle: usize, last: bool) -> Verdict {
    let rest = &buffer[end..];
    if needle < TOKEN_PREFIXES.len() {
        let length = token_length(rest);
        return match length {
            MIN_TOKEN.. => Verdict::Secret { end: end + length, then: State::Token },
            _ if length == rest.len() && !last => Verdict::Undecided,
            _ => Verdict::Harmless,
        };
    }
    if needle == TOKEN_PREFIXES.len() {
        let label = rest.iter().take(MAX_LABEL).take_while(|b| b.is_ascii_uppercase() || b" 0123456789".contains(b));
        let length = label.count();
        let closing = &rest[length..rest.len().min(length + DASHES.len())];
        return if closing == DASHES && find(&rest[..length], b"KEY").is_some() {
            Verdict::Secret { end: end + length + DASHES.len(), then: State::Key { swallowed: 0 } }
        } else if !last && length < MAX_LABEL && closing.len() < DASHES.len() && DASHES.starts_with(closing) {
            Verdict::Undecided
        } else {
            Verdict::Harmless
        };
    }
    Verdict::Secret { end, then: State::Text }
}

impl Patterns {
    /// The first find from `at` on: where it starts and ends, and which needle it is.
    fn find(&self, buffer: &[u8], at: usize) -> Option<(usize, usize, usize)> {
        let found = self.automaton.as_ref()?.find(&buffer[at..])?;
        Some((at + found.start(), at + found.end(), found.pattern().as_usize()))
    }

    /// The first place, from `at` on, where the buffer's end is the beginning of a needle; its length when nowhere.
    fn may_begin_at(&self, buffer: &[u8], at: usize) -> usize {
        let first = at.max((buffer.len() + 1).saturating_sub(self.longest));
        let begins = |start: &usize| {
            let tail = &buffer[*start..];
            self.needles.iter().any(|needle| needle.len() > tail.len() && needle.starts_with(tail))
        };
        (first..buffer.len()).find(begins).unwrap_or(buffer.len())
    }
}

/// How many bytes at the beginning of `bytes` can belong to a token. Newer installation tokens carry a signed part with
/// dots and dashes.
fn token_length(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| b.is_ascii_alphanumeric() || b"_-.".contains(b)).count()
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// The ways in which a known secret may show up.
fn variants(secret: &str) -> Vec<Vec<u8>> {
    let secret = secret.trim();
    if secret.len() < MIN_SECRET {
        return Vec::new();
    }
    let mut found = vec![secret.as_bytes().to_vec()];
    if secret.contains('\n') {
        found
            .extend(secret.lines().map(str::trim).filter(|line| line.len() >= MIN_LINE).map(|l| l.as_bytes().to_vec()));
    }
    for alphabet in [alphabet::STANDARD, alphabet::URL_SAFE] {
        let engine = GeneralPurpose::new(&alphabet, NO_PAD);
        found.extend((0..3).map(|offset| base64_core(&engine, secret.as_bytes(), offset)));
    }
    for hex in ["0123456789ABCDEF", "0123456789abcdef"] {
        found.push(percent_encoded(secret.as_bytes(), hex.as_bytes()));
    }
    found.retain(|variant| variant.len() >= MIN_SECRET);
    found
}

/// The base64 characters that `secret` alone decides when `offset` bytes (modulo three) stand before it.
fn base64_core(engine: &GeneralPurpose, secret: &[u8], offset: usize) -> Vec<u8> {
    let padded = [&[0; 2][..offset], secret].concat();
    let encoded = engine.encode(&padded).into_bytes();
    let first = (offset * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    encoded[first..end].to_vec()
}

fn percent_encoded(secret: &[u8], hex: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(secret.len());
    for &byte in secret {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(byte);
        } else {
            encoded.extend([b'%', hex[usize::from(byte >> 4)], hex[usize::from(byte & 15)]]);
        }
    }
    encoded
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
