//! What a receipt says once the files of the removed worktree were looked at for the last time.

use crate::model::*;

/// What the last look came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// All that the branch's commit does not hold; `None`: there is nothing.
    Looked(Option<CommitSha>),
    /// Why the files cannot go yet.
    HeldUp(String),
}

/// The receipt as it is to be; `None`: it says so already. What the removal itself kept is no news, nor is that somebody has
/// deleted some of it since: it stays kept.
pub fn amended(
    details: &ReceiptDetails,
    found: Found,
    trash_ref: String,
    kept_until: Timestamp,
) -> Option<ReceiptDetails> {
    let new = match found {
        Found::HeldUp(why) => ReceiptDetails { held_up: Some(why), ..details.clone() },
        Found::Looked(Some(late)) if details.keepsake.as_ref() != Some(&late) => ReceiptDetails {
            safety_ref: Some(trash_ref),
            kept_until: Some(kept_until),
            keepsake: Some(late),
            only_ignored: false,
            held_up: None,
            ..details.clone()
        },
        Found::Looked(_) => ReceiptDetails { held_up: None, ..details.clone() },
    };
    (new != *details).then_some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha(digit: char) -> CommitSha {
        CommitSha::new(&digit.to_string().repeat(40)).unwrap()
    }

    #[test]
    fn only_what_was_not_kept_before_is_news() {
        let new = |details: &ReceiptDetails, found| amended(details, found, "ref".into(), Timestamp::from_unix(9));
        let clean = ReceiptDetails::default();
        assert_eq!(new(&clean, Found::Looked(None)), None);
        let kept = ReceiptDetails {
            safety_ref: Some("ref".into()),
            kept_until: Some(Timestamp::from_unix(5)),
            keepsake: Some(sha('a')),
            only_ignored: true,
            ..clean.clone()
        };
        assert_eq!(new(&kept, Found::Looked(Some(sha('a')))), None);
        assert_eq!(new(&kept, Found::Looked(None)), None);
        for before in [&clean, &kept] {
            let late = new(before, Found::Looked(Some(sha('b')))).unwrap();
            assert_eq!((late.safety_ref.as_deref(), late.kept_until), (Some("ref"), Some(Timestamp::from_unix(9))));
            assert_eq!((&late.keepsake, late.only_ignored), (&Some(sha('b')), false));
            assert_eq!(new(&late, Found::Looked(Some(sha('b')))), None, "told once");
        }
    }

    #[test]
    fn what_holds_the_files_up_is_said_until_it_is_over() {
        let new = |details: &ReceiptDetails, found| amended(details, found, "ref".into(), Timestamp::from_unix(9));
        let held_up = new(&ReceiptDetails::default(), Found::HeldUp("x".into())).unwrap();
        assert_eq!(held_up.held_up.as_deref(), Some("x"));
        assert_eq!(new(&held_up, Found::HeldUp("x".into())), None);
        assert_eq!(new(&held_up, Found::Looked(None)), Some(ReceiptDetails::default()));
    }
}
