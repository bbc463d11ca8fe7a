//! What the program that runs the host lends to the page: it reads files of records and loads policies, which the host has no means for.

use async_trait::async_trait;
use backstop_core::decision::Bounds;
use backstop_engine::Policy;
use serde_json::Value;

/// A policy that somebody wants to try.
#[derive(Debug, Clone)]
pub enum Tried {
    /// A built-in one, with settings.
    Builtin {
        /// Its name.
        name: String,
        /// Its settings.
        settings: Vec<(String, String)>,
    },
    /// A file that somebody has sent.
    File {
        /// Its name there.
        name: String,
        /// What it has.
        bytes: Vec<u8>,
        /// Its settings.
        settings: Vec<(String, String)>,
    },
}

/// What a replay of recorded failures has found.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// The report, as `backstop policy replay --json` has it.
    pub report: Value,
    /// The delays before and now, as SVG.
    pub chart: String,
    /// What was left out, if anything was.
    pub left_out: Option<String>,
}

/// What the page can do by means of the program that runs the host.
#[async_trait]
pub trait Tools: std::fmt::Debug + Send + Sync {
    /// The names of the built-in policies.
    fn built_in(&self) -> Vec<&'static str>;

    /// Loads a policy as a host does.
    async fn load(&self, tried: Tried) -> Result<Policy, String>;

    /// Passes the recorded failures of a queue to a policy. `None` if the host writes no records to files.
    async fn replay(
        &self,
        queue: &str,
        policy: Policy,
        bounds: Bounds,
    ) -> Result<Option<Replayed>, String>;

    /// The life of a message as the files of this host tell it, the answer of `backstop why --json` without the decisions; and whether the host writes records to files.
    async fn story(&self, id: &str) -> Result<(bool, Value), String>;
}
