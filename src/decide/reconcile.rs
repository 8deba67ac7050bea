//! What a restart does with rows that were left in the middle of something.

use crate::model::*;

/// What to do with an environment row found at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    Nothing,
    /// Its creation finished on disk: only the row lags behind.
    Activate,
    /// Its creation left nothing: close the row, so that the next try starts clean.
    Discard,
    /// Its removal had begun and the directory is gone: carry it to the end.
    FinishRemoval,
    /// Its removal had not touched the directory: take the row back and decide again.
    Reactivate,
}

/// `busy`: a run will continue the creation itself. `begun`: files of it wait in the trash.
pub fn repair(state: EnvironmentState, validity: &Probe<Validity>, busy: bool, begun: bool) -> Repair {
    match (state, validity) {
        (EnvironmentState::Removing, _) if begun => Repair::FinishRemoval,
        (EnvironmentState::Active | EnvironmentState::Destroyed, _) => Repair::Nothing,
        (EnvironmentState::Creating, _) if busy => Repair::Nothing,
        (EnvironmentState::Creating, Probe::Known(Validity::Valid)) => Repair::Activate,
        (EnvironmentState::Creating, Probe::Known(Validity::Missing)) => Repair::Discard,
        // The files are there, and what the registration lost is mended for an active one.
        (EnvironmentState::Removing, Probe::Known(Validity::Valid | Validity::Broken)) => Repair::Reactivate,
        (EnvironmentState::Removing, Probe::Known(Validity::Missing)) => Repair::FinishRemoval,
        // Not ours, or unreadable: leave it for a person, the panel shows it.
        (EnvironmentState::Creating, Probe::Known(Validity::Broken))
        | (
            EnvironmentState::Creating | EnvironmentState::Removing,
            Probe::Known(Validity::OwnRepository | Validity::Foreign) | Probe::Unknown(_),
        ) => Repair::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubt_never_discards() {
        for state in EnvironmentState::ALL {
            for busy in [true, false] {
                let doubts = [Validity::Broken, Validity::OwnRepository, Validity::Foreign].map(Probe::Known);
                for doubt in doubts.into_iter().chain([Probe::Unknown("no".into())]) {
                    let is_cut_off = *state == EnvironmentState::Removing && doubt == Probe::Known(Validity::Broken);
                    let expected = if is_cut_off { Repair::Reactivate } else { Repair::Nothing };
                    assert_eq!(repair(*state, &doubt, busy, false), expected, "{state}, {doubt:?}");
                }
            }
        }
    }

    #[test]
    fn each_half_done_step_is_finished_or_undone() {
        use EnvironmentState::*;
        let known = |v| Probe::Known(v);
        assert_eq!(repair(Creating, &known(Validity::Valid), false, false), Repair::Activate);
        assert_eq!(repair(Creating, &known(Validity::Missing), false, false), Repair::Discard);
        assert_eq!(repair(Creating, &known(Validity::Missing), true, false), Repair::Nothing);
        assert_eq!(repair(Removing, &known(Validity::Valid), false, false), Repair::Reactivate);
        assert_eq!(repair(Removing, &known(Validity::Broken), false, false), Repair::Reactivate);
        assert_eq!(repair(Creating, &known(Validity::Broken), false, false), Repair::Nothing);
        assert_eq!(repair(Removing, &known(Validity::Missing), false, false), Repair::FinishRemoval);
        assert_eq!(repair(Removing, &known(Validity::Valid), false, true), Repair::FinishRemoval);
        assert_eq!(repair(Active, &known(Validity::Missing), false, false), Repair::Nothing);
    }
}
