//! From text to values. Every function says what it expected when the text is none of it.

use super::{Deliveries, Sandbox};
use crate::command::grammar::COMMANDS;
use crate::decide::authority::{self, Authority};
use crate::model::{CodebaseMode, UserId, is_loopback_host};
use reqwest::Url;
use std::{collections::BTreeSet, fmt, net::IpAddr, ops::RangeInclusive, path::Path, path::PathBuf, time::Duration};

/// What was expected instead, fit to stand after the value.
pub(super) type Expected = String;

/// `host:port`; an IPv6 host stands in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    pub host: String,
    pub port: u16,
}

impl Listen {
    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        is_loopback_host(&self.host)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Whether an address is this machine's own, where no proxy could reach.
pub(super) fn is_local(url: &str) -> bool {
    let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.is_some_and(|host| is_loopback_host(&host))
}

pub(super) fn listen(text: &str) -> Result<Listen, Expected> {
    let expected = || "expected host:port, for example 127.0.0.1:3000".to_owned();
    let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
    let port = port.parse().map_err(|_| expected())?;
    let host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(v6) if v6.contains(':') && v6.parse::<IpAddr>().is_ok() => v6,
        Some(_) => return Err(expected()),
        None => host,
    };
    let plain = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
    if host.is_empty() || !(plain || host.parse::<IpAddr>().is_ok() && text.starts_with('[')) {
        return Err(expected());
    }
    Ok(Listen { host: host.to_owned(), port })
}

/// The API of an Enterprise Server lies below `/api/v3`.
pub(super) fn github_api_url(text: &str) -> Result<String, Expected> {
    github_url(text, "https://github.example.org/api/v3")
}

pub(super) fn github_web_url(text: &str) -> Result<String, Expected> {
    github_url(text, "https://github.example.org")
}

/// An `https://` URL without user, query or fragment; `http://` on loopback only. The trailing slash is taken off.
fn github_url(text: &str, example: &str) -> Result<String, Expected> {
    let url = web_url(text).map_err(|_| format!("expected a URL like {example}"))?;
    let parsed = Url::parse(&url).map_err(|error| error.to_string())?;
    let local = parsed.host_str().is_some_and(is_loopback_host);
    if parsed.scheme() == "https" || local {
        Ok(url)
    } else {
        Err("expected https://, since tokens are sent there (http:// is for this machine only)".to_owned())
    }
}

