//! The structure of the source, held by tests: who may import whom, where SQL and processes live, headers, and documents
//! that repeat what the code says.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};
use treewarden::telemetry::field::FIELDS;

/// Each room and the rooms it may import. `telemetry` is for everybody who does I/O, `plain_file` for who reads what others
/// can write.
const ALLOWED: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("command", &["model"]),
    ("decide", &["model"]),
    ("reply", &["model", "command", "decide"]),
    ("repo_settings", &["model"]),
    ("plain_file", &[]),
    ("telemetry", &[]),
    ("store", &["model", "telemetry"]),
    ("git", &["model", "plain_file", "telemetry"]),
    ("github", &["model", "telemetry"]),
    ("platform", &["model", "telemetry", "store", "github"]),
    ("isolation", &["model", "plain_file", "telemetry", "git"]),
    ("agent", &["model", "telemetry"]),
    (
        "orchestrator",
        &[
            "model",
            "command",
            "decide",
            "reply",
            "repo_settings",
            "telemetry",
            "store",
            "git",
            "github",
            "platform",
            "isolation",
            "agent",
        ],
    ),
    ("web", &["model", "reply", "telemetry", "store", "orchestrator", "github"]),
    ("config", &["model", "plain_file", "telemetry", "command", "decide"]),
    ("cli", &["config"]),
    ("demo", &["model"]),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below a directory, with their text.
fn sources(dir: &str) -> BTreeMap<String, String> {
    fn walk(dir: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&root().join(dir), &mut found);
    assert!(!found.is_empty());
    found
}

fn room(file: &str) -> &str {
    file.strip_prefix("src/").unwrap_or(file).split(['/', '.']).next().unwrap_or_default()
}

/// Whether a file holds tests only: unit tests may look at other rooms.
fn is_tests(file: &str) -> bool {
    file.ends_with("tests.rs")
}

/// The part of a file that ships.
fn shipping(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text)
}

