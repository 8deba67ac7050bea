//! Whether a text addresses the bot, and what it then says.
//!
//! Code, quotes, links, images and what HTML hides never count ([`super::markdown`]), wherever they stand. What is a whole login
//! follows GitHub, so that the bot answers exactly when GitHub shows a mention.

use super::markdown::{MASK, visible};
use std::ops::Range;

/// The message to the bot called `slug`: the text without the mention, quotes and hidden parts; absent when the text does
/// not mention it. Several mentions are one message.
pub fn find(body: &str, slug: &str) -> Option<String> {
    let visible = visible(body);
    let mentions = mentions(&visible.text, slug);
    if mentions.is_empty() {
        return None;
    }
    let mut cuts: Vec<Range<usize>> = Vec::new();
    for mention in mentions {
        let (cut, closing) = cuts_for(body, mention);
        cuts.push(cut);
        cuts.extend(closing);
    }
    cuts.extend(visible.foreign.into_iter().map(|range| without_gap(body, range)));
    cuts.sort_by_key(|range| range.start);
    let mut message = String::with_capacity(body.len());
    let mut position = 0;
    for cut in cuts {
        message.push_str(&body[position..cut.start.max(position)]);
        position = position.max(cut.end);
    }
    message.push_str(&body[position..]);
    Some(message.trim().to_owned())
}

/// Whether [`find`] may find something; cheap, and never no where it does.
pub fn may_name(body: &str, slug: &str) -> bool {
    let named = |at: usize| body.get(at + 1..at + 1 + slug.len()).is_some_and(|login| login.eq_ignore_ascii_case(slug));
    body.match_indices('@').any(|(at, _)| named(at))
}

fn mentions(text: &str, slug: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    for word in text.split_inclusive(|c: char| c.is_whitespace() || c == MASK) {
        let url = if word.starts_with("www.") { Some(0) } else { word.find("://") };
        for (at, _) in word.match_indices('@') {
            let end = at + 1 + slug.len();
            let named = word.get(at + 1..end).is_some_and(|login| login.eq_ignore_ascii_case(slug));
            if named && url.is_none_or(|url| at < url) && begins_login(&word[..at]) && ends_login(&word[end..]) {
                found.push(start + at..start + end);
            }
        }
        start += word.len();
    }
    found
}

/// Not inside an e-mail address or a path.
fn begins_login(before: &str) -> bool {
    !before.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '@'))
}

/// Not inside a longer login, a domain, a team (`@bot/team`) or the login of an App (`@bot[bot]`).
fn ends_login(after: &str) -> bool {
    let mut rest = after.chars();
    match rest.next() {
        Some(c) if c.is_ascii_alphanumeric() => false,
        Some('-' | '_' | '/' | '@') => false,
        Some('[') => !after.get(..5).is_some_and(|suffix| suffix.eq_ignore_ascii_case("[bot]")),
        Some('.') => !rest.next().is_some_and(|c| c.is_ascii_alphanumeric()),
        Some(_) | None => true,
    }
}

/// What to take out for one mention: itself, with the signs around it and the punctuation that joined it to the request;
/// and, when a sign opened just before it wraps the rest of the line, where that sign closes.
fn cuts_for(body: &str, mention: Range<usize>) -> (Range<usize>, Option<Range<usize>>) {
    let mention = with_wrapping(body, mention);
    let line_start = body[..mention.start].rfind('\n').map_or(0, |found| found + 1);
    let prefix = body[line_start..mention.start].trim_start();
    let joined = mention.end + joint(&body[mention.end..]);
    if prefix.trim_end().trim_start_matches(['#', '.']).is_empty() {
        return (line_start..joined, None);
    }
    let closers: Option<String> = prefix.chars().rev().map(closer_of).collect();
    let Some(closers) = closers else { return (without_gap(body, mention), None) };
    let line_end = mention.end + body[mention.end..].lines().next().unwrap_or_default().trim_end().len();
    if !body[joined.min(line_end)..line_end].ends_with(&closers) {
        return (mention.start..joined, None);
    }
    (line_start..joined, Some(line_end - closers.len()..line_end))
}

