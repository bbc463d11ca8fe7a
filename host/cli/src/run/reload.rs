//! SIGHUP: the configuration is read again, with the same flags.

use std::sync::Arc;

use backstop_core::text::{chain, one_line};
use backstop_host::config::Reading;
use backstop_host::service::Reload;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::{Args, reading_of};
use crate::error::Result;

/// Reads the configuration again after each hangup, until the host stops. A signal that came during the start is the first one.
pub(super) async fn follow(
    args: Args,
    hung_up: Arc<Notify>,
    mut reload: Reload,
    stop: CancellationToken,
) {
    let args = Arc::new(args);
    while stop.run_until_cancelled(hung_up.notified()).await.is_some() {
        let read = {
            let args = Arc::clone(&args);
            async move { spawn_blocking(move || reading_of(&args)).await? }
        };
        match stop.run_until_cancelled(read).await {
            Some(read) => take_over(&mut reload, read),
            None => return,
        }
    }
}

/// All of it, or nothing.
fn take_over(reload: &mut Reload, read: Result<Reading>) {
    match read {
        Ok(reading) => {
            reload.take_over(reading);
        }
        Err(error) => {
            let error = chain(&error);
            // The others show the line of the file.
            reload.refuse(&one_line(error.lines().next().unwrap_or_default()));
        }
    }
}
