//! What is said to whoever sets the App up. Each sentence says what became of the App on GitHub, since one that nobody has the
//! key of is of no use there.

const DELETE: &str =
    "If GitHub shows an App of this name among yours, delete it there: nobody has its key. Then begin again.";

pub fn there_already() -> String {
    "This service has its App already, so another one was not taken. If GitHub shows one that was made just now, delete it there."
        .to_owned()
}

pub fn not_ready(why: &str) -> String {
    format!(
        "An App's secrets could not be kept here: {}. Nothing was begun on GitHub; mend that, then go on.",
        end(why)
    )
}

pub fn not_kept(why: &str) -> String {
    format!("The App's secrets could not be kept here: {}. {DELETE}", end(why))
}

pub fn not_converted(why: &str) -> String {
    format!("GitHub did not hand over the App: {}. {DELETE}", end(why))
}

pub fn not_stored(slug: &str, why: &str) -> String {
    format!(
        "GitHub handed over the App @{slug}, and it could not be stored: {}. Delete it on GitHub, since nobody has its key; then \
         begin again.",
        end(why)
    )
}

/// A full stop follows.
fn end(why: &str) -> &str {
    why.trim_end().trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sentence_says_what_becomes_of_the_app() {
        insta::assert_snapshot!([there_already(), not_ready("no key"), not_kept("no room."), not_converted("it is down"), not_stored("tw", "full")].join("\n"), @r"
        This service has its App already, so another one was not taken. If GitHub shows one that was made just now, delete it there.
        An App's secrets could not be kept here: no key. Nothing was begun on GitHub; mend that, then go on.
        The App's secrets could not be kept here: no room. If GitHub shows an App of this name among yours, delete it there: nobody has its key. Then begin again.
        GitHub did not hand over the App: it is down. If GitHub shows an App of this name among yours, delete it there: nobody has its key. Then begin again.
        GitHub handed over the App @tw, and it could not be stored: full. Delete it on GitHub, since nobody has its key; then begin again.
        ");
    }
}
