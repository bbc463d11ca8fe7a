//! Why a version of a policy is refused.

use std::path::PathBuf;

use backstop_core::failure::Timestamp;
use backstop_engine::{CompilerError, ComponentError, EvaluationError, MissingRole, ProbeError};

use crate::signature::SignatureError;
use crate::source::SourceError;

/// Why a policy is not put to work.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It can't be found or read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// One of its files is not signed by anybody who may.
    #[error("the policy {name} is refused")]
    Signature {
        /// What the operator calls the component.
        name: String,
        /// Why.
        #[source]
        cause: SignatureError,
    },
    /// One of its files is no policy.
    #[error("the policy {name} is refused")]
    Component {
        /// What the operator calls the component.
        name: String,
        /// Why.
        #[source]
        cause: ComponentError,
    },
    /// One of its parts is in the wrong place.
    #[error("the policy is refused")]
    Role(#[from] MissingRole),
    /// It does not stand the probe.
    #[error("the policy {name} is refused")]
    Probe {
        /// Its parts.
        name: String,
        /// Why.
        #[source]
        cause: ProbeError,
    },
    /// The compiler broke on it, or a host did while it loaded it, within the last day.
    #[error(
        "the policy {name} is refused, as at {}: {why}; it is tried again after a day, or when {} is removed",
        at.rfc3339(),
        path.display()
    )]
    Remembered {
        /// The file, or where its parts come from.
        name: String,
        /// Why.
        why: String,
        /// When.
        at: Timestamp,
        /// The file that remembers it.
        path: PathBuf,
    },
    /// The host failed while it loaded it.
    #[error("the policy {name} is refused: the host failed while it loaded it: {why}")]
    Panicked {
        /// Where its parts come from.
        name: String,
        /// What the host said.
        why: String,
    },
    /// It broke at work in an earlier run, or was rolled back by the operator.
    #[error("the policy {name} is refused, since it was rolled back: {why}")]
    RolledBack {
        /// Where its parts come from.
        name: String,
        /// Why.
        why: String,
    },
    /// It fails the operator's own scenarios.
    #[error("the policy {name} is refused: {cause}")]
    Scenarios {
        /// Its parts.
        name: String,
        /// Which, and how.
        cause: String,
    },
}

impl PolicyError {
    /// Whether it was given up for something newer, or for the end of the host.
    pub(crate) fn is_unwanted(&self) -> bool {
        matches!(
            self,
            Self::Component {
                cause: ComponentError::Compiler(CompilerError::Unwanted),
                ..
            }
        )
    }

    /// Whether the same files may be taken at another time: they ran out of time on the clock, which a busy machine makes short, or the process that compiled them was ended.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Probe { cause, .. } => matches!(cause.broken, EvaluationError::OutOfTime(..)),
            Self::Component {
                cause: ComponentError::Compiler(cause),
                ..
            } => cause.is_transient(),
            // Once its day is over, or the file that remembers it is removed.
            Self::Remembered { .. } => true,
            Self::Source(_)
            | Self::Signature { .. }
            | Self::Component { .. }
            | Self::Role(_)
            | Self::Panicked { .. }
            | Self::RolledBack { .. }
            | Self::Scenarios { .. } => false,
        }
    }
}
