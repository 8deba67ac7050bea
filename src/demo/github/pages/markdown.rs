//! Markdown of people as HTML: raw HTML is shown as text (comments in it are hidden, as on GitHub), links lead only to
//! web addresses. Pure.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, html};

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
    let mut page = String::new();
    html::push_html(&mut page, events);
    page
}

fn harmless(address: CowStr<'_>) -> CowStr<'_> {
    let lower = address.to_ascii_lowercase();
    let web = lower.starts_with("http://") || lower.starts_with("https://");
    let local = lower.starts_with(['/', '#']) && !lower.starts_with("//");
    if web || local { address } else { CowStr::Borrowed("#") }
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn raw_html_stays_text_and_markers_are_hidden() {
        let page = render("**hi** <script>alert(1)</script> <!-- marker -->\n\n[x](javascript:alert(1))");
        assert!(page.contains("<strong>hi</strong>"));
        assert!(page.contains("&lt;script&gt;"));
        assert!(!page.contains("marker") && !page.contains("javascript:"));
        assert!(!render("<!-- treewarden:status run=1 -->\nDone").contains("treewarden"));
    }
}
