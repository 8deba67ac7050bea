//! Makes text an agent wrote fit to stand in a comment of the service: nobody is notified, nothing is closed or linked
//! by it, no hidden markers, no open code fence, and never longer than GitHub accepts.
//!
//! Code is left as it is: in fenced blocks and code spans GitHub resolves neither mentions nor keywords. What is code is
//! asked of a Markdown parser, never of the looks of a line.

pub mod parts;

use crate::command::closing::KEYWORDS;
use crate::model::{markdown, reorders};
use pulldown_cmark::{Event, Tag, TagEnd};
use std::{collections::BTreeMap, ops::Range};

/// GitHub refuses comments over so many characters, for good.
pub const MAX_COMMENT: usize = 65_536;
/// The same for the summary of a check run.
const MAX_SUMMARY: usize = 65_535;
/// Of an agent's answer; the rest of the comment needs room as well.
pub const MAX_ANSWER_CHARS: usize = 60_000;

const ANSWER_CUT: &str = "\n\n*The answer was longer and is cut here; the whole text is in the run's log.*";
const CUT: &str = "\n\n*The text was longer and is cut here.*";

/// Put between `@` and a name, or into a closing keyword: invisible, and enough to keep GitHub from taking them for one.
const BREAK: &str = "\u{200b}";
/// Character references that stay: what they stand for is part of no mention and of nothing that closes.
const PLAIN_REFERENCES: [&str; 5] = ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;"];
/// Making a text harmless can change what in it is code. After so many readings nothing is left to be code.
const MOST_READINGS: usize = 8;
/// Letters of the longest closing keyword.
const MAX_KEYWORD: usize = "resolved".len();
/// Letters in which a word shows that it names an issue: an owner and a repository have 140 at most.
const MAX_REFERENCE: usize = 200;

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

/// The same where nobody neutralises the sentence as a whole.
pub fn said(text: &str, limit: usize) -> String {
    line(&quoted(text), limit)
}

/// A text of ours that quotes, as part of a line: no block of its own begins in it.
pub fn line(text: &str, limit: usize) -> String {
    // Something before it, as there will be: a fence within a line is none.
    let text = format!("{BREAK}{}", text.split_whitespace().collect::<Vec<_>>().join(" "));
    foreign(&text, limit).replacen(BREAK, "", 1)
}

/// A whole comment that is not longer than GitHub takes, its marker (the last line) included.
pub fn whole_comment(body: &str, marker: &str) -> String {
    if body.chars().count() <= MAX_COMMENT {
        return body.to_owned();
    }
    let room = MAX_COMMENT - marker.chars().count() - 2;
    format!("{}\n\n{marker}", foreign(body.trim_end().trim_end_matches(marker), room))
}

/// The summary of a check run, not longer than GitHub takes.
pub fn whole_summary(text: &str) -> String {
    match text.chars().count() <= MAX_SUMMARY {
        true => text.to_owned(),
        false => foreign(text, MAX_SUMMARY),
    }
}

