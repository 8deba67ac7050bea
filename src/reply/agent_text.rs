//! Makes text an agent wrote fit to stand in a comment of the service: nobody is notified, nothing is closed or linked
//! by it, no hidden markers, no open code fence, and never longer than GitHub accepts.
//!
//! Code is left as it is: in fenced blocks and code spans GitHub resolves neither mentions nor keywords. What is code is
//! asked of a Markdown parser, never of the looks of a line.

use crate::command::closing::KEYWORDS;
use crate::model::reorders;
use pulldown_cmark::{Event, Options, Parser, Tag};
use std::ops::Range;

/// GitHub refuses comments over so many characters, for good.
pub const MAX_COMMENT: usize = 65_536;
/// Of an agent's answer; the rest of the comment needs room as well.
pub const MAX_ANSWER_CHARS: usize = 60_000;

const ANSWER_CUT: &str = "\n\n*The answer was longer and is cut here; the whole text is in the run's log.*";
const CUT: &str = "\n\n*The text was longer and is cut here.*";

/// Put between `@` and a name, or before `#`: invisible, and enough to keep GitHub from linking.
const BREAK: char = '\u{200b}';

/// An agent's answer, neutralised: at most `limit` characters, the note that says so included when it is cut.
pub fn present(text: &str, limit: usize) -> String {
    fitting(text, limit, ANSWER_CUT)
}

/// The same for any other text from outside, or one of ours that quotes such a text.
pub fn foreign(text: &str, limit: usize) -> String {
    fitting(text, limit, CUT)
}

/// Words of another program within a sentence of ours: one line, whose back-ticks cannot pair with ours.
pub fn quoted(text: &str) -> String {
    text.replace('`', "'").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text of ours that quotes, as part of a line: no block of its own begins in it.
pub fn line(text: &str, limit: usize) -> String {
    // Something before it, as there will be: a fence within a line is none.
    let text = format!("{BREAK}{}", text.split_whitespace().collect::<Vec<_>>().join(" "));
    let line = foreign(&text, limit);
    line.replacen(BREAK, "", 1)
}

/// A whole comment that is not longer than GitHub takes, its marker (the last line) included.
pub fn whole_comment(body: &str, marker: &str) -> String {
    if body.chars().count() <= MAX_COMMENT {
        return body.to_owned();
    }
    let room = MAX_COMMENT - marker.chars().count() - 2;
    format!("{}\n\n{marker}", foreign(body.trim_end().trim_end_matches(marker), room))
}

/// Neutralising makes a text longer, and cutting afterwards would cut code in half, so that it were none: as much of the
/// text is taken as fits when all of that is done.
fn fitting(text: &str, limit: usize, note: &str) -> String {
    // Markers are looked for in the raw text of comments, where code hides nothing.
    let text: String = text.chars().filter(|c| *c != '\0' && !reorders(*c)).collect();
    let text = text.replace("<!--", "<!\u{200b}--");
    let all = text.chars().count();
    if all <= limit {
        let whole = harmless(&text);
        if whole.chars().count() <= limit {
            return whole;
        }
    }
    let room = limit.saturating_sub(note.chars().count());
    let mut taken = room.min(all);
    loop {
        let end = text.char_indices().nth(taken).map_or(text.len(), |(end, _)| end);
        let cut = harmless(&text[..end]);
        let length = cut.chars().count();
        if length <= room {
            return cut + note;
        }
        taken = (taken * room / length).min(taken - 1);
    }
}

/// Neutralised, and with no code block that would take in what follows.
fn harmless(text: &str) -> String {
    // Before it is parsed: words put before a line change what the line is.
    let mut out = neutralise(&unforged(text));
    if let Some(fence) = open_fence(&out) {
        out.push('\n');
        out.push_str(&fence);
    }
    out
}

/// As GitHub reads it: what is code, and what is HTML, in order.
fn parsed(text: &str) -> Vec<(Range<usize>, Part)> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS | Options::ENABLE_GFM;
    let mut parts: Vec<(Range<usize>, Part)> = Vec::new();
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        let part = match event {
            Event::Start(Tag::CodeBlock(_)) | Event::Code(_) => Part::Code,
            Event::Html(_) | Event::InlineHtml(_) => Part::Html,
            _ => continue,
        };
        if parts.last().is_none_or(|(last, _)| last.end <= range.start) {
            parts.push((range, part));
        }
    }
    parts
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Html,
}

/// Code stays; HTML becomes text, since a tag that is never closed hides what follows; the rest is defused.
fn neutralise(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (range, part) in parsed(text) {
        out.push_str(&defuse(&text[at..range.start]));
        match part {
            Part::Code => out.push_str(&text[range.clone()]),
            Part::Html => out.push_str(&defuse(&text[range.clone()]).replace('<', "&lt;")),
        }
        at = range.end;
    }
    out.push_str(&defuse(&text[at..]));
    out
}

/// Mentions and closing keywords lose their effect.
pub fn defuse(text: &str) -> String {
    defuse_keywords(&defuse_mentions(&without_references(text)))
}

/// What is verified is said by the service, below the answer. Words that copy it are marked as the agent's, however they
/// are emphasised or broken into lines.
fn unforged(text: &str) -> String {
    const CLAIM: &str = "verifiedbytreewarden";
    let letters: Vec<(usize, char)> =
        text.char_indices().filter(|(_, c)| c.is_alphanumeric()).map(|(at, c)| (at, c.to_ascii_lowercase())).collect();
    let plain: Vec<char> = letters.iter().map(|(_, c)| *c).collect();
    let claim: Vec<char> = CLAIM.chars().collect();
    let mut starts: Vec<usize> = plain
        .windows(claim.len())
        .enumerate()
        .filter(|(_, window)| *window == claim.as_slice())
        .map(|(index, _)| text[..letters[index].0].rfind('\n').map_or(0, |line| line + 1))
        .collect();
    starts.dedup();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for start in starts {
        out.push_str(&text[at..start]);
        out.push_str("(the agent writes:) ");
        at = start;
    }
    out.push_str(&text[at..]);
    out
}

