//! Takes secrets out of text that leaves: log lines, comments, run logs. Pure.
//!
//! Known secrets are found as they are, in base64 (in each of the three ways they can lie in the encoding) and
//! percent-encoded, a file also as `base64` wraps it; unknown ones by the shape of common tokens, of PEM keys, and of
//! passwords in addresses. Text may come in chunks cut anywhere:
//! [`RedactStream`] holds back just those last bytes that may be the beginning of a secret.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::{
    Engine, alphabet, engine::GeneralPurpose, engine::general_purpose::NO_PAD, prelude::BASE64_STANDARD as STANDARD,
};
use secrecy::{ExposeSecret, SecretString};
use std::{
    fmt, mem,
    sync::{Arc, PoisonError, RwLock},
};

const MARK: &[u8] = b"[redacted]";
/// Shorter known secrets are not looked for: they would take ordinary words out of every text.
const MIN_SECRET: usize = 8;
/// Lines of a PEM file shorter than this are not specific to it.
const MIN_LINE: usize = 16;
/// Columns at which programs wrap base64: coreutils, and PEM.
const WRAPPED_AT: [usize; 2] = [76, 64];
/// How tokens begin, as their makers document it.
const SHAPES: [Shape; 17] = [
    // GitHub's; `ghs_` is an App's installation token.
    Shape::new("ghs_"),
    Shape::new("ghp_"),
    Shape::new("gho_"),
    Shape::new("ghu_"),
    Shape::new("ghr_"),
    Shape::new("github_pat_"),
    // `x-access-token:` as it stands in an `Authorization: Basic` header: git's way to send one of them.
    Shape { prefix: "eC1hY2Nlc3MtdG9rZW46", shortest: 8, alphabet: b"+/=", holds: b"" },
    Shape::new("sk-ant-"),
    Shape::new("sk-proj-"),
    Shape::new("xoxb-"),
    Shape::new("xoxp-"),
    Shape::new("xapp-"),
    Shape::new("glpat-"),
    Shape { prefix: "npm_", shortest: 36, alphabet: b"", holds: b"" },
    Shape { prefix: "AKIA", shortest: 16, alphabet: b"", holds: b"" },
    Shape { prefix: "AIza", shortest: 30, alphabet: b"_-", holds: b"" },
    // A JSON Web Token: two JSON objects and a signature, in base64 with dots between.
    Shape { prefix: "eyJ", shortest: 10, alphabet: b"_-.", holds: b".eyJ" },
];
/// Where an address may go on with `user:password@`.
const AUTHORITY: &str = "://";
/// Longer than any user and password together.
const MAX_USERINFO: usize = 512;
const KEY_BEGIN: &str = "-----BEGIN ";
const KEY_END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";
/// As many small letters in a row are a name, not a token.
const MAX_PLAIN: usize = 40;
/// Of a JSON Web Token, encoded; one with a certificate in it takes some thousand bytes.
const MAX_HEADER: usize = 4 * 1024;
/// What is looked at behind the first line of a key, to tell a key from words about keys.
const KEY_WINDOW: usize = 96;
/// How a key that is encrypted, or a PGP one, may go on.
const HEADERS: [&[u8]; 6] = [b"Proc-Type: ", b"DEK-Info: ", b"Version: ", b"Comment: ", b"Hash: ", b"Charset: "];
/// Characters of base64 in a row that are no word.
const MIN_BASE64: usize = 16;
/// `RSA PRIVATE KEY`, `PGP PRIVATE KEY BLOCK` and the like.
const MAX_LABEL: usize = 40;
/// A key without an end is over after this many bytes, so that one line cannot hide a whole log.
const MAX_KEY: usize = 16 * 1024;

/// A token without anybody's secret in it.
struct Shape {
    prefix: &'static str,
    /// Fewer characters behind the prefix are prose about tokens, not a token.
    shortest: usize,
    /// What may stand in it beside letters and digits.
    alphabet: &'static [u8],
    /// What stands somewhere in it.
    holds: &'static [u8],
}

