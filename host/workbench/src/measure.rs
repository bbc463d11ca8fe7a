//! Measures what a policy costs: time to compile and to decide, fuel and memory.

use std::sync::Arc;
use std::time::Duration;

use super::subject::Subject;
use backstop_core::settings::Settings;
use backstop_core::{clock, examples};
use backstop_engine::{EvaluationError, Limits, Payload, Policy, ProbeError, probe};

/// The share of a limit above which a policy's author is warned.
pub const NEAR: f64 = 0.5;

/// The costs of a policy. Times depend on the machine; fuel depends only on the version of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// The time to compile, at startup and at each reload.
    pub compiling: Duration,
    /// A decision as a host makes it, in a new instance.
    pub fresh: Spread,
    /// A decision in a reused instance.
    pub live: Spread,
    /// The most fuel that one decision of the validation probe uses.
    pub fuel: u64,
    /// The most linear memory, in bytes, that one decision of the probe uses.
    pub memory: usize,
}

/// The distribution of repeated times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// The median.
    pub median: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The number of times.
    pub times: usize,
}

impl Costs {
    /// Measures the policy for about `duration`. Fails if a host would reject the policy.
    pub fn measure(
        subject: &Subject,
        settings: &Settings,
        duration: Duration,
    ) -> Result<Self, ProbeError> {
        let policy = subject.policy(settings);
        probe::run(&policy)?;
        let payload = Arc::new(Payload::new("{}"));
        let (mut fuel, mut memory) = (0, 0);
        for failure in examples::failures() {
            let evaluation = policy.evaluate(&failure, &payload);
            fuel = fuel.max(evaluation.fuel);
            memory = memory.max(evaluation.memory);
        }
        let failure = examples::ordinary_failure();
        let half = duration / 2;
        let fresh = repeated(half, || {
            policy.evaluate(&failure, &payload).answer.map(drop)
        });
        Ok(Self {
            compiling: subject.compiling(),
            fresh: fresh.map_err(broke_later)?,
            live: live(&policy, &payload, half).map_err(broke_later)?,
            fuel,
            memory,
        })
    }

    /// The limits of which the policy uses more than [`NEAR`], each with its name and the used share.
    pub fn near(&self, limits: &Limits) -> Vec<(&'static str, f64)> {
        let shares = [
            ("fuel", self.fuel as f64 / limits.fuel as f64),
            ("memory", self.memory as f64 / limits.memory as f64),
        ];
        shares
            .into_iter()
            .filter(|(_, share)| *share > NEAR)
            .collect()
    }
}

/// The error of a policy that passed validation and broke on the same failure later.
fn broke_later(broken: EvaluationError) -> ProbeError {
    let failure = examples::ordinary_failure();
    ProbeError {
        broken,
        log: Vec::new(),
        code: failure.error.code,
        attempt: failure.attempt,
    }
}

fn live(
    policy: &Policy,
    payload: &Arc<Payload>,
    duration: Duration,
) -> Result<Spread, EvaluationError> {
    let failure = examples::ordinary_failure();
    let start = || {
        let mut session = policy.session(payload);
        // The instance is created by the first evaluation.
        session.evaluate(&failure).map(|_| session)
    };
    let mut session = start()?;
    repeated(duration, || {
        if session.evaluate(&failure).is_err() {
            // A policy that never frees memory runs out of it here, but not in a host, which reuses no instance.
            session = start()?;
        }
        Ok(())
    })
}

/// Calls `once` until the time is over, at least ten times.
fn repeated(
    duration: Duration,
    mut once: impl FnMut() -> Result<(), EvaluationError>,
) -> Result<Spread, EvaluationError> {
    let started_at = clock::instant();
    let mut times = Vec::new();
    while times.len() < 10 || started_at.elapsed() < duration {
        let started = clock::instant();
        once()?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    let at = |percent: usize| times.get(times.len() * percent / 100).copied();
    Ok(Spread {
        median: at(50).unwrap_or_default(),
        p99: at(99).unwrap_or_default(),
        times: times.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_engine::Sandbox;
    use backstop_versions::Source;

    #[test]
    fn the_costs_of_a_policy_are_compared_with_the_limits() {
        let sandbox = Sandbox::new(Limits::default()).unwrap();
        let subject = Subject::load(&sandbox, &Source::builtin("linear"), "linear").unwrap();
        let costs = Costs::measure(&subject, &Settings::new(), Duration::ZERO).unwrap();
        assert!(costs.fuel > 100 && costs.memory >= 64 << 10);
        assert_eq!((costs.fresh.times, costs.live.times), (10, 10));
        assert!(costs.fresh.median <= costs.fresh.p99);
        assert_eq!(costs.near(&Limits::default()), []);
        let tight = Limits {
            fuel: costs.fuel,
            ..Limits::default()
        };
        assert_eq!(costs.near(&tight), [("fuel", 1.0)]);
        let refused = Costs::measure(&subject, &[("odd", "1")].into(), Duration::ZERO);
        assert!(matches!(
            refused.unwrap_err().broken,
            EvaluationError::Settings(_)
        ));
    }
}
