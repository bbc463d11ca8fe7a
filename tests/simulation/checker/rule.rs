//! The rules, and how often each had something to say.

use std::collections::BTreeMap;

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// A message is deleted only after a success, a letter or a copy.
    DeletedWhenDone,
    /// A message is sent again only where that was announced.
    CopiedWhereAnnounced,
    /// A message is kept invisible while it is attempted.
    KeptInvisible,
    /// A message is attempted once at a time.
    OnceAtATime,
    /// A host never has two attempts of one message under way, and attempts none that it has deleted.
    OnceByOneHost,
    /// No attempt comes before its due time.
    NotEarly,
    /// Messages of a group are attempted in their order.
    InOrder,
    /// No attempt is counted that was no receive.
    CountedReceives,
    /// No attempt is counted that no worker saw.
    CountedAttempts,
    /// A permanent failure dies at once.
    PermanentDies,
    /// No message is given up before its bound, or retried after it.
    GivenUpAtItsBound,
    /// No message is discarded.
    NotDiscarded,
    /// No delay is longer than the queue keeps the message.
    WithinRetention,
    /// The version that is active decides.
    ActiveVersionDecides,
    /// Its delay is the decision's.
    DelayOfTheVersion,
    /// The fallback decides where the version breaks, and nowhere else.
    FallbackWhereItBreaks,
    /// A letter has a reason that was decided.
    ReasonDecided,
    /// There is one letter.
    OneLetter,
    /// Nothing is attempted while a host is paused.
    Paused,
    /// No more messages are received than the rate allows.
    WithinRate,
    /// No more attempts are under way than messages may be in flight.
    WithinMost,
    /// What waits comes when it is woken.
    Woken,
    /// While what is behind the worker is down, nothing is attempted but one probe after each pause.
    NothingWhileOpen,
    /// When a probe has succeeded, the attempts grow step by step.
    GrowsStepByStep,
    /// Nothing is held back because something is down, unless nothing of it succeeds.
    HeldBackWhereDown,
    /// What is held back comes by itself soon enough.
    HeldBackForAWhile,
    /// Its host brings it as soon as it may be attempted.
    HeldBackComes,
    /// No more attempts of a tenant are under way than it may have at once.
    WithinLimitsOfEach,
    /// No more attempts of a tenant begin than its rate allows.
    WithinRateOfEach,
    /// A version that breaks too often decides no more, but the one before it.
    RolledBack,
    /// It is not active again by itself.
    StaysRolledBack,
    /// An operator rolls a policy back if there was a version before.
    RolledBackByOperators,
    /// An operator deletes a letter only after it was sent back.
    LetterSentBack,
    /// A letter is sent back once.
    SentBackOnce,
    /// What waits when the hosts stop comes at its due time.
    WaitsUntilDue,
    /// Each message ends, or is left in the queue by hosts that stop.
    Ends,
    /// Hosts, runs and queues end.
    EverythingEnds,
    /// Requests are bounded by time and receives.
    BoundedRequests,
}

pub(crate) const ALL: [Rule; 38] = [
    Rule::DeletedWhenDone,
    Rule::CopiedWhereAnnounced,
    Rule::KeptInvisible,
    Rule::OnceAtATime,
    Rule::OnceByOneHost,
    Rule::NotEarly,
    Rule::InOrder,
    Rule::CountedReceives,
    Rule::CountedAttempts,
    Rule::PermanentDies,
    Rule::GivenUpAtItsBound,
    Rule::NotDiscarded,
    Rule::WithinRetention,
    Rule::ActiveVersionDecides,
    Rule::DelayOfTheVersion,
    Rule::FallbackWhereItBreaks,
    Rule::ReasonDecided,
    Rule::OneLetter,
    Rule::Paused,
    Rule::WithinRate,
    Rule::WithinMost,
    Rule::Woken,
    Rule::NothingWhileOpen,
    Rule::GrowsStepByStep,
    Rule::HeldBackWhereDown,
    Rule::HeldBackForAWhile,
    Rule::HeldBackComes,
    Rule::WithinLimitsOfEach,
    Rule::WithinRateOfEach,
    Rule::RolledBack,
    Rule::StaysRolledBack,
    Rule::RolledBackByOperators,
    Rule::LetterSentBack,
    Rule::SentBackOnce,
    Rule::WaitsUntilDue,
    Rule::Ends,
    Rule::EverythingEnds,
    Rule::BoundedRequests,
];

/// What a checker has found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// What must not be.
    pub(crate) wrong: Vec<String>,
    /// How often each rule had to hold: nothing excused the opposite.
    pub(crate) asked: BTreeMap<Rule, u64>,
}
