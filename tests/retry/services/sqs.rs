//! SQS: a message is sent.

use std::sync::Arc;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::SdkError;
use aws_sdk_sqs::operation::send_message::SendMessageError;
use backstop_retry::Policy;
use backstop_tests::emulator::ministack;
use backstop_tests::proxy::Fault;

use super::{Service, aws_policy, unique, without_retries};

pub(crate) struct Sqs {
    client: Client,
    url: String,
}

impl Sqs {
    async fn send(&self, url: &str) -> Result<(), SdkError<SendMessageError>> {
        let request = self.client.send_message().queue_url(url);
        request.message_body("an order").send().await.map(drop)
    }
}

impl Service for Sqs {
    type Error = SdkError<SendMessageError>;

    const THROTTLED: (Fault, &str, u16) = (Fault::Throttled, "RequestThrottled", 400);
    const FAILED: (Fault, &str, u16) = (Fault::ServerError, "InternalFailure", 500);
    const REFUSED: (&str, u16) = ("AWS.SimpleQueueService.NonExistentQueue", 400);

    fn policy(attempts: u32) -> Arc<dyn Policy> {
        aws_policy(attempts)
    }

    async fn prepare() -> Self {
        let client = Client::new(&without_retries(&ministack().endpoint).await);
        let request = client.create_queue();
        let request = request.queue_name(format!("calls-{}", unique()));
        let url = request.send().await.unwrap().queue_url.unwrap();
        Self { client, url }
    }

    fn upstream(&self) -> String {
        ministack().endpoint.clone()
    }

    async fn connect(&mut self, endpoint: &str) {
        self.client = Client::new(&without_retries(endpoint).await);
        self.url = self.url.replace(&self.upstream(), endpoint);
    }

    async fn call(&self) -> Result<(), Self::Error> {
        self.send(&self.url).await
    }

    /// A queue that does not exist.
    async fn refused(&self) -> Result<(), Self::Error> {
        self.send(&format!("{}-gone", self.url)).await
    }
}
