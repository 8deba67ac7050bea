//! Bare repositories, known by the names in a directory: git itself takes one for a repository by these.

const NAMES: [&[u8]; 3] = [b"HEAD", b"objects", b"refs"];

/// What the names of a directory's entries say, one after the other.
#[derive(Debug, Default)]
pub struct LooksBare([bool; NAMES.len()]);

impl LooksBare {
    /// Whether it looks like one, with this name.
    pub fn with(&mut self, name: &[u8]) -> bool {
        if let Some(at) = NAMES.iter().position(|known| *known == name) {
            self.0[at] = true;
        }
        self.0 == [true; NAMES.len()]
    }
}
