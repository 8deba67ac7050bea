//! What git records of a path beside its content, as in the first column of git-ls-tree(1).

pub const FILE: u32 = 0o100_644;
pub const EXECUTABLE: u32 = 0o100_755;
pub const LINK: u32 = 0o120_000;
/// A commit of another repository.
pub const SUBMODULE: u32 = 0o160_000;
pub const DIRECTORY: u32 = 0o040_000;
