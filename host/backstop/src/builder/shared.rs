//! The values that all queues share.

use std::path::Path;
use std::time::Duration;

use super::Backstop;
use crate::config::raw::{self, Span};

/// Values that all queues share.
impl Backstop {
    /// Appends a record of every decision to this file; `-` is standard output (`host/docs/decision-record.md`).
    pub fn decisions(mut self, path: impl AsRef<Path>) -> Self {
        let record = match path.as_ref() {
            path if path == Path::new("-") => "-".to_owned(),
            // A file of this name, and not standard output.
            path if path == Path::new("stdout") => "./stdout".to_owned(),
            path => self
                .in_working_directory(path)
                .to_string_lossy()
                .into_owned(),
        };
        self.raw.decisions = Some(raw::Decisions { record });
        self
    }

    /// Serves metrics for Prometheus at `http://ADDRESS/metrics`, such as `127.0.0.1:9464` (`host/docs/metrics.md`).
    pub fn metrics(mut self, address: impl Into<String>) -> Self {
        self.raw.metrics = Some(address.into());
        self.top("metrics")
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
    pub fn admin(mut self, address: impl Into<String>) -> Self {
        self.raw.admin = Some(address.into());
        self.top("admin")
    }

    /// The file with the token of the admin interface. Without one, the token is that of the environment variable `BACKSTOP_ADMIN_TOKEN`, if it is set.
    pub fn admin_token_file(mut self, path: impl AsRef<Path>) -> Self {
        self.raw.admin_token_file = Some(self.in_working_directory(path.as_ref()));
        self.top("admin-token-file")
    }

    /// The names by which the admin interface is reached, such as `backstop.internal`, besides `localhost` and addresses. Requests for other names are refused.
    pub fn admin_hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.raw.admin_hosts = Some(hosts.into_iter().map(Into::into).collect());
        self.top("admin-hosts")
    }

    /// The endpoint for SQS, Lambda and S3, in place of the region's own.
    pub fn endpoint_url(mut self, url: impl Into<String>) -> Self {
        self.raw.endpoint_url = Some(url.into());
        self.top("endpoint-url")
    }

    /// The directory in which good versions and compiled code are stored, or `off`. The default is in the user's cache directory.
    pub fn cache(mut self, folder: impl AsRef<Path>) -> Self {
        let cache = match folder.as_ref() {
            off if off == Path::new("off") => "off".to_owned(),
            folder => self
                .in_working_directory(folder)
                .to_string_lossy()
                .into_owned(),
        };
        self.raw.policies.get_or_insert_default().cache = Some(cache);
        self.top("policies.cache")
    }

    /// As [`cache`](Self::cache), unless the file has one.
    pub fn default_cache(self, folder: impl AsRef<Path>) -> Self {
        match &self.raw.policies {
            Some(raw::Policies { cache: Some(_), .. }) => self,
            Some(_) | None => self.cache(folder),
        }
    }

    /// How often S3 and registries are checked for a new version. The default is a minute.
    pub fn refresh(mut self, interval: Duration) -> Self {
        self.raw.policies.get_or_insert_default().refresh = Some(Span(interval));
        self.top("policies.refresh")
    }

    /// How often files are checked for a new version, in place of watching their directories.
    pub fn poll(mut self, interval: Duration) -> Self {
        self.raw.policies.get_or_insert_default().poll = Some(Span(interval));
        self.top("policies.poll")
    }

    /// Accepts only policies that are signed with one of these minisign keys, each given as text or as the path of a `.pub` file.
    pub fn require_signature<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        let keys = keys.into_iter().map(Into::into).collect();
        self.raw.policies.get_or_insert_default().require_signature = Some(keys);
        self.top("policies.require-signature")
    }

    /// The registries that are reached without TLS, such as `registry.internal:5000`.
    pub fn plain_http<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        let hosts = hosts.into_iter().map(Into::into).collect();
        self.raw.policies.get_or_insert_default().plain_http = hosts;
        self.top("policies.plain-http")
    }

    /// The servers that may get a registry's credentials for a token, such as `auth.internal`, in addition to the registry's own host.
    pub fn token_servers<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        let hosts = hosts.into_iter().map(Into::into).collect();
        self.raw.policies.get_or_insert_default().token_servers = hosts;
        self.top("policies.token-servers")
    }

    /// Rolls a version back when its decisions failed for this many messages within this time. Zero messages disables it. The default is 5 within a minute.
    pub fn rollback(mut self, broken: u32, within: Duration) -> Self {
        self.raw.policies.get_or_insert_default().rollback = Some(raw::Rollback {
            broken: Some(broken),
            within: Some(Span(within)),
        });
        self.top("policies.rollback")
    }
}
