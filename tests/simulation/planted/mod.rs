//! Faults that are planted to check the checker: what a faulty host would do to its queue and its worker. The host itself stays as it is, and nothing of this is in its code: a fault of a host is what comes out of it.

mod operator;
mod queue;
mod worker;

use super::plan::{Breaks, Version};
pub(crate) use operator::spoilt_operator;
pub(crate) use queue::spoilt;
pub(crate) use worker::spoilt_worker;

/// A fault of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planted {
    NeverDeletes,
    DeletesWhatItReceives,
    DeletesWhatFailed,
    DelaysForASecond,
    ChangesNoVisibility,
    SendsCopies,
    DropsHalfOfAReceive,
    Reverses,
    CountsTwice,
    StopsToReceive,
    HandlesTwice,
    PollsForMinutes,
    AsksTooOften,
    LosesLetters,
    SendsLettersTwice,
    LeavesOutReasons,
    InventsReasons,
    SkipsTheWorker,
    AsksTheWorkerTwice,
    IgnoresFailures,
    MissesPermanentFailures,
    GivesUpAtOnce,
    HidesForDays,
    TakesTooMany,
    ForgetsRetention,
    ForgetsWhatItKept,
    KeepsOldVersions,
    DecidesByAnother,
    BreaksPolicies,
    IgnoresOperators,
    WakesNothing,
    DeletesLettersFirst,
    SendsBackTwice,
    LosesWhatIsSentBack,
}

pub(crate) const ALL: [Planted; 34] = [
    Planted::NeverDeletes,
    Planted::DeletesWhatItReceives,
    Planted::DeletesWhatFailed,
    Planted::DelaysForASecond,
    Planted::ChangesNoVisibility,
    Planted::SendsCopies,
    Planted::DropsHalfOfAReceive,
    Planted::Reverses,
    Planted::CountsTwice,
    Planted::StopsToReceive,
    Planted::HandlesTwice,
    Planted::PollsForMinutes,
    Planted::AsksTooOften,
    Planted::LosesLetters,
    Planted::SendsLettersTwice,
    Planted::LeavesOutReasons,
    Planted::InventsReasons,
    Planted::SkipsTheWorker,
    Planted::AsksTheWorkerTwice,
    Planted::IgnoresFailures,
    Planted::MissesPermanentFailures,
    Planted::GivesUpAtOnce,
    Planted::HidesForDays,
    Planted::TakesTooMany,
    Planted::ForgetsRetention,
    Planted::ForgetsWhatItKept,
    Planted::KeepsOldVersions,
    Planted::DecidesByAnother,
    Planted::BreaksPolicies,
    Planted::IgnoresOperators,
    Planted::WakesNothing,
    Planted::DeletesLettersFirst,
    Planted::SendsBackTwice,
    Planted::LosesWhatIsSentBack,
];

/// A version as a faulty host has it.
pub(crate) fn spoilt_version(planted: Option<Planted>, version: &Version) -> Version {
    match planted {
        Some(Planted::DecidesByAnother) => Version {
            delay: version.delay + 1,
            ..*version
        },
        Some(Planted::BreaksPolicies) => Version {
            breaks: match version.breaks {
                Some(_) => None,
                None => Some((Breaks::Traps, 1)),
            },
            ..*version
        },
        _ => *version,
    }
}
