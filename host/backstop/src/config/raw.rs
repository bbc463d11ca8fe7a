//! The raw form of a configuration: its keys, with the names and types of their values before they are checked. Each key has one entry here. A file is deserialized into the tables; the builder, flags and environment variables set their fields. It is converted once, one level up.
//!
//! The flags, the variables, the methods of the builder, the names that errors give to values, the tables of `host/docs/configuration.md` and the schema for editors come from the entries: [`keys`](super::keys) says how.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use backstop_core::settings::parse_pair;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::keys::{Flag, Given, Key, RawValue, given_type, method, read, schema_of, table};
use super::{
    ConfigError, FunctionHandler, OnMissingKey, OnUnknown, Places, RecordAttributes, RecordFormat,
    Variables, parse_dead_letter_queue, parse_endpoint,
};
use crate::Backstop;
use crate::builder::Change;
use crate::hold::HoldMode;
use backstop_files::only_tables;
pub(crate) use backstop_files::values::{Bytes, Command, SettingsTable, Span};

/// A list of texts.
pub(crate) type Texts = Vec<String>;

/// The queues by name.
pub(crate) type Queues = BTreeMap<String, Queue>;

/// A table of the configuration.
pub(crate) trait Table {
    /// Its keys, in the order of a file.
    const KEYS: &'static [Key];

    /// Overrides the values of the file with those of the environment.
    fn override_by(
        &mut self,
        variable: Variables<'_>,
        places: &mut Places,
    ) -> Result<(), ConfigError>;
}

/// The last value of a flag.
fn one(texts: &[String]) -> &str {
    texts.last().map_or("", String::as_str)
}

/// A file in which each queue has a handler; anything else is ignored.
#[derive(Debug, Deserialize)]
pub(crate) struct WithHandlers {
    #[serde(default, rename = "queues")]
    _queues: BTreeMap<String, WithHandler>,
}

#[derive(Debug, Deserialize)]
struct WithHandler {
    #[serde(rename = "handler")]
    _handler: IgnoredAny,
}

