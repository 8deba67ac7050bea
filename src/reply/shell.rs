//! Commands people copy into a shell.

/// One argument, quoted so that a shell takes it for nothing else: `$(…)`, `;` and quotes are legal in branch names.
pub fn quoted(argument: &str) -> String {
    // Only NUL cannot be quoted, and it occurs in no path or branch.
    shlex::try_quote(argument).map(std::borrow::Cow::into_owned).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_names_cannot_run_anything() {
        assert_eq!(quoted("issue-42"), "issue-42");
        assert_eq!(quoted("feature/x"), "feature/x");
        for hostile in ["a;rm$IFS-rf", "$(id)", "`id`", "it's", "a&b", "a|b", "a\"b"] {
            assert_eq!(shlex::split(&quoted(hostile)), Some(vec![hostile.to_owned()]));
        }
        assert_eq!(quoted("a;b"), "'a;b'");
    }
}
