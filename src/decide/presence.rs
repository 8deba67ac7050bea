//! What counts as missing: the disk says what is there, the row says what should be.

use crate::model::*;

/// What a worktree is of which the disk says that it is missing; `files`: whether anything lies at its place. The row of an
/// active one says that it was finished: files that are there are somebody's work, whatever else was taken away.
pub fn missing(state: EnvironmentState, files: Probe<bool>) -> Probe<Validity> {
    match (state, files) {
        (EnvironmentState::Active, Probe::Known(true)) => Probe::Known(Validity::Broken),
        (EnvironmentState::Active, Probe::Unknown(why)) => Probe::Unknown(why),
        (EnvironmentState::Active, Probe::Known(false))
        | (EnvironmentState::Creating | EnvironmentState::Removing | EnvironmentState::Destroyed, _) => {
            Probe::Known(Validity::Missing)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_finished_worktree_are_somebodys_work_and_a_doubt_stays_one() {
        for state in EnvironmentState::ALL {
            let finished = *state == EnvironmentState::Active;
            assert_eq!(missing(*state, Probe::Known(false)), Probe::Known(Validity::Missing));
            let with_files = if finished { Validity::Broken } else { Validity::Missing };
            assert_eq!(missing(*state, Probe::Known(true)), Probe::Known(with_files), "{state:?}");
            let unread = missing(*state, Probe::Unknown("no".to_owned()));
            let doubt = Probe::Unknown("no".to_owned());
            assert_eq!(unread, if finished { doubt } else { Probe::Known(Validity::Missing) }, "{state:?}");
        }
    }
}
