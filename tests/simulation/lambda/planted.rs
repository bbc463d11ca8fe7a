//! Faults that are planted to check the checker: what a faulty handler would do to its queues, its function and its mapping.

/// A fault of the handler, as it comes out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planted {
    /// An invocation that Lambda never gets.
    NeverInvokes,
    InvokesTwice,
    /// The next attempt is the first again.
    ForgetsAttempts,
    /// Records seem to be an hour old.
    InvokesEarly,
    /// The response names nothing.
    NamesNothing,
    /// It names everything.
    NamesEverything,
    NamesAnother,
    /// It comes after the function's timeout.
    OverrunsItsTime,
    DeletesWhatWaits,
    WaitsForADay,
    LosesLetters,
    SendsLettersTwice,
    /// New environments have the policy of the first one.
    KeepsTheFirstVersion,
}

pub(crate) const ALL: [Planted; 13] = [
    Planted::NeverInvokes,
    Planted::InvokesTwice,
    Planted::ForgetsAttempts,
    Planted::InvokesEarly,
    Planted::NamesNothing,
    Planted::NamesEverything,
    Planted::NamesAnother,
    Planted::OverrunsItsTime,
    Planted::DeletesWhatWaits,
    Planted::WaitsForADay,
    Planted::LosesLetters,
    Planted::SendsLettersTwice,
    Planted::KeepsTheFirstVersion,
];
