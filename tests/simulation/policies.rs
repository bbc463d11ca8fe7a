//! The policies of the hosts, each compiled once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use backstop_core::lock::lock;
use backstop_engine::{Limits, Sandbox};
use backstop_versions::{LivePolicy, PartSpec, PolicySpec, Source};

use super::plan::Plan;

pub(crate) struct Policies {
    sandbox: Sandbox,
    live: Mutex<HashMap<u64, Arc<LivePolicy>>>,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            sandbox: Sandbox::new(Limits::default()).unwrap(),
            live: Mutex::default(),
        }
    }
}

impl Policies {
    /// The policy of a plan.
    pub(crate) fn of(&self, plan: &Plan) -> Arc<LivePolicy> {
        let mut live = lock(&self.live);
        let policy = live.entry(plan.base).or_insert_with(|| {
            let settings = vec![
                ("base".to_owned(), format!("{}s", plan.base)),
                ("cap".to_owned(), "20m".to_owned()),
            ];
            let part = PartSpec {
                source: Source::builtin("full-jitter"),
                settings: settings.into(),
            };
            LivePolicy::load(&self.sandbox, PolicySpec::Single(part)).unwrap()
        });
        Arc::clone(policy)
    }
}
