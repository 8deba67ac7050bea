//! Takes out of a text what people reading the page on GitHub do not see, but an agent reading the source would.
//!
//! Hidden is what nobody sees who only reads: HTML comments, declarations, instructions and CDATA, attributes of HTML,
//! definitions of links, footnotes nothing refers to, cells beyond a table's head, what follows the language of a code
//! block, and invisible characters. Titles of links and images show when the pointer rests there, alternative texts when an
//! image is missing: they count as hidden, too. What is shown as code stays; so do addresses, which the work may need.

use crate::model::{HtmlPart, html_parts, markdown};
use pulldown_cmark::{CodeBlockKind, Event, LinkType, Tag, TagEnd};
use std::{cmp::Reverse, collections::HashSet, iter::once, ops::Range};

/// HTML that GitHub lets through and browsers do not show.
const UNSHOWN: &str = "rp";

/// A Markdown text as people see it.
pub(super) fn remove(text: &str) -> String {
    let text = remove_characters(text);
    let events: Vec<(Event<'_>, Range<usize>)> = markdown(&text).into_offset_iter().collect();
    let mut hidden = html(&text, &events);
    for find in [definitions, footnotes, surplus_cells, behind_languages, invisible_references] {
        hidden.extend(find(&text, &events));
    }
    let mut changes = links(&events);
    changes.extend(hidden.into_iter().map(|range| (range, String::new())));
    changes.sort_by_key(|(range, _)| (range.start, Reverse(range.end)));
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for (range, instead) in changes {
        if range.start >= at {
            out.push_str(&text[at..range.start]);
            out.push_str(&instead);
        }
        at = at.max(range.end);
    }
    out.push_str(&text[at..]);
    out
}

/// A text without Markdown as people see it.
pub(super) fn remove_characters(text: &str) -> String {
    let mut kept: Option<char> = None;
    text.chars()
        .filter(|c| {
            // Emoji and some scripts need joiners, one at a time; in a row they spell bytes.
            let is_joiner = matches!(c, '\u{200c}' | '\u{200d}');
            let stays = if is_joiner { kept.is_some_and(|before| !before.is_ascii()) } else { !is_invisible(*c) };
            if stays {
                kept = Some(*c).filter(|_| !is_joiner);
            }
            stays
        })
        .collect()
}

/// Control characters and those that Unicode calls ignorable by default, but for joiners. Sentences have been hidden in tag
/// characters, bytes in variation selectors.
fn is_invisible(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

type Events<'a> = [(Event<'a>, Range<usize>)];

/// Links and images without titles, alternative texts and labels: address instead of definition.
fn links(events: &Events<'_>) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    // Those that are open, and where their visible part ends so far.
    let mut open: Vec<(&Tag<'_>, usize)> = Vec::new();
    for (event, range) in events {
        if let Event::End(TagEnd::Link | TagEnd::Image) = event {
            match open.pop() {
                Some((Tag::Link { link_type: LinkType::Autolink | LinkType::Email, .. }, _)) | None => {}
                Some((Tag::Link { dest_url, .. }, end)) => {
                    found.push((end..range.end, format!("]({})", address(dest_url))));
                }
                Some((Tag::Image { dest_url, .. }, _)) => {
                    found.push((range.clone(), format!("![]({})", address(dest_url))))
                }
                Some(_) => {}
            }
            continue;
        }
        if let Some((_, end)) = open.last_mut() {
            *end = (*end).max(range.end);
        }
        if let Event::Start(tag @ (Tag::Link { .. } | Tag::Image { .. })) = event {
            open.push((tag, range.start + 1));
        }
    }
    found
}

/// Fit to stand in the brackets of a link.
fn address(url: &str) -> String {
    let signs = [(' ', "%20"), ('(', "%28"), (')', "%29"), ('<', "%3C"), ('>', "%3E")];
    signs.iter().fold(url.to_owned(), |url, (sign, code)| url.replace(*sign, code))
}

/// Definitions of links are what no block covers, but for the signs of lists and quotes.
fn definitions(text: &str, events: &Events<'_>) -> Vec<Range<usize>> {
    let is_container = |event: &Event<'_>| match event {
        Event::Start(tag) => {
            matches!(tag, Tag::BlockQuote(_) | Tag::List(_) | Tag::Item | Tag::FootnoteDefinition(_))
        }
        Event::End(_) => true,
        _ => false,
    };
    let (mut found, mut covered) = (Vec::new(), 0);
    let blocks = events.iter().filter(|(event, _)| !is_container(event)).map(|(_, range)| range.clone());
    for block in blocks.chain(once(text.len()..text.len())) {
        let gap = covered..block.start.max(covered);
        let end =
            if gap.end == text.len() { Some(gap.end) } else { text[gap.clone()].rfind('\n').map(|at| gap.start + at) };
        let start = text[gap.clone()].find('[').map(|at| gap.start + at);
        if let (Some(start), Some(end)) = (start, end)
            && start < end
        {
            found.push(start..end);
        }
        covered = covered.max(block.end);
    }
    found
}

