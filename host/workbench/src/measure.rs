//! What a policy costs: to compile, to ask in a fresh instance and in a live one, in fuel and in memory.

use std::sync::Arc;
use std::time::Duration;

use super::subject::Subject;
use backstop::policy::{EvaluationError, Limits, Payload, Policy, ProbeError, probe};
use backstop_core::settings::Settings;
use backstop_core::{clock, examples};

/// From what share of a limit on a policy's author is warned.
pub const NEAR: f64 = 0.5;

/// The costs of a policy. Times are of this machine; fuel is the same on every one, of one version of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// From the file to something that can be instantiated: at a start, and at each swap.
    pub compiling: Duration,
    /// A whole decision as a host makes it: an instance made, configured, asked, thrown away.
    pub fresh: Spread,
    /// The questions alone, in an instance that is there already.
    pub live: Spread,
    /// The most fuel that one decision of the probe burns, for all calls together.
    pub fuel: u64,
    /// The most linear memory in bytes that one decision of the probe takes.
    pub memory: usize,
}

/// How long the same thing took, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// Half of the times are shorter.
    pub median: Duration,
    /// One in a hundred is longer.
    pub p99: Duration,
    /// How many there were.
    pub times: usize,
}

impl Costs {
    /// Asks the policy for about `lasting` in all. One that a host would refuse is not measured.
    pub fn measure(
        subject: &Subject,
        settings: &Settings,
        lasting: Duration,
    ) -> Result<Self, ProbeError> {
        let policy = subject.policy(settings);
        probe::run(&policy)?;
        let payload = Arc::new(Payload::new("{}"));
        let (mut fuel, mut memory) = (0, 0);
        for failure in examples::failures() {
            let asked = policy.evaluate(&failure, &payload);
            fuel = fuel.max(asked.fuel);
            memory = memory.max(asked.memory);
        }
        let failure = examples::ordinary_failure();
        let half = lasting / 2;
        let fresh = repeated(half, || {
            policy.evaluate(&failure, &payload).answer.map(drop)
        });
        Ok(Self {
            compiling: subject.compiling(),
            fresh: fresh.map_err(broke)?,
            live: live(&policy, &payload, half).map_err(broke)?,
            fuel,
            memory,
        })
    }

    /// What is near a limit: its name, and the share of it that is used.
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

/// A policy that stood the probe, and broke on the same failure later.
fn broke(broken: EvaluationError) -> ProbeError {
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
    lasting: Duration,
) -> Result<Spread, EvaluationError> {
    let failure = examples::ordinary_failure();
    let begun = || {
        let mut session = policy.session(payload);
        // The instance is made at the first question.
        session.evaluate(&failure).map(|_| session)
    };
    let mut session = begun()?;
    repeated(lasting, || {
        if session.evaluate(&failure).is_err() {
            // A policy that never frees what it is given fills its memory in time: no host asks it so often.
            session = begun()?;
        }
        Ok(())
    })
}

/// Runs `once` until the time is over, ten times at least.
fn repeated(
    lasting: Duration,
    mut once: impl FnMut() -> Result<(), EvaluationError>,
) -> Result<Spread, EvaluationError> {
    let began = clock::instant();
    let mut times = Vec::new();
    while times.len() < 10 || began.elapsed() < lasting {
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
    use backstop::policy::{Sandbox, Source};

    #[test]
    fn a_policy_s_costs_are_told_and_compared_with_the_limits() {
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
