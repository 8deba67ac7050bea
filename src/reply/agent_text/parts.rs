//! A text that is too long for one comment, in several: it is parted between blocks where that leaves no part short, else
//! between lines, else between characters. Code that goes on is closed in one part and opened again in the next, and each
//! part is made harmless by itself, since parting changes what in a text is code.

use super::{ANSWER_CUT, CUT, MAX_ANSWER_CHARS, MAX_COMMENT, harmless, neutralise, unforged, unmarked};
use crate::model::markdown;
use crate::reply::marker;
use pulldown_cmark::{CodeBlockKind, Event, Tag};

/// The comments that one text becomes at most; what does not fit into them is cut.
pub const MOST: usize = 4;
/// Characters of an answer that goes on in other comments in the status comment, whose other lines may change later: no
/// word of it may be lost by that.
pub const FIRST: usize = 40_000;
/// Characters of a list within an answer of ours.
pub const MAX_LIST: usize = 200_000;

/// For what says which of the parts one is.
const NUMBERING: usize = 60;
/// A fence with a longer line is not opened again.
const MAX_FENCE: usize = 200;
/// Read beyond where a text may be parted, to see whether its code goes on.
const BEYOND: usize = 1_000;

/// An agent's answer, neutralised: the part for the status comment, and those for the comments after it.
pub fn of_answer(text: &str) -> Vec<String> {
    let sizes = Sizes { first: FIRST, others: MAX_ANSWER_CHARS, cut: ANSWER_CUT };
    numbered(parted(text, &sizes))
}

/// A comment of ours, whose last line is its marker, with the outbox key of each part. One that GitHub takes stays as it is.
pub fn of_comment(key: &str, body: String) -> Vec<(String, String)> {
    if body.chars().count() <= MAX_COMMENT {
        return vec![(key.to_owned(), body)];
    }
    let sizes = Sizes { first: MAX_ANSWER_CHARS, others: MAX_ANSWER_CHARS, cut: CUT };
    let text = body.trim_end();
    let text = text.strip_suffix(&marker(key)).unwrap_or(text).trim_end();
    let parts = numbered(parted(text, &sizes));
    let keyed = parts.into_iter().zip(1..).map(|(part, number)| {
        let key = self::key(key, number);
        let marker = marker(&key);
        (key, format!("{part}\n\n{marker}"))
    });
    keyed.collect()
}

/// The outbox key of a part; the first has that of the whole.
pub fn key(whole: &str, number: usize) -> String {
    match number {
        1 => whole.to_owned(),
        _ => format!("{whole}/{number}"),
    }
}

struct Sizes {
    /// Characters in the first part, and in each of the others.
    first: usize,
    others: usize,
    /// The note where even the last part does not hold all.
    cut: &'static str,
}

fn numbered(mut parts: Vec<String>) -> Vec<String> {
    let all = parts.len();
    if all > 1 {
        parts[0].push_str(&format!("\n\n*Part 1 of {all}: it goes on in the next comment.*"));
        for (part, number) in parts.iter_mut().zip(1..).skip(1) {
            *part = format!("*Part {number} of {all}*\n\n{part}");
        }
    }
    parts
}

fn parted(text: &str, sizes: &Sizes) -> Vec<String> {
    let text = unmarked(text);
    // Neutralising makes a text longer, never shorter.
    let enough = sizes.first + sizes.others * (MOST - 1) + 1;
    let text = neutralise(&unforged(&text[..place(&text, enough)]));
    let mut parts = Vec::new();
    let (mut at, mut fence) = (0, String::new());
    loop {
        let room = if parts.is_empty() { sizes.first } else { sizes.others }.saturating_sub(NUMBERING);
        let mut next = taken(&fence, &text[at..], room);
        let is_rest = at + next.end == text.len();
        let is_last = parts.len() + 1 == MOST;
        if is_last && !is_rest {
            next = taken(&fence, &text[at..], room.saturating_sub(sizes.cut.chars().count()));
            next.shown.push_str(sizes.cut);
        }
        parts.push(next.shown);
        if is_last || is_rest {
            return parts;
        }
        (at, fence) = (at + next.end, next.fence);
    }
}

/// What one part takes of a text.
struct Taken {
    shown: String,
    end: usize,
    /// The line that opens the code again which goes on after it; empty where none does.
    fence: String,
}

/// As much of a text as fits behind the line that opens its code again.
fn taken(fence: &str, text: &str, room: usize) -> Taken {
    let fence = if fence.chars().count() > MAX_FENCE.min(room / 8) { "" } else { fence };
    let mut most = room;
    loop {
        let reach = place(text, most);
        let (end, next) = match reach == text.len() {
            true => (reach, String::new()),
            false => border(fence, text, reach),
        };
        let shown = harmless(&format!("{fence}{}", &text[..end]));
        let length = shown.chars().count();
        if length <= room || most == 0 {
            return Taken { shown, end, fence: next };
        }
        let took = text[..end].chars().count();
        most = (took * room / length).min(took.saturating_sub(1));
    }
}

