//! Which parts of a Markdown text a reader sees as ordinary words, and which were put there by quoting or hiding.
//!
//! The text is parsed as GitHub parses it; no line is ever matched by its looks.

use crate::model::markdown;
use pulldown_cmark::{Event, Tag, TagEnd};
use std::ops::Range;

/// Stands for everything that is no ordinary text.
pub(super) const MASK: char = '\0';
/// Inline HTML whose content GitHub shows as code or as a quotation.
const SILENT_TAGS: [&str; 5] = ["code", "pre", "kbd", "samp", "blockquote"];

/// A text seen through its Markdown.
pub(super) struct Visible {
    /// As long as the source, byte for byte: ordinary text and line ends are kept, signs of emphasis became blanks, and
    /// code, links, images, quotes and HTML became [`MASK`].
    pub text: String,
    /// Byte ranges of the source that are not the author's visible words: quotes and HTML comments.
    pub foreign: Vec<Range<usize>>,
}

/// Reads `source`.
pub(super) fn visible(source: &str) -> Visible {
    let mut canvas = Canvas { source, bytes: Vec::with_capacity(source.len()), foreign: Vec::new() };
    canvas.bytes.extend(source.bytes().map(|byte| if byte == b'\n' { byte } else { MASK as u8 }));
    let (mut covered, mut silent_tags) = (0usize, 0usize);
    for (event, range) in markdown(source).into_offset_iter() {
        match event {
            Event::Start(tag) => match tag {
                Tag::Emphasis | Tag::Strong | Tag::Strikethrough if covered == 0 => canvas.fill(range, b' '),
                Tag::BlockQuote(_) | Tag::CodeBlock(_) | Tag::HtmlBlock | Tag::Link { .. } | Tag::Image { .. } => {
                    if covered == 0 {
                        match tag {
                            Tag::BlockQuote(_) => canvas.foreign.push(range.clone()),
                            Tag::HtmlBlock => canvas.drop_comments(range.clone()),
                            _ => {}
                        }
                        canvas.fill(range, MASK as u8);
                    }
                    covered += 1;
                }
                _ => {}
            },
            Event::End(
                TagEnd::BlockQuote(_) | TagEnd::CodeBlock | TagEnd::HtmlBlock | TagEnd::Link | TagEnd::Image,
            ) => covered -= 1,
            Event::Text(_) if covered == 0 && silent_tags == 0 => canvas.show(range),
            Event::InlineHtml(html) if covered == 0 => {
                canvas.drop_comments(range.clone());
                canvas.fill(range, MASK as u8);
                silent_tags = match silent_tag(&html) {
                    Some(Side::Opening) => silent_tags + 1,
                    Some(Side::Closing) => silent_tags.saturating_sub(1),
                    None => silent_tags,
                };
            }
            Event::Code(_) | Event::FootnoteReference(_) if covered == 0 => canvas.fill(range, MASK as u8),
            _ => {}
        }
    }
    Visible { text: String::from_utf8_lossy(&canvas.bytes).into_owned(), foreign: canvas.foreign }
}

struct Canvas<'a> {
    source: &'a str,
    bytes: Vec<u8>,
    foreign: Vec<Range<usize>>,
}

impl Canvas<'_> {
    fn show(&mut self, range: Range<usize>) {
        self.bytes[range.clone()].copy_from_slice(&self.source.as_bytes()[range]);
    }

    fn fill(&mut self, range: Range<usize>, with: u8) {
        for byte in &mut self.bytes[range] {
            if *byte != b'\n' {
                *byte = with;
            }
        }
    }

    fn drop_comments(&mut self, range: Range<usize>) {
        let mut at = range.start;
        while let Some(start) = self.source[at..range.end].find("<!--").map(|found| at + found) {
            let end = self.source[start..range.end].find("-->").map_or(range.end, |found| start + found + "-->".len());
            self.foreign.push(start..end);
            at = end;
        }
    }
}

enum Side {
    Opening,
    Closing,
}

fn silent_tag(html: &str) -> Option<Side> {
    let inner = html.strip_prefix('<')?;
    let (inner, side) = match inner.strip_prefix('/') {
        Some(inner) => (inner, Side::Closing),
        None => (inner, Side::Opening),
    };
    let name = inner.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    SILENT_TAGS.iter().any(|tag| name.eq_ignore_ascii_case(tag)).then_some(side)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(source: &str) -> String {
        let visible = visible(source);
        assert_eq!(visible.text.len(), source.len());
        visible
            .text
            .split(|c: char| c == MASK || c.is_whitespace())
            .filter(|w| !w.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn only_ordinary_words_are_seen() {
        assert_eq!(seen("a **b `c`** [d](e) ![f](g) <code>h</code> i"), "a b i");
        assert_eq!(seen("> a\nlazy\n\nb\n\n    c\n\n```\nd\n```\n~~e~~"), "b e");
        assert_eq!(seen("# ä\n\n- é\n\n| ö | `x` |\n|-|-|\n"), "ä é ö");
        assert_eq!(seen("<details>\nraw\n</details>\n\nshown"), "shown");
    }

    #[test]
    fn quotes_and_comments_are_somebody_elses_words() {
        let source = "a <!-- b --> c\n\n<!-- d\n\ne -->\n\n> f\n\n<!-- never closed";
        let foreign: Vec<&str> = visible(source).foreign.into_iter().map(|range| source[range].trim()).collect();
        assert_eq!(foreign, ["<!-- b -->", "<!-- d\n\ne -->", "> f", "<!-- never closed"]);
    }
}
