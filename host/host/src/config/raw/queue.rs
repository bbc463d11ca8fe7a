//! A table of `[queues]`: one queue to serve.

use super::*;

table! {
    /// One queue to serve.
    Queue at "queues.NAME", "a table, such as [queues.orders] with `url` and `handler`", as
    /// How a consumer receives messages and ends.
    Options;

    /// The queue's URL, or `local:NAME` for one in memory.
    url: String {
        shown: "required",
        method: "queue",
    }

    /// The dead-letter queue. The default is the one of the queue's redrive policy.
    dead_letter_queue: Option<DeadLetterQueues> {
        row: "URL of its dead-letter queue, of the same kind (standard or FIFO), or [one for each class](dead-letter-queue.md#dead-letter-queues-by-class)",
        shown: "from the queue's redrive policy",
        method: "dead_letter_queue",
        flag: Some(Flag::new("dead-letter-queue", "[CLASS=]URL", "The dead-letter queue, or the one for a class of failures: --dead-letter-queue permanent=URL; may be repeated [default: the one in the queue's redrive policy]").repeated()),
    }

    /// What processes messages. It is required in a file: a program may set a function.
    handler: Option<Handler> {
        row: "[what processes messages](../workers/handlers.md)",
        shown: "required",
    }

    /// A table that keeps work from being done twice.
    idempotency: Option<Idempotency> {
        row: "a table that keeps work from being done twice, [below](#idempotency)",
        shown: "none",
    }

    /// When nothing is attempted because what is behind the worker is down.
    breaker: Option<Breaker> as Option<BreakerOptions> {
        row: "when nothing is attempted because what is behind the worker is down, [below](#breaker)",
        shown: "everything is attempted",
    }

    /// The policy: the name of a built-in one, the path of a file or a directory, `s3://BUCKET/KEY` or `oci://REGISTRY/REPOSITORY:TAG`. New versions are fetched and activated while the host runs.
    policy: Option<Policy> = "full-jitter" => policy(Policy) {
        row: "the policy, [below](#policy)",
        shown: "`full-jitter`",
        flag: Some(Flag::new("policy", "NAME|PATH|URL", "The policy: a built-in ({policies}), the path of a .wasm or .wat file or of a folder of them, s3://bucket/key or oci://registry/repository:tag")),
    }

    /// A setting of the policy.
    settings: Option<SettingsTable> {
        row: "the policy's settings, if it is a single component: texts, numbers, `true`, `false`, and lists of texts, which a policy receives with commas in between",
        shown: "none",
        method: "set",
        flag: Some(Flag::new("set", "NAME=VALUE", "A setting of the policy, such as base=2s; may be repeated").repeated()),
    }

    /// Scenarios that every version of the policy has to pass before it is activated (`host/docs/policies/scenarios.md`).
    scenarios: Option<PathBuf> => scenarios(Path) {
        row: "file of [scenarios](../policies/scenarios.md) that every version must pass",
        shown: "none",
        flag: Some(Flag::new("scenarios", "FILE", "Scenarios that every version of the policy must pass before it becomes active (host/docs/policies/scenarios.md)")),
    }

    /// The name of the policy that every version has to be signed for, with a time that is not before that of a version that was active. It requires [`require_signature`](Backstop::require_signature).
    signed_for: Option<String> => signed_for(String) {
        row: "the name of the policy that every version must be [signed for](../policies/registries.md#what-a-signature-is-for), and not earlier than one that was active; needs `require-signature`",
        shown: "any signed file",
        flag: Some(Flag::new("signed-for", "NAME", "Reject versions that are not signed for the policy with this name, or signed earlier than one that was active").requires("require-signature")),
    }

    /// A shadow: a second policy that is evaluated for every failure and compared with the first one. It has no effect on messages.
    shadow: Option<Policy> => shadow(Policy) {
        row: "a [shadow](../policies/policies.md#shadows), named as `policy` is",
        shown: "none",
        flag: Some(Flag::new("shadow", "NAME|FILE", "A policy to evaluate in addition to the active one. Its decisions are compared, counted and recorded, but never applied")),
    }

    /// A setting of the shadow. Without any, it has those of the policy.
    shadow_settings: Option<SettingsTable> {
        row: "settings of the shadow, if it is a single component",
        shown: "those of the live policy",
        method: "set_shadow",
        flag: Some(Flag::new("shadow-set", "NAME=VALUE", "A setting of the shadow policy; may be repeated [default: those of --set]").requires("shadow").repeated()),
    }

    /// The most attempts of a message, whatever the policy decides.
    max_attempts: Option<u32> => max_attempts(u32) {
        row: "the most attempts of a message",
        shown: "no limit",
        bounds: "1 to 4294967295",
        flag: Some(Flag::new("max-attempts", "N", "The maximum number of attempts, whatever the policy decides")),
    }

    /// The age from which a message is not retried, whatever the policy decides.
    max_age: Option<Span> => max_age(Duration) {
        row: "the age from which a message is not retried; at most 14d",
        shown: "no limit",
        flag: Some(Flag::new("max-age", "DURATION", "The maximum age of a message, such as 3d or 12h: older ones are not retried, whatever the policy decides")),
        bounds: "1ms to 14d, for which SQS keeps a message",
    }

    /// Whether the policy may discard messages. If not, they are dead-lettered.
    allow_discard: Option<bool> = "true" => allow_discard(bool) {
        row: "whether the policy may drop messages",
        flag: Some(Flag::new("allow-discard", "true|false", "Whether the policy may discard messages; if not, they are dead-lettered instead")),
    }

    /// How many messages are in flight at once.
    max_in_flight: Option<usize> = "100" => max_in_flight(usize) as usize {
        at_once: Some(AtOnce::MaxInFlight),
        row: "messages in hand at once, {bounds}",
        bounds: "1 to 100000: SQS allows 120000 messages in flight",
        flag: Some(Flag::new("max-in-flight", "N", "The maximum number of messages in progress")),
    }

    /// The most polls at the same time: there are as many as the queue has work for.
    max_polls: Option<usize> = "10" => max_polls(usize) as usize {
        row: "polls at the same time, {bounds}: one on an idle queue, another one after each full answer",
        bounds: "1 to 100",
        flag: Some(Flag::new("max-polls", "N", "The maximum number of polls at the same time: there are as many as the queue has work for")),
    }

    /// How long the poll of an idle queue waits for a message. A stop waits for the poll.
    idle_poll: Option<Span> = "2s" => idle_poll(Duration) as Duration {
        at_once: Some(AtOnce::IdlePoll),
        row: "how long the poll of an idle queue waits for a message, {bounds}: a stop waits for the poll, and a longer one makes fewer requests",
        bounds: "1s to 20s, the longest poll of SQS",
    }

    /// How often the depth of the queue and of its dead-letter queues is read while metrics are served, a request for each; `0s` for never.
    depth_poll: Option<Span> = "30s" => depth_poll(Duration) as Duration {
        row: "how often the [depth](../operate/metrics.md#depth) of the queue and of its dead-letter queues is read while metrics are served, {bounds}: a request for each, and none at 0s",
        bounds: "0s or 5s to 1h",
    }

    /// The most messages that are received: `200/s`, `50/m` or `10/h`.
    rate: Option<String> => rate(String) as Option<Rate> {
        at_once: Some(AtOnce::Rate),
        row: "the most messages that are received in a second (`200/s`), minute (`/m`) or hour (`/h`), by each host",
        shown: "no limit",
    }

    /// Maintenance windows, in which the queue is not polled.
    pause: Option<Windows> as Vec<maintenance::Window> {
        at_once: Some(AtOnce::Pause),
        row: "maintenance windows, in which the queue is not polled, [below](#maintenance-windows)",
        shown: "none",
        method: "maintenance_window",
    }

    /// Limits for the messages of each key.
    limit_each: Option<LimitEach> as Option<EachOptions> {
        row: "limits for the messages of each key, such as each tenant, [below](#limits-for-each-key)",
        shown: "none",
    }

    /// What messages that wait are grouped by, such as their tenant: the text at a JSON pointer or in an attribute, which is kept while they wait.
    group_by: Option<String> => group_by(String) as Option<InCommon> {
        row: "what [messages that wait are grouped by](../operate/waiting.md#groups), as well: the text at a JSON pointer such as `/tenant`, or in an attribute, such as `attribute:tenant`",
        shown: "code and class alone",
    }

    /// The bytes of messages in flight at which no more are received.
    max_bytes_in_flight: Option<Bytes> = "256MiB" => max_bytes_in_flight(Bytes) as usize {
        row: "their bodies and attributes together; {bounds}",
        bounds: "at least 1MiB, the size of the largest message",
    }

    /// How failed messages are held until their next attempt.
    hold: Option<HoldMode> = "auto" => hold(HoldMode) as HoldMode {
        row: "how failed messages wait: `visibility`, `resend` or `auto` ([How messages wait](holding.md))",
        shown: "`auto`",
        flag: Some(Flag::new("hold", "visibility|resend|auto", "How failed messages wait for their next attempt: invisible in their queue, sent to it again, or whichever is possible")),
    }

    /// A file with the secret keys by which the hosts of a fleet know the envelopes of messages that were sent again, one in each line (`host/docs/deploy/holding.md`). Without it, each host knows those that it made itself since its start.
    envelope_key_file: Option<PathBuf> => envelope_key_file(Path) as Option<PathBuf> {
        row: "file with the keys by which all hosts of the queue know [messages that were sent again](holding.md#who-wrote-an-envelope), one in each line",
        shown: "each host knows its own since its start",
        flag: Some(Flag::new("envelope-key-file", "FILE", "A file with the secret keys by which the hosts of a fleet know the envelopes of messages that were sent again, one in each line: the first one signs (host/docs/deploy/holding.md)")),
    }

    /// How long a received message stays invisible; a heartbeat renews it. The default is the queue's.
    visibility_timeout: Option<Span> => visibility_timeout(Duration) as Option<VisibilityTimeout> {
        row: "how long a received message stays invisible, {bounds}",
        shown: "the queue's own",
        bounds: "1s to 12h",
    }

    /// The longest duration of one attempt.
    attempt_timeout: Option<Span> = "15m" => attempt_timeout(Duration) as Duration {
        row: "the longest attempt, {bounds}",
        bounds: "1s to 12h, for which SQS keeps a message invisible",
    }

    /// How long a request to SQS waits for others to be batched with it.
    linger: Option<Span> = "100ms" => linger(Duration) as Duration {
        row: "how long a request waits to be batched, {bounds}",
        bounds: "at most 5s: messages stay in flight for that long",
    }

    /// How long attempts may go on after the host was stopped.
    grace: Option<Span> = "25s" => grace(Duration) as Duration {
        at_once: Some(AtOnce::Grace),
        row: "time for messages in hand after SIGTERM or SIGINT",
        flag: Some(Flag::new("grace", "DURATION", "How long messages in progress may take to finish after the first SIGTERM or SIGINT").overriding_file()),
    }
}