/// Neutralising makes a text longer, and cutting afterwards would cut code in half, so that it were none: as much of the
/// text is taken as fits when all of that is done.
fn fitting(text: &str, limit: usize, note: &str) -> String {
    let text = unmarked(text);
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

/// Markers are looked for in the raw text of comments, where code hides nothing.
fn unmarked(text: &str) -> String {
    let text: String = text.chars().filter(|c| *c != '\0' && !reorders(*c)).collect();
    text.replace("<!--", "<!\u{200b}--")
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

/// What is code, and what is HTML, in order.
fn parsed(text: &str) -> Vec<(Range<usize>, Part)> {
    let mut parts: Vec<(Range<usize>, Part)> = Vec::new();
    for (event, range) in markdown(text).into_offset_iter() {
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

/// Code stays; HTML becomes text, since a tag that is never closed hides what follows; the rest loses its effect. Read
/// again until nothing is left to do: a fence that stood in HTML is one afterwards, and what was code may be text.
fn neutralise(text: &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..MOST_READINGS {
        let parts = parsed(&text);
        let next = Mends::of(&text, &parts).applied();
        if next == text {
            return text;
        }
        text = next;
    }
    Mends::of(&text.replace('<', "&lt;"), &[]).applied()
}

/// Mentions and closing keywords in a text without Markdown lose their effect.
pub fn defuse(text: &str) -> String {
    let mut mends = Mends { text, at: BTreeMap::new() };
    mends.mentions(0..text.len());
    mends.keywords(&Shown::raw(text));
    mends.applied()
}

/// What is put into a text: at each place, how much of it goes and what comes instead.
struct Mends<'a> {
    text: &'a str,
    at: BTreeMap<usize, (usize, &'static str)>,
}

impl<'a> Mends<'a> {
    fn of(text: &'a str, parts: &[(Range<usize>, Part)]) -> Self {
        let mut mends = Self { text, at: BTreeMap::new() };
        let mut shown = Shown::raw(text);
        let mut at = 0;
        for (range, part) in parts.iter().cloned().chain([(text.len()..text.len(), Part::Code)]) {
            mends.prose(at..range.start);
            match part {
                Part::Code => shown.letters.iter_mut().filter(|(at, _)| range.contains(at)).for_each(|(_, c)| *c = ' '),
                Part::Html => mends.html(range.clone()),
            }
            at = range.end;
        }
        mends.keywords(&shown);
        mends.keywords(&Shown::rendered(text));
        mends
    }

    fn applied(self) -> String {
        let mut out = String::with_capacity(self.text.len());
        let mut done = 0;
        for (at, (length, instead)) in self.at {
            out.push_str(&self.text[done..at]);
            out.push_str(instead);
            done = at + length;
        }
        out.push_str(&self.text[done..]);
        out
    }

    fn prose(&mut self, range: Range<usize>) {
        self.mentions(range.clone());
        self.references(range);
    }

    fn html(&mut self, range: Range<usize>) {
        let tags = self.text[range.clone()].match_indices('<').map(|(at, _)| (range.start + at, (1, "&lt;")));
        self.at.extend(tags);
        self.prose(range);
    }

    fn mentions(&mut self, range: Range<usize>) {
        let text = &self.text[range.clone()];
        let names = text.match_indices('@').map(|(at, _)| at + 1);
        let names = names.filter(|at| text[*at..].starts_with(|c: char| c.is_ascii_alphanumeric()));
        self.at.extend(names.map(|at| (range.start + at, (0, BREAK))));
    }

    /// Character references would become the signs they stand for only after this.
    fn references(&mut self, range: Range<usize>) {
        let text = &self.text[range.clone()];
        let signs = text.match_indices('&').map(|(at, _)| at).filter(|at| is_reference(&text[*at..]));
        self.at.extend(signs.map(|at| (range.start + at, (1, "&amp;"))));
    }

    fn keywords(&mut self, shown: &Shown) {
        for at in shown.closing_keywords() {
            self.at.entry(at).or_insert((0, BREAK));
        }
    }
}

/// A text as the page shows it, each letter with its place in the source.
struct Shown {
    letters: Vec<(usize, char)>,
    /// Indices of letters with which a piece of the page begins.
    borders: Vec<usize>,
}

impl Shown {
    fn raw(text: &str) -> Self {
        Self { letters: text.char_indices().collect(), borders: Vec::new() }
    }

    /// Signs of emphasis, code, and what else stands between words without being one, are nothing here: GitHub may take no
    /// notice of them either. In the place of a link stands the sign of a reference.
    fn rendered(text: &str) -> Self {
        let mut shown = Self { letters: Vec::new(), borders: Vec::new() };
        let mut in_code = false;
        for (event, range) in markdown(text).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(_)) => in_code = true,
                Event::End(TagEnd::CodeBlock) => in_code = false,
                Event::Start(Tag::Link { .. } | Tag::Image { .. }) => shown.letters.push((range.start, '#')),
                Event::Text(piece) if !in_code => shown.push(&piece, range, text),
                Event::SoftBreak | Event::HardBreak => shown.letters.push((range.start, ' ')),
                Event::End(end) if !is_inline(end) => shown.letters.push((range.end, '\n')),
                _ => {}
            }
        }
        shown
    }

    fn push(&mut self, piece: &str, range: Range<usize>, text: &str) {
        self.borders.push(self.letters.len());
        let as_written = text[range.clone()] == *piece;
        let place = |at: usize| if as_written { range.start + at } else { range.start };
        self.letters.extend(piece.char_indices().map(|(at, c)| (place(at), c)));
    }

    /// Where to break each closing keyword that something follows which may be an issue (`#12`, `owner/repo#12`, `GH-12`, an
    /// address, a link), whatever signs and blanks stand between.
    fn closing_keywords(&self) -> Vec<usize> {
        let is_word = |index: usize| self.letters.get(index).is_some_and(|(_, c)| c.is_ascii_alphanumeric());
        let starts = (0..self.letters.len()).filter(|index| {
            is_word(*index) && (*index == 0 || !is_word(index - 1) || self.borders.binary_search(index).is_ok())
        });
        starts
            .filter(|start| {
                let length = (*start..).take_while(|index| is_word(*index)).take(MAX_KEYWORD + 1).count();
                self.is_keyword(*start, length) && self.names_an_issue(start + length)
            })
            .map(|start| self.letters[start + 1].0)
            .collect()
    }

    fn is_keyword(&self, start: usize, length: usize) -> bool {
        let word = || self.letters[start..start + length].iter().map(|(_, c)| c.to_ascii_lowercase());
        KEYWORDS.iter().any(|keyword| keyword.chars().eq(word()))
    }

    fn names_an_issue(&self, from: usize) -> bool {
        let rest = || self.letters[from..].iter().map(|(_, c)| *c);
        let between = rest().take_while(|c| !c.is_ascii_alphanumeric());
        let gap = between.clone().count();
        let word: String = rest().skip(gap).take_while(|c| !c.is_whitespace()).take(MAX_REFERENCE).collect();
        between.clone().any(|c| c == '#') || word.contains(['#', '/']) || word.to_ascii_lowercase().starts_with("gh-")
    }
}

fn is_reference(text: &str) -> bool {
    let named = |name: &str| name.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).starts_with(';');
    text[1..].starts_with(|c: char| c == '#' || c.is_ascii_alphabetic())
        && named(text[1..].trim_start_matches('#'))
        && !PLAIN_REFERENCES.iter().any(|plain| text.starts_with(plain))
}

