//! Which issues a pull request closes: closing keywords in its body, and links made by hand.
//!
//! GitHub's rule: https://docs.github.com/en/issues/tracking-your-work-with-issues/using-issues/linking-a-pull-request-to-an-issue

use crate::demo::github::world::World;

const KEYWORDS: [&str; 9] = ["close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved"];

/// `#7`, or `octo/hello#7` with the name of the repository.
#[derive(Debug, PartialEq, Eq)]
struct Reference<'a> {
    repository: Option<&'a str>,
    number: i64,
}

impl World {
    /// Issues that merging this pull request closes, as (repository, number). Keywords count only in pull requests into
    /// the default branch.
    pub fn closed_by(&self, repository: i64, number: i64) -> Vec<(i64, i64)> {
        let Ok((thread, pull)) = self.pull(repository, number) else { return Vec::new() };
        let into_default = self.repository(repository).is_ok_and(|place| place.default_branch == pull.base_branch);
        let text = without_comments(if into_default { &thread.body } else { "" });
        let written = references(&text).into_iter().filter_map(|reference| {
            let place = match reference.repository {
                Some(name) => self.find_repository(name)?.id,
                None => repository,
            };
            Some((place, reference.number))
        });
        let by_hand = self.links.iter().filter(|link| (link.0, link.1) == (repository, number));
        let mut found: Vec<_> = written.chain(by_hand.map(|link| (repository, link.2))).collect();
        found.retain(|(place, issue)| self.thread(*place, *issue).is_ok_and(|thread| thread.pull.is_none()));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Pull requests that would close this issue, as (repository, number), open ones unless `with_closed`.
    pub fn closers_of(&self, repository: i64, issue: i64, with_closed: bool) -> Vec<(i64, i64)> {
        let pulls = self.repositories.values().flat_map(|place| {
            let threads = place.threads.values().filter(|thread| thread.pull.is_some() && (thread.open || with_closed));
            threads.map(|thread| (place.id, thread.number))
        });
        pulls.filter(|(place, number)| self.closed_by(*place, *number).contains(&(repository, issue))).collect()
    }
}

/// The text without HTML comments, whose examples mean nothing.
fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once("<!--") {
        kept += before;
        rest = after.split_once("-->").map_or("", |(_, behind)| behind);
    }
    kept + rest
}

fn references(text: &str) -> Vec<Reference<'_>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.windows(2).filter(|pair| {
        let word = pair[0].trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        let word = word.strip_suffix(':').unwrap_or(word);
        KEYWORDS.iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
    });
    pairs.filter_map(|pair| reference(pair[1])).collect()
}

fn reference(word: &str) -> Option<Reference<'_>> {
    let (place, digits) = word.split_once('#')?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number = digits[..end].parse().ok()?;
    match place.split_once('/') {
        None if place.is_empty() => Some(Reference { repository: None, number }),
        Some((owner, name)) if !owner.is_empty() && !name.is_empty() => {
            Some(Reference { repository: Some(place), number })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Vec<i64> {
        references(&without_comments(text)).iter().map(|reference| reference.number).collect()
    }

    #[test]
    fn keywords_close_as_on_github() {
        assert_eq!(numbers("Fixes #1, #2 and #3"), [1]);
        assert_eq!(numbers("Fixes #1, fixes #2"), [1, 2]);
        assert_eq!(numbers("<!-- e.g. Fixes #42 -->\nCloses #7"), [7]);
        assert_eq!(numbers("This fixes the same class as #263.\n\nCloses #591"), [591]);
        assert_eq!(numbers("CLOSES: #10, (resolved #11) prefixes #9"), [10, 11]);
        assert_eq!(numbers("see #8, fixing #13, fixes issue #4"), Vec::<i64>::new());
        assert_eq!(references("Closes octo/hello#5."), [Reference { repository: Some("octo/hello"), number: 5 }]);
    }
}
