//! A configuration that is read again while its host runs: what changes at once, and what needs a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use metrics::Gauge;
use toml::{Table, Value};

use super::descriptors;
use crate::config::{AtOnce, Change, Options, Reading, changes};
use crate::consumer::{Breaker, Controls, NewLimits, grace_warning};
use crate::telemetry;
use crate::text::one_line;

/// Who changes the limits of a queue.
const CONFIGURATION: &str = "the configuration";

/// The most changes that a line of the log names.
const NAMED: usize = 50;

/// What changes at once in a queue that is served.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) controls: Arc<Controls>,
    pub(super) breaker: Arc<Breaker>,
}

/// Compares each reading of a configuration with the one before, and changes the queues that are served.
pub struct Reload {
    queues: BTreeMap<String, Served>,
    is_outdated: Gauge,
    /// The file that the host was started with.
    started: Table,
    /// The file as it was read last. A queue that has gone from it is as it was before.
    last: Table,
}

/// What a reading has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// What has changed at once, with both values.
    pub changed: Vec<String>,
    /// The keys that a flag overrides, so that their changes have no effect.
    pub overridden: Vec<String>,
    /// The keys whose values the host does not have, because they need a restart: all since its start.
    pub need_restart: Vec<String>,
}

backstop_core::shown!(Reload);

impl Reload {
    pub(super) fn new(queues: BTreeMap<String, Served>, started: &Reading) -> Self {
        let is_outdated = telemetry::configuration_outdated();
        is_outdated.set(0);
        Self {
            queues,
            is_outdated,
            started: started.file.clone(),
            last: started.file.clone(),
        }
    }

    /// Takes over a configuration that was read again, and logs what has changed.
    pub fn take_over(&mut self, reading: Reading) -> Reloaded {
        let reloaded = self.apply(&reading);
        let is_outdated = !reloaded.need_restart.is_empty();
        self.is_outdated.set(u8::from(is_outdated));
        log(&reloaded);
        if let Err(too_few) = descriptors::check(&reading.config.queues) {
            tracing::warn!("{too_few}");
        }
        self.last = with_missing_queues(reading.file, &self.last);
        reloaded
    }

    /// The configuration could not be read again, for this reason. All stays as it is.
    pub fn refuse(&self, error: &str) {
        self.is_outdated.set(1);
        tracing::error!(
            error,
            "the configuration can't be read again: nothing has changed, and the host goes on as before"
        );
    }

    fn apply(&self, reading: &Reading) -> Reloaded {
        let mut reloaded = Reloaded::default();
        for change in changes(&self.last, &reading.file) {
            if reading.places.is_named(&change.path) {
                reloaded.overridden.push(one_line(&change.path));
            } else if let Some((served, options, at_once)) = self.at_once(&change, reading) {
                served.set(at_once, options, change.queue.as_deref());
                reloaded.changed.push(change.text());
            }
        }
        let since_start = changes(&self.started, &reading.file).into_iter();
        reloaded.need_restart = since_start
            .filter(|it| it.key.at_once.is_none() && !is_of_lambda(it))
            .filter(|it| !reading.places.is_named(&it.path))
            .map(|it| one_line(&it.path))
            .collect();
        reloaded
    }

    /// The queue that a change concerns and its options, if it is served and the key changes at once.
    fn at_once<'a>(
        &'a self,
        change: &Change,
        reading: &'a Reading,
    ) -> Option<(&'a Served, &'a Options, AtOnce)> {
        let at_once = change.key.at_once?;
        let name = change.queue.as_ref()?;
        let mut queues = reading.config.queues.iter();
        let queue = queues.find(|queue| queue.name == *name)?;
        Some((self.queues.get(name)?, &queue.options, at_once))
    }
}

impl Served {
    fn set(&self, at_once: AtOnce, options: &Options, queue: Option<&str>) {
        let limits = NewLimits::default();
        match at_once {
            AtOnce::MaxInFlight => {
                let max_in_flight = Some(options.max_in_flight);
                let limits = NewLimits {
                    max_in_flight,
                    ..limits
                };
                self.controls.set(limits, CONFIGURATION);
                // It grows up to there.
                self.breaker.set(options.breaker.as_ref());
            }
            AtOnce::Rate => {
                let rate = Some(options.rate);
                self.controls
                    .set(NewLimits { rate, ..limits }, CONFIGURATION);
            }
            AtOnce::IdlePoll => self.controls.set_idle_poll(options.idle_poll),
            AtOnce::Pause => self.controls.set_windows(options.pause.clone()),
            AtOnce::Grace => {
                self.controls.set_grace(options.grace);
                if let Some(warning) = grace_warning(options, queue.unwrap_or_default()) {
                    tracing::warn!(queue, "{warning}");
                }
            }
            AtOnce::EachRate => {
                let each_rate = options.limit_each.as_ref().map(|each| each.rate);
                let limits = NewLimits {
                    each_rate,
                    ..limits
                };
                self.controls.set(limits, CONFIGURATION);
            }
            AtOnce::EachMaxInFlight => {
                let each = options.limit_each.as_ref();
                let limits = NewLimits {
                    each_max_in_flight: each.map(|each| each.max_in_flight),
                    ..limits
                };
                self.controls.set(limits, CONFIGURATION);
            }
            AtOnce::Breaker => self.breaker.set(options.breaker.as_ref()),
            AtOnce::Commands => {}
        }
    }
}

/// Whether a change concerns the Lambda retry handler, which reads the same file elsewhere.
fn is_of_lambda(change: &Change) -> bool {
    change.path == "lambda" || change.key.table == "lambda"
}

/// A file, with the queues that it has no more, so that a queue that comes back is compared with what the host has.
fn with_missing_queues(mut file: Table, before: &Table) -> Table {
    if let Some(Value::Table(before)) = before.get("queues") {
        let queues = file
            .entry("queues")
            .or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(queues) = queues {
            for (name, queue) in before {
                queues.entry(name).or_insert_with(|| queue.clone());
            }
        }
    }
    file
}

fn log(reloaded: &Reloaded) {
    let Reloaded {
        changed,
        overridden,
        need_restart,
    } = reloaded;
    let overridden = (!overridden.is_empty()).then(|| named(overridden, ", "));
    if changed.is_empty() {
        tracing::info!(
            overridden,
            "the configuration was read again: nothing changes at once"
        );
    } else {
        let changed = named(changed, "; ");
        tracing::info!(changed, overridden, "the configuration was read again");
    }
    if !need_restart.is_empty() {
        let keys = named(need_restart, ", ");
        tracing::warn!(
            keys,
            "the configuration has changes that need a restart of this host"
        );
    }
}

/// The first of these texts, and how many there are more.
fn named(texts: &[String], separator: &str) -> String {
    let mut named: Vec<_> = texts.iter().take(NAMED).cloned().collect();
    if texts.len() > NAMED {
        named.push(format!("and {} more", texts.len() - NAMED));
    }
    named.join(separator)
}

#[cfg(test)]
mod tests;
