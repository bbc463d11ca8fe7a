//! What a run would do, found out by its own steps up to the first one that writes: a dry run.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use backstop_queue::envelope::EnvelopeKeys;
use backstop_queue::{Connections, Queue};
use backstop_traces::Span;
use tokio_util::sync::CancellationToken;

use super::RedriveError;
use super::fixed_set::read_options;
use super::plan::Plan;
use super::prepare::{Obstacle, Prepared, become_, prepare};
use super::survey::Survey;
use super::target::{Router, Target, To};
use crate::filter::Filters;
use crate::letter::Letter;
use crate::reader::{Seen, read};

/// The most reasons for refusals that are kept apart.
const REASONS: usize = 20;

/// What a run would do.
#[derive(Debug, Default)]
pub struct Rehearsal {
    /// The letters that are chosen, and where they go.
    pub survey: Survey,
    /// How many letters each target would take.
    pub accepted: BTreeMap<To, u64>,
    /// How many letters would be refused.
    pub refused: u64,
    /// Why, with the number of letters and the id of one; at most 20 reasons.
    pub refusals: BTreeMap<String, (u64, String)>,
    /// How many letters of a FIFO queue would stay behind one of their group that stays.
    pub behind: u64,
    /// Why the run would not start or go on, if so.
    pub error: Option<RedriveError>,
}

impl Rehearsal {
    /// How many letters would be moved.
    pub fn moved(&self) -> u64 {
        self.accepted.values().sum()
    }
}

/// Reads the queue as a run does, and opens targets and makes messages as it does. Sends and deletes nothing.
pub async fn rehearse(
    queue: &Arc<dyn Queue>,
    connections: &Arc<Connections>,
    plan: &Plan,
    keys: Option<&EnvelopeKeys>,
    filters: &Filters,
    stop: &CancellationToken,
    mut each: impl FnMut(),
) -> Result<(Rehearsal, Seen), RedriveError> {
    let description = queue.describe().await?;
    let options = read_options(plan, &description);
    let mut stage = Stage {
        plan,
        keys,
        router: Router::new(Arc::clone(connections), description.arn),
        queue,
        fifo: description.fifo,
        checked: BTreeSet::new(),
        blocked: HashSet::new(),
        found: Rehearsal::default(),
    };
    let add = async |letter| {
        each();
        stage.add(&letter, filters).await;
    };
    let seen = read(Arc::clone(queue), options, stop, add).await?;
    let mut found = stage.found;
    if !description.fifo {
        // A run does not start then.
        found.error = found.survey.error().or(found.error);
    }
    Ok((found, seen))
}

/// The letters up to now.
struct Stage<'a> {
    plan: &'a Plan,
    keys: Option<&'a EnvelopeKeys>,
    router: Router,
    queue: &'a Arc<dyn Queue>,
    fifo: bool,
    /// The functions that were checked.
    checked: BTreeSet<To>,
    /// The groups of a FIFO queue in which a letter stays.
    blocked: HashSet<String>,
    found: Rehearsal,
}

impl Stage<'_> {
    async fn add(&mut self, letter: &Letter, filters: &Filters) {
        let is_chosen = self.found.survey.add(letter, filters, self.plan);
        let group = letter.message.group.clone().filter(|_| self.fifo);
        let is_behind = group.as_ref().is_some_and(|it| self.blocked.contains(it));
        if is_chosen && is_behind {
            self.found.behind += 1;
        } else if !is_chosen || !self.is_accepted(letter).await {
            self.blocked.extend(group);
        }
    }

    /// Whether the letter would be moved. Counts it.
    async fn is_accepted(&mut self, letter: &Letter) -> bool {
        // It is counted, and the run does not start.
        if !self.fifo && self.plan.target_of(letter).is_none() {
            return false;
        }
        // The run ends with the first error.
        if self.found.error.is_some() {
            return false;
        }
        match self.try_one(letter).await {
            Ok(to) => {
                *self.found.accepted.entry(to).or_default() += 1;
                return true;
            }
            Err(Obstacle::Refused(why)) => self.refuse(letter, why),
            Err(Obstacle::Error(error)) => self.found.error = Some(error),
            Err(Obstacle::Stopped) => {}
        }
        false
    }

    async fn try_one(&mut self, letter: &Letter) -> Result<To, Obstacle> {
        let Prepared { to, target, text } = prepare(&self.router, self.plan, letter).await?;
        let now = self.queue.now();
        become_(
            self.plan,
            self.keys,
            letter,
            &target,
            text,
            now,
            &Span::none(),
        )?;
        // A run learns this from its first invocation.
        if let Target::Function { name, api } = &*target
            && !self.checked.contains(&to)
        {
            api.check(name)
                .await
                .map_err(|error| RedriveError::Unusable {
                    to: to.clone(),
                    why: error.to_string(),
                })?;
            self.checked.insert(to.clone());
        }
        Ok(to)
    }

    fn refuse(&mut self, letter: &Letter, why: String) {
        self.found.refused += 1;
        let refusals = &mut self.found.refusals;
        if refusals.len() < REASONS || refusals.contains_key(&why) {
            let sample = || (0, letter.original_id.clone());
            refusals.entry(why).or_insert_with(sample).0 += 1;
        }
    }
}
