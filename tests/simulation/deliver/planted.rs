//! Faults that are planted to check the checker: what a faulty delivery would do to its service and its caller.

/// A fault of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planted {
    /// Entries are reported as delivered that the service does not have.
    LosesEntries,
    SendsTwice,
    /// What was given up is reported as delivered.
    HidesFailures,
    /// What was delivered is reported as given up.
    InventsFailures,
    LeavesOutOutcomes,
    Reverses,
    SendsTooMuchAtOnce,
    TriesTooOften,
}

pub(crate) const ALL: [Planted; 8] = [
    Planted::LosesEntries,
    Planted::SendsTwice,
    Planted::HidesFailures,
    Planted::InventsFailures,
    Planted::LeavesOutOutcomes,
    Planted::Reverses,
    Planted::SendsTooMuchAtOnce,
    Planted::TriesTooOften,
];
