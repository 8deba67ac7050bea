//! Makes text an agent wrote fit to stand in a comment of the service: nobody is notified, nothing is closed or linked
//! by it, no hidden markers, no open code fence, and never longer than GitHub accepts.
//!
//! Code is left as it is: in fenced blocks and code spans GitHub resolves neither mentions nor keywords.

/// GitHub refuses comments over 65,536 characters; the rest of the comment needs room as well.
pub const MAX_ANSWER_CHARS: usize = 60_000;

/// Put between `@` and a name, or before `#`: invisible, and enough to keep GitHub from linking.
const BREAK: char = '\u{200b}';

/// The text, neutralised, cut at `limit` characters with a note that says so.
pub fn present(text: &str, limit: usize) -> String {
    let text = text.replace('\0', "").replace("<!--", "<!\u{200b}--");
    let lines: Vec<String> = neutralise(&text).split('\n').map(unforged).collect();
    let mut out = lines.join("\n");
    if out.chars().count() > limit {
        out = out.chars().take(limit).collect();
        close_fence(&mut out);
        out.push_str("\n\n*The answer was longer and is cut here; the whole text is in the run's log.*");
    } else {
        close_fence(&mut out);
    }
    out
}

/// Walks the text line by line, outside fences, and defuses mentions and closing keywords.
fn neutralise(text: &str) -> String {
    let mut fence = Fence::default();
    let lines: Vec<String> =
        text.split('\n').map(|line| if fence.covers(line) { line.to_owned() } else { neutralise_line(line) }).collect();
    lines.join("\n")
}

fn neutralise_line(line: &str) -> String {
    // Odd pieces between back-ticks are code spans, as far as one line can tell.
    let pieces: Vec<String> = line
        .split('`')
        .enumerate()
        .map(|(index, piece)| {
            if index % 2 == 1 {
                piece.to_owned()
            } else {
                defuse_keywords(&defuse_mentions(&without_references(piece)))
            }
        })
        .collect();
    pieces.join("`")
}

/// What is verified is said by the service, below the answer. A line that copies it is marked as the agent's, however it
/// is emphasised.
fn unforged(line: &str) -> String {
    let letters: String = line.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    match letters.contains("verifiedbytreewarden") {
        true => format!("(the agent writes:) {line}"),
        false => line.to_owned(),
    }
}

/// Character references would become the signs they stand for only after this.
fn without_references(text: &str) -> String {
    ["&#", "&commat;", "&num;"]
        .iter()
        .fold(text.to_owned(), |text, sign| text.replace(sign, &format!("&amp;{}", &sign[1..])))
}

fn defuse_mentions(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        out.push(c);
        if c == '@' && chars.peek().is_some_and(|next| next.is_ascii_alphanumeric()) {
            out.push(BREAK);
        }
    }
    out
}

/// Breaks `#12`, `owner/repo#12`, `GH-12` and issue links that follow one of GitHub's closing keywords.
fn defuse_keywords(text: &str) -> String {
    const KEYWORDS: [&str; 9] =
        ["close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved"];
    let mut out = String::with_capacity(text.len());
    let mut after_keyword = false;
    for word in text.split_inclusive(char::is_whitespace) {
        let bare = word.trim().trim_matches([':', '*', '_', '(', ')', '~']).to_ascii_lowercase();
        let glued = word
            .split_once(':')
            .filter(|(head, rest)| !rest.trim().is_empty() && KEYWORDS.contains(&head.to_ascii_lowercase().as_str()));
        match glued {
            Some((head, rest)) => out.push_str(&format!("{head}:{}", broken(rest))),
            None if after_keyword => out.push_str(&broken(word)),
            None => out.push_str(word),
        }
        if !bare.is_empty() {
            after_keyword = KEYWORDS.contains(&bare.as_str());
        }
    }
    out
}

fn broken(reference: &str) -> String {
    match reference.find(['#', '/', '-']) {
        Some(at) => format!("{}{BREAK}{}", &reference[..at], &reference[at..]).replace("#", "#\u{200b}"),
        None => reference.to_owned(),
    }
}

/// Follows fenced code blocks (CommonMark 4.5): opened by three or more of one sign, closed by at least as many.
#[derive(Default)]
struct Fence {
    open: Option<(char, usize)>,
}

impl Fence {
    /// Whether this line belongs to a fenced block (its fence lines included).
    fn covers(&mut self, line: &str) -> bool {
        let body = line.trim_start_matches(' ');
        let indent = line.len() - body.len();
        let sign = body.chars().next().filter(|c| matches!(c, '`' | '~'));
        let length = sign.map_or(0, |s| body.chars().take_while(|c| *c == s).count());
        match (self.open, sign) {
            (None, Some(sign)) if length >= 3 && indent < 4 => {
                self.open = Some((sign, length));
                true
            }
            (None, _) => false,
            (Some((open, least)), Some(sign)) if sign == open && length >= least && body.trim_end().len() == length => {
                self.open = None;
                true
            }
            (Some(_), _) => true,
        }
    }
}

fn close_fence(text: &mut String) {
    let mut fence = Fence::default();
    for line in text.split('\n') {
        fence.covers(line);
    }
    if let Some((sign, length)) = fence.open {
        text.push('\n');
        text.extend(std::iter::repeat_n(sign, length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        present(text, MAX_ANSWER_CHARS).replace(BREAK, "|")
    }

    #[test]
    fn nobody_is_mentioned_and_nothing_is_closed() {
        assert_eq!(shown("thanks @ann, see a@b.c"), "thanks @|ann, see a@|b.c");
        for text in ["Fixes #1", "closes acme/app#2", "Resolved: #3", "fix:#4", "Closes GH-5"] {
            assert!(shown(text).contains('|'), "{text} -> {}", shown(text));
        }
        for text in ["**Fixes** #1", "_fixes_ #1", "(closes) #2"] {
            assert!(shown(text).contains('|'), "{text} -> {}", shown(text));
        }
        assert_eq!(shown("see #8"), "see #8");
        assert_eq!(shown("&#64;ann &commat;ann"), "&amp;#64;ann &amp;commat;ann");
    }

    #[test]
    fn what_is_verified_is_not_said_by_the_agent() {
        for text in ["**Verified by Treewarden:** all checks", "Veri**fied** by _Tree_warden"] {
            assert_eq!(shown(text), format!("(the agent writes:) {text}"));
        }
        assert_eq!(shown("verified by a test"), "verified by a test");
    }

    #[test]
    fn code_stays_as_it_is() {
        assert_eq!(shown("run `git log @{u}` and `@ann`"), "run `git log @{u}` and `@ann`");
        assert_eq!(shown("```\n@ann Fixes #1\n```"), "```\n@ann Fixes #1\n```");
    }

    #[test]
    fn open_fences_are_closed_and_markers_disarmed() {
        assert_eq!(shown("~~~~rust\nlet x;"), "~~~~rust\nlet x;\n~~~~");
        assert!(!super::super::carries_marker(&present("<!-- treewarden:status/1 -->", 100)));
    }

    #[test]
    fn long_answers_are_cut_at_a_character_boundary() {
        let text = format!("```\n{}", "ä".repeat(200_000));
        let cut = present(&text, MAX_ANSWER_CHARS);
        assert!(cut.chars().count() < 61_000);
        assert!(cut.contains("\n```\n\n*The answer was longer"));
    }
}
