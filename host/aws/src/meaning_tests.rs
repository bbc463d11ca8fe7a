//! The codes that each service reports, and what they mean.

use super::*;

/// Written from the documentation of the services and their API models, not from the table.
#[test]
fn each_code_means_what_its_service_documents() {
    let expectations = [
        // Throttling, in every service's spelling.
        (
            Throttled,
            "ThrottlingException 400, RequestThrottled 403, OverLimit 400, KMS.ThrottlingException 400, SlowDown 503",
        ),
        (
            Throttled,
            "TooManyRequestsException 429, CallerRateLimitExceeded 429, EC2ThrottledException 502",
        ),
        (
            Throttled,
            "ProvisionedThroughputExceededException 400, LimitExceededException 400, Unheard 429",
        ),
        // Requests that this host could not send.
        (
            NotSent,
            "ECONNREFUSED 0, ENOTFOUND 0, EHOSTUNREACH 0, ENETUNREACH 0",
        ),
        (
            NotConfigured,
            "MissingCredentials 0, MissingRegion 0, InvalidEndpoint 0",
        ),
        // Requests without a usable response.
        (
            Unknown,
            "ETIMEDOUT 0, ECONNRESET 0, EPROTO 0, UnknownError 0, UnknownError 404, Unheard 500, Unheard 503",
        ),
        (
            Unknown,
            "InternalError 500, InternalFailure 0, InternalServerError 500, ServiceUnavailable 503, ServiceException 500",
        ),
        // The caller.
        (
            Denied,
            "AccessDenied 403, AccessDeniedException 400, KMS.AccessDeniedException 400",
        ),
        (
            Denied,
            "EC2AccessDeniedException 502, KMSAccessDeniedException 502, Unheard 403",
        ),
        (
            Unauthenticated,
            "ExpiredToken 400, ExpiredTokenException 403, InvalidSignatureException 403, InvalidSecurity 403",
        ),
        (
            Unauthenticated,
            "SignatureDoesNotMatch 403, UnrecognizedClientException 400, InvalidClientTokenId 403, Unheard 401",
        ),
        (
            Unauthenticated,
            "MissingAuthenticationToken 403, IncompleteSignature 400, RequestExpired 400, KMS.OptInRequired 400",
        ),
        // The target.
        (
            Missing,
            "AWS.SimpleQueueService.NonExistentQueue 400, QueueDoesNotExist 400, InvalidAddress 400",
        ),
        (Missing, "ResourceNotFoundException 400, Unheard 404"),
        (
            Unusable,
            "KMS.DisabledException 400, KMS.InvalidStateException 400, KMS.NotFoundException 400, KMS.InvalidKeyUsageException 400",
        ),
        (
            Unusable,
            "KMSDisabledException 502, KMSInvalidStateException 502, KMSNotFoundException 502, InvalidKMSResourceException 400",
        ),
        (
            Unusable,
            "InvalidRuntimeException 502, InvalidZipFileException 502, InvalidSubnetIDException 502, SnapStartException 400",
        ),
        (
            Unusable,
            "InvalidSecurityGroupIDException 502, ModeNotSupportedException 400, NoPublishedVersionException 400",
        ),
        (
            Unusable,
            "ServiceQuotaExceededException 402, EFSMountFailureException 403, S3FilesMountFailureException 403",
        ),
        (
            Unusable,
            "RuntimeAliasDeletedException 409, RuntimeVersionDeletedException 409, CodeArtifactUserFailedException 409",
        ),
        (
            Failed,
            "EC2UnexpectedException 502, ENINotReadyException 502, ResourceNotReadyException 502, ResourceConflictException 409",
        ),
        (
            Failed,
            "EFSMountConnectivityException 408, EFSMountTimeoutException 408, S3FilesMountTimeoutException 408",
        ),
        (
            Failed,
            "SnapStartTimeoutException 408, SnapStartNotReadyException 409, CodeArtifactUserPendingException 409",
        ),
        (
            FailedForLong,
            "ENILimitReachedException 502, SubnetIPAddressLimitReachedException 502",
        ),
        (
            FailedForLong,
            "EFSIOException 410, SnapStartRegenerationFailureException 409",
        ),
        (
            Failed,
            "TransactionInProgressException 400, RequestTimeout 400, KMSInternalException 400, Unheard 400, Unheard 408",
        ),
        (Unusable, "InvalidSourceException 400"),
        // The request or one of its entries.
        (Refused, "InvalidArgumentException 400"),
        (
            Refused,
            "AWS.SimpleQueueService.BatchRequestTooLong 400, InvalidMessageContents 400, InvalidParameterValue 400",
        ),
        (
            Refused,
            "ReceiptHandleIsInvalid 400, AWS.SimpleQueueService.TooManyEntriesInBatchRequest 400, ValidationException 400",
        ),
        (
            Refused,
            "RequestEntityTooLargeException 413, RequestTooLargeException 413, RequestEntityTooLarge 413, UnsupportedMediaTypeException 415",
        ),
        (
            Refused,
            "InvalidRequestContentException 400, RecursiveInvocationException 400, DurableExecutionAlreadyStartedException 409",
        ),
        (
            Refused,
            "ConditionalCheckFailedException 400, ItemCollectionSizeLimitExceededException 400, Unheard 422",
        ),
    ];
    for (meaning, rows) in expectations {
        for row in rows.split(", ") {
            let (code, status) = row.split_once(' ').unwrap();
            let status = status.parse().ok().filter(|status| *status > 0);
            assert_eq!(Meaning::of(code, status), meaning, "{row}");
        }
    }
}

#[test]
fn an_unknown_error_of_an_invocation_is_about_its_event_if_its_status_is_400() {
    for (code, status, expected) in [
        ("Unheard", 400, Refused),
        ("Unheard", 403, Denied),
        ("Unheard", 500, Unknown),
        ("ThrottlingException", 400, Throttled),
    ] {
        assert_eq!(
            Meaning::of_invocation(code, Some(status)),
            expected,
            "{code} {status}"
        );
    }
}

#[test]
fn an_entry_may_succeed_later_unless_it_is_the_senders_fault_and_not_throttled() {
    for (code, sender_fault, expected) in [
        ("InternalError", false, Failed),
        ("ReceiptHandleIsInvalid", true, Refused),
        ("InvalidParameterValue", true, Refused),
        ("RequestThrottled", true, Throttled),
        ("KMS.ThrottlingException", true, Throttled),
    ] {
        assert_eq!(Meaning::of_entry(code, sender_fault), expected, "{code}");
    }
}

#[test]
fn no_code_has_two_meanings() {
    for (meaning, _, ends) in MEANINGS {
        for end in ends.split(' ') {
            assert_eq!(Meaning::of_code(end), Some(*meaning), "{end}");
        }
    }
}
