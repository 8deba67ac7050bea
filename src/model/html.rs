//! HTML that stands in a Markdown text, as browsers read it: what in it are tags, what nobody sees, and what is text. Whoever
//! asks that asks it here, as with Markdown itself.

use std::ops::Range;

/// Attributes that hold addresses.
const ADDRESSES: [&str; 2] = ["href", "src"];

/// A part of a piece of HTML.
pub enum HtmlPart<'a> {
    Text,
    Tag(HtmlTag<'a>),
    /// A comment, declaration, instruction, CDATA section or malformed tag.
    Unseen,
    /// A comment or a tag that does not end: it takes in all that follows, also behind this piece.
    Endless,
}

pub struct HtmlTag<'a> {
    /// In the case it is written in.
    pub name: &'a str,
    pub closes: bool,
    /// Its attributes, but for addresses: ranges of the piece.
    pub unseen: Vec<Range<usize>>,
}

/// The parts of `html` (a block, or something inline that Markdown takes for HTML), in order, and where they are. Together
/// they are all of it.
pub fn html_parts(html: &str) -> impl Iterator<Item = (Range<usize>, HtmlPart<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let rest = &html[start..];
        let (length, part) = match rest.chars().next()? {
            '<' => markup(rest, start),
            _ => (rest.find('<').unwrap_or(rest.len()), HtmlPart::Text),
        };
        at = start + length;
        Some((start..at, part))
    })
}

/// What `rest`, which is at `place` of its piece, begins with, and how long that is.
fn markup(rest: &str, place: usize) -> (usize, HtmlPart<'_>) {
    const PAIRS: [(&str, &str); 4] = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"), ("<!", ">")];
    let letter = |c: char| c.is_ascii_alphabetic();
    let malformed = rest.starts_with("</") && !rest[2..].starts_with(letter);
    let pair = PAIRS.into_iter().find(|(begin, _)| rest.starts_with(begin)).or(malformed.then_some(("</", ">")));
    if let Some((begin, end)) = pair {
        let length = rest[begin.len()..].find(end).map(|at| begin.len() + at + end.len());
        let empty = ["<!-->", "<!--->"].into_iter().find(|comment| rest.starts_with(comment)).map(str::len);
        return match length.or(empty) {
            Some(length) => (length, HtmlPart::Unseen),
            None if begin == "<!--" => (rest.len(), HtmlPart::Endless),
            // The next tag of the page ends these (CommonMark 4.6 and 6.6).
            None => (rest.len(), HtmlPart::Unseen),
        };
    }
    // Before its end is looked for, which may be far away.
    if !rest[1..].starts_with(|c| c == '/' || letter(c)) {
        return (1, HtmlPart::Text);
    }
    match tag(rest, place) {
        Some((length, tag)) => (length, HtmlPart::Tag(tag)),
        None => (rest.len(), HtmlPart::Endless),
    }
}

/// The tag that `rest` begins with, read as browsers do, and how long it is; `None` when it does not end.
fn tag(rest: &str, place: usize) -> Option<(usize, HtmlTag<'_>)> {
    let closes = rest.starts_with("</");
    let name_at = if closes { 2 } else { 1 };
    let is_end = |c: char| c.is_whitespace() || matches!(c, '/' | '>');
    let until = |from: usize, stop: &dyn Fn(char) -> bool| rest[from..].find(stop).map(|at| from + at);
    let mut at = until(name_at, &is_end)?;
    let mut tag = HtmlTag { name: &rest[name_at..at], closes, unseen: Vec::new() };
    loop {
        let start = until(at, &|c| !c.is_whitespace() && c != '/')?;
        if rest[start..].starts_with('>') {
            return Some((start + 1, tag));
        }
        // A name may begin with the sign of equality.
        let name_end = until(start + rest[start..].chars().next()?.len_utf8(), &|c| is_end(c) || c == '=')?;
        let equals = until(name_end, &|c| !c.is_whitespace())?;
        let mut end = name_end;
        if rest[equals..].starts_with('=') {
            let value = until(equals + 1, &|c| !c.is_whitespace())?;
            end = match rest[value..].chars().next() {
                Some(quote @ ('"' | '\'')) => until(value + 1, &|c| c == quote)? + 1,
                _ => until(value, &|c| c.is_whitespace() || c == '>')?,
            };
        }
        if !ADDRESSES.iter().any(|name| rest[start..name_end].eq_ignore_ascii_case(name)) {
            tag.unseen.push(place + at..place + end);
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text as it is, tags by name, `·` for what nobody sees, `…` for what does not end.
    fn read(html: &str) -> String {
        let shown = html_parts(html).map(|(range, part)| match part {
            HtmlPart::Text => html[range].to_owned(),
            HtmlPart::Tag(tag) => format!("[{}{}]", if tag.closes { "/" } else { "" }, tag.name),
            HtmlPart::Unseen => "·".to_owned(),
            HtmlPart::Endless => "…".to_owned(),
        });
        shown.collect()
    }

    #[test]
    fn html_is_read_as_browsers_do() {
        for (html, expected) in [
            ("<p>a</P >b", "[p]a[/P]b"),
            ("<img alt='>' title=\"<b>\"\nx=y/>a", "[img]a"),
            ("<!-- <b> -->a<!---->b<!-->c", "·a·b·c"),
            ("<!--> a -->b<? > ?>c<!X>d<![CDATA[ > ]]>e</ x>f", "·b·c·d·e·f"),
            ("1 < 2 <3 <é <", "1 < 2 <3 <é <"),
            ("a<!-- b --", "a…"),
            ("a<b c='>", "a…"),
            ("a</b", "a…"),
            ("a<? b", "a·"),
        ] {
            assert_eq!(read(html), expected, "{html}");
        }
    }
}