#[test]
fn rooms_import_only_what_they_may() {
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    let mut wrong = Vec::new();
    for (file, text) in sources("src") {
        let Some(may) = allowed.get(room(&file)).filter(|_| !is_tests(&file)) else { continue };
        let code =
            shipping(&text).lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        for piece in code.split("crate::").skip(1) {
            let names: Vec<String> = match piece.strip_prefix('{') {
                Some(group) => {
                    let group = group.split("};").next().unwrap_or_default();
                    let mut depth = 0;
                    let flat: String = group
                        .chars()
                        .filter(|c| {
                            depth += i32::from(*c == '{');
                            let keep = depth == 0;
                            depth -= i32::from(*c == '}');
                            keep
                        })
                        .collect();
                    flat.split(',').map(|part| part.trim().split("::").next().unwrap_or_default().to_owned()).collect()
                }
                None => vec![piece.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()],
            };
            for name in names.into_iter().filter(|name| allowed.contains_key(name.as_str())) {
                if name != room(&file) && !may.contains(&name.as_str()) {
                    wrong.push(format!("{file} imports {name}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_file_says_what_lives_in_it() {
    for (file, text) in sources("src") {
        assert!(text.starts_with("//!"), "{file} has no header");
    }
}

#[test]
fn outside_worlds_have_one_door_each() {
    /// A text, and the files or rooms in which it may stand.
    const DOORS: &[(&str, &[&str])] = &[
        ("sqlx::", &["src/store/db.rs", "src/store/db/"]),
        ("octocrab", &["src/github/client.rs", "src/github/error.rs", "src/github.rs", "src/telemetry/log.rs"]),
        ("process::Command", &["src/git/command.rs", "src/agent/process.rs", "src/demo/"]),
        ("Command::new(", &["src/git/command.rs", "src/agent/process.rs", "src/demo/"]),
        ("env::var", &["src/config.rs", "src/app/story.rs", "src/demo/"]),
        ("Utc::now", &["src/app.rs", "src/store/web_sessions.rs", "src/github/", "src/demo/"]),
        ("cfg(test)]\n    ", &[]),
        ("todo!(", &[]),
        ("unimplemented!(", &[]),
    ];
    let mut wrong = Vec::new();
    for (file, text) in sources("src") {
        let code: Vec<&str> = shipping(&text).lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let code = code.join("\n");
        for (needle, places) in DOORS {
            if !is_tests(&file) && code.contains(needle) && !places.iter().any(|place| file.starts_with(place)) {
                wrong.push(format!("{file} uses {needle}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What agents, indexes, stashes and archives hold is named by no ref, and a worktree whose directory is away for a moment is
/// one all the same: no git that drops either is ever started, nor a repack that leaves anything out.
#[test]
fn no_git_is_started_that_drops_what_it_takes_for_garbage() {
    let dropping = ["gc", "prune", "prune-packed", "worktree prune", "reflog expire", "maintenance run", "repack"];
    for (file, text) in sources("src").iter().filter(|(file, _)| !file.starts_with("src/demo")) {
        let code = shipping(text);
        for name in dropping {
            let is_started = code.contains(&format!("\"{name}\")"));
            assert!(!is_started || (name == "repack" && file == "src/git/maintenance.rs"), "{file} starts git {name}");
        }
        for option in ["--prune=now", "--prune=all", "--unpack-unreachable", "--cruft", "--expire"] {
            assert!(!code.contains(option), "{file} has {option}");
        }
    }
    let maintenance = fs::read_to_string(root().join("src/git/maintenance.rs")).unwrap();
    let everything = maintenance.matches("\"-a\"").count();
    assert!(everything == 1 && maintenance.contains("&[\"-a\", \"--keep-unreachable\"]"));
}

/// The fields of the log events and spans in a file, by name.
fn logged_fields(text: &str) -> Vec<String> {
    const MACROS: [&str; 6] =
        ["tracing::trace!(", "tracing::debug!(", "tracing::info!(", "tracing::warn!(", "tracing::error!(", "_span!("];
    let mut fields = Vec::new();
    for place in MACROS.iter().flat_map(|name| text.match_indices(name)) {
        for argument in arguments(&text[place.0 + place.1.len()..]) {
            let argument = argument.trim();
            let group = argument.strip_prefix('{').and_then(|inner| inner.strip_suffix('}'));
            let each = group.map_or_else(|| vec![argument.to_owned()], arguments);
            for field in each.iter().map(|field| field.trim()) {
                if field.is_empty() || field.starts_with('"') || field.starts_with("target:") {
                    continue;
                }
                let name = field.split_once(" = ").map_or(field, |(name, _)| name);
                fields.push(name.trim_start_matches(['%', '?']).trim().to_owned());
            }
        }
    }
    fields
}

/// Splits at the commas outside every bracket and string, up to the bracket that closes what was opened before the text.
fn arguments(text: &str) -> Vec<String> {
    let (mut found, mut depth, mut quoted, mut escaped) = (vec![String::new()], 0_i32, false, false);
    for c in text.chars() {
        if quoted {
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else {
            match c {
                '"' => quoted = true,
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                ',' if depth == 0 => {
                    found.push(String::new());
                    continue;
                }
                _ => {}
            }
            if depth < 0 {
                break;
            }
        }
        found.last_mut().unwrap().push(c);
    }
    found
}

#[test]
fn log_fields_have_the_names_of_the_list() {
    let mut wrong = Vec::new();
    let mut used = BTreeMap::new();
    for (file, text) in sources("src").into_iter().filter(|(file, _)| !is_tests(file)) {
        let code: Vec<&str> = shipping(&text).lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for field in logged_fields(&code.join("\n")) {
            if !FIELDS.iter().any(|(name, _)| *name == field) {
                wrong.push(format!("{file} logs {field}"));
            }
            *used.entry(field).or_insert(0) += 1;
        }
    }
    wrong.extend(
        FIELDS.iter().filter(|(name, _)| !used.contains_key(*name)).map(|(name, _)| format!("nobody logs {name}")),
    );
    assert!(FIELDS.is_sorted_by_key(|(name, _)| *name), "by name");
    assert!(wrong.is_empty() && used["run.id"] > 10, "{wrong:#?}");
}

#[test]
fn the_demo_is_used_by_the_demo_only() {
    for (file, text) in sources("src") {
        let uses = text.contains("crate::demo");
        assert!(!uses || file.starts_with("src/demo") || file.starts_with("src/app/"), "{file} uses the demo");
    }
}

#[test]
fn the_readme_repeats_what_the_code_says() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for table in [treewarden::config::markdown_table(), treewarden::command::help::table()] {
        assert!(readme.contains(table.trim()), "README.md lacks this table as the code makes it:\n\n{table}");
    }
    for setting in serde_json::to_value(treewarden::model::RepoSettings::default()).unwrap().as_object().unwrap().keys()
    {
        assert!(readme.contains(&format!("| `{setting}` |")), "README.md lacks {setting}");
    }
}

/// Every `|` that is no border of a cell is escaped, also in code: GitHub cuts a row there and drops what is left over.
#[test]
fn rows_of_tables_have_as_many_cells_as_their_heads() {
    let cells = |row: &str| row.replace("\\|", "").matches('|').count();
    for file in ["README.md", "docs/operations.md"] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let (mut in_code, mut head) = (false, None);
        for line in text.lines().map(str::trim) {
            in_code ^= line.starts_with("```");
            if in_code || !line.starts_with('|') {
                head = None;
                continue;
            }
            assert_eq!(cells(line), *head.get_or_insert(cells(line)), "{file}: {line}");
        }
    }
}
