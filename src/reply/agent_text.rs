//! Makes text an agent wrote fit to stand in a comment of the service: nobody is notified, nothing is closed or linked
//! by it, no hidden markers, no open code fence, and never longer than GitHub accepts.
//!
//! Code is left as it is: in fenced blocks and code spans GitHub resolves neither mentions nor keywords. What is code is
//! asked of a Markdown parser, never of the looks of a line.

use pulldown_cmark::{Event, Options, Parser, Tag};
use std::ops::Range;

/// GitHub refuses comments over 65,536 characters; the rest of the comment needs room as well.
pub const MAX_ANSWER_CHARS: usize = 60_000;

/// Put between `@` and a name, or before `#`: invisible, and enough to keep GitHub from linking.
const BREAK: char = '\u{200b}';

/// The text, cut at `limit` characters with a note that says so, and neutralised.
pub fn present(text: &str, limit: usize) -> String {
    // Markers are looked for in the raw text of comments, where code hides nothing.
    let text = text.replace('\0', "").replace("<!--", "<!\u{200b}--");
    let cut = text.char_indices().nth(limit).map(|(end, _)| &text[..end]);
    let mut out = unforged(&neutralise(cut.unwrap_or(&text)));
    if let Some(fence) = open_fence(&out) {
        out.push('\n');
        out.push_str(&fence);
    }
    if cut.is_some() {
        out.push_str("\n\n*The answer was longer and is cut here; the whole text is in the run's log.*");
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

/// The closing line of a fenced block that lasts to the end of the text (CommonMark 4.5).
fn open_fence(text: &str) -> Option<String> {
    let (range, part) = parsed(text).pop()?;
    let block = &text[range.clone()];
    let sign = block.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    let length = block.chars().take_while(|c| *c == sign).count();
    if part != Part::Code || length < 3 || !text[range.end..].trim().is_empty() {
        return None;
    }
    let last = block.trim_end().rsplit_once('\n').map(|(_, line)| line.trim_start_matches(['>', ' ']));
    let closed = last.is_some_and(|line| line.len() >= length && line.chars().all(|c| c == sign));
    (!closed).then(|| sign.to_string().repeat(length))
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
        assert!(cut.chars().count() < 61_000);
        assert!(cut.contains("\n```\n\n*The answer was longer"));
    }
}
