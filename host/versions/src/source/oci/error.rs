//! Why a registry does not give or take a policy, told so that somebody can do something about it.

use oci_client::Reference;
use oci_client::errors::{OciEnvelope, OciErrorCode};

use backstop_core::text::chain;

/// Why a registry does not give or take a policy.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RegistryError {
    /// Unreachable, too slow, failing or overloaded: worth asking again later.
    #[error("the registry {registry} is away: {reason}")]
    Away {
        /// Its host and port.
        registry: String,
        /// What happened.
        reason: String,
    },
    /// It answers without TLS.
    #[error(
        "the registry {registry} does not speak TLS: give `--plain-http {registry}` if it is meant to be spoken to without"
    )]
    Plain {
        /// Its host and port.
        registry: String,
    },
    /// No such repository, tag or digest, or none that these credentials may see.
    #[error(
        "there is no {reference} in the registry: look at the tag, or push it with `backstop policy push`; where it is private, log in with `docker login {registry}`"
    )]
    NotFound {
        /// What was asked for.
        reference: String,
        /// The registry's host and port.
        registry: String,
    },
    /// The credentials are missing, wrong or not enough.
    #[error(
        "the registry does not allow it for {reference} ({reason}): log in with `docker login {registry}`, as somebody who may"
    )]
    Denied {
        /// What was asked for.
        reference: String,
        /// The registry's host and port.
        registry: String,
        /// What the registry says.
        reason: String,
    },
    /// The registry does not want it for another reason.
    #[error("the registry refuses {reference}: {reason}")]
    Refused {
        /// What was asked for.
        reference: String,
        /// What the registry says.
        reason: String,
    },
    /// Something else than what was looked for.
    #[error("{reference} is not {expected}: {reason}")]
    Unfit {
        /// What was asked for.
        reference: String,
        /// A policy, or a signature.
        expected: &'static str,
        /// What it is.
        reason: String,
    },
    /// Over the limit.
    #[error("{reference} has {size} bytes or more, and the limit is {most}")]
    TooLarge {
        /// What was asked for.
        reference: String,
        /// The size that its manifest says, or how much had come by then.
        size: i64,
        /// The limit.
        most: usize,
    },
    /// The content is not that of its digest.
    #[error(
        "what the registry sent for {reference} has been changed: expected the digest {expected}, got {found}"
    )]
    Changed {
        /// What was asked for.
        reference: String,
        /// The digest by which it was asked for.
        expected: String,
        /// That of what came.
        found: String,
    },
}

impl RegistryError {
    /// Whether it is worth asking again later: the registry could not be reached, took too long, failed or was overloaded.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Away { .. })
    }

    pub(super) fn away(reference: &Reference, reason: String) -> Self {
        Self::Away {
            registry: reference.resolve_registry().to_owned(),
            reason,
        }
    }

    /// From what the client says of a request.
    pub(super) fn of(reference: &Reference, error: reqwest::Error) -> Self {
        match error.status() {
            Some(status) => Self::answered(reference, status.as_u16(), &chain(&error)),
            None => Self::unanswered(reference, &chain(&error.without_url())),
        }
    }

    fn unanswered(reference: &Reference, reason: &str) -> Self {
        if reason.contains("InvalidContentType") {
            return Self::Plain {
                registry: reference.resolve_registry().to_owned(),
            };
        }
        Self::away(reference, reason.to_owned())
    }

    /// By the first of the errors in an answer.
    pub(super) fn told(reference: &Reference, envelope: &OciEnvelope) -> Self {
        use OciErrorCode as C;
        let messages: Vec<_> = envelope
            .errors
            .iter()
            .map(|it| it.message.as_str())
            .collect();
        let status = match envelope.errors.first().map(|error| &error.code) {
            Some(C::NameUnknown | C::ManifestUnknown | C::BlobUnknown | C::NotFound) => 404,
            Some(C::Unauthorized) => 401,
            Some(C::Denied) => 403,
            Some(C::Toomanyrequests) => 429,
            Some(
                C::BlobUploadInvalid
                | C::BlobUploadUnknown
                | C::DigestInvalid
                | C::ManifestBlobUnknown
                | C::ManifestInvalid
                | C::ManifestUnverified
                | C::NameInvalid
                | C::SizeInvalid
                | C::TagInvalid
                | C::Unsupported,
            )
            | None => 400,
        };
        Self::answered(reference, status, &messages.join(", "))
    }

    pub(super) fn answered(reference: &Reference, status: u16, message: &str) -> Self {
        let message: String = message.trim().chars().take(300).collect();
        let reason = match message.as_str() {
            "" => format!("HTTP {status}"),
            message => format!("HTTP {status}: {message}"),
        };
        let registry = reference.registry().to_owned();
        match status {
            404 => Self::NotFound {
                reference: reference.to_string(),
                registry,
            },
            401 | 403 => Self::Denied {
                reference: reference.to_string(),
                registry,
                reason,
            },
            408 | 429 | 500.. => Self::away(reference, reason),
            _ => Self::Refused {
                reference: reference.to_string(),
                reason,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_worth_asking_again() {
        let reference: Reference = "localhost:5000/policies/orders:1".parse().unwrap();
        for (status, is_unreachable) in [
            (400, false),
            (401, false),
            (403, false),
            (404, false),
            (408, true),
            (429, true),
            (500, true),
            (503, true),
        ] {
            let error = RegistryError::answered(&reference, status, "told");
            assert_eq!(error.is_unreachable(), is_unreachable, "{status}");
        }
    }
}
