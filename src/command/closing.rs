//! Closing keywords in the body of a pull request (`Fixes #42`), read as GitHub reads them.
//!
//! Used when GitHub itself cannot be asked, and for pull requests into another base than the default branch, of which it
//! never says that they close anything. Documented choices where it is vague: the keyword may be followed by a colon,
//! with or without a space (`Fixed:#11` counts); any blank may stand between (`Fixes\t#14`); `GH-12` counts; a Markdown
//! link does not. "Does not close #5" counts, because GitHub closes it.

use super::markdown::{Shown, Silence};
use crate::model::{RepoName, ThreadNumber, markdown};
use pulldown_cmark::{Event, Tag, TagEnd};

/// What GitHub takes for one, in whatever case.
pub const KEYWORDS: [&str; 9] =
    ["close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved"];

/// Whatever stands between a keyword and a number must not let them meet.
const BORDER: &str = " \u{1} ";

/// What a text closes, in order, each once.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Issues of the repository that the text belongs to.
    pub here: Vec<ThreadNumber>,
    /// Issues of others.
    pub elsewhere: Vec<(RepoName, ThreadNumber)>,
}

/// What the text of `repository` closes. Addresses that do not begin with `web_url` are left out, GitHub's without a
/// trailing slash.
pub fn references(body: &str, repository: &RepoName, web_url: &str) -> References {
    let mut found = References::default();
    let mut text = String::new();
    let (mut covered, mut silence) = (0usize, Silence::default());
    for (event, range) in markdown(body).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::Link { .. } | Tag::Image { .. }) => {
                covered += 1;
                text.push_str(BORDER);
            }
            Event::End(TagEnd::CodeBlock | TagEnd::Link | TagEnd::Image) => covered -= 1,
            Event::Start(Tag::HtmlBlock) | Event::InlineHtml(_) => {
                for (part, shown) in silence.read(&body[range.clone()]) {
                    match shown {
                        Shown::Text => text.push_str(&body[range.start + part.start..range.start + part.end]),
                        Shown::Comment | Shown::Not => text.push_str(BORDER),
                    }
                }
            }
            Event::Text(piece) if covered == 0 && !silence.is_on() => text.push_str(&piece),
            Event::SoftBreak | Event::HardBreak => text.push('\n'),
            Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough) => {}
            Event::End(_) => text.push_str(BORDER),
            Event::Start(_) => {}
            _ => text.push_str(BORDER),
        }
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    for (index, word) in words.iter().enumerate() {
        let (keyword, glued) = match word.split_once(':') {
            Some((keyword, rest)) => (keyword, Some(rest).filter(|rest| !rest.is_empty())),
            None => (*word, None),
        };
        if !is_keyword(keyword.trim_start_matches(['(', '-', '*'])) {
            continue;
        }
        let target = glued.or_else(|| words.get(index + 1).copied());
        match target.and_then(|target| reference(target, web_url)) {
            Some((Some(name), number)) if !name.is_called(repository) => {
                if !found.elsewhere.iter().any(|(known, other)| *other == number && known.is_called(&name)) {
                    found.elsewhere.push((name, number));
                }
            }
            Some((_, number)) if !found.here.contains(&number) => found.here.push(number),
            Some(_) | None => {}
        }
    }
    found
}

fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
}

