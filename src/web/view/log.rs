//! Logs as text: what a terminal would have left standing, without its control sequences.

use crate::model::reorders;

/// Takes out control sequences, characters that reorder text, and what a carriage return overwrote (progress bars).
pub fn plain_log(log: &str) -> String {
    let mut out = String::with_capacity(log.len());
    let mut chars = log.chars().peekable();
    let mut line_start = 0;
    let mut overwrite = false;
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\r' => overwrite = true,
            '\n' => {
                overwrite = false;
                out.push('\n');
                line_start = out.len();
            }
            '\t' => out.push('\t'),
            c if c.is_control() || reorders(c) || matches!(c, '\u{200e}' | '\u{200f}') => {}
            c => {
                if std::mem::take(&mut overwrite) {
                    out.truncate(line_start);
                }
                out.push(c);
            }
        }
    }
    out
}

/// Text from outside, without what makes it read as what it does not say.
pub fn straight(text: &str) -> String {
    text.chars().filter(|c| !reorders(*c)).collect()
}

/// After ESC: a control sequence ends with a character from `@` to `~`, an operating system command with BEL or ESC `\`,
/// a choice of character set after one more character.
fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars>) {
    match chars.next() {
        Some('[') => {
            for c in chars.by_ref() {
                if ('@'..='~').contains(&c) {
                    break;
                }
            }
        }
        Some(']') => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                    break;
                }
            }
        }
        Some('(' | ')') => {
            chars.next();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_go() {
        assert_eq!(plain_log("\u{1b}[31mred\u{1b}[0m\tx\r\n\u{1b}]0;title\u{7}y\u{8}\u{1b}(Bz"), "red\tx\nyz");
        assert_eq!(plain_log("open \u{1b}["), "open ");
        assert_eq!(plain_log("a\u{202e}b\u{2066}c"), "abc");
    }

    #[test]
    fn progress_bars_leave_their_last_state() {
        assert_eq!(plain_log("one\n10 %\r50 %\r100 %\ntwo\r\n"), "one\n100 %\ntwo\n");
        assert_eq!(plain_log("kept\r"), "kept");
    }
}