table! {
    /// A file.
    Config at "", "the tables of a configuration";

    /// The endpoint for SQS, Lambda and S3, in place of the region's own.
    endpoint_url: Option<String> => endpoint_url(String) {
        row: "URL for SQS, Lambda, S3 and DynamoDB in place of the region's endpoints",
        shown: "the SDK's",
        check: Some(|text| parse_endpoint(text).map(drop).map_err(|error| error.to_string())),
        flag: Some(Flag::new("endpoint-url", "URL", "Use the SQS and Lambda at this URL, instead of the region's").overriding_file()),
    }

    /// Appends a record of every decision to this file; `-` is standard output (`host/docs/decision-record.md`).
    decisions: Option<Decisions> {
        method: "decisions",
        apply: Some(|host, texts| Ok(host.decisions(one(texts)))),
        flag: Some(Flag::new("decisions", "FILE|-", "Append a record of every decision to this file, or - for standard output (host/docs/decision-record.md)").overriding_file()),
    }

    /// Serves metrics for Prometheus at `http://ADDRESS/metrics`, such as `127.0.0.1:9464` (`host/docs/metrics.md`).
    metrics: Option<String> => metrics(String) {
        row: "address and port that serves [metrics](metrics.md)",
        shown: "off",
        flag: Some(Flag::new("metrics", "ADDRESS", "Serve Prometheus metrics at http://ADDRESS/metrics, such as 127.0.0.1:9464 (host/docs/metrics.md)").overriding_file()),
    }

    /// Serves the admin interface at this address, such as `127.0.0.1:9465` (`host/docs/admin.md`). An address that other machines reach needs a token: see [`admin_token_file`](Self::admin_token_file).
    ///
    /// ```no_run
    /// # async fn start() -> Result<(), backstop::RunError> {
    /// backstop::Backstop::from_file("backstop.toml")?
    ///     .admin("0.0.0.0:9465")
    ///     .admin_token_file("/run/secrets/backstop-admin")
    ///     .run()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    admin: Option<String> => admin(String) {
        row: "address and port that serves the [admin interface](admin.md): status, rollbacks, probes, metrics. One that other machines reach needs a token",
        shown: "off",
        flag: Some(Flag::new("admin", "ADDRESS", "Serve the admin interface at http://ADDRESS, such as 127.0.0.1:9465; an address that other machines reach needs a token (host/docs/admin.md)").overriding_file()),
    }

    /// The file with the token of the admin interface. Without one, the token is that of the environment variable `BACKSTOP_ADMIN_TOKEN`, if it is set.
    admin_token_file: Option<PathBuf> => admin_token_file(Path) {
        row: "file with the token of the admin interface, in one line",
        shown: "the environment variable `BACKSTOP_ADMIN_TOKEN`, if it is set",
        flag: Some(Flag::new("admin-token-file", "FILE", "The file with the token of the admin interface [default: BACKSTOP_ADMIN_TOKEN]").overriding_file()),
    }

    /// The names by which the admin interface is reached, such as `backstop.internal`, besides `localhost` and addresses. Requests for other names are refused.
    admin_hosts: Option<Texts> => admin_hosts(Texts) {
        row: "names by which the admin interface is reached, besides `localhost` and addresses",
        shown: "none",
        flag: Some(Flag::new("admin-hosts", "NAME", "A name by which the admin interface is reached, such as backstop.internal, besides localhost and addresses; may be repeated").overriding_file().repeated()),
    }

    /// What each component of a policy may use in one decision.
    limits: Option<Limits> {}

    /// How policies are fetched, cached, verified and rolled back.
    policies: Option<Policies> {}

    /// The queues, by their names in logs, metrics and records.
    #[serde(default)]
    queues: Queues {}

    /// The Lambda retry handler.
    lambda: Option<Lambda> {}
}

table! {
    /// Where decision records go.
    Decisions at "decisions", "a table with `record`, such as { record = \"decisions.jsonl\" }";

    /// The file that receives the decision records, or `stdout`.
    record: String {
        row: "file that receives the [decision records](decision-record.md), or `stdout`",
        variable: "BACKSTOP_DECISIONS",
        shown: "off",
    }
}

table! {
    /// What each component of a policy may use in one decision.
    Limits at "limits", "a table of limits, such as { fuel = 50000000, memory = \"64MiB\" }";

    /// WebAssembly instructions, approximately; slow ones, such as those on tables and divisions, cost up to 255; deterministic.
    fuel: Option<u64> = "50000000" => limits_fuel(u64) {
        shown: "50 000 000, about 50 ms",
    }

    /// Elapsed time.
    time: Option<Span> = "2s" => limits_time(Duration) {
        shown: "2s; 10s in Lambda",
    }

    /// Linear memory, all memories together; at most 4GiB.
    memory: Option<Bytes> = "64MiB" => limits_memory(Bytes) {}

    /// Elements of one table.
    table_elements: Option<usize> = "20000" => limits_table_elements(usize) {
        shown: "20 000",
    }

    /// Core instances.
    instances: Option<usize> = "64" => limits_instances(usize) {}

    /// Log lines, 256 at most; the rest is dropped.
    log: Option<Bytes> = "4KiB" => limits_log(Bytes) {}

    /// Strings in one answer.
    strings: Option<Bytes> = "1MiB" => limits_strings(Bytes) {}

    /// Bytes moved by calls to the host.
    payload: Option<Bytes> = "16MiB" => limits_payload(Bytes) {}

    /// Size of the file.
    component: Option<Bytes> = "64MiB" => limits_component(Bytes) {}

    /// Limits of the compiler.
    compile: Option<CompileLimits> {
        row: "limits of the compiler, [below](#limitscompile)",
    }
}

