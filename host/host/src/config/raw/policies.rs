//! The table `[policies]`: how policies are fetched, cached, verified and rolled back.

use super::*;

table! {
    /// How policies are fetched, cached, verified and rolled back.
    Policies at "policies", "a table of `cache`, `refresh` and the like, such as { refresh = \"1m\" }";

    /// The directory in which good versions and compiled code are stored, or `off`. The default is in the user's cache directory.
    cache: Option<String> {
        row: "directory for the last good versions and compiled code, or `off`",
        shown: "`backstop` in the user's cache directory; `/tmp/backstop` in Lambda",
        method: "cache",
        apply: |host, texts| Ok(texts.iter().fold(host, Backstop::default_cache)),
        variable: "BACKSTOP_CACHE",
        flag: Some(Flag::new("cache", "FOLDER|off", "The folder that stores good versions and compiled code across restarts, or off [default: the user's cache folder]").or_variable("BACKSTOP_CACHE").overriding_file()),
    }

    /// How often S3 and registries are checked for a new version.
    refresh: Option<Span> = "1m" => refresh(Duration) {
        row: "interval of update checks, ±10 %; {bounds}",
        bounds: "1s to 1d",
        variable: "BACKSTOP_REFRESH",
        flag: Some(Flag::new("refresh", "DURATION", "How often to check S3 and registries for a new version")),
    }

    /// How often files are checked for a new version, in place of watching their directories.
    poll: Option<Span> => poll(Duration) {
        row: "check files at this interval instead of watching their directories; {bounds}",
        bounds: "100ms to 1h",
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
        row: "servers that may get a registry's credentials for a token, in addition to [its own](../policies/registries.md#push-and-pull)",
        shown: "none",
        variable: "BACKSTOP_TOKEN_SERVERS",
        flag: Some(Flag::new("token-server", "HOST", "A server that may get a registry's credentials for a token, such as auth.internal; may be repeated. The registry's own host always may").repeated()),
    }

    /// Rolls a version back when its decisions failed for this many messages within this time. Zero messages disables it. The default is 5 within a minute.
    rollback: Option<Rollback> {
        row: "`{ broken = N, within = \"DURATION\" }`: roll back after broken decisions on N different messages, or [fewer](../policies/versions.md#rolling-back)",
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