/// Where to part a text, `reach` at the latest, and the line that opens the code which that parts.
fn border(fence: &str, text: &str, reach: usize) -> (usize, String) {
    let seen = format!("{fence}{}", &text[..reach + place(&text[reach..], BEYOND)]);
    let line_of = |at: usize| seen[..at].rfind('\n').map_or(0, |line| line + 1);
    let (from, to) = (fence.len() + reach / 2, fence.len() + reach);
    let (mut blocks, mut code, mut depth) = (Vec::new(), Vec::new(), 0usize);
    for (event, range) in markdown(&seen).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 || (depth == 1 && matches!(tag, Tag::Item)) {
                    blocks.push(line_of(range.start));
                }
                if matches!(tag, Tag::CodeBlock(CodeBlockKind::Fenced(_))) {
                    code.push(range);
                }
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    let inside = |at: usize| code.iter().find(|range| range.start < at && at < range.end);
    let block = blocks.into_iter().filter(|at| (from..=to).contains(at) && inside(*at).is_none()).max();
    let line = || Some(line_of(to)).filter(|at| *at > from);
    let at = block.or_else(line).unwrap_or(to);
    let opened = inside(at).map_or("", |range| seen[line_of(range.start)..].split_inclusive('\n').next().unwrap_or(""));
    (at - fence.len(), opened.to_owned())
}