table! {
    /// What the compiler may use.
    CompileLimits at "limits.compile", "a table of `time`, `cpu` and `memory`, such as { time = \"5m\", memory = \"2GiB\" }";

    /// Elapsed time; a version that takes longer is tried again.
    time: Option<Span> = "5m" => limits_compile_time(Duration) {}

    /// Processor time of all threads, in whole seconds.
    cpu: Option<Span> = "2m" => limits_compile_cpu(Duration) {}

    /// Memory; never more than three quarters of the container's limit (cgroup v1 or v2).
    memory: Option<Bytes> = "2GiB" => limits_compile_memory(Bytes) {
        shown: "2GiB; in Lambda at most three quarters of the function's memory",
    }
}

table! {
    /// How policies are fetched, cached, verified and rolled back.
    Policies at "policies", "a table of `cache`, `refresh` and the like, such as { refresh = \"1m\" }";

    /// The directory in which good versions and compiled code are stored, or `off`. The default is in the user's cache directory.
    cache: Option<String> {
        row: "directory for the last good versions and compiled code, or `off`",
        shown: "`backstop` in the user's cache directory; `/tmp/backstop` in Lambda",
        method: "cache",
        apply: Some(|host, texts| Ok(host.default_cache(one(texts)))),
        variable: "BACKSTOP_CACHE",
        flag: Some(Flag::new("cache", "FOLDER|off", "The folder that stores good versions and compiled code across restarts, or off [default: the user's cache folder]").or_variable("BACKSTOP_CACHE").overriding_file()),
    }

    /// How often S3 and registries are checked for a new version.
    refresh: Option<Span> = "1m" => refresh(Duration) {
        row: "interval of update checks, ±10 %; 1s to 1d",
        variable: "BACKSTOP_REFRESH",
        flag: Some(Flag::new("refresh", "DURATION", "How often to check S3 and registries for a new version")),
    }

    /// How often files are checked for a new version, in place of watching their directories.
    poll: Option<Span> => poll(Duration) {
        row: "check files at this interval instead of watching their directories; 100ms to 1h",
        shown: "watch; 5s on network file systems",
    }

    /// Accepts only policies that are signed with one of these minisign keys, each given as text or as the path of a `.pub` file.
    require_signature: Option<Texts> => require_signature(Texts) {
        row: "minisign public keys, as text or paths of `.pub` files",
        shown: "no signature needed",
        variable: "BACKSTOP_REQUIRE_SIGNATURE",
        flag: Some(Flag::new("require-signature", "KEY|FILE", "Reject policies that are not signed with this minisign key, given as text or as a .pub file; may be repeated").repeated()),
    }

    /// The registries that are reached without TLS, such as `registry.internal:5000`.
    plain_http: Option<Texts> => plain_http(Texts) {
        row: "registries to contact without TLS, in addition to those on this machine",
        shown: "none",
        variable: "BACKSTOP_PLAIN_HTTP",
        flag: Some(Flag::new("plain-http", "HOST", "A registry to use without TLS, such as registry.internal:5000; may be repeated").repeated()),
    }

    /// The servers that may get a registry's credentials for a token, such as `auth.internal`, in addition to the registry's own host.
    token_servers: Option<Texts> => token_servers(Texts) {
        row: "servers that may get a registry's credentials for a token, in addition to [its own](registries.md#push-and-pull)",
        shown: "none",
        variable: "BACKSTOP_TOKEN_SERVERS",
        flag: Some(Flag::new("token-server", "HOST", "A server that may get a registry's credentials for a token, such as auth.internal; may be repeated. The registry's own host always may").repeated()),
    }

    /// Rolls a version back when its decisions failed for this many messages within this time. Zero messages disables it. The default is 5 within a minute.
    rollback: Option<Rollback> {
        row: "`{ broken = N, within = \"DURATION\" }`: roll back after broken decisions on N different messages, or [fewer](versions.md#rolling-back)",
        shown: "5 within 1m",
        method: "rollback",
    }
}

