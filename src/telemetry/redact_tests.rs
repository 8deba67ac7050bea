//! Tests of `redact`: every way a secret is written, and every way a text can be cut.

use super::*;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use std::sync::LazyLock;

const KEY: &str = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA0123456789abcdefghij\nZm9vYmFyYmF6cXV4Zm9vYmFyYmF6\n-----END RSA PRIVATE KEY-----\n";

/// Built once: making the automaton takes longer than any test.
static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
    Redactor::new([&SecretString::from("s3cr3t/w0rd?+"), &SecretString::from(KEY), &SecretString::from("short")])
});

/// The text, pushed in pieces of the given lengths (repeated as long as needed).
fn in_pieces(text: &[u8], lengths: &[usize]) -> Vec<u8> {
    let (mut out, mut stream, mut rest) = (Vec::new(), REDACTOR.stream(), text);
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, next) = rest.split_at(rest.len().min(*length.max(&1)));
        stream.push(piece, &mut out);
        rest = next;
    }
    stream.finish(&mut out);
    out
}

#[test]
fn known_secrets_go_in_every_spelling() {
    let redactor = &*REDACTOR;
    let secret = "s3cr3t/w0rd?+";
    let upper = percent_encoded(secret.as_bytes(), b"0123456789ABCDEF");
    let texts = [secret.to_owned(), String::from_utf8(upper).unwrap(), "s3cr3t%2fw0rd%3f%2b".to_owned()];
    for text in texts {
        assert_eq!(redactor.redact(&format!("a {text} b")), "a [redacted] b");
    }
    for before in ["", "x", "xy", "x-access-token:"] {
        for engine in [STANDARD, URL_SAFE] {
            let encoded = engine.encode(format!("{before}{secret}"));
            let clean = redactor.redact(&format!("Basic {encoded} b"));
            assert!(clean.contains("[redacted]"), "{before}: {clean}");
            assert!(clean.len() < 30 + before.len() * 2, "{before}: {clean}");
        }
    }
    assert_eq!(redactor.redact("short words stay"), "short words stay");
}

