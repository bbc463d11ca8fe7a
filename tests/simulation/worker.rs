//! The worker behind a host, which does what the plan says, and the records of the decisions.

use async_trait::async_trait;
use backstop_core::decision::ErrorClass;
use backstop_core::failure::Error;
use backstop_handlers::Handler;
use backstop_queue::Message;
use backstop_records::{DecisionRecord, Observer};
use tokio::time::sleep;

use super::history::Event;
use super::link::Identity;
use super::plan::Kind;
use super::world::number_of;

#[derive(Debug)]
pub(crate) struct Worker(pub(crate) Identity);

impl Worker {
    fn is_down(&self) -> bool {
        self.0.world().is_under_way(Kind::WorkerDown)
    }
}

#[async_trait]
impl Handler for Worker {
    async fn handle(&self, message: &Message) -> Result<(), Error> {
        let (world, host) = (self.0.world(), self.0.id);
        let number = number_of(&message.body);
        self.0.lives().await;
        if self.is_down() {
            world.happened(Event::Unavailable { host, number });
            return Err(Error::unavailable("ECONNREFUSED", "nobody listens"));
        }
        let count = message.receive_count.get();
        world.happened(Event::AttemptBegan {
            host,
            number,
            count,
        });
        let attempt = if world.is_out(number) {
            world.attempt_of_outage(number)
        } else {
            world.next_attempt(number)
        };
        sleep(attempt.takes).await;
        self.0.lives().await;
        let fails = attempt.fails;
        world.happened(Event::AttemptEnded {
            host,
            number,
            fails,
        });
        match fails {
            None => Ok(()),
            Some(code) => Err(Error::new(code, "as planned")),
        }
    }

    async fn is_reachable(&self) -> Result<(), Error> {
        self.0.lives().await;
        if self.is_down() {
            return Err(Error::unavailable("ECONNREFUSED", "nobody listens"));
        }
        Ok(())
    }
}

/// Writes decisions into the history.
#[derive(Debug)]
pub(crate) struct Records(pub(crate) Identity);

impl Observer for Records {
    fn decided(&self, record: &DecisionRecord) {
        // The tasks of a host that was killed still run into their time limits.
        if !self.0.is_alive() {
            return;
        }
        let (world, host) = (self.0.world(), self.0.id);
        world.happened(Event::Decided {
            host,
            number: world.number_of_id(record.ids()),
            attempt: record.failure.attempt.get(),
            action: record.decision.action.clone(),
            by: record.decision.decided_by.as_str().to_owned(),
            version: record
                .policy
                .first()
                .and_then(|part| world.version_of(&part.digest.to_string())),
            id: record.failure.message_id.clone(),
            is_passing: match &record.decision.class {
                ErrorClass::Transient | ErrorClass::Throttled => true,
                ErrorClass::Permanent | ErrorClass::Other(_) => false,
            },
            down_for: record.decision.down_for.map(|it| it.as_duration()),
        });
    }
}