/// Extends the range over pairs of signs directly around it: `**@bot**`, `(@bot)`.
fn with_wrapping(body: &str, mut range: Range<usize>) -> Range<usize> {
    while let (Some(before), Some(after)) = (body[..range.start].chars().next_back(), body[range.end..].chars().next())
        && closer_of(before) == Some(after)
    {
        range = range.start - before.len_utf8()..range.end + after.len_utf8();
    }
    range
}

fn closer_of(opener: char) -> Option<char> {
    match opener {
        '(' => Some(')'),
        '[' => Some(']'),
        '“' => Some('”'),
        '«' => Some('»'),
        '*' | '_' | '~' | '"' | '\'' => Some(opener),
        _ => None,
    }
}

/// Length of what joins a mention to its request: punctuation directly behind it, blanks, and a dash of its own.
fn joint(after: &str) -> usize {
    let blank = [' ', '\t'];
    let rest = after.trim_start_matches([',', ':', ';', '.', '!', '?', '…']).trim_start_matches(blank);
    let dash = rest.strip_prefix(['-', '–', '—']).filter(|rest| rest.starts_with(blank));
    after.len() - dash.map_or(rest, |rest| rest.trim_start_matches(blank)).len()
}

/// Takes one of two blanks along, so that no gap stays.
fn without_gap(body: &str, range: Range<usize>) -> Range<usize> {
    let follows = body[range.end..].chars().next();
    let closes = follows.is_none_or(|c| c.is_whitespace() || matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | ')'));
    match closes && body[..range.start].ends_with([' ', '\t']) {
        true => range.start - 1..range.end,
        false => range,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &str) -> Option<String> {
        let found = find(body, "bot");
        assert!(found.is_none() || may_name(body, "bot"), "{body}");
        found
    }

    #[test]
    fn who_is_not_named_at_all_need_not_be_read() {
        for body in ["", "@", "fix it, bot", "@bo", "@ann and @bö", "mail@example.com", "＠bot fix"] {
            assert!(!may_name(body, "bot"), "{body}");
        }
        // Whether it counts is another question.
        for body in ["@BOT fix", "`@bot`", "ann@bot.example"] {
            assert!(may_name(body, "bot"), "{body}");
        }
    }

    /// BR-117, BR-118
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

    /// GitHub shows a mention in each of them.
    #[test]
    fn html_around_or_above_does_not_hide_a_mention() {
        for (body, expected) in [
            (
                "<img alt=\"Image\" src=\"https://x.test/a\" />\n@bot fix",
                "<img alt=\"Image\" src=\"https://x.test/a\" />\nfix",
            ),
            ("The <title> is wrong.\n\n@bot fix", "The <title> is wrong.\n\nfix"),
            (
                "<details><summary>Log</summary>\n\nlog\n\n</details>\n@bot look",
                "<details><summary>Log</summary>\n\nlog\n\n</details>\nlook",
            ),
            (
                "<details>\n<summary>Task</summary>\n@bot fix\n</details>",
                "<details>\n<summary>Task</summary>\nfix\n</details>",
            ),
            ("<br>\r\n@bot: fix", "<br>\r\nfix"),
            ("<p>@bot fix</p>", "<p> fix</p>"),
            ("<div align=\"center\">\n\n<b>@bot</b> fix</div>", "<div align=\"center\">\n\n<b></b> fix</div>"),
            ("<!-- a --> @bot fix", "fix"),
            ("<!-- a\n\nb -->\n@bot fix", "fix"),
            ("<sub>sent from afar</sub>\n@bot fix", "<sub>sent from afar</sub>\nfix"),
            ("- <br>\n  @bot fix", "- <br>\nfix"),
        ] {
            assert_eq!(message(body).as_deref(), Some(expected), "{body}");
        }
    }

    #[test]
    fn what_html_hides_or_quotes_does_not_count() {
        for body in [
            "<!-- @bot fix",
            "a\n\n<!--\n\n@bot fix\n\n-->",
            "<div><!-- a\n\n@bot fix\n\n--> b</div>",
            "- <!-- a\n\n@bot fix",
            "> <!-- a\n\n@bot fix",
            "<pre>\n@bot fix\n</pre>",
            "<pre>\n\n@bot fix",
            "<div><pre>\n\n@bot fix\n</pre></div>",
            "<div>\n<pre lang='x'><code>@bot fix</code></pre></div>",
            "<p><code>@bot fix</code>",
            "<p><CODE\n>@bot fix</CODE\n>",
            "<blockquote>\n@bot fix\n</blockquote>",
            "<blockquote>\n\n@bot fix\n\n</blockquote>",
            "<div><blockquote>a\n\nb</div>\n\n@bot fix",
            "<blockquote><blockquote></blockquote></pre>\n@bot fix",
            "<blockquote title='</blockquote>'><!-- </blockquote> -->@bot fix",
            "<img alt=\"@bot fix\">",
            "a <img alt='@bot fix'> b",
            "<a title='@bot fix' href=x>a</a>",
            "<img\n  alt='a\n@bot fix\n'\n/>",
            "<p data-a=\"b\n\n@bot fix\n\n\">",
            "<a href='x'>@bot fix</a>",
            "<![CDATA[\n\n@bot fix\n\n]]>",
            "<div><![CDATA[ > @bot fix ]]></div>",
            "<?a\n\n@bot fix ?>",
            "a <?a @bot fix ?> <!X @bot fix > b",
            "<!X\n@bot fix\n>",
            "<p></ @bot fix >",
            "<br>\n> @bot fix",
            "<details>\n```\n@bot fix\n```\n</details>",
            "<details>\n`@bot fix`\n</details>",
            "<br>\nhttps://x.test/@bot <https://x.test/@bot>",
        ] {
            assert_eq!(message(body), None, "{body}");
        }
    }

    /// BR-121, BR-122, BR-124
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
            "[ask @bot](https://x.test)",
            "https://x.test/?to=@bot",
            "<code>@bot fix</code>",
            "@bot.example",
        ] {
            assert_eq!(message(body), None, "{body}");
        }
    }

    /// BR-123, BR-124
    #[test]
    fn punctuation_and_case_do_not_hide_a_mention() {
        for (body, expected) in [
            ("(@bot) check?", "check?"),
            ("\"@bot help\"", "help"),
            ("**@bot fix** it", "**fix** it"),
            ("* @bot fix *now*", "* fix *now*"),
            ("**@bot fix it**", "fix it"),
            ("cc:@bot", "cc:"),
            ("please,@bot fix", "please, fix"),
            ("**@bot** fix", "fix"),
            ("@Bot fix", "fix"),
            ("@BOT: fix", "fix"),
            ("@bot, fix", "fix"),
            ("## @bot fix", "fix"),
            ("fix this @bot.", "fix this."),
            ("fix @bot this", "fix this"),
            ("- @bot fix", "- fix"),
            ("请@bot修复", "请修复"),
            (".@bot fix", "fix"),
            ("@bot", ""),
        ] {
            assert_eq!(message(body).as_deref(), Some(expected), "{body}");
        }
    }

    /// BR-119
    #[test]
    fn a_quote_above_is_not_part_of_the_message() {
        assert_eq!(message("> @bot shall I push?\n\n@bot yes, push").as_deref(), Some("yes, push"));
        assert_eq!(message("@bot fix <!-- secretly --> it").as_deref(), Some("fix it"));
    }

    #[test]
    fn only_punctuation_that_joins_is_stripped() {
        for (body, expected) in [
            ("@bot #5 please", "#5 please"),
            ("@bot .env is missing", ".env is missing"),
            ("@bot \"quoted\" text", "\"quoted\" text"),
            ("@bot: – /status", "/status"),
            ("Hello.\n\n@bot, fix it", "Hello.\n\nfix it"),
        ] {
            assert_eq!(message(body).as_deref(), Some(expected), "{body}");
        }
    }

    #[test]
    fn several_mentions_are_one_message_and_code_stays() {
        assert_eq!(message("@bot run `x` and @bot tell").as_deref(), Some("run `x` and tell"));
        assert_eq!(message("@bot\n```\ncode\n```").as_deref(), Some("```\ncode\n```"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_gets_an_answer(body in "(@bot|@BOT|[`*_~>#<!\\-.,:()\\[\\]\"' \n\taä🚀]|<!--|-->|<code>|</code>|<p>|<p a=|<<b>|<br>\n|\r\n|\\PC){0,40}") {
            if let Some(message) = message(&body) {
                proptest::prop_assert!(message.len() <= body.len());
                proptest::prop_assert!(body.to_ascii_lowercase().contains("@bot"));
            }
        }
    }
}
