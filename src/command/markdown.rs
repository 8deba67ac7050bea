//! Which parts of a Markdown text a reader sees as ordinary words, and which were put there by quoting or hiding.
//!
//! The text is parsed as GitHub parses it; no line is ever matched by its looks.

use crate::model::{HtmlPart, html_parts, markdown};
use pulldown_cmark::{Event, Tag, TagEnd};
use std::ops::Range;

/// Stands for everything that is no ordinary text.
pub(super) const MASK: char = '\0';
/// Stands for HTML where the text around it is read once more: a sign that means nothing to Markdown, and begins no tag.
const FILLER: u8 = b'.';
/// HTML whose content GitHub shows as code, as a quotation or as a link, or not at all. Tags that it does not let through, such
/// as `<script>`, it shows as the text they are.
const SILENT_TAGS: [&str; 8] = ["code", "pre", "kbd", "samp", "tt", "blockquote", "a", "rp"];

/// A text seen through its Markdown.
pub(super) struct Visible {
    /// As long as the source, byte for byte: ordinary text and line ends are kept, signs of emphasis became blanks, and
    /// code, links, images, quotes and the tags and hidden parts of HTML became [`MASK`].
    pub text: String,
    /// Byte ranges of the source that are not the author's visible words: quotes and HTML comments.
    pub foreign: Vec<Range<usize>>,
}

/// Reads `source`.
pub(super) fn visible(source: &str) -> Visible {
    let mut canvas = Canvas { source, bytes: Vec::with_capacity(source.len()), foreign: Vec::new() };
    canvas.bytes.extend(source.bytes().map(|byte| if byte == b'\n' { byte } else { MASK as u8 }));
    let (mut covered, mut silence) = (0usize, Silence::default());
    for (event, range) in markdown(source).into_offset_iter() {
        match event {
            Event::Start(Tag::HtmlBlock) | Event::InlineHtml(_) if covered > 0 => silence.read_covered(&source[range]),
            Event::Start(tag) => match tag {
                Tag::Emphasis | Tag::Strong | Tag::Strikethrough if covered == 0 => canvas.fill(range, b' '),
                Tag::BlockQuote(_) | Tag::CodeBlock(_) | Tag::Link { .. } | Tag::Image { .. } => {
                    if covered == 0 {
                        if let Tag::BlockQuote(_) = tag {
                            canvas.foreign.push(range.clone());
                        }
                        canvas.fill(range, MASK as u8);
                    }
                    covered += 1;
                }
                Tag::HtmlBlock => canvas.show_html(range, &mut silence),
                _ => {}
            },
            Event::End(TagEnd::BlockQuote(_) | TagEnd::CodeBlock | TagEnd::Link | TagEnd::Image) => covered -= 1,
            Event::Text(_) if covered == 0 && !silence.is_on() => canvas.show(range),
            Event::InlineHtml(_) => {
                canvas.drop_html(range.start, silence.read(&source[range.clone()]));
                canvas.fill(range, MASK as u8);
            }
            Event::Code(_) | Event::FootnoteReference(_) if covered == 0 => canvas.fill(range, MASK as u8),
            _ => {}
        }
    }
    Visible { text: String::from_utf8_lossy(&canvas.bytes).into_owned(), foreign: canvas.foreign }
}

/// What HTML so far makes of the text that follows it.
#[derive(Default)]
pub(super) struct Silence {
    /// How many of each of [`SILENT_TAGS`] are open.
    open: [usize; SILENT_TAGS.len()],
    endless: bool,
}

impl Silence {
    pub(super) fn is_on(&self) -> bool {
        self.endless || self.open.iter().any(|many| *many > 0)
    }

    /// The parts of a piece of HTML, and what each is.
    pub(super) fn read(&mut self, html: &str) -> Vec<(Range<usize>, Shown)> {
        let read = html_parts(html).map(|(range, part)| {
            let is_comment = html[range.clone()].starts_with("<!--");
            let shown = match &part {
                HtmlPart::Text if !self.is_on() => Shown::Text,
                HtmlPart::Unseen | HtmlPart::Endless if is_comment => Shown::Comment,
                HtmlPart::Text | HtmlPart::Tag(_) | HtmlPart::Unseen | HtmlPart::Endless => Shown::Not,
            };
            self.pass(&part);
            (range, shown)
        });
        read.collect()
    }

    /// In quotes and code, tags end with what they are in; what never ends does not.
    fn read_covered(&mut self, html: &str) {
        self.endless |= html_parts(html).any(|(_, part)| matches!(part, HtmlPart::Endless));
    }

