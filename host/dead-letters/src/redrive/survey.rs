//! Fixes the set of a run: reads the queue once, and notes which letters are chosen.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use backstop::CancellationToken;
use backstop::queue::Queue;

use super::target::{Routes, To};
use crate::filter::Filters;
use crate::reader::{ReadError, ReadOptions, Seen, read};

/// How many ids of letters without a target are kept.
const SAMPLES: usize = 10;

/// What is in a dead-letter queue, and what a run would do with it.
#[derive(Debug, Clone)]
pub struct Survey {
    /// The ids of the letters that are chosen.
    pub members: HashSet<String>,
    /// The ids of the others.
    pub others: HashSet<String>,
    /// How many of the chosen ones go to each target.
    pub targets: BTreeMap<To, u64>,
    /// How many of the chosen ones have no target.
    pub without_target: u64,
    /// The ids of some of them.
    pub samples: Vec<String>,
    /// How many of the chosen ones do not say how many attempts were made.
    pub unknown_attempts: u64,
    /// The bytes of the chosen ones.
    pub bytes: u64,
    /// What was seen.
    pub seen: Seen,
}

/// Reads the queue. Each letter is visible again at the end.
pub async fn survey(
    queue: &Arc<dyn Queue>,
    filters: &Filters,
    routes: &Routes,
    options: ReadOptions,
    stop: &CancellationToken,
    mut each: impl FnMut(),
) -> Result<Survey, ReadError> {
    let (mut members, mut others) = (HashSet::new(), HashSet::new());
    let mut targets = BTreeMap::<To, u64>::new();
    let mut samples = Vec::new();
    let (mut without_target, mut unknown_attempts, mut bytes) = (0, 0, 0);
    let seen = read(Arc::clone(queue), options, stop, |letter| {
        each();
        if !filters.matches(&letter) {
            others.insert(letter.message.id.clone());
            return;
        }
        match routes.of(&letter) {
            Some(to) => *targets.entry(to).or_default() += 1,
            None => {
                without_target += 1;
                if samples.len() < SAMPLES {
                    samples.push(letter.message.id.clone());
                }
            }
        }
        unknown_attempts += u64::from(letter.attempt.is_none());
        bytes += u64::try_from(letter.message.size()).unwrap_or(u64::MAX);
        members.insert(letter.message.id.clone());
    })
    .await?;
    Ok(Survey {
        members,
        others,
        targets,
        without_target,
        samples,
        unknown_attempts,
        bytes,
        seen,
    })
}