/// Footnotes that no visible text names, and those whose name is taken already.
fn footnotes(_: &str, events: &Events<'_>) -> Vec<Range<usize>> {
    let (mut within, mut named) = (0, HashSet::new());
    for (event, _) in events {
        match event {
            Event::Start(Tag::FootnoteDefinition(_)) => within += 1,
            Event::End(TagEnd::FootnoteDefinition) => within -= 1,
            Event::FootnoteReference(label) if within == 0 => {
                named.insert(label.to_lowercase());
            }
            _ => {}
        }
    }
    let definitions = events.iter().filter_map(|(event, range)| match event {
        Event::Start(Tag::FootnoteDefinition(label)) => Some((label.to_lowercase(), range.clone())),
        _ => None,
    });
    definitions.filter(|(label, _)| !named.remove(label)).map(|(_, range)| range).collect()
}

/// What stands in a row of a table behind the last cell that has a head.
fn surplus_cells(text: &str, events: &Events<'_>) -> Vec<Range<usize>> {
    let (mut found, mut end) = (Vec::new(), 0);
    for (event, range) in events {
        match event {
            Event::End(TagEnd::TableCell) => end = range.end,
            Event::End(TagEnd::TableRow) if !text[end..range.end].trim_matches(['|', ' ', '\t', '\n']).is_empty() => {
                found.push(end..end + text[end..range.end].trim_end().len());
            }
            _ => {}
        }
    }
    found
}

/// The rest of the line that opens a block of code: GitHub looks at its first word.
fn behind_languages(text: &str, events: &Events<'_>) -> Vec<Range<usize>> {
    let blocks =
        events.iter().filter(|(event, _)| matches!(event, Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_)))));
    blocks
        .map(|(_, range)| {
            let line = text[range.clone()].lines().next().unwrap_or_default();
            let info = line.trim_start_matches(['`', '~']).trim_start();
            let word = info.find(char::is_whitespace).unwrap_or(info.len());
            let end = range.start + line.len();
            end - (info.len() - word)..end
        })
        .collect()
}

/// Character references that stand for invisible characters.
fn invisible_references(text: &str, events: &Events<'_>) -> Vec<Range<usize>> {
    let found = events.iter().filter(|(event, range)| match event {
        Event::Text(shown) => text[range.clone()].starts_with('&') && remove_characters(shown).is_empty(),
        _ => false,
    });
    found.map(|(_, range)| range.clone()).collect()
}

