//! Faults that are planted to check the checker: what a faulty host would do to its queue and its worker. The host itself stays as it is, and nothing of this is in its code: a fault of a host is what comes out of it.

mod operator;
mod queue;
mod worker;

use super::plan::{Breaks, Plan, Version};
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
    HasNoBreaker,
    OpensAtOnce,
    ProbesTooSoon,
    LeavesWhatItHoldsBack,
    ForgetsLimits,
    ForgetsRates,
    NeverRollsBack,
    TakesVersionsAgain,
    DeletesLettersFirst,
    SendsBackTwice,
    LosesWhatIsSentBack,
}

pub(crate) const ALL: [Planted; 42] = [
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
    Planted::HasNoBreaker,
    Planted::OpensAtOnce,
    Planted::ProbesTooSoon,
    Planted::LeavesWhatItHoldsBack,
    Planted::ForgetsLimits,
    Planted::ForgetsRates,
    Planted::NeverRollsBack,
    Planted::TakesVersionsAgain,
    Planted::DeletesLettersFirst,
    Planted::SendsBackTwice,
    Planted::LosesWhatIsSentBack,
];

impl Planted {
    /// Whether it can be seen at all where a plan has this.
    pub(crate) fn concerns(self, plan: &Plan) -> bool {
        match self {
            Self::HasNoBreaker
            | Self::OpensAtOnce
            | Self::ProbesTooSoon
            | Self::LeavesWhatItHoldsBack => plan.breaker.is_some(),
            Self::ForgetsLimits | Self::ForgetsRates => plan.limits.is_some(),
            Self::KeepsOldVersions | Self::NeverRollsBack | Self::TakesVersionsAgain => {
                !plan.versions.is_empty()
            }
            _ => true,
        }
    }
}

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
