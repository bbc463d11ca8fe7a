//! Whether Lambda would terminate a long chain of invocations: looked up for each function and cached.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::lock::lock;

use backstop_functions::Functions;
use backstop_functions::unqualified;
use backstop_settle::lookup::Lookup;

/// How long a result is cached that the operator may correct: that chains are terminated, or that the lookup is not allowed.
const CACHE_TIME: Duration = Duration::from_secs(60);

/// The results for all functions.
pub(super) struct Recursion {
    functions: Arc<dyn Functions>,
    known: Mutex<BTreeMap<String, Arc<Lookup<Chain>>>>,
}

/// What happens to a long chain of invocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chain {
    /// It continues.
    Continues,
    /// Lambda terminates it after about 16 invocations.
    Terminated,
    /// The lookup failed.
    Unknown,
}

impl Recursion {
    pub(super) fn new(functions: Arc<dyn Functions>) -> Self {
        Self {
            functions,
            known: Mutex::default(),
        }
    }

    /// What happens to a long chain of this function. Looked up once if it continues, else at most once a minute.
    pub(super) async fn of(&self, function: &str) -> Chain {
        let function = unqualified(function);
        let lookup = {
            let mut known = lock(&self.known);
            Arc::clone(known.entry(function.to_owned()).or_default())
        };
        let lifetime = |chain: &Chain| (*chain != Chain::Continues).then_some(CACHE_TIME);
        lookup.get(lifetime, self.look_up(function)).await
    }

    async fn look_up(&self, function: &str) -> Chain {
        match self.functions.detects_recursion(function).await {
            Ok(false) => Chain::Continues,
            Ok(true) => Chain::Terminated,
            Err(error) => {
                tracing::warn!(%error, function, "recursion detection can't be looked up: allow lambda:GetFunctionRecursionConfig");
                Chain::Unknown
            }
        }
    }
}