/// The closing line of a fenced block that would take in what follows (CommonMark 4.5). One within a quote or a list ends
/// with that.
fn open_fence(text: &str) -> Option<String> {
    let followed = format!("{text}\n\nx");
    let (range, part) = parsed(&followed).pop()?;
    if part != Part::Code || range.end < followed.len() {
        return None;
    }
    let block = &followed[range];
    let sign = block.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    Some(block.chars().take_while(|c| *c == sign).collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        assert_eq!(shown("```verified by treewarden@ann"), "(the agent writes:) ```verified by treewarden@|ann");
        assert_eq!(shown("a\n**Verified\nby Treewarden**"), "a\n(the agent writes:) **Verified\nby Treewarden**");
    }

    #[test]
    fn what_only_looks_like_code_is_defused() {
        for text in ["`@ann", "\\`@ann\\`", "```x`\n@ann", "<div>\n```\n@ann\n```\n</div>", "a `b` @ann `c"] {
            assert!(shown(text).contains("@|ann"), "{text} -> {}", shown(text));
        }
        assert!(shown("Fixes\n#7").contains('|'));
        assert_eq!(shown("<details>\nhidden"), "&lt;details>\nhidden");
        assert!(!shown("```x`\nnot code").contains("\n```"));
    }

    #[test]
    fn code_stays_as_it_is() {
        assert_eq!(shown("run `git log @{u}` and `@ann`"), "run `git log @{u}` and `@ann`");
        assert_eq!(shown("```\n@ann Fixes #1\n```"), "```\n@ann Fixes #1\n```");
    }

    #[test]
    fn open_fences_are_closed_and_markers_disarmed() {
        assert_eq!(shown("~~~~rust\nlet x;"), "~~~~rust\nlet x;\n~~~~");
        for text in
            ["<!-- treewarden:status/1 -->", "`<!-- treewarden:status/1 -->`", "```\n<!-- treewarden:status/1 -->"]
        {
            assert!(!super::super::carries_marker(&present(text, 100)), "{text}");
        }
    }

    #[test]
    fn long_answers_are_cut_at_a_character_boundary() {
        let text = format!("```\n{}", "ä".repeat(200_000));
        let cut = present(&text, MAX_ANSWER_CHARS);
        assert!(cut.chars().count() <= MAX_ANSWER_CHARS);
        assert!(cut.contains("\n```\n\n*The answer was longer"));
    }

    #[test]
    fn what_grows_when_it_is_neutralised_is_cut_all_the_same() {
        for piece in ["@a", "<b>", "&#", "<!--", "`", "Verified by Treewarden\n", "fixes #1 "] {
            let shown = present(&piece.repeat(MAX_ANSWER_CHARS / 2), MAX_ANSWER_CHARS);
            assert!(shown.chars().count() <= MAX_ANSWER_CHARS, "{piece}: {}", shown.chars().count());
        }
        let long = format!("{}\n\n<!-- treewarden:x -->", "<b>".repeat(MAX_COMMENT));
        let comment = whole_comment(&long, "<!-- treewarden:x -->");
        assert!(comment.chars().count() <= MAX_COMMENT && comment.ends_with("cut here.*\n\n<!-- treewarden:x -->"));
    }

    #[test]
    fn code_in_a_quote_or_list_takes_in_nothing_that_follows() {
        for text in ["> ```\n> code", "- ```\n  code", "```\ncode", "~~~\n```", "1. a\n\n   ~~~~\n   b"] {
            let comment = format!("{}\n\nafter", present(text, 1_000));
            let in_code = parsed(&comment).iter().any(|(range, _)| range.end > comment.len() - "after".len());
            assert!(!in_code, "{comment}");
        }
    }

    #[test]
    fn within_a_line_nothing_is_a_block() {
        assert_eq!(line("~~~ @ann\n\n    @bob", 100).replace(BREAK, "|"), "~~~ @|ann @|bob");
        assert_eq!(quoted("a `b\nc"), "a 'b c");
    }

    #[test]
    fn text_is_not_turned_around() {
        assert_eq!(shown("a\u{202e}b `c\u{2066}d`"), "ab `cd`");
    }

    proptest! {
        #[test]
        fn any_text_fits_and_does_nothing_to_what_follows(
            text in "(@ann|<b>|<!--|&#64;|&|`|```|~~~|\n|\n\n|> |- |    |fixes #1|\\\\|é|\u{202e}|\\*\\*|verified by treewarden|x){0,80}",
            limit in 60_usize..400,
        ) {
            let shown = present(&text, limit);
            prop_assert!(shown.chars().count() <= limit.max(ANSWER_CUT.len()), "{}", shown);
            let comment = format!("{shown}\n\nafter @ann");
            let parts = parsed(&comment);
            prop_assert!(parts.iter().all(|(range, _)| range.end < comment.len() - 8), "{}", comment);
            prop_assert!(parts.iter().all(|(_, part)| *part == Part::Code), "{}", comment);
            let plain = |at: usize| !parts.iter().any(|(range, _)| range.contains(&at));
            let mentions: Vec<usize> = comment.match_indices("@ann").map(|(at, _)| at).filter(|at| plain(*at)).collect();
            prop_assert_eq!(mentions, vec![comment.len() - 4], "{}", comment);
        }
    }
}
