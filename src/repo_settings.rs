//! Reading a repository's settings file: bytes in, [`RepoSettings`] or one problem with its place out. Pure.
//!
//! Whoever may push to the default branch writes this file, so it is bounded before it is understood: small, one document,
//! few values, hardly nested, without anchors or merges. What is not known is refused rather than ignored: a misspelled
//! limit would limit nothing. Keys and values are those of the type in `model`; the schema for editors
//! (`static/repo-settings.schema.json`) repeats them, which a test here checks.

use crate::model::{RepoSettings, SettingsProblem};
use serde_saphyr::{Error, MergeKeyPolicy, UserMessageFormatter, budget, from_str_with_options, options};

/// Largest file that is read, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;

/// Characters of a text from the file that a problem quotes.
const QUOTED: usize = 60;

/// What the file says. An empty file says nothing, which is fine.
pub fn parse(bytes: &[u8]) -> Result<RepoSettings, SettingsProblem> {
    if bytes.len() > MAX_BYTES {
        return Err(too_large());
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(problem("the file is not UTF-8 text"));
    };
    let limits = budget! {
        max_documents: 1,
        max_depth: 4,
        max_nodes: 200,
        max_anchors: 0,
        max_aliases: 0,
    };
    let options = options! {
        budget: limits,
        merge_keys: MergeKeyPolicy::Error,
        reject_unsupported_tags: true,
        reject_tagged_field_names: true,
        with_snippet: false,
    };
    match from_str_with_options::<Option<RepoSettings>>(text, options) {
        Ok(settings) => Ok(settings.unwrap_or_default()),
        Err(error) => Err(SettingsProblem {
            at: error.location().map(|place| (place.line(), place.column())),
            what: in_words(error.without_snippet()),
        }),
    }
}

/// Something about the file as a whole.
pub fn problem(what: impl Into<String>) -> SettingsProblem {
    SettingsProblem { at: None, what: what.into() }
}

pub fn too_large() -> SettingsProblem {
    problem(format!("the file is larger than {} KiB", MAX_BYTES / 1024))
}

fn in_words(error: &Error) -> String {
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            let nearest = expected.iter().map(|known| (strsim::osa_distance(field, known), known)).min();
            let hint = match nearest {
                // Others put a full stop behind it.
                Some((distance, known)) if distance <= 3 => format!(" (is `{known}` meant?)"),
                _ => format!("; there are {}", listed(expected)),
            };
            format!("there is no setting {}{hint}", quoted(field))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            format!("{} is none of {}", quoted(variant), listed(expected))
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("{} stands there twice", quoted(key)),
        Error::InvalidScalar { ty: "u32", .. } => "expected a whole number from 1 to 10000".to_owned(),
        Error::Unexpected { expected: "mapping start", .. } => "expected lines like `base: main`".to_owned(),
        Error::Unexpected { expected: "string scalar", .. } => "expected one value, no list and no group".to_owned(),
        Error::Unexpected { expected: "sequence start", .. } => {
            "expected a list, like `[.env, config/*.local]`".to_owned()
        }
        Error::InvalidScalar { ty: "boolean", .. } | Error::InvalidBooleanStrict { .. } => {
            "expected `true` or `false`".to_owned()
        }
        Error::MergeKeyNotAllowed { .. } => "merge keys (`<<`) are not understood here".to_owned(),
        Error::Budget { .. } => {
            "more than a settings file may hold: one document, without anchors and without deep nesting".to_owned()
        }
        // Our own words about a value.
        Error::Message { msg, .. } => cut(msg, 3 * QUOTED),
        // A syntax error, or a value of another kind, in the words of the parser. The place is told apart.
        other => {
            let text = other.render_with_formatter(&UserMessageFormatter);
            let place = other.location().map(|place| format!(" at line {}, column {}", place.line(), place.column()));
            let text = place.and_then(|place| text.strip_suffix(&place)).unwrap_or(&text);
            cut(text, 3 * QUOTED)
        }
    }
}

fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// In a code span, which it cannot leave.
fn quoted(text: &str) -> String {
    format!("`{}`", cut(&text.replace('`', "'"), QUOTED))
}

