//! Which details of an error a record keeps. The headers of a response can hold cookies and tokens, and a file of records is kept, copied and shared.

use std::borrow::Cow;

use crate::record::DecisionRecord;

/// The names of the details that a record keeps if the failure has a status: headers of responses that say nothing of who may do what, and the details of Backstop's own. `host/docs/operate/decision-record.md` lists them.
pub const KEPT_DETAILS: [&str; 45] = [
    // Backstop's own.
    "approximateInvokeCount",
    "attempts",
    "condition",
    "end",
    "executedVersion",
    "functionError",
    "requestId",
    "stackTrace",
    // When to come again.
    "age",
    "date",
    "ratelimit",
    "ratelimit-limit",
    "ratelimit-policy",
    "ratelimit-remaining",
    "ratelimit-reset",
    "retry-after",
    "x-amz-retry-after",
    "x-rate-limit-limit",
    "x-rate-limit-remaining",
    "x-rate-limit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    // Which request it was.
    "cf-ray",
    "request-id",
    "traceparent",
    "x-amz-cf-id",
    "x-amz-id-2",
    "x-amz-request-id",
    "x-amzn-requestid",
    "x-amzn-trace-id",
    "x-correlation-id",
    "x-request-id",
    // Who answered what.
    "allow",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "grpc-status",
    "server",
    "transfer-encoding",
    "via",
    "x-amzn-errortype",
    "x-cache",
    "x-envoy-upstream-service-time",
];

impl DecisionRecord {
    /// The record without the details that may be secret, and with their number.
    pub(crate) fn without_secrets(&self) -> Cow<'_, Self> {
        let error = &self.failure.error;
        let is_kept = |name: &str| KEPT_DETAILS.contains(&name);
        // Only a response has headers. Other details were chosen by whoever made the error.
        if error.status.is_none() || error.details.iter().all(|(name, _)| is_kept(name)) {
            return Cow::Borrowed(self);
        }
        let mut record = self.clone();
        let details = &mut record.failure.error.details;
        let before = details.len();
        details.retain(|(name, _)| is_kept(name));
        let left_out = u64::try_from(before - details.len()).unwrap_or(u64::MAX);
        record.details_left_out = record.details_left_out.saturating_add(left_out);
        Cow::Owned(record)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use backstop_core::decision::{Action, DecidedBy, Decision, ErrorClass};
    use backstop_core::examples::ordinary_failure;
    use backstop_core::failure::{Error, Failure, Milliseconds, Timestamp};

    use super::*;
    use crate::{Observer as _, Recorder};

    fn record(status: Option<u16>, details: &[&str]) -> DecisionRecord {
        let pair = |name: &&str| ((*name).to_owned(), format!("value of {name}"));
        DecisionRecord {
            time: Timestamp(1),
            queue: "orders".to_owned(),
            policy: Vec::new(),
            failure: Failure {
                error: Error::new("HTTP 503", "")
                    .status(status)
                    .details(details.iter().map(pair)),
                ..ordinary_failure()
            },
            payload: BTreeMap::new(),
            payload_left_out: 0,
            details_left_out: 0,
            others: Default::default(),
            decision: Decision {
                class: ErrorClass::Transient,
                action: Action::Retry {
                    delay: Milliseconds(1),
                },
                decided_by: DecidedBy::Policy,
                hold: Default::default(),
                down_for: None,
            },
            log: Vec::new(),
            hops: 0,
            duplicate: false,
            end: None,
            fuel: 0,
            took_us: 0,
            shadow: None,
        }
    }

    #[test]
    fn a_file_of_records_has_no_secrets_of_responses_and_is_private() {
        const DETAILS: [&str; 5] = [
            "retry-after",
            "set-cookie",
            "authorization",
            "x-token",
            "requestId",
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.jsonl");
        let recorder = Recorder::to_file(&path).unwrap();
        recorder.decided(&record(Some(503), &DETAILS));
        recorder.decided(&record(Some(503), &["retry-after"]));
        recorder.decided(&record(None, &["order"]));
        recorder.close();
        let text = std::fs::read_to_string(&path).unwrap();
        for secret in ["cookie", "authorization", "x-token"] {
            assert!(!text.contains(secret), "{text}");
        }
        let records: Vec<DecisionRecord> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let names = |it: &DecisionRecord| -> Vec<String> {
            let details = it.failure.error.details.iter();
            details.map(|(name, _)| name.clone()).collect()
        };
        let kept: Vec<_> = records.iter().map(names).collect();
        let expected = [
            vec!["retry-after", "requestId"],
            vec!["retry-after"],
            vec!["order"],
        ];
        assert_eq!(kept, expected);
        let left_out: Vec<_> = records.iter().map(|it| it.details_left_out).collect();
        assert_eq!(left_out, [3, 0, 0]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