/// The byte at which so many characters of a text end.
fn place(text: &str, characters: usize) -> usize {
    text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::super::{Part as Kind, parsed};
    use super::*;
    use proptest::prelude::*;

    /// Without their numbers.
    fn shown(text: &str, limit: usize) -> Vec<String> {
        parted(text, &Sizes { first: limit + NUMBERING, others: limit + NUMBERING, cut: CUT })
    }

    #[test]
    fn what_fits_is_one_part() {
        assert_eq!(of_answer("a\n\nb"), ["a\n\nb"]);
        let comment = format!("{}\n\n{}", "x".repeat(50_000), marker("answer/1"));
        assert_eq!(of_comment("answer/1", comment.clone()), [("answer/1".to_owned(), comment)]);
    }

    #[test]
    fn a_text_is_parted_between_blocks_else_lines_else_characters() {
        assert_eq!(shown("one two\n\nthree\nfour five", 17), ["one two\n\n", "three\nfour five"]);
        assert_eq!(shown("- one\n- two\n- three\n- four", 16), ["- one\n- two\n", "- three\n- four"]);
        assert_eq!(shown("one two three four\nfive six", 20), ["one two three four\n", "five six"]);
        assert_eq!(shown("ääääääääää", 6), ["ääääää", "ääää"]);
    }

    #[test]
    fn code_that_goes_on_is_closed_and_opened_again() {
        for (opened, closed) in [("~~~~rust\n", "~~~~\n"), ("> ```\n", "> ```\n"), ("- ```rust\n", "  ```\n")] {
            let lead = if opened.starts_with(['>', '-']) { &closed[..2] } else { "" };
            let lines: Vec<String> = (10..30).map(|n| format!("{lead}let line = {n}; // @ann\n")).collect();
            let parts = shown(&format!("{opened}{}{closed}\ndone", lines.concat()), 200);
            assert!(parts.len() > 2, "{parts:?}");
            assert!(parts.iter().all(|part| part.starts_with(opened) && !part.contains('\u{200b}')), "{parts:?}");
            assert!(parts.last().unwrap().ends_with("\ndone"), "{parts:?}");
            let told = parts.concat();
            let told: Vec<&str> = told.lines().filter(|line| line.contains("let line")).collect();
            assert_eq!(told, lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_fence_too_long_to_say_again_is_not() {
        let parts = shown(&format!("```{}\n{}", "x".repeat(500), "a @ann b\n".repeat(300)), 1_000);
        assert!(parts[1].starts_with("a @\u{200b}ann"), "{}", parts[1]);
    }

    #[test]
    fn parts_are_numbered_and_keyed() {
        let long = format!("{}\n\n{}", "line\n".repeat(20_000), marker("answer/1"));
        let parts = of_comment("answer/1", long);
        let keys: Vec<&str> = parts.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["answer/1", "answer/1/2"]);
        assert!(parts[0].1.ends_with("*Part 1 of 2: it goes on in the next comment.*\n\n<!-- treewarden:answer/1 -->"));
        assert!(
            parts[1].1.starts_with("*Part 2 of 2*\n\nline\n") && parts[1].1.ends_with("<!-- treewarden:answer/1/2 -->")
        );
        assert!(parts.iter().all(|(_, part)| part.chars().count() <= MAX_COMMENT));
        assert_eq!(parts.iter().map(|(_, part)| part.matches("line\n").count()).sum::<usize>(), 20_000);
    }

    #[test]
    fn more_than_four_parts_are_cut_with_the_present_note() {
        let parts = of_answer(&format!("```text\n{}", "@ann fixes #1\n".repeat(40_000)));
        assert_eq!(parts.len(), MOST);
        assert!(
            parts[3].ends_with("\n```\n\n*The answer was longer and is cut here; the whole text is in the run's log.*")
        );
        assert!(parts[..3].iter().all(|part| !part.contains("is cut here")));
        assert!(parts[1].starts_with("*Part 2 of 4*\n\n```text\n@ann"));
        for (part, most) in parts.iter().zip([FIRST, MAX_ANSWER_CHARS, MAX_ANSWER_CHARS, MAX_ANSWER_CHARS]) {
            assert!(part.chars().count() <= most, "{}", part.chars().count());
        }
    }

    #[test]
    fn what_grows_when_it_is_neutralised_fits_all_the_same() {
        for piece in ["@a", "<b>", "&#", "<!--", "`", "Verified by Treewarden\n", "fixes #1 ", "````````\n"] {
            for part in of_answer(&piece.repeat(MAX_ANSWER_CHARS)) {
                assert!(part.chars().count() <= MAX_ANSWER_CHARS, "{piece}: {}", part.chars().count());
            }
        }
    }

    #[test]
    fn what_is_marked_as_the_agents_is_marked_once_in_each_part() {
        let parts = shown(&format!("{}Verified by Treewarden: all", "x ".repeat(200)), 300);
        assert_eq!(parts.concat().matches("(the agent writes:) ").count(), parts.len(), "{parts:?}");
    }

    /// Text whose words are numbered, so that each can be looked for.
    fn texts() -> impl Strategy<Value = String> {
        const SIGNS: [&str; 22] = [
            "@ann ",
            "<b> ",
            "<!-- ",
            "&#64;ann ",
            "`",
            "\n```rust\n",
            "\n```\n",
            "\n~~~~\n",
            "\n",
            "\n\n",
            "\n> ",
            "\n- ",
            "\n    ",
            "fixes #1 ",
            "\\",
            "é",
            "**",
            "verified by treewarden ",
            "[^1]",
            "\n| a |\n|-|\n",
            "<details>\n",
            "closes acme/app#2 ",
        ];
        proptest::collection::vec((0..SIGNS.len() * 3, 1..6_usize), 0..120).prop_map(|tokens| {
            let mut word = 0;
            let mut text = String::new();
            for (sign, words) in tokens {
                text.push_str(SIGNS.get(sign).unwrap_or(&""));
                for _ in 0..words {
                    text.push_str(&format!("w{word:04} "));
                    word += 1;
                }
            }
            text
        })
    }

    fn words(text: &str) -> Vec<&str> {
        text.match_indices('w')
            .filter_map(|(at, _)| text.get(at..at + 5))
            .filter(|word| word[1..].parse::<u32>().is_ok())
            .collect()
    }

    proptest! {
        #[test]
        fn parts_of_plain_text_are_the_text(text in "([a-z]{1,12}( |\n|\n\n)){0,200}", limit in 300_usize..900) {
            let parts = shown(&text, limit);
            let joined = parts.concat();
            prop_assert!(joined == text || (parts.len() == MOST && text.starts_with(joined.trim_end_matches(CUT))));
        }

        #[test]
        fn parts_have_every_word_once_fit_and_do_nothing(text in texts(), limit in 300_usize..2_000) {
            let parts = shown(&text, limit);
            prop_assert!(parts.len() <= MOST);
            let is_cut = parts.last().unwrap().ends_with(CUT);
            let told: String = parts.iter().map(|part| part.replace('\u{200b}', "") + "\n").collect();
            let (told, all) = (words(&told), words(&text));
            prop_assert!(told.windows(2).all(|pair| pair[0] < pair[1]), "{told:?}");
            // One that is broken in two is none.
            prop_assert!(is_cut || told.len() + MOST > all.len(), "{told:?} of {all:?}");
            for part in &parts {
                prop_assert!(part.chars().count() <= limit, "{}", part);
                prop_assert!(!crate::reply::carries_marker(part));
                let comment = format!("*Part 2 of 4*\n\n{part}\n\nafter @ann");
                let kinds = parsed(&comment);
                prop_assert!(kinds.iter().all(|(range, _)| range.end < comment.len() - 8), "{}", comment);
                prop_assert!(kinds.iter().all(|(_, kind)| *kind == Kind::Code), "{}", comment);
                let plain = |at: &usize| !kinds.iter().any(|(range, _)| range.contains(at));
                let places = |words: &str| comment.match_indices(words).map(|(at, _)| at).filter(plain).collect::<Vec<_>>();
                prop_assert_eq!(places("@ann"), vec![comment.len() - 4], "{}", &comment);
                prop_assert!(places("fixes #1").is_empty() && places("closes acme/app#2").is_empty(), "{}", &comment);
            }
        }
    }
}
