//! Whether Lambda would cut a long chain of invocations off: looked up for each function, once for all of a batch, and remembered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Functions;
use super::lookup::Lookup;
use crate::function_name::unqualified;

/// For how long an answer holds that somebody may be about to change: that a chain is cut off, or that nobody may ask.
const AGAIN: Duration = Duration::from_secs(60);

/// What is known of each function.
pub(super) struct Recursion {
    functions: Arc<dyn Functions>,
    known: Mutex<BTreeMap<String, Arc<Lookup<Chain>>>>,
}

/// What becomes of a long chain of invocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chain {
    /// It goes on.
    Whole,
    /// It is cut off after about 16 invocations.
    Terminated,
    /// Not known: Lambda does not say.
    Unknown,
}

impl Recursion {
    pub(super) fn new(functions: Arc<dyn Functions>) -> Self {
        Self {
            functions,
            known: Mutex::default(),
        }
    }

    /// What becomes of a long chain of this function. Evaluation once where it goes on, at most once a minute where not.
    pub(super) async fn of(&self, function: &str) -> Chain {
        let function = unqualified(function);
        let lookup = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(function.to_owned()).or_default())
        };
        let holds = |chain: &Chain| (*chain != Chain::Whole).then_some(AGAIN);
        lookup.get(holds, self.look(function)).await
    }

    async fn look(&self, function: &str) -> Chain {
        match self.functions.detects_recursion(function).await {
            Ok(false) => Chain::Whole,
            Ok(true) => Chain::Terminated,
            Err(error) => {
                tracing::warn!(%error, function, "recursion detection can't be looked up: allow lambda:GetFunctionRecursionConfig");
                Chain::Unknown
            }
        }
    }
}