/// An `http://` or `https://` URL without user, query or fragment. The trailing slash is taken off.
pub(super) fn web_url(text: &str) -> Result<String, Expected> {
    let expected = || "expected a URL like https://treewarden.example.org".to_owned();
    let url = Url::parse(text).map_err(|_| expected())?;
    let bare =
        url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || !bare {
        return Err(expected());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Nothing of ours works below a path.
pub(super) fn public_url(text: &str) -> Result<String, Expected> {
    let url = web_url(text)?;
    match url.split('/').nth(3) {
        None => Ok(url),
        Some(_) => {
            Err("expected no path behind the host: Treewarden needs a host name, or a port, of its own".to_owned())
        }
    }
}

pub(super) fn database_url(text: &str) -> Result<String, Expected> {
    let known = ["sqlite://", "postgres://", "postgresql://"];
    let rest = known.iter().find_map(|scheme| text.strip_prefix(scheme));
    match rest {
        // What is relative would be another database wherever the service is started from.
        Some(path) if text.starts_with("sqlite://") && !path.starts_with('/') => {
            Err("expected the whole path of the file, like sqlite:///srv/treewarden/treewarden.db".to_owned())
        }
        Some(rest) if !rest.is_empty() => Ok(text.to_owned()),
        _ => Err("expected sqlite://<path> or postgres://<user>@<host>/<database>".to_owned()),
    }
}

pub(super) fn whole_number(range: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, Expected> {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
    }
}

pub(super) fn app_id(text: &str) -> Result<u64, Expected> {
    text.parse().ok().filter(|id| *id > 0).ok_or_else(|| "expected the App's number, for example 123456".to_owned())
}

/// A time limit like `90s`, `45m` or `1h 30m`.
pub(super) fn time_limit(text: &str) -> Result<Duration, Expected> {
    let allowed = Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3600);
    let limit = humantime::parse_duration(text).ok().filter(|limit| allowed.contains(limit));
    limit.ok_or_else(|| "expected a time from 1s to 7d, for example 90m".to_owned())
}

/// `off`, or a time like `3d`.
pub(super) fn reclaim_after(text: &str) -> Result<Option<Duration>, Expected> {
    if text.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let allowed = Duration::from_secs(3600)..=Duration::from_secs(3650 * 24 * 3600);
    let after = humantime::parse_duration(text).ok().filter(|after| allowed.contains(after));
    after.map(Some).ok_or_else(|| "expected off, or a time from 1h to 3650d, for example 3d".to_owned())
}

/// A size like `20GB`, `1.5 TB` or `800MiB`, in bytes.
pub(super) fn disk_space(text: &str) -> Result<u64, Expected> {
    const UNITS: [(&str, u64); 8] = [
        ("kb", 1_000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("tb", 1_000_000_000_000),
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("tib", 1 << 40),
    ];
    let expected = || "expected a size with its unit, for example 20GB".to_owned();
    let text = text.to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(expected)?;
    let (number, unit) = (&text[..digits], text[digits..].trim());
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(expected)?;
    let number: f64 = number.parse().map_err(|_| expected())?;
    let bytes = number * *factor as f64;
    // A petabyte is a slip, and nothing at all would be, too.
    match (1.0e6..=1.0e15).contains(&bytes) {
        true => Ok(bytes as u64),
        false => Err("expected a size from 1MB to 1000TB, for example 20GB".to_owned()),
    }
}

pub(super) fn switch(text: &str) -> Result<bool, Expected> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "yes" | "true" | "1" => Ok(true),
        "off" | "no" | "false" | "0" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

pub(super) fn authority(text: &str) -> Result<Authority, Expected> {
    let commands: Vec<&str> = COMMANDS.iter().map(|entry| entry.name).collect();
    Authority::parse(text, &commands)
}

pub(super) fn mode(text: &str) -> Result<CodebaseMode, Expected> {
    // Whoever asks for less by a slip must not get all.
    text.parse().map_err(|_| "expected on, staged or off".to_owned())
}

pub(super) fn webhook(text: &str) -> Result<Deliveries, Expected> {
    match text {
        "on" => Ok(Deliveries::Sent),
        "poll" => Ok(Deliveries::Fetched),
        _ => Err("expected on, or poll".to_owned()),
    }
}

pub(super) fn sandbox(text: &str) -> Result<Sandbox, Expected> {
    match text {
        "strict" => Ok(Sandbox::Strict),
        "basic" => Ok(Sandbox::Basic),
        "off" => Ok(Sandbox::Off),
        _ => Err("expected strict, basic or off".to_owned()),
    }
}

/// Splits like a shell does (quotes, backslashes), expanding nothing. A relative path is refused: it would be looked for in
/// the worktree, where a pull request decides what lies there.
pub(super) fn command_line(text: &str) -> Result<Vec<String>, Expected> {
    const EXPECTED: &str = "expected a program (a name on PATH or an absolute path) and its arguments, quotes balanced";
    let argv = shlex::split(text).unwrap_or_default();
    match argv.first() {
        Some(program) if program.starts_with(['~', '$']) => {
            Err(format!("{EXPECTED}; no shell reads it, so ~ and variables stand for nothing"))
        }
        Some(program) if program.starts_with('/') || !(program.is_empty() || program.contains('/')) => Ok(argv),
        _ => Err(EXPECTED.to_owned()),
    }
}

/// A search path without its relative entries, for the same reason; `None` when nothing is left.
pub(super) fn absolute_entries(path: &str) -> Option<String> {
    let absolute: Vec<&str> = path.split(':').filter(|directory| directory.starts_with('/')).collect();
    (!absolute.is_empty()).then(|| absolute.join(":"))
}

pub(super) fn admins(text: &str) -> Result<BTreeSet<UserId>, Expected> {
    words(text).map(authority::person_named).collect()
}

/// What GitHub's own programs read a token from.
const GITHUB_TOKENS: [&str; 4] = ["GITHUB_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_ENTERPRISE_TOKEN"];

/// Names of variables for the agent. The service's own are refused: the agent is not trusted with them.
pub(super) fn variable_names(text: &str) -> Result<Vec<String>, Expected> {
    let names: Vec<String> = words(text).map(str::to_owned).collect();
    let valid = |name: &String| {
        !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if !names.iter().all(valid) {
        return Err("expected names of environment variables, like ANTHROPIC_API_KEY".to_owned());
    }
    let own = |name: &&String| name.starts_with("TREEWARDEN_") || super::SETTINGS.iter().any(|s| s.variable == **name);
    if let Some(name) = names.iter().find(own) {
        return Err(format!("{name} belongs to the service and is never given to an agent"));
    }
    match names.iter().find(|name| GITHUB_TOKENS.contains(&name.to_ascii_uppercase().as_str())) {
        Some(name) => Err(format!("{name} opens GitHub: an agent gets no token, and the service pushes for it")),
        None => Ok(names),
    }
}

/// A path, a number, an option, or an address in which nothing is hidden. A key may begin with a slash, too, or be nothing but
/// digits, but then it is long.
pub(super) fn is_plain_value(text: &str) -> bool {
    let below = text.strip_prefix("~/").or_else(|| text.strip_prefix("./")).or_else(|| text.strip_prefix('/'));
    let path = below.is_some_and(|path| path.split('/').all(|part| part.len() < 16 && !part.ends_with('=')));
    let digits = text.len() <= 12 && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number = digits || text.parse::<std::net::IpAddr>().is_ok();
    let address = || {
        // A long part of a path is a key, as webhooks have one.
        web_url(text).is_ok_and(|url| url.split('/').skip(3).all(|part| part.len() < 16))
    };
    path || number || text.starts_with("--") || address()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty())
}

/// A private key in PEM form; `\n` written as two characters becomes a line break.
pub(super) fn private_key(text: &str) -> Result<String, Expected> {
    let pem = if text.contains('\n') { text.to_owned() } else { text.replace("\\n", "\n") };
    let pem = pem.trim();
    if pem.starts_with("-----BEGIN ") && pem.contains("PRIVATE KEY-----") && pem.ends_with("-----") {
        Ok(format!("{pem}\n"))
    } else {
        Err("expected the App's private key in PEM form (-----BEGIN … PRIVATE KEY-----)".to_owned())
    }
}

pub(super) fn secret_key(text: &str) -> Result<String, Expected> {
    if text.len() >= 32 { Ok(text.to_owned()) } else { Err("expected 32 characters or more".to_owned()) }
}

pub(super) fn any_text(text: &str) -> Result<String, Expected> {
    Ok(text.to_owned())
}

/// An absolute path, or one that starts with `~/`.
pub(super) fn path(text: &str, user_home: Option<&str>) -> Result<PathBuf, Expected> {
    let expanded = match (text.strip_prefix('~'), user_home) {
        (None, _) => PathBuf::from(text),
        (Some(""), Some(home)) => PathBuf::from(home),
        (Some(rest), Some(home)) if rest.starts_with('/') => Path::new(home).join(rest.trim_start_matches('/')),
        (Some(rest), None) if rest.is_empty() || rest.starts_with('/') => {
            return Err("~ cannot be expanded, since HOME is not set; expected an absolute path".to_owned());
        }
        (Some(_), _) => return Err("expected an absolute path, or one that starts with ~/".to_owned()),
    };
    let climbs = expanded.components().any(|part| part == std::path::Component::ParentDir);
    if expanded.is_absolute() && !climbs {
        Ok(expanded)
    } else {
        Err("expected an absolute path without .., or one that starts with ~/".to_owned())
    }
}
