//! A textual diff as files and coloured lines. Pure.

/// One file of a diff.
pub(super) struct FileDiff {
    pub name: String,
    pub lines: Vec<Line>,
}

pub(super) struct Line {
    /// Class of the style sheet: `add`, `del`, `hunk` or `same`.
    pub class: &'static str,
    pub text: String,
}

/// Lines beyond this many are left out of a page.
const LIMIT: usize = 2000;

pub(super) fn files(diff: &str) -> Vec<FileDiff> {
    let mut files: Vec<FileDiff> = Vec::new();
    let mut in_header = false;
    for line in diff.lines().take(LIMIT) {
        if let Some(names) = line.strip_prefix("diff --git ") {
            let name = names.rsplit_once(" b/").map_or(names, |(_, name)| name).to_owned();
            files.push(FileDiff { name, lines: Vec::new() });
            in_header = true;
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        in_header &= !line.starts_with("@@");
        if in_header {
            continue;
        }
        let class = match line.as_bytes().first() {
            Some(b'+') => "add",
            Some(b'-') => "del",
            Some(b'@') => "hunk",
            _ => "same",
        };
        file.lines.push(Line { class, text: line.to_owned() });
    }
    files
}

#[cfg(test)]
mod tests {
    use super::files;

    #[test]
    fn header_lines_are_not_changes() {
        let text = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n";
        let files = files(text);
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].name, "x");
        let classes: Vec<_> = files[0].lines.iter().map(|line| line.class).collect();
        assert_eq!(classes, ["hunk", "del", "add"]);
    }
}