fn cut(text: &str, most: usize) -> String {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(most).collect();
    if text.chars().nth(most).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PullRequestMode, ShareLinked};
    use proptest::prelude::*;
    use serde_json::Value;
    use std::time::Duration;

    fn schema() -> Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/static/repo-settings.schema.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn refused(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn every_key_is_understood() {
        let text = "# ours\nbase: dev\nbranch_prefix: bot/\nshare_linked: never\npull_request: link\n\
                    max_worktrees: 3\nrun_time_limit: 1h 30m\n\
                    copy:\n  - .env\n  - config/*.local\nsubmodules: false\nlfs: false\n";
        let settings = parse(text.as_bytes()).unwrap();
        assert_eq!(settings.base.unwrap().as_str(), "dev");
        assert_eq!(settings.branch_prefix.unwrap().as_str(), "bot/");
        assert_eq!((settings.share_linked, settings.pull_request), (ShareLinked::Never, PullRequestMode::Link));
        assert_eq!((settings.max_worktrees, settings.run_time_limit), (Some(3), Some(Duration::from_secs(5400))));
        let copy: Vec<&str> = settings.copy.iter().map(|pattern| pattern.as_str()).collect();
        assert_eq!((copy, settings.submodules, settings.lfs), (vec![".env", "config/*.local"], false, false));
    }

    #[test]
    fn nothing_said_means_the_defaults() {
        for text in [
            "",
            "# nothing\n",
            "---\n",
            "{}",
            "\u{feff}",
            "base:\nbranch_prefix: ~\nmax_worktrees:\ncopy:\nsubmodules:\nlfs:\n",
            "copy: []",
            "submodules: true",
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(RepoSettings::default()), "{text:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, said) in [
            (
                "base: dev\nmax_worktree: 3\n",
                "line 2, column 1: there is no setting `max_worktree` (is `max_worktrees` meant?)",
            ),
            (
                "setup: [make]\n",
                "line 1, column 1: there is no setting `setup`; there are `base`, `branch_prefix`, `share_linked`, \
                 `pull_request`, `max_worktrees`, `run_time_limit`, `copy`, `submodules`, `lfs`",
            ),
            ("base: a\nbase: b\n", "line 2, column 1: `base` stands there twice"),
            ("share_linked: sometimes", "line 1, column 15: `sometimes` is none of `auto`, `always`, `never`"),
            ("max_worktrees: 0", "line 1, column 16: expected a whole number from 1 to 10000"),
            ("max_worktrees: 1000000", "line 1, column 16: expected a whole number from 1 to 10000"),
            ("max_worktrees: many", "line 1, column 16: expected a whole number from 1 to 10000"),
            ("run_time_limit: 30", "line 1, column 17: expected a time from 1s to 7d, for example 90m"),
            ("base: -x", "line 1, column 7: \"-x\" is not a valid branch name: reserved by git"),
            ("base: [dev]", "line 1, column 7: expected one value, no list and no group"),
            (
                "branch_prefix: 'a b'",
                "line 1, column 16: \"a b\" is not a valid branch prefix: contains a character git does not allow",
            ),
            ("submodules: maybe", "line 1, column 13: expected `true` or `false`"),
            ("copy: .env", "line 1, column 7: expected a list, like `[.env, config/*.local]`"),
            ("copy: ['']", "line 1, column 8: \"\" is not a valid pattern: 1 to 200 bytes"),
            ("- base", "line 1, column 1: expected lines like `base: main`"),
            ("base: 'dev", "line 1, column 7: unclosed quote"),
            ("<<: {base: dev}", "line 1, column 1: merge keys (`<<`) are not understood here"),
            (
                "base: &a dev",
                "line 1, column 10: more than a settings file may hold: one document, without anchors and without deep nesting",
            ),
        ] {
            assert_eq!(refused(text), said, "{text:?}");
        }
        assert_eq!(parse(b"base: \xff").unwrap_err().to_string(), "the file is not UTF-8 text");
        assert_eq!(parse(&[b'#'; MAX_BYTES + 1]).unwrap_err().to_string(), "the file is larger than 64 KiB");
    }

    #[test]
    fn foreign_text_is_shortened_and_stays_in_its_span() {
        let said = refused(&format!("\"{}`@all\\n\": 1", "x".repeat(50)));
        assert!(said.contains(&format!("`{}'@all `;", "x".repeat(50))), "{said}");
        assert!(refused(&format!("{}: 1", "k".repeat(900))).len() < 400);
        assert!(refused(&format!("base: {}", "k..".repeat(20_000))).len() < 400);
    }

    #[test]
    fn bombs_are_refused_quickly() {
        let aliases =
            (1..30).fold("a0: &a0 [x]\n".to_owned(), |text, n| format!("{text}a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1));
        for text in [aliases, "[".repeat(MAX_BYTES), "- ".repeat(MAX_BYTES / 2), "? ".repeat(MAX_BYTES / 2)] {
            assert!(parse(text.as_bytes()).is_err());
        }
    }

    #[test]
    fn the_schema_knows_the_same_keys_and_values() {
        let error = serde_saphyr::from_str::<RepoSettings>("x: 1").unwrap_err();
        let Error::SerdeUnknownField { expected, .. } = error.without_snippet() else { panic!("{error}") };
        let mut expected = expected.clone();
        expected.sort_unstable();
        let schema = schema();
        assert_eq!(schema["additionalProperties"], false);
        let properties = schema["properties"].as_object().unwrap();
        let mut described: Vec<&str> = properties.keys().map(String::as_str).collect();
        described.sort_unstable();
        assert_eq!(described, expected);
        for (key, property) in properties {
            let listed = |name: &str| property[name].as_array().cloned().unwrap_or_default();
            let good = [listed("enum"), listed("examples")].concat();
            assert!(!good.is_empty(), "{key} has no example");
            for value in good {
                let parsed = parse(format!("{key}: {value}").as_bytes()).unwrap();
                let said = serde_json::to_value(parsed).unwrap();
                assert_eq!(said[key], value, "{key}");
            }
            if let Some(default) = property.get("default") {
                let defaults = serde_json::to_value(RepoSettings::default()).unwrap();
                assert_eq!(&defaults[key], default, "{key}");
            }
        }
    }

    proptest! {
        /// Total: whatever stands in the file, there is an answer, and one that fits a comment.
        #[test]
        fn any_bytes_have_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Err(problem) = parse(&bytes) {
                prop_assert!(problem.to_string().len() < 2_000);
            }
        }

        #[test]
        fn any_text_like_settings_has_an_answer(text in "((base|max_worktrees|share_linked|<<|x)[:\\-]? ?[&*!|>\\[{'\"#\\n a-z0-9\u{e9}]{0,12}\n){0,6}") {
            if let Err(problem) = parse(text.as_bytes()) {
                prop_assert!(!problem.what.contains('\n'));
            }
        }
    }
}
