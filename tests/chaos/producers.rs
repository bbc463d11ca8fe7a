//! The producers: they send what is planned, and again if nobody answers.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::Builder;
use aws_sdk_sqs::config::retry::RetryConfig;
use backstop_core::clock;
use backstop_tests::aws;
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};

use crate::lying::Planted;
use crate::messages::Planned;
use crate::plan::QUEUES;
use crate::site::World;

/// A message that was sent.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sent {
    pub(crate) n: u32,
    pub(crate) id: String,
    /// In milliseconds since 1970.
    pub(crate) at: u64,
    /// Whether it may have been sent twice, since a request had no answer.
    pub(crate) doubtful: bool,
}

/// A client that sends each request once.
pub(crate) async fn client(endpoint: &str) -> Client {
    let config = aws::config(endpoint).await;
    let once = Builder::from(&config).retry_config(RetryConfig::disabled());
    Client::from_conf(once.build())
}

/// Sends the messages of a queue in their order.
pub(crate) async fn send_all(
    world: Arc<World>,
    queue: usize,
    planned: Vec<Planned>,
    begin: Instant,
) -> Vec<Sent> {
    let client = client(&world.emulators[QUEUES[queue].site].endpoint()).await;
    let url = &world.urls[queue].0;
    let (mut sent, mut copied) = (Vec::new(), Vec::new());
    for message in planned {
        sleep_until(begin + Duration::from_millis(message.at)).await;
        let body = serde_json::to_string(&message.body).unwrap();
        let mut doubtful = false;
        loop {
            let mut send = client.send_message().queue_url(url).message_body(&body);
            if QUEUES[queue].fifo {
                send = send
                    .message_group_id(format!("group-{}", message.group))
                    .message_deduplication_id(message.body.n.to_string());
            }
            let at = clock::now().0;
            if let Ok(answer) = send.send().await {
                sent.push(Sent {
                    n: message.body.n,
                    id: answer.message_id.unwrap_or_default(),
                    at,
                    doubtful,
                });
                break;
            }
            doubtful = true;
            sleep(Duration::from_millis(200)).await;
        }
        if queue == 0 && message.body.n % 50 == 3 {
            copied.push(body);
        }
    }
    if world.has(Planted::SendsCopies) {
        // When the others have succeeded.
        sleep(Duration::from_secs(2)).await;
        for body in copied {
            let send = client.send_message().queue_url(url).message_body(body);
            let _ = send.send().await;
        }
    }
    sent
}