fn is_inline(end: TagEnd) -> bool {
    matches!(end, TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image)
}

/// What is verified is said by the service, below the answer. Words that copy it are marked as the agent's, however they
/// are emphasised or broken into lines. Marked once: doing it again changes nothing.
fn unforged(text: &str) -> String {
    const CLAIM: &str = "verifiedbytreewarden";
    const MARK: &str = "(the agent writes:) ";
    let letters: Vec<(usize, char)> =
        text.char_indices().filter(|(_, c)| c.is_alphanumeric()).map(|(at, c)| (at, c.to_ascii_lowercase())).collect();
    let plain: Vec<char> = letters.iter().map(|(_, c)| *c).collect();
    let claim: Vec<char> = CLAIM.chars().collect();
    let mut starts: Vec<usize> = plain
        .windows(claim.len())
        .enumerate()
        .filter(|(_, window)| *window == claim.as_slice())
        .map(|(index, _)| text[..letters[index].0].rfind('\n').map_or(0, |line| line + 1))
        .filter(|line| !text[*line..].starts_with(MARK))
        .collect();
    starts.dedup();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for start in starts {
        out.push_str(&text[at..start]);
        out.push_str(MARK);
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
        assert_eq!(shown("see #8, a fixed bug &lt; R&D; &co"), "see #8, a fixed bug &lt; R&amp;D; &co");
        assert_eq!(shown("&#64;ann &commat;ann"), "&amp;#64;ann &amp;commat;ann");
        assert_eq!(defuse("`fixes #1` R&amp;D @ann"), "`f\u{200b}ixes #1` R&amp;D @\u{200b}ann");
    }

    /// Each keyword is broken, whatever stands for the signs between it and the issue, and wherever on the page it stands.
    #[test]
    fn nothing_closes_an_issue_however_it_is_written() {
        for text in [
            "Fixes&colon; #99",
            "Fixes\\: #99",
            "Fixes&Tab;#99",
            "Fixes \\#99",
            "Fi**xes** #99",
            "pre**fixes #99**",
            "~~Fixes~~ #99",
            "Fixes ~~~~ #99",
            "Fixes https://github.com/acme/app/issues/99",
            "Fixes <https://github.com/acme/app/issues/99>",
            "Fixes [it](https://github.com/acme/app/issues/99)",
            "Fixes [it][r]\n\n[r]: https://github.com/acme/app/issues/99",
            "Fixes [](x) #99",
            "Fixes: GH-99",
            "| a |\n|-|\n| Fixes acme/app#99 |",
            "- [ ] Fixes #99",
            "> [!NOTE]\n> Fixes #99",
            "Done.[^1]\n\n[^1]: note\n\n    Fixes #99",
        ] {
            let shown = shown(text);
            assert!(["F|i", "f|i", "F**|i"].iter().any(|broken| shown.contains(broken)), "{text} -> {shown}");
        }
        assert_eq!(shown("&#70;ixes #99"), "&amp;#70;|ixes #99");
    }

    #[test]
    fn what_is_text_only_when_html_is_none_is_defused() {
        let shown = shown("<b>\n```\n\n```\n@ann Fixes #1\n```");
        assert!(shown.contains("@|ann F|ixes"), "{shown}");
        assert_eq!(super::present("Done.[^1]\n\n[^1]: note\n\n    @ann\n", 1_000).matches(BREAK).count(), 1);
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
        assert_eq!(said("hook: @ann, <b> fixes #1", 100).replace(BREAK, "|"), "hook: @|ann, &lt;b> f|ixes #1");
    }

    #[test]
    fn text_is_not_turned_around() {
        assert_eq!(shown("a\u{202e}b `c\u{2066}d`"), "ab `cd`");
    }

    proptest! {
        #[test]
        fn any_text_fits_and_does_nothing_to_what_follows(
            text in "(@ann|<b>|<!--|&#64;|&|`|```|~~~|\n|\n\n|> |- |    |fixes #1|\\\\|é|\u{202e}|\\*\\*|verified by treewarden|x|\\[\\^1\\]|: |<a@b|&colon;){0,80}",
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
