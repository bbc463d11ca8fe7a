//! What a faulty host does to its worker.

use std::sync::Arc;

use async_trait::async_trait;
use backstop_core::failure::Error;
use backstop_handlers::Handler;
use backstop_queue::Message;

use super::Planted;
use crate::plan::PERMANENT;

/// A worker in the hands of a faulty host.
#[derive(Debug)]
struct SpoiltWorker(Planted, Arc<dyn Handler>);

/// The worker as this host uses it.
pub(crate) fn spoilt_worker(
    planted: Option<Planted>,
    worker: Arc<dyn Handler>,
) -> Arc<dyn Handler> {
    match planted {
        None => worker,
        Some(planted) => Arc::new(SpoiltWorker(planted, worker)),
    }
}

#[async_trait]
impl Handler for SpoiltWorker {
    async fn handle(&self, message: &Message) -> Result<(), Error> {
        if self.0 == Planted::SkipsTheWorker {
            return Ok(());
        }
        if self.0 == Planted::AsksTheWorkerTwice {
            let _ = self.1.handle(message).await;
        }
        let result = self.1.handle(message).await;
        let is_permanent = |error: &Error| error.code == PERMANENT;
        match (self.0, result) {
            (Planted::IgnoresFailures, _) => Ok(()),
            (Planted::MissesPermanentFailures, Err(error)) if is_permanent(&error) => {
                Err(Error::new("ECONNRESET", "it is not"))
            }
            (Planted::GivesUpAtOnce, Err(error)) if !is_permanent(&error) => {
                Err(Error::new(PERMANENT, "it is not"))
            }
            (_, result) => result,
        }
    }

    async fn is_reachable(&self) -> Result<(), Error> {
        self.1.is_reachable().await
    }
}
