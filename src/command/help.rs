//! The text of `/help`, made from the table of commands.

use super::grammar::{COMMANDS, Entry};

/// Markdown: one line a command, and what happens without one. `slug`: how the service is mentioned where it has to be.
pub fn text(slug: Option<&str>) -> String {
    let rows = COMMANDS.iter().map(|entry| format!("- `{}` – {}", entry.usage, entry.does));
    let list: Vec<String> = rows.collect();
    let begin = match slug {
        Some(slug) => format!(
            "Mention `@{slug}` with a request and I work on it in a worktree of its own. One of these, as the first word \
             or on a line of its own, is answered at once, without the agent:"
        ),
        None => "Say what is to be done, and I work on it in a worktree of its own. One of these, as the first word or on a line of \
                 its own, is answered at once, without the agent:"
            .to_owned(),
    };
    format!("{begin}\n\n{}", list.join("\n"))
}

/// The same as rows of a Markdown table, for the README. A `|` ends a cell there, also in code.
pub fn table() -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let row = |entry: &Entry| format!("| `{}` | {} |", cell(entry.usage), cell(entry.does));
    let rows: Vec<String> = COMMANDS.iter().map(row).collect();
    format!("| command | what it does |\n|---|---|\n{}\n", rows.join("\n"))
}
