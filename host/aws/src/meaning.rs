//! What an error of AWS means for the request that got it. Everything that repeats, gives up or explains a request derives that from here.

use backstop_backoff::{CODES, Class};

/// No credentials were found, or the configured ones can't be loaded.
pub const NO_CREDENTIALS: &str = "MissingCredentials";

/// No region is set.
pub const NO_REGION: &str = "MissingRegion";

/// The response has no code.
pub(crate) const NO_CODE: &str = "UnknownError";

/// The endpoint is not a valid URL.
pub const BAD_ENDPOINT: &str = "InvalidEndpoint";

/// Whether a code means that this host can't send any request to AWS. No message is the cause, and every other request would fail too.
pub fn is_configuration_error(code: &str) -> bool {
    [NO_CREDENTIALS, NO_REGION, BAD_ENDPOINT].contains(&code)
}

/// What an error means. None of these but [`Unknown`](Meaning::Unknown) leaves open whether the service has carried out the request: it has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// The service asks for less load.
    Throttled,
    /// The request did not reach the service.
    NotSent,
    /// The service could not do it, and may be able to within seconds.
    Failed,
    /// The service could not do it, and will hardly be able to for minutes.
    FailedForLong,
    /// Nobody knows whether the service has carried out the request: there was no response, or the service failed while it answered.
    Unknown,
    /// This host has no credentials, no region or no endpoint to send a request with.
    NotConfigured,
    /// The service does not accept the credentials or the signature.
    Unauthenticated,
    /// A permission is missing.
    Denied,
    /// The queue, table, stream or function does not exist.
    Missing,
    /// The target accepts no request at all until its owner changes it: its key is disabled, its code can't be loaded.
    Unusable,
    /// The request is refused, perhaps because of one of its entries, and would be refused again.
    Refused,
}

use Meaning::{
    Denied, Failed, FailedForLong, Missing, NotConfigured, NotSent, Refused, Throttled,
    Unauthenticated, Unknown, Unusable,
};

/// What the default classification does not say, since it knows three classes only: a meaning, the source of the codes, and their ends without `Exception`.
const MEANINGS: &[(Meaning, &str, &str)] = &[
    (
        NotSent,
        "Codes of connections, as the requests of this host have them",
        "ECONNREFUSED EHOSTUNREACH ENETUNREACH ENOTFOUND",
    ),
    (
        Denied,
        "All services; also of a function's key or network",
        "AccessDenied NotAuthorized UnauthorizedAccess",
    ),
    (
        Unauthenticated,
        "All services: common errors",
        "ExpiredToken IncompleteSignature InvalidClientTokenId InvalidSecurity InvalidSignature MissingAuthenticationToken OptInRequired RequestExpired SignatureDoesNotMatch UnrecognizedClient",
    ),
    (
        Missing,
        "SQS, DynamoDB, Firehose, Lambda",
        "InvalidAddress NonExistentQueue QueueDoesNotExist ResourceNotFound",
    ),
    (
        Failed,
        "Lambda: Invoke, before the function has begun",
        "CodeArtifactUserPending EC2Unexpected EFSMountConnectivity EFSMountTimeout ENINotReady ResourceConflict ResourceNotReady S3FilesMountConnectivity S3FilesMountTimeout SnapStartNotReady SnapStartTimeout",
    ),
    (
        FailedForLong,
        "Lambda: Invoke, slow to pass",
        "EFSIO ENILimitReached SnapStartRegenerationFailure SubnetIPAddressLimitReached",
    ),
    (
        Unusable,
        "Lambda: Invoke, of the function and not of the event",
        "CodeArtifactUserDeleted CodeArtifactUserFailed EFSMountFailure InvalidRuntime InvalidSecurityGroupID InvalidSubnetID InvalidZipFile ModeNotSupported NoPublishedVersion RuntimeAliasDeleted RuntimeVersionDeleted S3FilesMountFailure ServiceQuotaExceeded SnapStart",
    ),
    (
        Failed,
        "DynamoDB and others: transient without having been carried out",
        "IDPCommunicationError ReplicatedWriteConflict RequestTimeout TransactionConflict TransactionInProgress",
    ),
    (
        Refused,
        "SQS: the request or an entry",
        "BatchEntryIdsNotDistinct EmptyBatchRequest InvalidAttributeName InvalidAttributeValue InvalidBatchEntryId InvalidIdFormat MessageNotInflight ReceiptHandleIsInvalid TooManyEntriesInBatchRequest",
    ),
    (
        Refused,
        "Firehose: the request or a record",
        "InvalidArgument",
    ),
    (
        Unusable,
        "Firehose: a stream that accepts records of CloudWatch Logs alone",
        "InvalidSource",
    ),
];

