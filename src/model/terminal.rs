//! What programs print, as text: what a terminal would have left standing, without its control sequences.

use super::reorders;

/// Takes out control sequences, characters that reorder text, and what a carriage return overwrote (progress bars).
pub fn terminal_text(printed: &str) -> String {
    let mut out = String::with_capacity(printed.len());
    let mut chars = printed.chars().peekable();
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

/// After ESC (ECMA-48, 5.4 and 5.6): a control sequence has parameters and one final character, a command or other string ends
/// with BEL or ESC `\`, or with its line where it is broken off, a choice of character set after one more character.
fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars>) {
    match chars.next() {
        Some('[') => {
            while chars.next_if(|c| matches!(c, '\u{20}'..='\u{3f}')).is_some() {}
            chars.next_if(|c| matches!(c, '\u{40}'..='\u{7e}'));
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(c) = chars.next_if(|c| *c != '\n') {
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
        assert_eq!(terminal_text("\u{1b}[31mred\u{1b}[0m\tx\r\n\u{1b}]0;title\u{7}y\u{8}\u{1b}(Bz"), "red\tx\nyz");
        assert_eq!(terminal_text("open \u{1b}["), "open ");
        assert_eq!(
            terminal_text("open \u{1b}]0;title\nthe rest \u{1b}[\nand \u{1b}Pq\u{1b}\\more"),
            "open \nthe rest \nand more"
        );
        assert_eq!(terminal_text("a\u{202e}b\u{2066}c"), "abc");
    }

    #[test]
    fn progress_bars_leave_their_last_state() {
        assert_eq!(terminal_text("one\n10 %\r50 %\r100 %\ntwo\r\n"), "one\n100 %\ntwo\n");
        assert_eq!(terminal_text("kept\r"), "kept");
    }
}