    fn pass(&mut self, part: &HtmlPart<'_>) {
        match part {
            HtmlPart::Text | HtmlPart::Unseen => {}
            HtmlPart::Endless => self.endless = true,
            HtmlPart::Tag(tag) => {
                let silent = SILENT_TAGS.iter().position(|name| tag.name.eq_ignore_ascii_case(name));
                if let Some(open) = silent.and_then(|index| self.open.get_mut(index)) {
                    *open = if tag.closes { open.saturating_sub(1) } else { *open + 1 };
                }
            }
        }
    }
}

/// What people see of a part of HTML.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Text,
    Comment,
    Not,
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
        fill(&mut self.bytes[range], with);
    }

    /// Shows the text of a block of HTML. To GitHub no Markdown is in it; but a block goes on up to the next blank line, and
    /// what people put there as a quote or as code is not meant as their words to anybody. So it is read once more, with
    /// its tags out of the way.
    fn show_html(&mut self, range: Range<usize>, silence: &mut Silence) {
        let html = &self.source[range.clone()];
        let parts = silence.read(html);
        let mut text = html.as_bytes().to_vec();
        for (part, _) in parts.iter().filter(|(_, shown)| *shown != Shown::Text) {
            fill(&mut text[part.clone()], FILLER);
        }
        let inner = visible(&String::from_utf8_lossy(&text));
        self.bytes[range.clone()].copy_from_slice(inner.text.as_bytes());
        for (part, _) in parts.iter().filter(|(_, shown)| *shown != Shown::Text) {
            self.fill(range.start + part.start..range.start + part.end, MASK as u8);
        }
        self.foreign.extend(inner.foreign.into_iter().map(|part| range.start + part.start..range.start + part.end));
        self.drop_html(range.start, parts);
    }

    fn drop_html(&mut self, start: usize, parts: Vec<(Range<usize>, Shown)>) {
        let comments = parts.into_iter().filter(|(_, shown)| *shown == Shown::Comment);
        self.foreign.extend(comments.map(|(part, _)| start + part.start..start + part.end));
    }
}

/// Line ends stay.
fn fill(bytes: &mut [u8], with: u8) {
    for byte in bytes {
        if *byte != b'\n' {
            *byte = with;
        }
    }
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
        assert_eq!(seen("<details>\nraw\n</details>\n\nshown"), "raw shown");
    }

    #[test]
    fn html_shows_its_text_and_nothing_else() {
        for (source, expected) in [
            ("<img\nalt='a\nb' title=\"c > d\" />\ne <b>f</b>g", "e f g"),
            ("a <!-- b\nc --> <i title='d'>e</i> <kbd>f</kbd>", "a e"),
            ("<!-- a\n\nb --> c\nd\n\n<?e?>f\n\n<!X g>h\n\n<![CDATA[i]]>j\n\n</ k>l", "c d f h j </ k>l"),
            ("<div>a\n> b\n\nc `d`\n<br>\n```\ne\n```\nf `g` <p>h", "a c f h"),
            ("<br>\n```\na\n```\nb `c`\n    d\n* e\n> f", "b d e"),
            ("<div><pre>a\n\nb\n\n</div>c</pre>d", "d"),
            ("<blockquote>a\n\nb <i></i></code>\n\n</blockquote>\n\nc", "c"),
            ("<div><blockquote><blockquote></blockquote>a\n\nb", ""),
            ("<div>a<SCRIPT>b</SCRIPT>c<style>d</style><textarea>e</textarea><title>f</title>g", "a b c d e f g"),
            ("a <a href='x'>b</a> c\n\n<p><a href='x'>d</a>\ne", "a c e"),
            ("a\n\n<div>b <!-- c\n\nd", "a b"),
            ("a\n\n> <!-- b\n\nc", "a"),
            ("a\n\n<p title='b\n\nc", "a"),
            ("> <pre>a\n\nb", "b"),
            ("<p><<b>>a", "< >a"),
            ("<p><<<i></i><</p><b>>a\nb < c", "<< < >a b < c"),
        ] {
            assert_eq!(seen(source), expected, "{source}");
        }
    }

    #[test]
    fn a_quote_in_html_is_somebody_elses_words_too() {
        let source = "ä<br>\n\n<div>ä <!-- b -->\n> c\n> d\n\ne";
        let foreign: Vec<&str> = visible(source).foreign.into_iter().map(|range| source[range].trim()).collect();
        assert_eq!(foreign, ["> c\n> d", "<!-- b -->"]);
    }

    #[test]
    fn quotes_and_comments_are_somebody_elses_words() {
        let source = "a <!-- b --> c\n\n<!-- d\n\ne -->\n\n> f\n\n<!-- never closed";
        let foreign: Vec<&str> = visible(source).foreign.into_iter().map(|range| source[range].trim()).collect();
        assert_eq!(foreign, ["<!-- b -->", "<!-- d\n\ne -->", "> f", "<!-- never closed"]);
    }
}
