//! Whether a text addresses the bot, and what it then says.
//!
//! The Markdown is parsed (CommonMark with GitHub's tables and strike-through), so that code, quotes, HTML comments, link
//! targets and alternative texts never count, wherever they stand.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::ops::Range;

/// The message to the bot called `slug`: the text without the mention, quotes and hidden parts; absent when the text does
/// not mention it. Several mentions are one message.
pub fn find(body: &str, slug: &str) -> Option<String> {
    let map = Map::of(body);
    let mentions = mentions(body, slug, &map);
    if mentions.is_empty() {
        return None;
    }
    let mut cut: Vec<Range<usize>> = mentions.into_iter().map(|range| with_wrapping(body, range)).collect();
    cut.extend(map.dropped);
    cut.sort_by_key(|range| range.start);
    let mut message = String::with_capacity(body.len());
    let mut position = 0;
    for range in cut {
        if range.start > position {
            message.push_str(&body[position..range.start]);
        }
        position = position.max(range.end);
    }
    message.push_str(&body[position..]);
    Some(tidy(&message))
}

/// Which parts of a Markdown text are what.
struct Map {
    /// Byte ranges of ordinary text, where a mention counts.
    plain: Vec<Range<usize>>,
    /// Byte ranges that are not part of the message: quotes and HTML comments.
    dropped: Vec<Range<usize>>,
}

impl Map {
    fn of(body: &str) -> Self {
        let mut map = Map { plain: Vec::new(), dropped: Vec::new() };
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        let (mut quote, mut silent) = (0usize, 0usize);
        for (event, range) in Parser::new_ext(body, options).into_offset_iter() {
            match event {
                Event::Start(Tag::BlockQuote(_)) => {
                    if quote == 0 {
                        map.dropped.push(range);
                    }
                    quote += 1;
                }
                Event::End(TagEnd::BlockQuote(_)) => quote -= 1,
                Event::Start(Tag::CodeBlock(_) | Tag::Image { .. }) => silent += 1,
                Event::End(TagEnd::CodeBlock | TagEnd::Image) => silent -= 1,
                Event::Start(Tag::HtmlBlock) if body[range.clone()].trim_start().starts_with("<!--") => {
                    map.dropped.push(range);
                }
                Event::InlineHtml(html) if html.starts_with("<!--") => map.dropped.push(range),
                Event::Text(_) if quote == 0 && silent == 0 => map.plain.push(range),
                _ => {}
            }
        }
        map
    }

    fn is_plain(&self, range: &Range<usize>) -> bool {
        // Text may arrive in pieces (`@bot` and `-dev`); each byte has to lie in one of them.
        range.clone().all(|byte| self.plain.iter().any(|plain| plain.contains(&byte)))
    }
}

fn mentions(body: &str, slug: &str, map: &Map) -> Vec<Range<usize>> {
    let needle = format!("@{}", slug.to_ascii_lowercase());
    let haystack = body.to_ascii_lowercase();
    haystack
        .match_indices(&needle)
        .map(|(start, found)| start..start + found.len())
        .filter(|range| stands_alone(body, range) && map.is_plain(range))
        .collect()
}

/// A whole login: not inside an e-mail address, a URL, a longer login, a team (`@bot/team`) or an app login (`@bot[bot]`).
fn stands_alone(body: &str, range: &Range<usize>) -> bool {
    let before = body[..range.start].chars().next_back();
    let mut after = body[range.end..].chars();
    let begins =
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '_' | '-' | '.' | '/' | '@' | '+' | '`' | '\\'));
    let ends = match after.next() {
        None => true,
        Some(c) if c.is_alphanumeric() => false,
        Some('-' | '_' | '/' | '[' | '@') => false,
        Some('.') => !after.next().is_some_and(char::is_alphanumeric),
        Some(_) => true,
    };
    begins && ends
}

/// Extends the range over a pair of signs around it: `**@bot**`, `(@bot)`.
fn with_wrapping(body: &str, mut range: Range<usize>) -> Range<usize> {
    loop {
        let before = body[..range.start].chars().next_back();
        let after = body[range.end..].chars().next();
        match (before, after) {
            (Some('*'), Some('*')) | (Some('_'), Some('_')) | (Some('('), Some(')')) | (Some('~'), Some('~')) => {
                range = range.start - 1..range.end + 1;
            }
            _ => return range,
        }
    }
}

/// Without blank edges and without the punctuation that followed the mention.
fn tidy(message: &str) -> String {
    let joining = |c: char| c.is_whitespace() || matches!(c, ',' | ':' | ';' | '.' | '!' | '?' | '#' | '"');
    message.trim_start_matches(joining).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &str) -> Option<String> {
        find(body, "bot")
    }

    #[test]
    fn code_quotes_and_comments_do_not_count() {
        for body in [
            "If it hangs use `@bot retry` or ``/worktree remove``.",
            "> @bot implement this\n\nI would wait.",
            "> > @bot cleanup\n@bot lazily quoted",
            "```\n@bot fix\n```",
            "~~~\n@bot fix\n~~~",
            "    @bot fix",
            "<!-- @bot fix -->",
            "text <!-- @bot fix --> text",
        ] {
            assert_eq!(message(body), None, "{body}");
        }
    }

    #[test]
    fn only_a_whole_login_counts() {
        for body in [
            "write to jane@bot.example or ops+x@bot",
            "@bot-dev run",
            "@bot2 go",
            "@bottle",
            "@bot/reviewers please",
            "@bot[bot]",
            "[see](https://github.com/@bot)",
            "https://x.test/@bot/y",
            "![@bot](a.png)",
            "me@bot",
        ] {
            assert_eq!(message(body), None, "{body}");
        }
    }

    #[test]
    fn punctuation_and_case_do_not_hide_a_mention() {
        for (body, expected) in [
            ("(@bot) check?", "check?"),
            ("\"@bot help\"", "help\""),
            ("cc:@bot", "cc:"),
            ("please,@bot fix", "please, fix"),
            ("**@bot** fix", "fix"),
            ("@Bot fix", "fix"),
            ("@BOT: fix", "fix"),
            ("@bot, fix", "fix"),
            ("## @bot fix", "fix"),
            ("fix this @bot.", "fix this ."),
            ("@bot", ""),
        ] {
            assert_eq!(message(body).as_deref(), Some(expected), "{body}");
        }
    }

    #[test]
    fn a_quote_above_is_not_part_of_the_message() {
        assert_eq!(message("> @bot shall I push?\n\n@bot yes, push").as_deref(), Some("yes, push"));
        assert_eq!(message("@bot fix <!-- secretly --> it").as_deref(), Some("fix  it"));
    }

    #[test]
    fn several_mentions_are_one_message_and_code_stays() {
        assert_eq!(message("@bot run `x` and @bot tell").as_deref(), Some("run `x` and  tell"));
        assert_eq!(message("@bot\n```\ncode\n```").as_deref(), Some("```\ncode\n```"));
    }

    #[test]
    fn odd_texts_do_not_panic() {
        for body in ["", "@", "İ@bot ß", "@bot\u{0}", "\u{feff}@bot x", "|@bot|x|\n|-|-|\n"] {
            let _ = message(body);
        }
    }
}