impl Meaning {
    /// The meaning of an error with this code and HTTP status. The code counts first. Of an unknown code, the status: 400 says no more than that the request was not carried out, since SQS and DynamoDB answer every error of a caller with it.
    ///
    /// ```
    /// use backstop_aws::Meaning;
    ///
    /// assert_eq!(Meaning::of("KMS.ThrottlingException", Some(400)), Meaning::Throttled);
    /// assert_eq!(Meaning::of("KMS.DisabledException", Some(400)), Meaning::Unusable);
    /// assert_eq!(Meaning::of("UnheardOf", Some(503)), Meaning::Unknown);
    /// ```
    pub fn of(code: &str, status: Option<u16>) -> Self {
        Self::of_code(code).unwrap_or(match status {
            Some(429 | 509) => Throttled,
            Some(400 | 408 | 425 | 431) => Failed,
            // Not of the service, but of what stands before it.
            Some(401..=499) if code == NO_CODE => Unknown,
            Some(401) => Unauthenticated,
            Some(403) => Denied,
            Some(404) => Missing,
            Some(402..=499) => Refused,
            _ => Unknown,
        })
    }

    /// The meaning of an error of an invocation. Lambda answers 400 to what is wrong with the request itself.
    pub fn of_invocation(code: &str, status: Option<u16>) -> Self {
        match Self::of_code(code) {
            None if status == Some(400) => Refused,
            _ => Self::of(code, status),
        }
    }

    /// The meaning of a code; `None` of an unknown one.
    pub fn of_code(code: &str) -> Option<Self> {
        let class = class_of(code);
        if class == Some(Class::Throttled) {
            return Some(Throttled);
        }
        if is_configuration_error(code) {
            return Some(NotConfigured);
        }
        let name = code.strip_suffix("Exception").unwrap_or(code);
        let has = |ends: &str| ends.split(' ').any(|end| name.ends_with(end));
        if let Some((meaning, ..)) = MEANINGS.iter().find(|(_, _, ends)| has(ends)) {
            return Some(*meaning);
        }
        let is_of_key = code.contains("KMS") || code.starts_with("Kms");
        if is_of_key && !code.contains("Internal") {
            return Some(Unusable);
        }
        match class? {
            Class::Throttled => Some(Throttled),
            Class::Transient => Some(Unknown),
            Class::Permanent => Some(Refused),
        }
    }

    /// The meaning of an error of one entry in the response to a batch. What is not the sender's fault may succeed later, and so may what is throttled.
    pub fn of_entry(code: &str, sender_fault: bool) -> Self {
        match Self::of_code(code) {
            Some(Throttled) => Throttled,
            _ if sender_fault => Refused,
            _ => Failed,
        }
    }

    /// Whether the same request may succeed later, although nobody changes anything.
    pub const fn may_pass(self) -> bool {
        match self {
            Throttled | NotSent | Failed | FailedForLong | Unknown => true,
            NotConfigured | Unauthenticated | Denied | Missing | Unusable | Refused => false,
        }
    }

    /// Whether the service refuses every request to its target, whatever is in it.
    pub const fn concerns_target(self) -> bool {
        match self {
            Throttled | Failed | FailedForLong | Unauthenticated | Denied | Missing | Unusable => {
                true
            }
            NotSent | Unknown | NotConfigured | Refused => false,
        }
    }
}

/// The class in the default classification; `None` of a code that it does not know. Of a code of several parts, such as `KMS.ThrottlingException`, the last one counts.
fn class_of(code: &str) -> Option<Class> {
    let last = code.rsplit(['.', '#']).next().unwrap_or(code);
    let row = CODES.iter().find(|(_, _, codes)| codes.contains(&last));
    row.map(|(class, ..)| *class)
}

#[cfg(test)]
#[path = "meaning_tests.rs"]
mod tests;
