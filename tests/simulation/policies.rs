//! The policies of the hosts: a built-in one that is loaded once, or a file whose versions follow each other.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::lock::lock;
use backstop_engine::{Limits, Sandbox};
use backstop_tests::policies::{AT_WORK, Rule, down_for};
use backstop_versions::{Catalog, LivePolicy, PartSpec, PolicySpec, Source};

use super::plan::{Breaks, Plan, Version};
use super::planted::Planted;

/// Loads policies, in the sandboxes that all simulations of a test share.
pub(crate) struct Policies {
    builtin: Sandbox,
    /// With little fuel, so that a policy that loops takes no time.
    files: Sandbox,
    live: Mutex<HashMap<u64, Arc<LivePolicy>>>,
}

impl Default for Policies {
    fn default() -> Self {
        let little = Limits {
            fuel: 200_000,
            // Real time must stop nothing.
            time: Duration::from_secs(600),
            ..Limits::default()
        };
        Self {
            builtin: Sandbox::new(Limits::default()).unwrap(),
            files: Sandbox::new(little).unwrap(),
            live: Mutex::default(),
        }
    }
}

/// The policy of a plan, as its hosts load it.
#[derive(Clone)]
pub(crate) enum PlanPolicy {
    Builtin(Arc<LivePolicy>),
    /// Each host loads it by itself.
    File {
        catalog: Box<Catalog>,
        path: PathBuf,
    },
}

impl Policies {
    /// The policy of a plan, whose versions are written into this folder.
    pub(crate) fn of(&self, plan: &Plan, folder: &Path, planted: Option<Planted>) -> PlanPolicy {
        if !plan.versions.is_empty() {
            let mut catalog = Catalog::from(&self.files);
            // Without a store, the version before is loaded, so that no thread has to compile it.
            if planted == Some(Planted::NeverRollsBack) {
                catalog.roll_back.broken = 0;
            }
            let path = folder.join("policy.wasm");
            return PlanPolicy::File {
                catalog: Box::new(catalog),
                path,
            };
        }
        PlanPolicy::Builtin(self.of_base(plan.base))
    }

    /// The built-in policy with this first delay, in seconds.
    pub(crate) fn of_base(&self, base: u64) -> Arc<LivePolicy> {
        let mut live = lock(&self.live);
        let policy = live.entry(base).or_insert_with(|| {
            let settings = vec![
                ("base".to_owned(), format!("{base}s")),
                ("cap".to_owned(), "20m".to_owned()),
            ];
            let part = PartSpec {
                source: Source::builtin("full-jitter"),
                settings: settings.into(),
            };
            LivePolicy::load(&self.builtin, PolicySpec::Single(part)).unwrap()
        });
        Arc::clone(policy)
    }
}

impl PlanPolicy {
    /// Loads it for one host.
    pub(crate) fn load(&self) -> Arc<LivePolicy> {
        match self {
            Self::Builtin(policy) => Arc::clone(policy),
            Self::File { catalog, path } => {
                LivePolicy::load((**catalog).clone(), Source::path(path).into()).unwrap()
            }
        }
    }

    /// Writes a version into its file, where hosts find it when they look.
    pub(crate) fn write(&self, version: &Version) {
        if let Self::File { path, .. } = self {
            std::fs::write(path, text(version)).unwrap();
        }
    }

    /// Changes the file of the version that is there, and nothing of what it decides.
    pub(crate) fn touch(&self) {
        if let Self::File { path, .. } = self {
            let text = std::fs::read_to_string(path).unwrap();
            std::fs::write(path, text + "\n").unwrap();
        }
    }
}

/// The digest of what a host decides by now.
pub(crate) fn digest(policy: &LivePolicy) -> String {
    let current = policy.current();
    let digests: Vec<_> = current.digests().iter().map(ToString::to_string).collect();
    digests.join(",")
}

/// The text of a version. It breaks for messages alone, not for the failures that it is tried with when it is loaded.
fn text(version: &Version) -> String {
    let waits = format!("(i32.const {})", version.delay);
    let delay = match version.breaks {
        None => waits,
        Some((how, attempt)) => {
            let broken = match how {
                Breaks::Traps => "unreachable".to_owned(),
                Breaks::Loops => Rule::LOOP.to_owned(),
                Breaks::Recurses => "(call $recurse (i32.const 0))".to_owned(),
                Breaks::WaitsTooLong => "(i32.const -1)".to_owned(),
            };
            let is_it = format!(
                "(i32.and {AT_WORK} (i32.eq (i32.load offset=16 (local.get 0)) (i32.const {attempt})))"
            );
            format!("(if (result i32) {is_it} (then {broken}) (else {waits}))")
        }
    };
    let down_for = version.down_for.map(down_for);
    Rule {
        delay: Some(&delay),
        down_for: down_for.as_deref(),
        ..Rule::default()
    }
    .text()
}
