//! The one dialect of Markdown that texts of GitHub are read in: CommonMark with tables, strike-through, task lists,
//! footnotes and alerts. Whoever asks what is code, or what people see, asks it here: two readings of one text would let
//! words through that one of them takes for code.

use pulldown_cmark::{Options, Parser};

/// Reads `text` as GitHub does.
pub fn markdown(text: &str) -> Parser<'_> {
    let dialect = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_GFM;
    Parser::new_ext(text, dialect)
}
