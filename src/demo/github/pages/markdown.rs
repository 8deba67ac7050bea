//! Markdown of people as HTML: raw HTML is shown as text (comments in it are hidden, as on GitHub), links lead only to
//! web addresses, and an address that stands in the text is a link. Pure.

use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag, TagEnd, TextMergeStream, html};

pub(super) fn render(text: &str) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS | Options::ENABLE_GFM;
    let events = Parser::new_ext(text, options).filter_map(|event| match event {
        Event::Html(raw) | Event::InlineHtml(raw) => {
            (!raw.trim_start().starts_with("<!--")).then_some(Event::Text(raw))
        }
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            Some(Event::Start(Tag::Link { link_type, dest_url: harmless(dest_url), title, id }))
        }
        Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
            Some(Event::Start(Tag::Image { link_type, dest_url: harmless(dest_url), title, id }))
        }
        Event::SoftBreak => Some(Event::HardBreak),
        other => Some(other),
    });
    // Whether text may become a link: not within one, nor in code.
    let mut plain = true;
    let events = TextMergeStream::new(events).flat_map(|event| {
        match &event {
            Event::Start(Tag::Link { .. } | Tag::Image { .. } | Tag::CodeBlock(_)) => plain = false,
            Event::End(TagEnd::Link | TagEnd::Image | TagEnd::CodeBlock) => plain = true,
            _ => {}
        }
        match event {
            Event::Text(text) if plain => with_links(text),
            other => vec![other],
        }
    });
    let mut page = String::new();
    html::push_html(&mut page, events);
    page
}

/// Text that is no Markdown, such as the message of a commit: as it is, with links.
pub(super) fn plain(text: &str) -> String {
    let mut page = String::new();
    html::push_html(&mut page, with_links(text.into()).into_iter());
    page
}

/// Text with the addresses in it as links.
fn with_links(text: CowStr<'_>) -> Vec<Event<'_>> {
    let own = |part: &str| CowStr::from(part.to_owned());
    let mut events = Vec::new();
    let mut rest: &str = &text;
    while let Some(start) = ["http://", "https://"].iter().filter_map(|scheme| rest.find(scheme)).min() {
        let end = rest[start..]
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>'))
            .map_or(rest.len(), |length| start + length);
        let address = rest[start..end].trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '\'']);
        let (link_type, title, id) = (LinkType::Autolink, CowStr::Borrowed(""), CowStr::Borrowed(""));
        events.push(Event::Text(own(&rest[..start])));
        events.push(Event::Start(Tag::Link { link_type, dest_url: own(address), title, id }));
        events.extend([Event::Text(own(address)), Event::End(TagEnd::Link)]);
        rest = &rest[start + address.len()..];
    }
    events.push(Event::Text(own(rest)));
    events
}

fn harmless(address: CowStr<'_>) -> CowStr<'_> {
    let lower = address.to_ascii_lowercase();
    let web = lower.starts_with("http://") || lower.starts_with("https://");
    let local = lower.starts_with(['/', '#']) && !lower.starts_with("//");
    if web || local { address } else { CowStr::Borrowed("#") }
}

#[cfg(test)]
mod tests {
    use super::{plain, render};

    #[test]
    fn raw_html_stays_text_and_markers_are_hidden() {
        let page = render("**hi** <script>alert(1)</script> <!-- marker -->\n\n[x](javascript:alert(1))");
        assert!(page.contains("<strong>hi</strong>"));
        assert!(page.contains("&lt;script&gt;"));
        assert!(!page.contains("marker") && !page.contains("javascript:"));
        assert!(!render("<!-- treewarden:status run=1 -->\nDone").contains("treewarden"));
    }

    #[test]
    fn addresses_in_the_text_are_links_and_those_in_code_are_not() {
        let link = "<a href=\"http://h.test/a_b?c=d&amp;e#f_g\">http://h.test/a_b?c=d&amp;e#f_g</a>";
        assert_eq!(render("by ann in http://h.test/a_b?c=d&e#f_g."), format!("<p>by ann in {link}.</p>\n"));
        assert_eq!(render("[http://h.test](/x)"), "<p><a href=\"/x\">http://h.test</a></p>\n");
        assert!(!render("`http://h.test` and\n\n    http://h.test\n").contains("<a "));
        assert_eq!(plain("*a* <b> http://h.test/"), "*a* &lt;b&gt; <a href=\"http://h.test/\">http://h.test/</a>");
        let quoted = render("a \"http://h.test/\"onclick=x");
        assert!(quoted.contains("<a href=\"http://h.test/\">http://h.test/</a>\"onclick=x"), "{quoted}");
    }
}