impl Shape {
    /// Newer installation tokens carry a signed part with dots and dashes.
    const fn new(prefix: &'static str) -> Self {
        Self { prefix, shortest: 10, alphabet: b"_-.", holds: b"" }
    }

    /// Whether this is one, as far as can be seen: names of variables have neither digits nor capitals.
    fn fits(&self, text: &[u8]) -> bool {
        text.len() >= self.shortest
            && text.iter().any(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
            && (self.holds.is_empty() || find(text, self.holds).is_some())
    }

    /// After how many bytes it is known whether it is one.
    fn patience(&self) -> usize {
        if self.holds.is_empty() { MAX_PLAIN.max(self.shortest) } else { MAX_HEADER }
    }

    /// How many bytes at the beginning of `bytes` can belong to it.
    fn length(&self, bytes: &[u8]) -> usize {
        bytes.iter().take_while(|b| b.is_ascii_alphanumeric() || self.alphabet.contains(b)).count()
    }
}

/// Knows what to take out. A cheap handle: what one is taught, all clones know.
#[derive(Clone)]
pub struct Redactor {
    patterns: Arc<RwLock<Arc<Patterns>>>,
}

struct Patterns {
    /// Prefixes of [`SHAPES`], then [`KEY_BEGIN`] and [`AUTHORITY`], then the known secrets' variants.
    needles: Vec<Vec<u8>>,
    automaton: Option<AhoCorasick>,
    longest: usize,
}

impl Redactor {
    /// Knows `secrets` and the common token shapes.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a SecretString>) -> Self {
        let known = secrets.into_iter().flat_map(|secret| variants(secret.expose_secret())).collect();
        Self { patterns: Arc::new(RwLock::new(Arc::new(Patterns::new(known)))) }
    }

    /// Knows `secrets` as well from now on; texts that have begun go on without them.
    pub fn learn<'a>(&self, secrets: impl IntoIterator<Item = &'a SecretString>) {
        let mut patterns = self.patterns.write().unwrap_or_else(PoisonError::into_inner);
        let before = patterns.known().iter().cloned();
        let new = secrets.into_iter().flat_map(|secret| variants(secret.expose_secret()));
        *patterns = Arc::new(Patterns::new(before.chain(new).collect()));
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
        let patterns = self.patterns.read().unwrap_or_else(PoisonError::into_inner).clone();
        RedactStream { patterns, held: Vec::new(), state: State::Text }
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
    /// Within a token of this shape whose mark was written already.
    Token(usize),
    /// Within a PEM key whose mark was written already.
    Key {
        swallowed: usize,
    },
}

/// What a find in the text turned out to be.
enum Verdict {
    /// What stands before `from` is not secret.
    Secret {
        from: usize,
        end: usize,
        then: State,
    },
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
                State::Token(shape) => (self.skip_token(&buffer, at, &SHAPES[shape]), true),
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