table! {
    /// When a version is rolled back.
    Rollback at "policies.rollback", "a table of `broken` and `within`, such as { broken = 5, within = \"1m\" }";

    /// On how many messages decisions may be broken; 0 disables the rollback.
    broken: Option<u32> = "5" {}

    /// Within which time.
    within: Option<Span> = "1m" {}
}

table! {
    /// One queue to serve.
    Queue at "queues.NAME", "a table, such as [queues.orders] with `url` and `handler`";

    /// The queue's URL, or `local:NAME` for one in memory.
    url: String {
        shown: "required",
        method: "queue",
    }

    /// The dead-letter queue. The default is the one of the queue's redrive policy.
    dead_letter_queue: Option<DeadLetterQueues> {
        row: "URL of its dead-letter queue, of the same kind (standard or FIFO), or [one for each class](#dead-letter-queues-by-class)",
        shown: "from the queue's redrive policy",
        method: "dead_letter_queue",
        check: Some(|text| parse_dead_letter_queue(text).map(drop)),
        apply: Some(|host, texts| {
            texts.iter().try_fold(host, |host, text| {
                Ok(match parse_dead_letter_queue(text)? {
                    (Some(class), url) => host.dead_letter_queue_of(class, url),
                    (None, url) => host.dead_letter_queue(url),
                })
            })
        }),
        flag: Some(Flag::new("dead-letter-queue", "[CLASS=]URL", "The dead-letter queue, or the one for a class of failures: --dead-letter-queue permanent=URL; may be repeated [default: the one in the queue's redrive policy]").repeated()),
    }

    /// What processes messages. It is required in a file: a program may set a function.
    handler: Option<Handler> {
        row: "what processes messages, [below](#handlers)",
        shown: "required",
    }

    /// A table that keeps work from being done twice.
    idempotency: Option<Idempotency> {
        row: "a table that keeps work from being done twice, [below](#idempotency)",
        shown: "none",
    }

    /// The policy: the name of a built-in one, the path of a file or a directory, `s3://BUCKET/KEY` or `oci://REGISTRY/REPOSITORY:TAG`. New versions are fetched and activated while the host runs.
    policy: Option<Policy> = "full-jitter" {
        row: "the policy, [below](#policy)",
        shown: "`full-jitter`",
        method: "policy",
        apply: Some(|host, texts| Ok(host.policy(one(texts)))),
        flag: Some(Flag::new("policy", "NAME|PATH|URL", "The policy: a built-in (full-jitter, equal-jitter, linear, decorrelated-jitter, aws-sdk-2.0, aws-sdk-2.1), the path of a .wasm or .wat file or of a folder of them, s3://bucket/key or oci://registry/repository:tag")),
    }

    /// A setting of the policy.
    settings: Option<SettingsTable> {
        row: "the policy's settings, if it is a single component: texts, numbers, `true`, `false`, and lists of texts, which a policy receives with commas in between",
        shown: "none",
        method: "set",
        check: Some(|text| parse_pair(text).map(drop).map_err(|error| error.to_string())),
        apply: Some(|host, texts| {
            texts.iter().try_fold(host, |host, text| {
                let (name, value) = parse_pair(text).map_err(|error| error.to_string())?;
                Ok(host.set(name, value))
            })
        }),
        flag: Some(Flag::new("set", "NAME=VALUE", "A setting of the policy, such as base=2s; may be repeated").repeated()),
    }

    /// Scenarios that every version of the policy has to pass before it is activated (`host/docs/scenarios.md`).
    scenarios: Option<PathBuf> => scenarios(Path) {
        row: "file of [scenarios](scenarios.md) that every version must pass",
        shown: "none",
        flag: Some(Flag::new("scenarios", "FILE", "Scenarios that every version of the policy must pass before it becomes active (host/docs/scenarios.md)")),
    }

    /// The name of the policy that every version has to be signed for, with a time that is not before that of a version that was active. It requires [`require_signature`](Backstop::require_signature).
    signed_for: Option<String> => signed_for(String) {
        row: "the name of the policy that every version must be [signed for](registries.md#what-a-signature-is-for), and not earlier than one that was active; needs `require-signature`",
        shown: "any signed file",
        flag: Some(Flag::new("signed-for", "NAME", "Reject versions that are not signed for the policy with this name, or signed earlier than one that was active").requires("require-signature")),
    }

    /// A shadow: a second policy that is evaluated for every failure and compared with the first one. It has no effect on messages.
    shadow: Option<Policy> {
        row: "a [shadow](policies.md#shadows), named as `policy` is",
        shown: "none",
        method: "shadow",
        apply: Some(|host, texts| Ok(host.shadow(one(texts)))),
        flag: Some(Flag::new("shadow", "NAME|FILE", "A policy to evaluate in addition to the active one. Its decisions are compared, counted and recorded, but never applied")),
    }

    /// A setting of the shadow. Without any, it has those of the policy.
    shadow_settings: Option<SettingsTable> {
        row: "settings of the shadow, if it is a single component",
        shown: "those of the live policy",
        method: "set_shadow",
        check: Some(|text| parse_pair(text).map(drop).map_err(|error| error.to_string())),
        apply: Some(|host, texts| {
            texts.iter().try_fold(host, |host, text| {
                let (name, value) = parse_pair(text).map_err(|error| error.to_string())?;
                Ok(host.set_shadow(name, value))
            })
        }),
        flag: Some(Flag::new("shadow-set", "NAME=VALUE", "A setting of the shadow policy; may be repeated [default: those of --set]").requires("shadow").repeated()),
    }

    /// The most attempts of a message, whatever the policy decides.
    max_attempts: Option<u32> => max_attempts(u32) {
        row: "the most attempts of a message",
        shown: "no limit",
        range: Some((1, u32::MAX)),
        flag: Some(Flag::new("max-attempts", "N", "The maximum number of attempts, whatever the policy decides")),
    }

    /// The age from which a message is not retried, whatever the policy decides.
    max_age: Option<Span> => max_age(Duration) {
        row: "the age from which a message is not retried; at most 14d",
        shown: "no limit",
        flag: Some(Flag::new("max-age", "DURATION", "The maximum age of a message, such as 3d or 12h: older ones are not retried, whatever the policy decides")),
    }

    /// Whether the policy may discard messages. If not, they are dead-lettered.
    allow_discard: Option<bool> = "true" => allow_discard(bool) {
        row: "whether the policy may drop messages",
        flag: Some(Flag::new("allow-discard", "true|false", "Whether the policy may discard messages; if not, they are dead-lettered instead")),
    }

    /// How many messages are in flight at once.
    max_in_flight: Option<usize> = "100" => max_in_flight(usize) {
        row: "messages in hand at once, 1 to 100000",
        range: Some((1, 100_000)),
        flag: Some(Flag::new("max-in-flight", "N", "The maximum number of messages in progress")),
    }

    /// The most polls at the same time: there are as many as the queue has work for.
    max_polls: Option<usize> = "10" => max_polls(usize) {
        row: "polls at the same time, 1 to 100: one on an idle queue, another one after each full answer",
        range: Some((1, 100)),
        flag: Some(Flag::new("max-polls", "N", "The maximum number of polls at the same time: there are as many as the queue has work for")),
    }

    /// The bytes of messages in flight at which no more are received.
    max_bytes_in_flight: Option<Bytes> = "256MiB" => max_bytes_in_flight(Bytes) {
        row: "their bodies and attributes together",
    }

    /// How failed messages are held until their next attempt.
    hold: Option<HoldMode> = "auto" => hold(HoldMode) {
        row: "how failed messages wait: `visibility`, `resend` or `auto` ([How messages wait](holding.md))",
        shown: "`auto`",
        flag: Some(Flag::new("hold", "visibility|resend|auto", "How failed messages wait for their next attempt: invisible in their queue, sent to it again, or whichever is possible")),
    }

    /// A file with the secret keys by which the hosts of a fleet know the envelopes of messages that were sent again, one in each line (`host/docs/holding.md`). Without it, each host knows those that it made itself since its start.
    envelope_key_file: Option<PathBuf> => envelope_key_file(Path) {
        row: "file with the keys by which all hosts of the queue know [messages that were sent again](holding.md#who-wrote-an-envelope), one in each line",
        shown: "each host knows its own since its start",
        flag: Some(Flag::new("envelope-key-file", "FILE", "A file with the secret keys by which the hosts of a fleet know the envelopes of messages that were sent again, one in each line: the first one signs (host/docs/holding.md)")),
    }

    /// How long a received message stays invisible; a heartbeat renews it. The default is the queue's.
    visibility_timeout: Option<Span> => visibility_timeout(Duration) {
        row: "how long a received message stays invisible, 1s to 12h",
        shown: "the queue's own",
    }

    /// The longest duration of one attempt.
    attempt_timeout: Option<Span> = "15m" => attempt_timeout(Duration) {
        row: "the longest attempt, 1s to 12h",
    }

    /// How long a request to SQS waits for others to be batched with it.
    linger: Option<Span> = "100ms" => linger(Duration) {
        row: "how long a request waits to be batched at most; 5s or less",
    }

    /// How long attempts may go on after the host was stopped.
    grace: Option<Span> = "25s" => grace(Duration) {
        row: "time for messages in hand after SIGTERM or SIGINT",
        flag: Some(Flag::new("grace", "DURATION", "How long messages in progress may take to finish after the first SIGTERM or SIGINT").overriding_file()),
    }
}