#[test]
fn token_shapes_go() {
    let redactor = Redactor::new([]);
    for Shape { prefix, .. } in SHAPES.into_iter().filter(|shape| shape.holds.is_empty()) {
        assert_eq!(redactor.redact(&format!("({prefix}0123456789ABCDEF0123456789ABCDEF01234567)")), "([redacted])");
    }
    let basic = STANDARD.encode("x-access-token:ghs_0123456789abcdef");
    assert_eq!(redactor.redact(&format!("Authorization: Basic {basic}\n")), "Authorization: Basic [redacted]\n");
    for names in
        ["daily_highs_per_station", "maxapp-production-config.yaml", "ghp_token_from_env_variable", "eyJust-words"]
    {
        assert_eq!(redactor.redact(names), names);
    }
    let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
    for header in [r#"{"alg":"RS256","typ":"JWT"}"#, r#"{"kid":"a1","alg":"none"}"#] {
        let token = format!("{}.{}.c2ln-na_ture", part(header), part(r#"{"iss":"1"}"#));
        assert_eq!(redactor.redact(&format!("jwt {token}, done")), "jwt [redacted], done");
    }
    let certified = part(&format!(r#"{{"alg":"RS256","x5c":["{}"]}}"#, "M".repeat(2500)));
    let token = format!("{certified}.{}.c2ln", part(r#"{"iss":"1"}"#));
    assert_eq!(redactor.redact(&format!("jwt {token}, done")), "jwt [redacted], done");
    let data = part(&format!(r#"{{"rows":"{}"}}"#, "x".repeat(2000)));
    assert_eq!(redactor.redact(&data), data, "one object is no token");
    let late = "ghp_abcdefghijklmnopqrstuvwxyzabcdefgh1X";
    assert_eq!(redactor.redact(&format!("{late}{late} end")), "[redacted] end");
    // Quick also where each word could be the beginning of one.
    let began = std::time::Instant::now();
    for word in ["eyJ", "ghp_", "sk-ant-"] {
        let text = word.repeat(20_000);
        assert!(redactor.redact(&text) == text, "{word}");
    }
    assert_eq!(redactor.redact(&"eyJa.".repeat(20_000)), "[redacted]");
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
    let prose = "the key AKIA, AKIATALK, npm_config_registry=x, sk-ant- and xoxb-1 are no tokens";
    assert_eq!(redactor.redact(prose), prose);
    assert_eq!(redactor.redact("ghs_12345_eyJhbGciOi.eyJpc3MiOi.sig-na_ture done"), "[redacted] done");
    assert_eq!(redactor.redact("tokens begin with ghs_ or ghp_short"), "tokens begin with ghs_ or ghp_short");
}

#[test]
fn keys_go_whole_and_line_by_line() {
    let redactor = &*REDACTOR;
    assert_eq!(redactor.redact(&format!("key:\n{KEY}end")), "key:\n[redacted]\nend");
    assert_eq!(redactor.redact("line Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6"), "line [redacted]");
    let other = KEY.replace("MIIEpAIBAAKCAQEA0123", "MIIEpAIBAAKCAQEA9876");
    assert_eq!(redactor.redact(&format!("another:\n{other}end")), "another:\n[redacted]\nend");
    let foreign = "-----BEGIN OPENSSH PRIVATE KEY-----\\nabc\\n-----END OPENSSH PRIVATE KEY-----";
    assert_eq!(redactor.redact(&format!("{{\"key\":\"{foreign}\"}}")), "{\"key\":\"[redacted]\"}");
    for words in [
        "-----BEGIN CERTIFICATE-----",
        "accept `-----BEGIN PUBLIC KEY-----` in auth.rs\n\nAlso add a test, and never log them.",
        "accept `-----BEGIN RSA PRIVATE KEY-----` in auth.rs\n\nAlso add a test for keys that are expired, and never log them.",
        "-----BEGIN RSA PRIVATE KEY-----\n\nis how it begins",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
    ] {
        assert_eq!(redactor.redact(words), words);
    }
    for quoted in ["> ", "\t", "| \"", "-", "+", "     2\u{2192}", "12:", "# ", "// "] {
        let key = format!("-----BEGIN EC PRIVATE KEY-----\n{quoted}MHcCAQEEIAbCdEfGhIjKlMnOpQrStUvWxYz0123456789\n");
        assert_eq!(redactor.redact(&key), "[redacted]", "{quoted:?}");
        assert_eq!(redactor.redact(&format!("{}\nthe end", key.replace("-----BEGIN", "x-----BEGIN"))), "x[redacted]");
    }
    let locked = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE\n-----END RSA PRIVATE KEY-----";
    assert_eq!(redactor.redact(locked), "[redacted]");
}

#[test]
fn a_key_file_goes_as_base64_wraps_it() {
    let key = format!("{KEY}{}", "Q".repeat(300));
    let redactor = Redactor::new([&SecretString::from(key.clone())]);
    for columns in WRAPPED_AT {
        let encoded = STANDARD.encode(format!("{key}\n"));
        let lines: Vec<&str> = encoded.as_bytes().chunks(columns).map(|line| str::from_utf8(line).unwrap()).collect();
        let clean = redactor.redact(&lines.join("\n"));
        let left = clean.lines().filter(|line| *line != "[redacted]");
        assert!(left.clone().all(|line| line.len() < MIN_LINE), "{columns}: {clean}");
    }
}

#[test]
fn a_password_in_an_address_goes() {
    let redactor = Redactor::new([]);
    for (text, clean) in [
        ("see https://ann:hunter2@example.org/x.git now", "see https://[redacted]@example.org/x.git now"),
        ("postgres://tw:p%40ss:w!@db:5432/tw", "postgres://[redacted]@db:5432/tw"),
        ("https://ghp_0123456789abcdef0123:x-oauth-basic@github.com/", "https://[redacted]@github.com/"),
        ("redis://:hunter2@cache", "redis://[redacted]@cache"),
    ] {
        assert_eq!(redactor.redact(text), clean);
        assert_eq!(redactor.redact(clean), clean);
    }
    for harmless in [
        "http://localhost:3000/a@b",
        "https://example.org:8443",
        "ssh://git@example.org/x",
        "https://[::1]:80/",
        "a://b",
        "https://example.org/?q=a:b@c",
        "://",
        "std::io://",
        "see https://ann:@example.org",
    ] {
        assert_eq!(redactor.redact(harmless), harmless);
    }
}

#[test]
fn one_redactor_takes_kilobytes() {
    // As long as a key of 2048 bits, and no line like another.
    let lines: String = (0..26u8).map(|line| STANDARD.encode([line.wrapping_mul(37); 48]) + "\n").collect();
    let redactor = Redactor::new([&SecretString::from(format!("-----BEGIN RSA PRIVATE KEY-----\n{lines}"))]);
    let patterns = redactor.patterns.read().unwrap().clone();
    let bytes = patterns.automaton.as_ref().map_or(0, AhoCorasick::memory_usage);
    assert!(bytes > 0 && bytes < 1_000_000, "{bytes}");
}

#[test]
fn a_key_without_an_end_does_not_hide_everything() {
    let text = format!("-----BEGIN PRIVATE KEY-----\n{}tail", "Ab1".repeat(MAX_KEY));
    let clean = REDACTOR.redact(&text);
    assert!(clean.starts_with("[redacted]") && clean.ends_with("tail"), "{}", &clean[..40]);
}

#[test]
fn clean_text_is_not_held_back() {
    let (mut out, mut stream) = (Vec::new(), REDACTOR.stream());
    stream.push(b"working on it\n", &mut out);
    assert_eq!(out, b"working on it\n");
    stream.push(b"the word is s3cr3t", &mut out);
    assert_eq!(out, b"working on it\nthe word is ");
    stream.push(b" soup", &mut out);
    assert_eq!(out, b"working on it\nthe word is s3cr3t soup");
}

proptest! {
    #[test]
    fn cutting_changes_nothing(parts in prop::collection::vec(part(), 0..8), lengths in prop::collection::vec(1usize..40, 1..6)) {
        let text = parts.concat();
        let whole = REDACTOR.redact(&text);
        prop_assert_eq!(String::from_utf8_lossy(&in_pieces(text.as_bytes(), &lengths)).into_owned(), whole.clone());
        prop_assert!(!whole.contains("s3cr3t/w0rd?+"));
        prop_assert_eq!(REDACTOR.redact(&whole), whole.clone());
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300), length in 1usize..50) {
        prop_assert_eq!(in_pieces(&bytes, &[length]), in_pieces(&bytes, &[usize::MAX]));
    }
}

fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zé \n]{0,20}",
        Just("s3cr3t/w0rd?+".to_owned()),
        Just("s3cr3t/w0r".to_owned()),
        Just("ghs_0123456789".to_owned()),
        Just("ghs_012 ".to_owned()),
        Just("https://ann:hunter2@example.org/".to_owned()),
        Just("https://ann:hun".to_owned()),
        Just("AKIA0123456789ABCDEF ".to_owned()),
        Just(KEY.to_owned()),
        Just("-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE".to_owned()),
        Just("-----BEGIN x".to_owned()),
        Just("-----".to_owned()),
    ]
}

#[test]
fn a_pgp_key_goes_whatever_its_headers_say() {
    let redactor = Redactor::new([]);
    let comment = "Comment: Made on the laptop of somebody with quite a long name and address\n";
    for headers in ["", comment, &comment.repeat(3), "Hash: SHA512\nCharset: utf-8\n", "Version: 1\n"] {
        let body = "xcLYBF+abcdefGHIJKL0123456789abcdefGHIJKL0123456789\n=AbCd\n";
        let key =
            format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\n{headers}\n{body}-----END PGP PRIVATE KEY BLOCK-----\n");
        let clean = redactor.redact(&format!("before\n{key}after\n"));
        assert!(clean.starts_with("before\n") && clean.ends_with("after\n"), "{clean}");
        assert!(!clean.contains("xcLYBF") && !clean.contains("laptop"), "{clean}");
    }
}

#[test]
fn what_one_handle_learns_all_know_beside_what_was_known_before() {
    let redactor = Redactor::new([&SecretString::from("known before")]);
    let clone = redactor.clone();
    assert_eq!(clone.redact("known before, learnt later"), "[redacted], learnt later");
    redactor.learn([&SecretString::from("learnt later")]);
    redactor.learn([&SecretString::from("and one more")]);
    assert_eq!(clone.redact("known before, learnt later, and one more"), "[redacted], [redacted], [redacted]");
    assert_eq!(clone.redact("ghs_0123456789abcdef"), "[redacted]");
}
