//! The top level of a file.

use super::*;

table! {
    /// A file.
    Config at "", "the tables of a configuration";

    /// The endpoint for SQS, Lambda and S3, in place of the region's own.
    endpoint_url: Option<String> => endpoint_url(String) {
        row: "URL for SQS, Lambda, S3 and DynamoDB in place of the region's endpoints",
        shown: "the SDK's",
        check: |_, text| parse_endpoint(text).map(drop).map_err(|error| error.to_string()),
        flag: Some(Flag::new("endpoint-url", "URL", "Use the SQS and Lambda at this URL, instead of the region's").overriding_file()),
    }

    /// Appends a record of every decision to this file; `-` is standard output (`host/docs/operate/decision-record.md`).
    decisions: Option<Decisions> {
        method: "decisions",
        check: |_, _| Ok(()),
        apply: |host, texts| Ok(texts.iter().fold(host, Backstop::decisions)),
        flag: Some(Flag::new("decisions", "FILE|-", "Append a record of every decision to this file, or - for standard output (host/docs/operate/decision-record.md)").overriding_file()),
    }

    /// Serves metrics for Prometheus at `http://ADDRESS/metrics`, such as `127.0.0.1:9464` (`host/docs/operate/metrics.md`).
    metrics: Option<String> => metrics(String) {
        row: "address and port that serves [metrics](../operate/metrics.md)",
        shown: "off",
        flag: Some(Flag::new("metrics", "ADDRESS", "Serve Prometheus metrics at http://ADDRESS/metrics, such as 127.0.0.1:9464 (host/docs/operate/metrics.md)").overriding_file()),
    }

    /// Sends spans over OTLP (`otlp`), or none (`none`), as the standard variables `OTEL_*` say (`host/docs/operate/traces.md`). Without it, `OTEL_TRACES_EXPORTER` decides.
    traces: Option<String> => traces(String) {
        row: "`otlp` sends [traces](../operate/traces.md) as the variables `OTEL_*` say, `none` sends none",
        shown: "what `OTEL_TRACES_EXPORTER` says, else `none`",
        check: |_, text| text.parse::<Wish>().map(drop).map_err(|error| error.to_string()),
        flag: Some(Flag::new("traces", "otlp|none", "Send traces over OTLP as the variables OTEL_* say, or none (host/docs/operate/traces.md) [default: OTEL_TRACES_EXPORTER, else none]").overriding_file()),
    }

    /// Serves the admin interface at this address, such as `127.0.0.1:9465` (`host/docs/operate/admin.md`). An address that other machines reach needs a token: see [`admin_token_file`](Self::admin_token_file).
    ///
    /// ```no_run
    /// # use backstop_host::Backstop;
    /// # async fn start() -> Result<(), backstop_host::run::RunError> {
    /// Backstop::from_file("backstop.toml")?
    ///     .admin("0.0.0.0:9465")
    ///     .admin_token_file("/run/secrets/backstop-admin")
    ///     .run()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    admin: Option<String> => admin(String) {
        row: "address and port that serves the [admin interface](../operate/admin.md): status, rollbacks, probes, metrics. One that other machines reach needs a token",
        shown: "off",
        flag: Some(Flag::new("admin", "ADDRESS", "Serve the admin interface at http://ADDRESS, such as 127.0.0.1:9465; an address that other machines reach needs a token (host/docs/operate/admin.md)").overriding_file()),
    }

    /// The file with the token of the admin interface. Without one, the token is that of the environment variable `BACKSTOP_ADMIN_TOKEN`, if it is set.
    admin_token_file: Option<PathBuf> => admin_token_file(Path) {
        row: "file with the token of the admin interface, in one line",
        shown: "the environment variable `BACKSTOP_ADMIN_TOKEN`, if it is set",
        flag: Some(Flag::new("admin-token-file", "FILE", "The file with the token of the admin interface [default: BACKSTOP_ADMIN_TOKEN]").overriding_file()),
    }

    /// The file with a token of the admin interface for those who look, see the bodies of messages, and change nothing.
    admin_bodies_token_file: Option<PathBuf> => admin_bodies_token_file(Path) {
        row: "file with another token, for those who [look](../operate/page.md#who-may-do-what), see bodies of messages, and change nothing",
        shown: "none: who may act may see bodies",
    }

    /// The file with a token of the admin interface for those who look at the page, see no bodies of messages, and change nothing.
    admin_view_token_file: Option<PathBuf> => admin_view_token_file(Path) {
        row: "file with another token, for those who [look](../operate/page.md#who-may-do-what), see no bodies, and change nothing",
        shown: "none: who has the token may act",
    }

    /// The names by which the admin interface is reached, such as `backstop.internal`, besides `localhost` and addresses. Requests for other names are refused.
    admin_hosts: Option<Texts> => admin_hosts(Texts) {
        row: "names by which the admin interface is reached, besides `localhost` and addresses",
        shown: "none",
        flag: Some(Flag::new("admin-hosts", "NAME", "A name by which the admin interface is reached, such as backstop.internal, besides localhost and addresses; may be repeated").overriding_file().repeated()),
    }

    /// An authenticating proxy in front of the admin interface, which names who has signed in.
    admin_proxy: Option<AdminProxy> {}

    /// The hosts that commands query if they name this file, and that the page shows: URLs of admin interfaces.
    fleet: Option<Texts> {
        row: "URLs of the admin interfaces that [commands](../operate/admin.md#commands) with `--config` query, such as `dns+http://backstop.internal:9465`",
        shown: "the hosts of this machine",
        at_once: Some(AtOnce::Commands),
    }

    /// What each component of a policy may use in one decision.
    limits: Option<Limits> {}

    /// How policies are fetched, cached, verified and rolled back.
    policies: Option<Policies> {}

    /// The queues, by their names in logs, metrics and records.
    #[serde(default)]
    queues: Queues {
        is_required: false,
    }

    /// The Lambda retry handler.
    lambda: Option<Lambda> {}
}

table! {
    /// Where decision records go.
    Decisions at "decisions", "a table with `record`, such as { record = \"decisions.jsonl\" }";

    /// The file that receives the decision records, or `stdout`.
    record: String {
        row: "file that receives the [decision records](../operate/decision-record.md), or `stdout`",
        variable: "BACKSTOP_DECISIONS",
        shown: "off",
    }

    /// Which lines the records have besides decisions: none, what becomes of messages that have failed, or all, also the success of a first attempt and each copy of a message that is sent again.
    records: Option<Recorded> = "outcomes" => decisions_records(Recorded) {
        row: "which lines there are: `decisions` alone, `outcomes`, too (success, death, wakes and pauses, after a failure), or `all` ([events](../operate/decision-record.md#events))",
        shown: "`outcomes`",
    }

    /// The size at which the file of the decision records is put aside and another one is begun.
    rotate_size: Option<Bytes> => decisions_rotate_size(Bytes) {
        row: "the size at which the file is put aside, compressed, and another one is begun; {bounds}",
        bounds: "at least 1MiB",
        shown: "it grows",
    }

    /// The age at which the file of the decision records is put aside and another one is begun.
    rotate_after: Option<Span> => decisions_rotate_after(Duration) {
        row: "the age at which the file is put aside; {bounds}",
        bounds: "at least 1m",
        shown: "it grows",
    }

    /// The most bytes of the files that were put aside: the oldest are deleted.
    keep: Option<Bytes> => decisions_keep(Bytes) {
        row: "the most bytes of the files that were put aside, as they are on the disk: the oldest are deleted",
        shown: "all are kept",
    }
}
