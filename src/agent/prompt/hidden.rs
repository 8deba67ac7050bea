//! Takes out of Markdown what people reading the page on GitHub do not see, but an agent reading the source would: HTML
//! comments, declarations, instructions and CDATA, link definitions nothing refers to, and invisible characters. What is
//! shown as code stays.

use pulldown_cmark::{Event, Options, Parser, Tag};
use std::{collections::HashSet, ops::Range};

/// The text as people see it.
pub(super) fn remove(text: &str) -> String {
    let text: String = text.chars().filter(|c| !is_invisible(*c)).collect();
    if !["<!", "<?", "]:"].iter().any(|sign| text.contains(sign)) {
        return text;
    }
    let mut hidden = hidden_ranges(&text);
    hidden.sort_by_key(|range| range.start);
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for range in hidden {
        if range.start >= at {
            out.push_str(&text[at..range.start]);
        }
        at = at.max(range.end);
    }
    out.push_str(&text[at..]);
    out
}

/// Zero-width and direction-changing characters, and the tag characters in which whole sentences have been hidden.
/// Joiners stay: emoji and some scripts need them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

fn hidden_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut used = HashSet::new();
    let parser =
        Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS);
    let definitions: Vec<(String, Range<usize>)> =
        parser.reference_definitions().iter().map(|(label, def)| (label.to_lowercase(), def.span.clone())).collect();
    for (event, range) in parser.into_offset_iter() {
        match event {
            Event::Start(Tag::HtmlBlock) | Event::InlineHtml(_) => ranges.extend(unseen(text, range)),
            Event::Start(Tag::Link { id, .. } | Tag::Image { id, .. }) => {
                used.insert(id.to_lowercase());
            }
            _ => {}
        }
    }
    ranges.extend(definitions.into_iter().filter(|(label, _)| !used.contains(label)).map(|(_, span)| span));
    ranges
}

/// What nobody sees of a piece of HTML: comments, declarations, instructions and CDATA sections. One that does not end hides
/// the rest of the piece (CommonMark 4.6 and 6.6).
fn unseen(text: &str, html: Range<usize>) -> Vec<Range<usize>> {
    const UNSEEN: [(&str, &str); 4] = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"), ("<!", ">")];
    let mut found = Vec::new();
    let mut at = html.start;
    while let Some(start) = text[at..html.end].find('<').map(|offset| at + offset) {
        let rest = &text[start..html.end];
        at = match UNSEEN.iter().find(|(begin, _)| rest.starts_with(begin)) {
            Some((begin, end)) => {
                let length =
                    rest[begin.len()..].find(end).map_or(rest.len(), |offset| begin.len() + offset + end.len());
                found.push(start..start + length);
                start + length
            }
            None => start + 1,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::remove;
    use proptest::prelude::*;

    #[test]
    fn hidden_text_goes_and_shown_text_stays() {
        let cases = [
            ("plain", "plain"),
            ("a <!-- hidden --> b", "a  b"),
            ("a\n\n<!-- one\n\ntwo -->\nb", "a\n\n\nb"),
            ("<p>x</p><!-- h --><p>y</p><!-- k -->", "<p>x</p><p>y</p>"),
            ("a\n\n<!-- never ends\nhidden\n\nhidden too", "a\n\n"),
            ("a <!DOCTYPE hidden> b <? hidden ?> c <![CDATA[ hidden > ]]> d", "a  b  c  d"),
            ("a\n\n<!X hidden\n>\n\n<? hidden\n?>\n\n<![CDATA[\nhidden\n\n]]>\nb", "a\n\n\n\n\n\n\nb"),
            ("shown: `<!-- code -->`", "shown: `<!-- code -->`"),
            ("```\n<!-- code -->\n```", "```\n<!-- code -->\n```"),
            ("a\n\n[//]: # (hidden words)\n\nb", "a\n\n\n\nb"),
            ("see [docs]\n\n[docs]: https://example.org", "see [docs]\n\n[docs]: https://example.org"),
            ("a\u{e0041}\u{e0042}\u{200b}\u{202e}b 👩\u{200d}💻", "ab 👩\u{200d}💻"),
        ];
        for (given, expected) in cases {
            assert_eq!(remove(given).trim_end(), expected.trim_end(), "{given:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(<!--|-->|<\\?|\\?>|<!X|<!\\[CDATA\\[|\\]\\]>|>|\\[a\\]|: |#|`|\n|> |é|<p>|x){0,40}") {
            prop_assert!(remove(&text).len() <= text.len());
        }
    }
}