table! {
    /// What handles the messages of a queue.
    Handler at "queues.NAME.handler", "a table with `http`, `exec` or `lambda`, such as { http = \"http://127.0.0.1:8080/\" }";

    /// Posts each message to this URL, in place of a function. Any 2xx is success.
    http: Option<String> => http(String) {
        flag: Some(Flag::new("http", "URL", "POST each message to this URL; 2xx is success")),
    }

    /// The proxy through which [`http`](Self::http) posts.
    proxy: Option<String> => http_proxy(String) {
        flag: Some(Flag::new("http-proxy", "URL", "Send the requests of --http through this proxy [default: none; HTTP_PROXY and similar variables are ignored]").requires("http")),
    }

    /// The type of the bodies that [`http`](Self::http) posts.
    content_type: Option<String> = "application/json" => http_content_type(String) {
        flag: Some(Flag::new("http-content-type", "TYPE", "The content type of the requests of --http").requires("http")),
    }

    /// Runs this program for each message, in place of a function. The body is its standard input; exit status 0 is success.
    exec: Option<Command> {
        method: "exec",
        apply: Some(|host, texts| Ok(host.exec(texts))),
        flag: Some(Flag::new("exec", "COMMAND", "Run this command for each message, with the body on its standard input; exit status 0 is success. Quote the command: --exec './work.sh --fast'")),
    }

    /// Invokes this Lambda function with each message, in place of a function of this program.
    lambda: Option<String> => lambda(String) {
        flag: Some(Flag::new("lambda", "NAME|ARN", "Invoke this Lambda function with each message and wait for its response")),
    }

    /// The function of a program.
    #[serde(skip)]
    function: Option<FunctionHandler> {
        is_in_files: false,
        method: "handler",
    }
}

