//! Why a version of a policy is refused.

use std::path::PathBuf;

use backstop_core::failure::Timestamp;
use backstop_engine::{CompilerError, ComponentError, EvaluationError, MissingRole, ProbeError};

use crate::signature::SignatureError;
use crate::source::SourceError;

/// Why a version of a policy is refused.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Its file can't be fetched.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// One of its files has no signature by an accepted key.
    #[error("the policy {name} is refused")]
    Signature {
        /// The operator's name for the component.
        name: String,
        /// Why.
        #[source]
        cause: SignatureError,
    },
    /// One of its files is not a policy.
    #[error("the policy {name} is refused")]
    Component {
        /// The operator's name for the component.
        name: String,
        /// Why.
        #[source]
        cause: ComponentError,
    },
    /// One of its parts does not export the interface of its role.
    #[error("the policy is refused")]
    Role(#[from] MissingRole),
    /// It does not pass validation, or its settings are wrong.
    #[error("the policy {name} {}", if cause.is_about_settings() { "can't be used" } else { "is refused" })]
    Probe {
        /// Its parts.
        name: String,
        /// Why.
        #[source]
        cause: ProbeError,
    },
    /// The compiler failed on it, or a host crashed while it loaded it, within the last day.
    #[error(
        "the policy {name} is refused, as at {}: {why}; it is tried again after a day, or when {} is removed",
        at.rfc3339(),
        path.display()
    )]
    Remembered {
        /// Its sources.
        name: String,
        /// Why.
        why: String,
        /// When.
        at: Timestamp,
        /// The file that records it.
        path: PathBuf,
    },
    /// The host panicked while it loaded it.
    #[error("the policy {name} is refused: the host failed while it loaded it: {why}")]
    Panicked {
        /// Its sources.
        name: String,
        /// The message of the panic.
        why: String,
    },
    /// It was rolled back in an earlier run, automatically or by the operator.
    #[error("the policy {name} is refused, since it was rolled back: {why}")]
    RolledBack {
        /// Its sources.
        name: String,
        /// Why.
        why: String,
    },
    /// It fails the operator's own scenarios.
    #[error("the policy {name} is refused: {cause}")]
    Scenarios {
        /// Its parts.
        name: String,
        /// Which one, and how.
        cause: String,
    },
}

impl PolicyError {
    /// Whether it was abandoned: for a newer version, at shutdown, or because another version can be used meanwhile.
    pub(crate) fn is_unwanted(&self) -> bool {
        matches!(
            self,
            Self::Component {
                cause: ComponentError::Compiler(CompilerError::Unwanted),
                ..
            }
        )
    }

    /// Whether the same files may be accepted at another time: an evaluation ran out of time, which happens on a busy machine, or the process that compiled them was killed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Probe { cause, .. } => matches!(cause.broken, EvaluationError::OutOfTime(..)),
            Self::Component {
                cause: ComponentError::Compiler(cause),
                ..
            } => cause.is_transient(),
            // After a day, or when the file that records it is removed.
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
