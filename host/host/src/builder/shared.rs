//! The values that all queues share and that are not set as they are. `config/raw` has the others.

use std::path::Path;
use std::time::Duration;

use super::Backstop;
use crate::config::AdminRole;
use crate::config::raw::{self, Span};

/// Values that all queues share.
impl Backstop {
    /// Appends a record of every decision to this file; `-` is standard output (`host/docs/operate/decision-record.md`).
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
        let decisions = self.raw.decisions.take().unwrap_or_default();
        self.raw.decisions = Some(match record.as_str() {
            // Who reads standard output keeps the records.
            "-" | "stdout" => raw::Decisions {
                record,
                ..raw::Decisions::default()
            },
            _ => raw::Decisions {
                record,
                ..decisions
            },
        });
        self.top("decisions").top("decisions.record")
    }

    /// Believes a proxy at these addresses, such as `10.0.0.5` or `10.0.1.0/24`, which names in this header who has signed in. What they may do say [`admin_proxy_role`](Self::admin_proxy_role) and [`admin_proxy_groups`](Self::admin_proxy_groups), of which one is required.
    pub fn admin_proxy(
        mut self,
        header: impl Into<String>,
        from: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let proxy = self.raw.admin_proxy.get_or_insert_default();
        proxy.header = header.into();
        proxy.from = from.into_iter().map(Into::into).collect();
        self.top("admin-proxy.header").top("admin-proxy.from")
    }

    /// Lets those whom the [proxy](Self::admin_proxy) names do what their groups may, which it names in this header.
    pub fn admin_proxy_groups(
        mut self,
        header: impl Into<String>,
        roles: impl IntoIterator<Item = (impl Into<String>, AdminRole)>,
    ) -> Self {
        let proxy = self.raw.admin_proxy.get_or_insert_default();
        proxy.groups_header = Some(header.into());
        let roles = roles.into_iter();
        proxy.groups = Some(roles.map(|(group, role)| (group.into(), role)).collect());
        self.top("admin-proxy.groups-header")
            .top("admin-proxy.groups")
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

    /// Rolls a version back when its decisions failed for this many messages within this time. Zero messages disables it. The default is 5 within a minute.
    pub fn rollback(mut self, broken: u32, within: Duration) -> Self {
        self.raw.policies.get_or_insert_default().rollback = Some(raw::Rollback {
            broken: Some(broken),
            within: Some(Span(within)),
        });
        self.top("policies.rollback")
    }
}
