//! Why a policy can't be fetched from a registry or pushed to it, with what to do about it.

use oci_spec::distribution::Reference;
use serde::Deserialize;

use super::trust::Refusal;
use backstop_core::text::{chain, one_line};

/// Why a policy can't be fetched from a registry or pushed to it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RegistryError {
    /// Unreachable, too slow, failing or overloaded: another try may succeed.
    #[error("the registry {registry} is unreachable: {reason}")]
    Unreachable {
        /// Its host and port.
        registry: String,
        /// What happened.
        reason: String,
    },
    /// It answers without TLS.
    #[error(
        "the registry {registry} does not use TLS: give `--plain-http {registry}` if that is intended"
    )]
    Plain {
        /// Its host and port.
        registry: String,
    },
    /// No such repository, tag or digest, or none that these credentials may see.
    #[error(
        "there is no {reference} in the registry: check the tag, or push it with `backstop policy push`; if it is private, log in with `docker login {registry}`"
    )]
    NotFound {
        /// The reference.
        reference: String,
        /// The registry's host and port.
        registry: String,
    },
    /// The credentials are missing, wrong or not enough.
    #[error(
        "the registry denies access to {reference} ({reason}): log in with `docker login {registry}` as a user with access"
    )]
    Denied {
        /// The reference.
        reference: String,
        /// The registry's host and port.
        registry: String,
        /// The registry's message.
        reason: String,
    },
    /// The registry rejects it for another reason.
    #[error("the registry rejects {reference}: {reason}")]
    Refused {
        /// The reference.
        reference: String,
        /// The registry's message.
        reason: String,
    },
    /// It leads to a server that is not contacted, or gets no credentials.
    #[error("the registry {registry} leads to {server}, which is refused: {reason}")]
    Untrusted {
        /// The registry's host and port.
        registry: String,
        /// The other server: its URL without a path, or its name.
        server: String,
        /// Why it is refused.
        reason: String,
    },
    /// The artifact is not of the expected kind.
    #[error("{reference} is not {expected}: {reason}")]
    Unfit {
        /// The reference.
        reference: String,
        /// A policy, or a signature.
        expected: &'static str,
        /// Why.
        reason: String,
    },
    /// Over the limit.
    #[error("{reference} has {size} bytes or more, and the limit is {most}")]
    TooLarge {
        /// The reference.
        reference: String,
        /// The size in its manifest, or the bytes received so far.
        size: i64,
        /// The limit.
        most: usize,
    },
    /// The content does not have the expected digest.
    #[error(
        "the content that the registry sent for {reference} was changed: expected the digest {expected}, got {found}"
    )]
    Changed {
        /// The reference.
        reference: String,
        /// The expected digest.
        expected: String,
        /// The digest of the content.
        found: String,
    },
}

/// The body of a registry's answer that is an error.
#[derive(Deserialize)]
pub(super) struct ErrorBody {
    errors: Vec<Described>,
}

#[derive(Deserialize)]
struct Described {
    code: String,
    #[serde(default)]
    message: String,
}

impl RegistryError {
    /// Whether another try may succeed: the registry could not be reached, took too long, failed or was overloaded.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// The registry rejects it.
    pub(super) fn refused(reference: &Reference, reason: impl Into<String>) -> Self {
        Self::Refused {
            reference: reference.to_string(),
            reason: reason.into(),
        }
    }

    /// Content must have the digest that it is named by.
    pub(super) fn check_digest(
        reference: &Reference,
        expected: &str,
        found: &str,
    ) -> Result<(), Self> {
        if found == expected {
            return Ok(());
        }
        Err(Self::Changed {
            reference: reference.to_string(),
            expected: expected.to_owned(),
            found: found.to_owned(),
        })
    }

    pub(super) fn unreachable(reference: &Reference, reason: String) -> Self {
        Self::Unreachable {
            registry: reference.resolve_registry().to_owned(),
            reason,
        }
    }

    /// From an error of the HTTP client.
    pub(super) fn of(reference: &Reference, error: reqwest::Error) -> Self {
        if let Some(refusal) = Refusal::behind(&error) {
            return Self::untrusted(reference, refusal);
        }
        if let Some(status) = error.status() {
            return Self::answered(reference, status.as_u16(), &chain(&error));
        }
        let reason = chain(&error.without_url());
        if reason.contains("InvalidContentType") {
            return Self::Plain {
                registry: reference.resolve_registry().to_owned(),
            };
        }
        Self::unreachable(reference, reason)
    }

    pub(super) fn untrusted(reference: &Reference, refusal: &Refusal) -> Self {
        Self::Untrusted {
            registry: reference.resolve_registry().to_owned(),
            server: refusal.server.clone(),
            reason: refusal.reason.clone(),
        }
    }

    /// From the first error in a registry's answer. Its code says more than the status.
    pub(super) fn of_body(reference: &Reference, status: u16, body: &ErrorBody) -> Self {
        let first = body.errors.first();
        let status = match first.map_or("", |error| error.code.as_str()) {
            "NAME_UNKNOWN" | "MANIFEST_UNKNOWN" | "BLOB_UNKNOWN" | "NOT_FOUND" => 404,
            "UNAUTHORIZED" => 401,
            "DENIED" => 403,
            "TOOMANYREQUESTS" => 429,
            _ => status,
        };
        let messages = body.errors.iter().map(|it| it.message.as_str());
        Self::answered(reference, status, &messages.collect::<Vec<_>>().join(", "))
    }

    pub(super) fn answered(reference: &Reference, status: u16, message: &str) -> Self {
        let message: String = message.trim().chars().take(300).collect();
        let message = one_line(&message);
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
            408 | 429 | 500.. => Self::unreachable(reference, reason),
            _ => Self::refused(reference, reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_s_message_is_one_line() {
        let reference: Reference = "localhost:5000/policies/orders:1".parse().unwrap();
        let error = RegistryError::answered(&reference, 400, " odd\nerror: forged\u{202e}\n");
        let expected = "the registry rejects localhost:5000/policies/orders:1: HTTP 400: odd\\nerror: forged\\u{202e}";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn only_transient_errors_are_worth_another_try() {
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
            let error = RegistryError::answered(&reference, status, "reason");
            assert_eq!(error.is_unreachable(), is_unreachable, "{status}");
        }
    }
}
