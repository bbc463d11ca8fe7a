//! The keys that a running host takes over when its configuration is read again.

/// What changes at once. Every other key needs a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtOnce {
    /// The most messages in flight.
    MaxInFlight,
    /// The length of polls of an idle queue.
    IdlePoll,
    /// The most messages that are received in a time.
    Rate,
    /// The maintenance windows.
    Pause,
    /// The time for messages in hand after a stop.
    Grace,
    /// The numbers of the breaker.
    Breaker,
    /// The rate of each key.
    EachRate,
    /// The most attempts of each key at once.
    EachMaxInFlight,
    /// What commands read: a host has no use for it.
    Commands,
}
