//! Why the App does not reach a repository, or may not do there what it needs to, and what people can do about it.

use crate::model::*;

/// As in "the repository is not worked on: …". `None`: nothing is wrong.
pub fn cause(reach: Reach) -> Option<&'static str> {
    Some(match reach {
        Reach::Whole => return None,
        Reach::Archived => "it is archived on GitHub, so nothing can be written there",
        Reach::Suspended => "the installation of the App is suspended",
        Reach::Uninstalled => "the App is not installed there any more",
        Reach::NotSelected => "the App's installation does not include it (or it is gone)",
        Reach::Deleted => "it was deleted on GitHub",
        Reach::NameTaken => "another repository has its name now, and GitHub has not said what this one is called",
        Reach::Lost => "the App does not reach it",
    })
}

/// What people do about it.
pub fn way_out(reach: Reach) -> &'static str {
    match reach {
        Reach::Whole => "",
        Reach::Archived => "Whoever administers it unarchives it in its settings on GitHub.",
        Reach::Suspended => "The owner of the account ends that on the page of the installation.",
        Reach::Uninstalled => "The owner of the account installs the App again.",
        Reach::NotSelected => "The owner of the account adds it on the page of the installation.",
        Reach::Deleted => "What was done here is kept until whoever runs this service removes it.",
        Reach::NameTaken => "It is found again by the first message in it, or by the next hourly look.",
        Reach::Lost => "GitHub is asked again every hour; the page of the installation says what it includes.",
    }
}

/// Why GitHub refuses what is asked for in a repository, and what to do; `None` where nothing is known to be wrong. `page`:
/// where its owner can change that.
pub fn refused(name: &RepoName, reach: Reach, page: Option<&str>) -> Option<String> {
    let page = page.map(|page| format!(" ({page})")).unwrap_or_default();
    cause(reach).map(|cause| format!("**{name}** cannot be worked on now: {cause}{page}. {}", way_out(reach)))
}

/// The same where the owner of an installation has not granted (yet) what the App needs.
pub fn permissions_missing(name: &RepoName, missing: &[String], page: &str) -> String {
    let list: Vec<String> = missing.iter().map(|one| format!("`{one}`")).collect();
    format!(
        "on **{name}** the App lacks {} that it asks for: {}. The owner of the account accepts that at {page}.",
        if missing.len() == 1 { "a permission" } else { "permissions" },
        list.join(", ")
    )
}

/// A run that could not begin for one of these reasons.
pub fn not_begun(why: &str) -> String {
    format!("The work could not begin: {why} Nothing was run, and what was done before is kept. Then mention me again.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_told_with_a_way_out() {
        let name: RepoName = "octo/hello".parse().unwrap();
        let all = Reach::ALL.iter().map(|reach| refused(&name, *reach, None));
        assert_eq!(all.filter(Option::is_none).count(), 1, "only what is reached needs no word");
        let told = refused(&name, Reach::Suspended, Some("https://github.com/settings/installations/7")).unwrap();
        insta::assert_snapshot!(not_begun(&told), @"The work could not begin: **octo/hello** cannot be worked on now: the installation of the App is suspended (https://github.com/settings/installations/7). The owner of the account ends that on the page of the installation. Nothing was run, and what was done before is kept. Then mention me again.");
        let missing = ["contents: write".to_owned(), "issues: write".to_owned()];
        insta::assert_snapshot!(permissions_missing(&name, &missing, "https://github.com/settings/installations/7"), @"on **octo/hello** the App lacks permissions that it asks for: `contents: write`, `issues: write`. The owner of the account accepts that at https://github.com/settings/installations/7.");
    }
}
