//! Where things lie on the server is nobody's business on a platform: texts that go there name its directories by a word.
//!
//! Causes come from git, the file system and the agent and carry paths of their own accord; the log and the panel keep them.

use std::{
    path::{Path, PathBuf},
    sync::{PoisonError, RwLock},
};

/// Directories of this installation and the words for them, the longest first.
#[derive(Debug, Default)]
pub struct Places(RwLock<Vec<(String, &'static str)>>);

impl Places {
    pub fn new(places: impl IntoIterator<Item = (PathBuf, &'static str)>) -> Self {
        let known = Self::default();
        places.into_iter().for_each(|(path, word)| known.learn(&path, word));
        known
    }

    /// One more of them.
    pub fn learn(&self, path: &Path, word: &'static str) {
        let Some(path) = path.to_str().map(|path| path.trim_end_matches('/')) else { return };
        if !Path::new(path).is_absolute() || path.len() < 2 {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !known.iter().any(|(other, _)| other == path) {
            known.push((path.to_owned(), word));
            known.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        }
    }

    /// The text with `[word]` in the place of each directory; what lies below it is still named.
    pub fn hide(&self, text: &str) -> String {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().fold(text.to_owned(), |text, (path, word)| replaced(&text, path, word))
    }
}

fn replaced(text: &str, path: &str, word: &str) -> String {
    let goes_on = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(path) {
        let (before, after) = (&rest[..at], &rest[at + path.len()..]);
        out.push_str(before);
        // `/srv/tw` is no part of `/mnt/srv/tw` nor of `/srv/tw2`; `/srv/tw.` may end a sentence.
        let begins = out.ends_with("://") || !out.ends_with(|c: char| goes_on(c) || matches!(c, '.' | '/'));
        let mut next = after.chars();
        let ends = match next.next() {
            Some('.') => !next.next().is_some_and(goes_on),
            Some(c) => !goes_on(c),
            None => true,
        };
        match begins && ends {
            true => out.push_str(&format!("[{word}]")),
            false => out.push_str(path),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_named_by_a_word() {
        let places = Places::new([
            ("/srv/tw".into(), "home"),
            ("/srv/tw/worktrees/".into(), "worktrees"),
            ("/".into(), "root"),
            ("relative".into(), "nothing"),
        ]);
        let cases = [
            ("fatal: '/srv/tw/worktrees/a/b' is locked", "fatal: '[worktrees]/a/b' is locked"),
            ("/srv/tw/repos/x.git, and /srv/tw.", "[home]/repos/x.git, and [home]."),
            ("/srv/tw2 /mnt/srv/tw /srv/tw.old http://a/srv/tw", "/srv/tw2 /mnt/srv/tw /srv/tw.old http://a/srv/tw"),
            ("see /tmp/x", "see /tmp/x"),
            ("file:///srv/tw/repos/x.git", "file://[home]/repos/x.git"),
        ];
        for (given, shown) in cases {
            assert_eq!(places.hide(given), shown);
        }
    }
}
