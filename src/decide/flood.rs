//! How many messages of one person are taken up, so that nobody keeps the service from answering everybody else.

/// What is known about a message before anybody is asked about its author.
#[derive(Clone, Copy, Debug)]
pub struct FloodFacts {
    /// Which of its author's messages in this repository it is, of those within the same minute: 1 is the first.
    pub nth: u32,
    /// Known, without asking GitHub, to be somebody who may ask for it.
    pub may_ask: bool,
    /// It asks to stop.
    pub stops: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heed {
    /// It is taken up like any other.
    Hear,
    /// It is not, and its author is told so.
    Tell,
    /// It is not.
    Ignore,
}

/// Messages of one person in one repository within a minute; as many as GitHub takes answers to.
pub const MOST_MESSAGES: u32 = 60;

pub fn heed(facts: FloodFacts) -> Heed {
    let FloodFacts { nth, may_ask, stops } = facts;
    // Whoever set something off by mistake must be able to end it.
    if nth <= MOST_MESSAGES || may_ask && stops {
        return Heed::Hear;
    }
    // An answer to a stranger would be noise.
    if may_ask && nth == MOST_MESSAGES + 1 {
        return Heed::Tell;
    }
    Heed::Ignore
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_told_once_to_those_who_may_ask() {
        let heeded = |may_ask, stops| {
            let all = (1..=1_000).map(|nth| heed(FloodFacts { nth, may_ask, stops })).collect::<Vec<_>>();
            [Heed::Hear, Heed::Tell, Heed::Ignore].map(|one| all.iter().filter(|heed| **heed == one).count())
        };
        assert_eq!(heeded(false, false), [60, 0, 940]);
        assert_eq!(heeded(false, true), [60, 0, 940], "a stranger has nothing to stop");
        assert_eq!(heeded(true, false), [60, 1, 939]);
        assert_eq!(heeded(true, true), [1_000, 0, 0]);
    }
}