/// What nobody sees of HTML: comments and the like, attributes, and what browsers do not show.
fn html(text: &str, events: &Events<'_>) -> Vec<Range<usize>> {
    let (mut found, mut unshown) = (Vec::new(), None);
    for (event, range) in events {
        let (Event::Start(Tag::HtmlBlock) | Event::InlineHtml(_)) = event else { continue };
        let placed = |part: Range<usize>| range.start + part.start..range.start + part.end;
        for (part, what) in html_parts(&text[range.clone()]) {
            let part = placed(part);
            match what {
                HtmlPart::Text => {}
                HtmlPart::Unseen => found.push(part),
                HtmlPart::Endless => found.push(part.start..text.len()),
                HtmlPart::Tag(tag) => {
                    found.extend(tag.unseen.into_iter().map(placed));
                    match (tag.name.eq_ignore_ascii_case(UNSHOWN), tag.closes) {
                        (true, false) => unshown = unshown.or(Some(part.start)),
                        (true, true) => found.extend(unshown.take().map(|from| from..part.end)),
                        (false, _) => {}
                    }
                }
            }
        }
    }
    found.extend(unshown.map(|from| from..text.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::{remove, remove_characters};
    use proptest::prelude::*;

    #[test]
    fn hidden_text_goes_and_shown_text_stays() {
        let cases = [
            ("plain", "plain"),
            ("a <!-- hidden --> b", "a  b"),
            ("a\n\n<!-- one\n\ntwo -->\nb", "a\n\n\nb"),
            ("<p>x</p><!-- h --><p>y</p><!-- k -->", "<p>x</p><p>y</p>"),
            ("a\n\n<!-- never ends\nhidden\n\nhidden too", "a\n\n"),
            ("a\n\n<p>b <!-- hidden\n\nhidden too\n\n- hidden", "a\n\n<p>b "),
            ("<!-->\nshown\n\n<p><? hidden\n\nshown", "\nshown\n\n<p>\nshown"),
            ("a <!DOCTYPE hidden> b <? hidden ?> c <![CDATA[ hidden > ]]> d", "a  b  c  d"),
            ("a\n\n<!X hidden\n>\n\n<? hidden\n?>\n\n<![CDATA[\nhidden\n\n]]>\nb", "a\n\n\n\n\n\n\nb"),
            ("shown: `<!-- code -->`", "shown: `<!-- code -->`"),
            ("```\n<!-- code -->\n```", "```\n<!-- code -->\n```"),
            ("a\n\n[//]: # (hidden words)\n\nb", "a\n\n\nb"),
            ("a\u{e0041}\u{e0042}\u{200b}\u{202e}b 👩\u{200d}💻", "ab 👩\u{200d}💻"),
        ];
        for (given, expected) in cases {
            assert_eq!(remove(given).trim_end(), expected.trim_end(), "{given:?}");
        }
    }

    #[test]
    fn footnotes_and_definitions_stay_where_they_are_shown_only() {
        let cases = [
            ("a\n\n[^n]: hidden\n\n    hidden too\n\nb", "a\n\nb"),
            ("a[^n]\n\n[^n]: shown", "a[^n]\n\n[^n]: shown"),
            ("a[^n]\n\n[^n]: shown\n\n[^n]: hidden", "a[^n]\n\n[^n]: shown"),
            ("a\n\n[^n]: hidden[^n]", "a"),
            ("see [docs]\n\n[docs]: https://example.org", "see [docs](https://example.org)"),
            ("see [docs][hidden words]\n\n[hidden words]: https://x.test 'hidden'\n", "see [docs](https://x.test)"),
            ("[a]\n\n[a]: x\n[a]: hidden 'words'\n\n- b\n", "[a](x)\n\n\n- b"),
            ("> [a]: hidden\n> shown\n\n- [b]: hidden\n- shown", "> \n> shown\n\n- \n- shown"),
        ];
        for (given, expected) in cases {
            assert_eq!(remove(given).trim_end(), expected.trim_end(), "{given:?}");
        }
    }

    #[test]
    fn what_shows_on_a_closer_look_only_is_hidden() {
        let cases = [
            ("![hidden *words*](https://x.test/1px.png \"hidden\")", "![](https://x.test/1px.png)"),
            ("[docs **b**](https://x.test \"hidden words\") a", "[docs **b**](https://x.test) a"),
            ("[![hidden](a)](<b c>) <https://x.test>", "[![](a)](b%20c) <https://x.test>"),
            ("<p data-x=\"hidden > words\">shown</p>", "<p>shown</p>"),
            ("a <b title='hidden'>shown</b> <img alt=hidden src=\"x\"/>", "a <b>shown</b> <img src=\"x\"/>"),
            ("<div>\n</div hidden words>\n</ hidden>\n", "<div>\n</div>\n"),
            ("a\n\n<p data-x=\"hidden\n\nhidden too", "a\n\n"),
            ("<ruby>a<rp>hidden</rp></ruby>", "<ruby>a</ruby>"),
            ("| a |\n|-|\n| shown | hidden | words |\n| b |", "| a |\n|-|\n| shown \n| b |"),
            ("```rust hidden words\ncode\n```", "```rust\ncode\n```"),
            ("> ~~~ sh hidden\n> code\n> ~~~", "> ~~~ sh\n> code\n> ~~~"),
            ("a &#xE0041;&ZeroWidthSpace;&amp; b", "a &amp; b"),
        ];
        for (given, expected) in cases {
            assert_eq!(remove(given).trim_end(), expected.trim_end(), "{given:?}");
        }
    }

    #[test]
    fn invisible_characters_go_from_every_text() {
        let smuggled =
            "a\u{e0100}\u{fe01}\u{3164}\u{115f}\u{34f}\u{1b}b\u{200d}\u{200c} ❤\u{fe0f}\u{200d}\u{200d}🔥\tc";
        assert_eq!(remove_characters(smuggled), "ab ❤\u{200d}🔥\tc");
        assert_eq!(remove_characters("<!-- shown in a title -->"), "<!-- shown in a title -->");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(<!--|-->|<\\?|\\?>|<!X|<!\\[CDATA\\[|\\]\\]>|>|\\[a\\]|: |#|`|\n|> |é|<p>|<p a=|</|\"|!|\\(|\\)|\\[\\^1\\]|~~~|- |    |\\||-|&shy;|x){0,40}") {
            remove(&text);
        }
    }
}