    fn skip_token(&mut self, buffer: &[u8], at: usize, shape: &Shape) -> usize {
        let length = shape.length(&buffer[at..]);
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
        match judge(buffer, start, end, needle, last) {
            Verdict::Secret { from, end, then } => {
                out.extend_from_slice(&buffer[at..from]);
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

/// Decides about the find of `needle` from `from` to `end`.
fn judge(buffer: &[u8], from: usize, end: usize, needle: usize, last: bool) -> Verdict {
    let rest = &buffer[end..];
    if let Some(shape) = SHAPES.get(needle) {
        let seen = &rest[..rest.len().min(shape.patience())];
        let length = shape.length(seen);
        return match length {
            _ if shape.fits(&seen[..length]) => Verdict::Secret { from, end: end + length, then: State::Token(needle) },
            _ if length == rest.len() && length < shape.patience() && !last => Verdict::Undecided,
            _ => Verdict::Harmless,
        };
    }
    if needle == SHAPES.len() {
        let label = rest.iter().take(MAX_LABEL).take_while(|b| b.is_ascii_uppercase() || b" 0123456789".contains(b));
        let length = label.count();
        let closing = &rest[length..rest.len().min(length + DASHES.len())];
        return if closing == DASHES && find(&rest[..length], b"PRIVATE KEY").is_some() {
            let after = length + DASHES.len();
            match holds_key(&rest[after..], last) {
                Some(true) => Verdict::Secret { from, end: end + after, then: State::Key { swallowed: 0 } },
                Some(false) => Verdict::Harmless,
                None => Verdict::Undecided,
            }
        } else if !last && length < MAX_LABEL && closing.len() < DASHES.len() && DASHES.starts_with(closing) {
            Verdict::Undecided
        } else {
            Verdict::Harmless
        };
    }
    if needle == SHAPES.len() + 1 {
        return judge_userinfo(rest, end, last);
    }
    Verdict::Secret { from, end, then: State::Text }
}

/// Whether what follows the first line of a key is one: base64, a header as of encrypted keys, or soon the last line. It may
/// be quoted, numbered, commented out, or part of a diff. `None`: too little has come to tell.
fn holds_key(rest: &[u8], last: bool) -> Option<bool> {
    let window = &rest[..rest.len().min(KEY_WINDOW)];
    let is_base64 = |run: &[u8]| {
        run.len() >= MIN_BASE64
            && [u8::is_ascii_digit, u8::is_ascii_uppercase, u8::is_ascii_lowercase]
                .iter()
                .all(|kind| run.iter().any(kind))
    };
    let is_key = window.split(|b| !b.is_ascii_alphanumeric() && !b"+/=".contains(b)).any(is_base64)
        || HEADERS.iter().any(|header| find(window, header).is_some())
        || find(window, KEY_END).is_some();
    (is_key || last || window.len() == KEY_WINDOW).then_some(is_key)
}

/// What follows `://` at `end`: `user:password@`, or anything else.
fn judge_userinfo(rest: &[u8], end: usize, last: bool) -> Verdict {
    let may_stand = |b: &u8| b.is_ascii_graphic() && !b"/?#@\"'`<>()[]{}\\^|".contains(b);
    let length = rest.iter().take(MAX_USERINFO).take_while(|b| may_stand(b)).count();
    let Some(next) = rest.get(length) else {
        return if last { Verdict::Harmless } else { Verdict::Undecided };
    };
    // All of it: some take a token for the user's name.
    match rest[..length].iter().position(|b| *b == b':') {
        Some(colon) if *next == b'@' && colon + 1 < length => {
            Verdict::Secret { from: end, end: end + length, then: State::Text }
        }
        Some(_) | None => Verdict::Harmless,
    }
}

impl Patterns {
    /// By the variants of known secrets.
    fn new(mut known: Vec<Vec<u8>>) -> Self {
        known.sort();
        known.dedup();
        let shapes = SHAPES.iter().map(|shape| shape.prefix).chain([KEY_BEGIN, AUTHORITY]);
        let needles: Vec<Vec<u8>> = shapes.map(|shape| shape.as_bytes().to_vec()).chain(known).collect();
        let longest = needles.iter().map(Vec::len).max().unwrap_or_default();
        // A full table of transitions takes 7 MB for one private key, and each run has a redactor of its own.
        let mut builder = AhoCorasick::builder();
        builder.match_kind(MatchKind::LeftmostLongest).kind(Some(AhoCorasickKind::ContiguousNFA));
        // Building fails only for more than two billion patterns.
        let automaton = builder.build(&needles).ok();
        Self { needles, automaton, longest }
    }

    fn known(&self) -> &[Vec<u8>] {
        &self.needles[SHAPES.len() + 2..]
    }

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
        found.extend(
            secret
                .lines()
                .map(str::trim)
                .filter(|line| line.len() >= MIN_LINE && !line.starts_with("-----"))
                .map(|l| l.as_bytes().to_vec()),
        );
        // As a file: with the line feed that ends it.
        let encoded = STANDARD.encode(format!("{secret}\n"));
        let lines = WRAPPED_AT.iter().flat_map(|columns| encoded.as_bytes().chunks(*columns));
        found.extend(lines.filter(|line| line.len() >= MIN_LINE).map(<[u8]>::to_vec));
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
