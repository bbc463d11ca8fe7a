//! What follows when Lambda rejects an invocation.

use backstop_aws::Meaning;
use backstop_core::backoff::Backoff;

use crate::failure::{Error, Milliseconds};

/// The waits before another invocation.
const BACKOFF: Backoff = Backoff::milliseconds(2_000, 300_000);

/// The waits before another invocation after one of the errors that last longer.
const SLOW_BACKOFF: Backoff = Backoff::milliseconds(60_000, 300_000);

/// What to do about an invocation that Lambda rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Retry after this wait.
    Transient(Milliseconds),
    /// A permission is missing, or the handler's credentials or endpoint are wrong. Retry after this wait, because the operator may correct it.
    Denied(Milliseconds),
    /// Every further try would fail.
    Permanent,
}

/// What to do about this error of an invocation. `tries` counts from 1, `random` is in [0, 1).
pub(super) fn refused(error: &Error, tries: u32, random: f64) -> Refused {
    let (backoff, refused): (_, fn(_) -> _) =
        match Meaning::of_invocation(&error.code, error.status) {
            Meaning::Denied | Meaning::NotConfigured => (SLOW_BACKOFF, Refused::Denied),
            Meaning::FailedForLong => (SLOW_BACKOFF, Refused::Transient),
            // Credentials are renewed.
            Meaning::Unauthenticated
            | Meaning::Throttled
            | Meaning::NotSent
            | Meaning::Failed
            | Meaning::Unknown => (BACKOFF, Refused::Transient),
            Meaning::Missing | Meaning::Unusable | Meaning::Refused => return Refused::Permanent,
        };
    let delay = Milliseconds::from_duration(backoff.wait(tries, random));
    refused(delay.max(error.retry_after.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table "Invoke" of the error codes of Lambda's API, with their HTTP statuses.
    #[test]
    fn transient_errors_are_retried_and_no_others() {
        let throttled = [
            "TooManyRequestsException 429",
            "CallerRateLimitExceeded 429",
        ];
        let transient = [
            "ServiceException 500",
            "EC2ThrottledException 502",
            "EC2UnexpectedException 502",
            "ENINotReadyException 502",
            "ResourceNotReadyException 502",
            "EFSMountConnectivityException 408",
            "EFSMountTimeoutException 408",
            "S3FilesMountConnectivityException 408",
            "S3FilesMountTimeoutException 408",
            "SnapStartTimeoutException 408",
            "SnapStartNotReadyException 409",
            "ResourceConflictException 409",
            "CodeArtifactUserPendingException 409",
            "ECONNRESET 0",
            "ENOTFOUND 0",
            "ETIMEDOUT 0",
            "UnexpectedStatus 200",
            "ExpiredTokenException 403",
            "InvalidSignatureException 403",
        ];
        let slow = [
            "ENILimitReachedException 502",
            "SubnetIPAddressLimitReachedException 502",
            "EFSIOException 410",
            "SnapStartRegenerationFailureException 409",
        ];
        let denied = [
            "AccessDenied 403",
            "AccessDeniedException 403",
            "EC2AccessDeniedException 502",
            "KMSAccessDeniedException 502",
            "Unheard 403",
            "MissingCredentials 0",
            "MissingRegion 0",
            "InvalidEndpoint 0",
        ];
        let permanent = [
            "InvalidRuntimeException 502",
            "InvalidZipFileException 502",
            "InvalidSubnetIDException 502",
            "InvalidSecurityGroupIDException 502",
            "KMSDisabledException 502",
            "KMSInvalidStateException 502",
            "KMSNotFoundException 502",
            "ResourceNotFoundException 404",
            "InvalidParameterValueException 400",
            "InvalidRequestContentException 400",
            "ModeNotSupportedException 400",
            "NoPublishedVersionException 400",
            "SnapStartException 400",
            "RecursiveInvocationException 400",
            "ServiceQuotaExceededException 402",
            "EFSMountFailureException 403",
            "S3FilesMountFailureException 403",
            "RuntimeAliasDeletedException 409",
            "RuntimeVersionDeletedException 409",
            "CodeArtifactUserFailedException 409",
            "CodeArtifactUserDeletedException 409",
            "DurableExecutionAlreadyStartedException 409",
            "RequestTooLargeException 413",
            "RequestEntityTooLargeException 413",
            "UnsupportedMediaTypeException 415",
            "Unheard 400",
        ];
        let when = |row: &str| {
            let (code, status) = row.split_once(' ').unwrap();
            let error =
                Error::new(code, "").status(status.parse().ok().filter(|status| *status > 0));
            refused(&error, 1, 0.0)
        };
        for row in throttled.iter().chain(&transient) {
            assert_eq!(when(row), Refused::Transient(Milliseconds(1_000)), "{row}");
        }
        for row in slow {
            let wait = Milliseconds(30_000);
            assert_eq!(when(row), Refused::Transient(wait), "{row}");
        }
        for row in denied {
            let wait = Milliseconds(30_000);
            assert_eq!(when(row), Refused::Denied(wait), "{row}");
        }
        for row in permanent {
            assert_eq!(when(row), Refused::Permanent, "{row}");
        }
    }

    #[test]
    fn the_wait_grows_to_five_minutes_and_respects_retry_after() {
        let error = Error::new("TooManyRequestsException", "");
        let longest = |tries| match refused(&error, tries, 0.999_999) {
            Refused::Transient(wait) => wait.0.div_ceil(1_000),
            other @ (Refused::Denied(_) | Refused::Permanent) => panic!("{other:?}"),
        };
        assert_eq!([1, 2, 3, 20].map(longest), [2, 4, 8, 300]);
        let asked = error.retry_after(Milliseconds(90_000));
        let wait = Refused::Transient(Milliseconds(90_000));
        assert_eq!(refused(&asked, 1, 0.0), wait);
    }
}
