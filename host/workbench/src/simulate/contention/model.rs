//! The model: each client commits once to the same versioned row, with optimistic concurrency, over a network with random latency.
//!
//! A cycle has four messages: a read request, its reply with the version, a conditional write, and its result. A write wins if the row still has the version that was read; the version is then incremented. A client whose write lost waits for the delay of its policy and reads again. The service takes no time, and no message is lost.

use std::collections::BTreeMap;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;

/// How long a message takes one way, in milliseconds: the absolute value of a normal distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Network {
    /// The mean of the normal distribution.
    pub mean: f64,
    /// Its standard deviation.
    pub deviation: f64,
}

impl Default for Network {
    /// The network of the published simulation.
    fn default() -> Self {
        Self {
            mean: 10.0,
            deviation: 2.0,
        }
    }
}

/// A write that lost: the error that is passed to a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lost {
    /// The number of the client, from 0.
    pub client: u32,
    /// The number of writes that this client has lost.
    pub attempt: u32,
    /// When its result arrived, in milliseconds from the start.
    pub at: f64,
    /// The delay before this attempt.
    pub previous_delay: Option<u32>,
    /// The random number, in [0, 1).
    pub random: f64,
}

/// The outcome of one run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// When the last result arrived, in milliseconds.
    pub time: f64,
    /// The number of writes, including lost ones.
    pub calls: u32,
    /// The number of clients that gave up.
    pub gave_up: u32,
}

/// A message between a client and the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    Read,
    Version(u32),
    Write(u32),
    Result { won: bool },
}

/// The state of a client between attempts.
#[derive(Clone, Copy, Default)]
struct Client {
    attempt: u32,
    previous_delay: Option<u32>,
}

/// The messages in flight, and the random numbers of one run.
struct World {
    network: Network,
    random: ChaCha8Rng,
    /// Messages and their clients by the time of arrival, as the bits of a number that is not negative: these have its order. Of two that arrive together, the one sent first is handled first.
    in_flight: BTreeMap<(u64, u64), (u32, Message)>,
    sent: u64,
}

impl World {
    /// Sends a message at this time. It arrives after a random latency.
    fn send(&mut self, at: f64, client: u32, message: Message) {
        let drawn: f64 = self.random.sample(StandardNormal);
        let takes = (self.network.mean + self.network.deviation * drawn).abs();
        let arrives = (at + takes).to_bits();
        self.sent += 1;
        self.in_flight
            .insert((arrives, self.sent), (client, message));
    }
}

/// Runs the model once. For each lost write, `decide` returns the client's delay in milliseconds, or `None` to give up. The same seed and the same answers give the same run, on every machine.
pub fn run(
    clients: u32,
    network: Network,
    seed: [u8; 32],
    mut decide: impl FnMut(&Lost) -> Option<u32>,
) -> Outcome {
    let mut world = World {
        network,
        random: ChaCha8Rng::from_seed(seed),
        in_flight: BTreeMap::new(),
        sent: 0,
    };
    let mut states: Vec<_> = (0..clients).map(|_| Client::default()).collect();
    let mut outcome = Outcome::default();
    let mut row = 0;
    for client in 0..clients {
        world.send(0.0, client, Message::Read);
    }
    while let Some(((arrives, _), (client, message))) = world.in_flight.pop_first() {
        let now = f64::from_bits(arrives);
        outcome.time = now;
        match message {
            Message::Read => world.send(now, client, Message::Version(row)),
            Message::Version(version) => world.send(now, client, Message::Write(version)),
            Message::Write(version) => {
                outcome.calls += 1;
                let won = version == row;
                row += u32::from(won);
                world.send(now, client, Message::Result { won });
            }
            Message::Result { won: true } => {}
            Message::Result { won: false } => {
                let Some(state) = states.get_mut(client as usize) else {
                    continue;
                };
                state.attempt += 1;
                let lost = Lost {
                    client,
                    attempt: state.attempt,
                    at: now,
                    previous_delay: state.previous_delay,
                    random: world.random.random(),
                };
                match decide(&lost) {
                    Some(delay) => {
                        state.previous_delay = Some(delay);
                        world.send(now + f64::from(delay), client, Message::Read);
                    }
                    None => outcome.gave_up += 1,
                }
            }
        }
    }
    outcome
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
