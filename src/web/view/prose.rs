//! Sentences of ours, in which back-ticks mark code: `` `issue-42` is merged into `main` ``. Everything else is text.

/// A sentence in pieces, each of which the template escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prose {
    pub pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub code: bool,
    pub text: String,
}

impl Prose {
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Of a text that a page may show.
    pub fn of_shown(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut push = |code, text: &str| {
            if !text.is_empty() {
                pieces.push(Piece { code, text: text.to_owned() });
            }
        };
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('`') {
            let Some((code, tail)) = after.split_once('`') else { break };
            push(false, before);
            push(true, code);
            rest = tail;
        }
        push(false, rest);
        Self { pieces }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let piece = |piece: &Piece| if piece.code { format!("<{}>", piece.text) } else { piece.text.clone() };
        Prose::of_shown(text).pieces.iter().map(piece).collect()
    }

    #[test]
    fn only_pairs_mark_code() {
        assert_eq!(shown("`issue-42` is merged into `main`"), "<issue-42> is merged into <main>");
        assert_eq!(shown("no code"), "no code");
        assert_eq!(shown("a `b` c ` d"), "a <b> c ` d");
        assert!(Prose::of_shown("").is_empty());
    }
}