table! {
    /// Work that is done once for each key.
    Idempotency at "queues.NAME.idempotency", "a table with `table`, such as { table = \"idempotency\", key = \"/order/id\" }";

    /// The table whose records say which messages are done. A repeated message is deleted without its work.
    table: String {
        row: "the table's name",
        shown: "required",
        method: "idempotency",
        apply: Some(|host, texts| Ok(host.idempotency(one(texts)))),
        flag: Some(Flag::new("idempotency-table", "TABLE", "The DynamoDB table that records which messages are done: a repeated message is deleted without its work (host/docs/idempotency.md)")),
    }

    /// Where the key is in the body: a JSON pointer or JMESPath. The default is the message's original id.
    key: Option<String> => idempotency_key(String) {
        row: "where the key is in the body: a JSON pointer such as `/order/id`, or JMESPath such as `order.id`",
        shown: "the message's original id, which a resent message keeps",
        flag: Some(Flag::new("idempotency-key", "PATH", "Where the key is in the body: a JSON pointer such as /order/id, or JMESPath [default: the message's original id]").requires("idempotency-table")),
    }

    /// What of the body has to be the same in a repeat: a JSON pointer or JMESPath.
    validate: Option<String> => idempotency_validate(String) {
        row: "what of the body has to be the same in a repeat",
        shown: "nothing",
        flag: Some(Flag::new("idempotency-validate", "PATH", "What of the body has to be the same in a repeat: a JSON pointer or JMESPath").requires("idempotency-table")),
    }

    /// What keys begin with. The default is the queue's name in SQS.
    prefix: Option<String> => idempotency_prefix(String) {
        row: "what keys begin with: queues with the same work have the same",
        shown: "the queue's name in SQS",
        flag: Some(Flag::new("idempotency-prefix", "TEXT", "What keys begin with [default: the queue's name]").requires("idempotency-table")),
    }

    /// Whose records the table holds.
    format: Option<RecordFormat> = "python" => idempotency_format(RecordFormat) {
        row: "whose records the table holds: `python` or `typescript`",
        shown: "`python`",
        flag: Some(Flag::new("idempotency-format", "python|typescript", "Whose records the table holds: those of Powertools for Python or for TypeScript").requires("idempotency-table")),
    }

    /// How long the lease of work in progress lasts. It is renewed while the work runs.
    lease: Option<Span> = "20s" => idempotency_lease(Duration) {
        row: "how long work in progress is protected; renewed while it runs ([what is safe](idempotency.md#leases))",
        flag: Some(Flag::new("idempotency-lease", "DURATION", "How long work in progress is protected; renewed while it runs").requires("idempotency-table")),
    }

    /// How long completed work is remembered: SQS keeps a message for 14 days at most, and a policy delays it for 14 days at most.
    expires_after: Option<Span> = "30d" => idempotency_expires_after(Duration) {
        row: "how long done work is remembered: [longer than a message can come again](idempotency.md#how-long-records-count)",
        flag: Some(Flag::new("idempotency-expires-after", "DURATION", "How long done work is remembered").requires("idempotency-table")),
    }

    /// What happens to work that may have been done, because its host crashed.
    on_unknown: Option<OnUnknown> = "retry" => on_unknown(OnUnknown) {
        row: "what happens to work that may have been done: `retry` or `dead-letter`",
        shown: "`retry`",
        flag: Some(Flag::new("idempotency-on-unknown", "retry|dead-letter", "What happens to work that may have been done, because its host crashed").requires("idempotency-table")),
    }

    /// What happens to a message without a key.
    on_missing_key: Option<OnMissingKey> = "error" => on_missing_key(OnMissingKey) {
        row: "what happens to a message without a key: `error` or `not-idempotent`",
        shown: "`error`",
        flag: Some(Flag::new("idempotency-on-missing-key", "error|not-idempotent", "What happens to a message without a key").requires("idempotency-table")),
    }

    /// The names of a record's attributes, and the table's sort key. The default is those of Powertools, without a sort key.
    attributes: Option<RecordAttributes> {
        method: "idempotency_attributes",
        row: "the names of a record's attributes, and the sort key, below",
        shown: "those of Powertools",
    }
}

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
        row: "URL of the dead-letter queue, a standard queue, or [one for each class](#dead-letter-queues-by-class)",
        shown: "from the retry queue's redrive policy",
        method: "lambda_dead_letter_queue",
        variable: "BACKSTOP_DEAD_LETTER_QUEUE_URL",
    }

    /// The policy of the Lambda retry handler. A path is searched in the package, then in the layers.
    policy: Option<Policy> = "full-jitter" {
        row: "as for a queue; a path is searched in the package, then in the layers",
        shown: "`full-jitter`",
        method: "lambda_policy",
        variable: "BACKSTOP_POLICY",
    }

    /// The policy's settings, if it is a single component.
    settings: Option<SettingsTable> {
        row: "as for a queue",
        shown: "none",
        method: "lambda_set",
        variable: "BACKSTOP_SETTINGS",
    }

    /// Scenarios that every version of the policy has to pass (`host/docs/scenarios.md`).
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
    shadow: Option<Policy> {
        row: "as for a queue",
        shown: "none",
        method: "lambda_shadow",
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
        range: Some((1, u32::MAX)),
        variable: "BACKSTOP_MAX_ATTEMPTS",
    }

    /// The age from which an event is not retried; at most 14d.
    max_age: Option<Span> = "14d" => lambda_max_age(Duration) {
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
        variable: "BACKSTOP_MARGIN",
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

/// `"https://…"`, or a table of URLs by class: `{ permanent = "https://…", default = "https://…" }`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeadLetterQueues(pub(crate) BTreeMap<String, String>);

/// `"full-jitter"`, or a table of parts.
#[derive(Debug)]
pub(crate) enum Policy {
    Single(String),
    Parts(Box<Parts>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Parts {
    pub(crate) classifier: Option<Part>,
    pub(crate) backoff: Option<Part>,
    pub(crate) dead_lettering: Option<Part>,
}

/// `"linear"`, or `{ use = "linear", settings = { base = "2s" } }`.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) settings: SettingsTable,
}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
struct PartTable {
    #[serde(rename = "use")]
    name: String,
    #[serde(default)]
    settings: SettingsTable,
}

only_tables! {
    Parts: "a table of `classifier`, `backoff` and `dead-lettering`";
    PartTable: "a table with `use` and `settings`";
}

impl<'de> Deserialize<'de> for DeadLetterQueues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrTable;

        impl<'de> Visitor<'de> for TextOrTable {
            type Value = DeadLetterQueues;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the URL of a queue, or a table of URLs by class such as { permanent = \"https://…\", default = \"https://…\" }")
            }

            fn visit_str<E>(self, url: &str) -> Result<DeadLetterQueues, E> {
                let mut queues = DeadLetterQueues::default();
                queues.set(None, url.to_owned());
                Ok(queues)
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<DeadLetterQueues, A::Error> {
                BTreeMap::deserialize(MapAccessDeserializer::new(table)).map(DeadLetterQueues)
            }
        }

        deserializer.deserialize_any(TextOrTable)
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrParts;

        impl<'de> Visitor<'de> for TextOrParts {
            type Value = Policy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a policy's name or path, or a table with `classifier`, `backoff` and `dead-lettering`")
            }

            fn visit_str<E>(self, name: &str) -> Result<Policy, E> {
                Ok(Policy::Single(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Policy, A::Error> {
                Parts::deserialize(MapAccessDeserializer::new(table))
                    .map(|parts| Policy::Parts(Box::new(parts)))
            }
        }

        deserializer.deserialize_any(TextOrParts)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrTable;

        impl<'de> Visitor<'de> for TextOrTable {
            type Value = Part;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a component's name or path, or a table with `use` and `settings`")
            }

            fn visit_str<E>(self, name: &str) -> Result<Part, E> {
                Ok(Part {
                    name: name.to_owned(),
                    settings: SettingsTable::default(),
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Part, A::Error> {
                let PartTable { name, settings } =
                    PartTable::deserialize(MapAccessDeserializer::new(table))?;
                Ok(Part { name, settings })
            }
        }

        deserializer.deserialize_any(TextOrTable)
    }
}