/// `#1`, `GH-1`, `owner/repo#1` or the issue's URL, with punctuation after it, and the repository where one is named.
fn reference(target: &str, web_url: &str) -> Option<(Option<RepoName>, ThreadNumber)> {
    let digits_of = |rest: &str| -> Option<ThreadNumber> {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let tail_is_punctuation = rest[end..].chars().all(|c| c.is_ascii_punctuation());
        rest[..end].parse().ok().filter(|number| *number > 0 && tail_is_punctuation).map(ThreadNumber)
    };
    let of = |name: &str, rest: &str| Some((Some(name.parse().ok()?), digits_of(rest)?));
    if let Some((name, rest)) = target.split_once('#') {
        return if name.is_empty() { Some((None, digits_of(rest)?)) } else { of(name, rest) };
    }
    if let Some(rest) = target.strip_prefix("GH-").or_else(|| target.strip_prefix("gh-")) {
        return Some((None, digits_of(rest)?));
    }
    let path = target.strip_prefix(web_url)?.strip_prefix('/')?;
    let (name, rest) = path.split_once("/issues/")?;
    of(name, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(body: &str) -> Vec<i64> {
        read(body).here.into_iter().map(|n| n.0).collect()
    }

    fn read(body: &str) -> References {
        references(body, &"acme/app".parse().unwrap(), "https://github.com")
    }

    fn elsewhere(body: &str) -> Vec<String> {
        read(body).elsewhere.iter().map(|(name, number)| format!("{name}#{number}")).collect()
    }

    /// BR-154
    #[test]
    fn each_number_needs_its_own_keyword() {
        assert_eq!(numbers("Fixes #1, #2 and #3"), [1]);
        assert_eq!(numbers("Fixes #1, fixes #2"), [1, 2]);
    }

    /// BR-156
    #[test]
    fn other_repositories_are_not_local() {
        assert!(numbers("Closes other/repo#3").is_empty());
        assert_eq!(numbers("closes acme/app#4\nCloses ACME/App#5"), [4, 5]);
        assert_eq!(numbers("Closes https://github.com/acme/app/issues/6."), [6]);
        for elsewhere in ["https://github.com/other/app/issues/6", "https://github.com.x.test/acme/app/issues/6"] {
            assert!(numbers(&format!("Closes {elsewhere}")).is_empty(), "{elsewhere}");
        }
        let both = "Closes #3, closes other/repo#3, fixes https://github.com/other/app/issues/6, closes Other/Repo#3";
        assert_eq!(
            (numbers(both), elsewhere(both)),
            (vec![3], vec!["other/repo#3".to_owned(), "other/app#6".to_owned()])
        );
        for nothing in [
            "Closes https://github.com.x.test/other/app/issues/6",
            "Closes a/b/c#1",
            "Closes x#1",
            "Closes other/repo#0",
        ] {
            assert_eq!(read(nothing), References::default(), "{nothing}");
        }
    }

    /// BR-157, BR-159
    #[test]
    fn comments_code_and_similar_words_do_not_link() {
        assert_eq!(numbers("<!-- e.g. Fixes #42 -->\nCloses #7"), [7]);
        assert!(numbers("`Fixes #1`\n\n```\nFixes #2\n```").is_empty());
        assert_eq!(numbers("This fixes the same class of bug as #263.\n\nCloses #591"), [591]);
        for body in [
            "see #8",
            "Fixes #0",
            "Fixes #99999999999999999999",
            "Fixes #1a",
            "prefixes #9",
            "closes the loop on #10",
            "Fixes issue #123",
            "fixes bug #4",
            "fixing #13",
        ] {
            assert!(numbers(body).is_empty(), "{body}");
        }
    }

    #[test]
    fn html_hides_a_keyword_only_where_it_hides_it_from_people() {
        assert_eq!(numbers("<img alt='a' src=\"a.png\" />\nFixes #7"), [7]);
        assert_eq!(numbers("<details><summary>Log</summary>\n\nlog\n\n</details>\nCloses #8 <br>fixes #9"), [8, 9]);
        assert_eq!(numbers("<!-- Fixes #1 --> Fixes #2<p>and</p>"), [2]);
        for body in [
            "<!--\n\nFixes #1",
            "<div><!-- a\n\nFixes #1",
            "<pre>\nFixes #1\n</pre>",
            "a <code>Fixes #1</code>",
            "<p title='Fixes #1'>Fixes <b>x</b> #1</p>",
            "<p>Fixes <!-- --> #1",
            "<p><a href='x'>Fixes #1</a>",
        ] {
            assert!(numbers(body).is_empty(), "{body}");
        }
    }

    /// BR-162
    #[test]
    fn all_keywords_and_the_documented_forms_link() {
        for keyword in KEYWORDS {
            assert_eq!(numbers(&format!("{keyword} #1")), [1]);
        }
        assert_eq!(numbers("CLOSES: #10"), [10]);
        assert_eq!(numbers("Fixed:#11"), [11]);
        assert_eq!(numbers("Fixes GH-12"), [12]);
        assert_eq!(numbers("Fixes\t#14"), [14]);
        assert_eq!(numbers("This does not close #5"), [5]);
        assert!(numbers("Closes [#6](https://github.com/acme/app/issues/6)").is_empty());
    }
}
