//! Reading the texts of the older schema: addresses, threads, times, kinds of work. What is not understood is `None`, never
//! a guess.

use crate::model::*;
use chrono::{DateTime, NaiveDateTime, Utc};

/// A column's text; an empty one is none.
pub(super) fn text<'a>(row: &'a OldRow, column: &str) -> Option<&'a str> {
    row.0.get(column).map(|text| text.trim()).filter(|text| !text.is_empty())
}

/// A time in the ways that PostgreSQL, SQLite and JavaScript write it; without a zone it is UTC.
pub(super) fn time(row: &OldRow, column: &str) -> Option<Timestamp> {
    let text = text(row, column)?;
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(Timestamp::new(time.to_utc()));
    }
    let zoned = ["%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M:%S%.f%#z"];
    if let Some(time) = zoned.iter().find_map(|format| DateTime::parse_from_str(text, format).ok()) {
        return Some(Timestamp::new(time.to_utc()));
    }
    let plain = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"];
    let time = plain.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())?;
    Some(Timestamp::new(DateTime::<Utc>::from_naive_utc_and_offset(time, Utc)))
}

pub(super) fn truth(row: &OldRow, column: &str) -> Option<bool> {
    match text(row, column)?.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Some(true),
        "false" | "f" | "0" => Some(false),
        _ => None,
    }
}

/// What a repository's address says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Ours(RepoName),
    OtherHost(String),
    Local,
    Odd,
}

