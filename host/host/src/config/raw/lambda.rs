//! The table `[lambda]`: the Lambda retry handler.

use super::*;

table! {
    /// The Lambda retry handler.
    Lambda at "lambda", "a table, such as [lambda] with `retry-queue` and `policy`";

    /// The URL of the retry queue, a standard queue.
    retry_queue: Option<String> => lambda_retry_queue(String) {
        row: "URL of the retry queue, a standard queue",
        shown: "derived from the mapping's ARN (needs `sqs:GetQueueUrl`)",
        variable: "BACKSTOP_RETRY_QUEUE_URL",
    }

    /// The dead-letter queue of the Lambda retry handler, a standard queue.
    dead_letter_queue: Option<DeadLetterQueues> {
        row: "URL of the dead-letter queue, a standard queue, or [one for each class](dead-letter-queue.md#dead-letter-queues-by-class)",
        shown: "from the retry queue's redrive policy",
        method: "lambda_dead_letter_queue",
        variable: "BACKSTOP_DEAD_LETTER_QUEUE_URL",
    }

    /// The policy of the Lambda retry handler. A path is searched in the package, then in the layers.
    policy: Option<Policy> = "full-jitter" => lambda_policy(Policy) {
        row: "as for a queue; a path is searched in the package, then in the layers",
        shown: "`full-jitter`",
        variable: "BACKSTOP_POLICY",
    }

    /// The policy's settings, if it is a single component.
    settings: Option<SettingsTable> {
        row: "as for a queue",
        shown: "none",
        method: "lambda_set",
        variable: "BACKSTOP_SETTINGS",
    }

    /// Scenarios that every version of the policy has to pass (`host/docs/policies/scenarios.md`).
    scenarios: Option<PathBuf> => lambda_scenarios(Path) {
        row: "as for a queue",
        shown: "none",
    }

    /// The name of the policy that every version has to be signed for.
    signed_for: Option<String> => lambda_signed_for(String) {
        row: "as for a queue",
        shown: "any signed file",
        variable: "BACKSTOP_SIGNED_FOR",
    }

    /// A shadow: a second policy that is compared with the first one.
    shadow: Option<Policy> => lambda_shadow(Policy) {
        row: "as for a queue",
        shown: "none",
        variable: "BACKSTOP_SHADOW",
    }

    /// Settings of the shadow. Without any, it has those of the policy.
    shadow_settings: Option<SettingsTable> {
        row: "as for a queue",
        shown: "none",
        method: "lambda_set_shadow",
        variable: "BACKSTOP_SHADOW_SETTINGS",
    }

    /// The most attempts of an event, including the first.
    max_attempts: Option<u32> = "12" => lambda_max_attempts(u32) {
        bounds: "1 to 4294967295",
        variable: "BACKSTOP_MAX_ATTEMPTS",
    }

    /// The age from which an event is not retried; at most 14d.
    max_age: Option<Span> = "14d" => lambda_max_age(Duration) {
        bounds: "1ms to 14d, for which SQS keeps a message",
        variable: "BACKSTOP_MAX_AGE",
    }

    /// Whether the policy may discard events. If not, they are dead-lettered.
    allow_discard: Option<bool> = "true" => lambda_allow_discard(bool) {
        row: "as for a queue",
        variable: "BACKSTOP_ALLOW_DISCARD",
    }

    /// How events are held until their next attempt.
    hold: Option<HoldMode> = "auto" => lambda_hold(HoldMode) {
        row: "as for a queue",
        shown: "`auto`",
        variable: "BACKSTOP_HOLD",
    }

    /// A file with the secret keys by which the handler knows the envelopes of events that were sent again. In the package, every user may read it.
    envelope_key_file: Option<PathBuf> => lambda_envelope_key_file(Path) {
        row: "as for a queue; in the package, every user may read it",
        shown: "each environment knows its own",
        variable: "BACKSTOP_ENVELOPE_KEY_FILE",
    }

    /// The part of an invocation's time in which no message is started; 1s to 60s.
    margin: Option<Span> = "5s" => lambda_margin(Duration) {
        bounds: "1s to 60s",
        variable: "BACKSTOP_MARGIN",
    }

    /// Whether the handler writes the metrics of each batch to its log, for CloudWatch: each is a custom metric, which costs.
    metrics: Option<bool> = "false" => lambda_metrics(bool) {
        row: "whether the metrics of each batch are written to the log, [for CloudWatch](lambda.md#metrics): custom metrics, which cost",
        variable: "BACKSTOP_METRICS",
    }

    /// The handler's own function, whose mapping a start and `backstop doctor` check.
    handler: Option<String> => lambda_handler(String) {
        shown: "`AWS_LAMBDA_FUNCTION_NAME`; for `doctor`, the function that the mapping feeds",
        variable: "AWS_LAMBDA_FUNCTION_NAME",
    }

    /// The functions that may be invoked: names or ARNs.
    functions: Option<Texts> => lambda_functions(Texts) {
        row: "the functions that may be invoked ([why](lambda.md#which-functions-may-be-invoked))",
        shown: "any",
        variable: "BACKSTOP_FUNCTIONS",
    }
}