/// `https://…`, `ssh://…` or `git@host:owner/name`, with or without `.git` and credentials.
pub(super) fn address(url: &str, web_host: &str) -> Address {
    let (authority, path) = match url.split_once("://") {
        Some(("file", _)) => return Address::Local,
        Some((_, rest)) => rest.split_once('/').unwrap_or((rest, "")),
        None => match url.split_once(':') {
            Some((authority, path)) if !authority.contains('/') => (authority, path),
            _ => return Address::Local,
        },
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_ascii_lowercase();
    let host = host.strip_prefix("www.").unwrap_or(&host);
    let without_port = host.split(':').next().unwrap_or_default();
    if host != web_host && without_port != web_host {
        return Address::OtherHost(without_port.to_owned());
    }
    let path = path.trim_matches('/');
    path.strip_suffix(".git").unwrap_or(path).parse().map_or(Address::Odd, Address::Ours)
}

/// `owner/name#42`.
pub(super) fn thread(text: &str) -> Option<(RepoName, ThreadNumber)> {
    let (name, number) = text.rsplit_once('#')?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    Some((name.parse().ok()?, ThreadNumber(number)))
}

/// Kind and id, of which the id may repeat the kind: `pr`, `pr-99`.
pub(super) fn work(kind: WorkKind, id: &str) -> Option<Work> {
    let id = id.strip_prefix(kind.as_str()).and_then(|rest| rest.strip_prefix('-')).unwrap_or(id);
    match kind {
        WorkKind::Issue | WorkKind::PullRequest | WorkKind::Review => Some(Work { kind, id: number(id)? }),
        WorkKind::Thread | WorkKind::Task => {
            let odd = |c: char| c.is_control() || c == '`' || reorders(c);
            let plain = !id.is_empty() && id.len() <= 200 && !id.contains(odd);
            plain.then(|| Work { kind, id: id.to_owned() })
        }
    }
}

/// As GitHub counts, and written in one way only: two spellings would be two pieces of work.
fn number(text: &str) -> Option<String> {
    text.parse::<i64>().ok().filter(|number| *number > 0).map(|number| number.to_string())
}

/// The thread that a branch's name was made for: `issue-42`, `pr-99`, `pr-99-review`.
pub(super) fn work_named(branch: &BranchName) -> Option<Work> {
    let name = branch.as_str();
    if let Some(id) = name.strip_prefix("issue-").and_then(number) {
        return Some(Work { kind: WorkKind::Issue, id });
    }
    let id = name.strip_prefix("pr-").map(|rest| rest.strip_suffix("-review").unwrap_or(rest)).and_then(number)?;
    Some(Work { kind: WorkKind::PullRequest, id })
}

/// Issues and pull requests that belong together with an environment's work, from its metadata.
pub(super) fn links(metadata: Option<&str>) -> Vec<Work> {
    let metadata: serde_json::Value = metadata.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let listed = |field: &str, kind| {
        let numbers = metadata[field].as_array().into_iter().flatten().filter_map(|number| number.as_i64());
        let numbers = numbers.filter(|number| *number > 0);
        numbers.map(move |number| Work { kind, id: number.to_string() }).collect::<Vec<_>>()
    };
    [listed("related_issues", WorkKind::Issue), listed("related_prs", WorkKind::PullRequest)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_configured_host_are_names() {
        let ours = Address::Ours("octo/hello".parse().unwrap());
        for url in [
            "https://github.com/octo/hello",
            "https://github.com/octo/hello.git/",
            "https://x-access-token:secret@github.com/octo/hello.git",
            "http://www.GitHub.com/octo/hello",
            "git@github.com:octo/hello.git",
            "ssh://git@github.com:22/octo/hello",
        ] {
            assert_eq!(address(url, "github.com"), ours, "{url}");
        }
        assert_eq!(address("http://127.0.0.1:99/octo/hello", "127.0.0.1:99"), ours);
        assert_eq!(address("https://gitlab.com/octo/hello", "github.com"), Address::OtherHost("gitlab.com".to_owned()));
        for url in ["/srv/hello", "file:///srv/hello", "hello"] {
            assert_eq!(address(url, "github.com"), Address::Local, "{url}");
        }
        for url in ["https://github.com/octo", "https://github.com/../x", "git@github.com:", "https://github.com"] {
            assert_eq!(address(url, "github.com"), Address::Odd, "{url}");
        }
    }

    #[test]
    fn times_are_read_however_they_are_written() {
        for text in [
            "2025-12-16T08:00:00Z",
            "2025-12-16 08:00:00+00",
            "2025-12-16 10:00:00.000+02:00",
            "2025-12-16 08:00:00",
            "2025-12-16T08:00:00.000",
        ] {
            let row = OldRow([("created_at", text.to_owned())].into());
            assert_eq!(
                time(&row, "created_at").map(|time| time.to_string()).as_deref(),
                Some("2025-12-16T08:00:00Z"),
                "{text}"
            );
        }
        assert_eq!(time(&OldRow([("created_at", "yesterday".to_owned())].into()), "created_at"), None);
    }

    #[test]
    fn threads_and_work_are_read_strictly() {
        assert_eq!(thread("octo/hello#42"), Some(("octo/hello".parse().unwrap(), ThreadNumber(42))));
        for odd in ["octo/hello", "octo/hello#", "octo/hello#-1", "octo/hello#0", "#42", "a b/c#1", "octo/hello#42x"] {
            assert_eq!(thread(odd), None, "{odd}");
        }
        let named = |name: &str| work_named(&BranchName::new(name).unwrap()).map(|work| work.to_string());
        assert_eq!(named("issue-42").as_deref(), Some("issue-42"));
        assert_eq!(named("pr-99-review").as_deref(), Some("pr-99"));
        assert_eq!((named("feature/auth"), named("issue-x")), (None, None));
        assert_eq!(work(WorkKind::PullRequest, "pr-99").unwrap().to_string(), "pr-99");
        assert_eq!(work(WorkKind::Issue, "issue-"), None);
        assert_eq!(work(WorkKind::Task, "Add dark mode!").unwrap().to_string(), "task-Add dark mode!");
        assert_eq!(["a\u{202e}b", "a`b", "a\nb"].map(|odd| work(WorkKind::Task, odd)), [None, None, None]);
        let both = links(Some(r#"{"related_issues": [1, "x"], "related_prs": [2]}"#));
        assert_eq!(both.iter().map(Work::to_string).collect::<Vec<_>>(), ["issue-1", "pr-2"]);
        assert_eq!(links(Some("no JSON")), []);
    }
}
