//! A queue, its worker, and the collector of the spans.

use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
    QueueAttributeName as Q,
};
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::worker::Worker;
use backstop_tests_traces::Collector;
use tokio::process::Command;

/// What the sender writes on a message.
pub(crate) const SENDER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The same as a link.
pub(crate) fn sender() -> (String, String) {
    (
        "0af7651916cd43dd8448eb211c80319c".to_owned(),
        "b7ad6b7169203331".to_owned(),
    )
}

/// Retries after a second, and after two attempts none.
pub(crate) const TWICE: [&str; 6] = [
    "--policy",
    "linear",
    "--set",
    "base=1s",
    "--max-attempts",
    "2",
];

pub(crate) struct World {
    pub(crate) queues: Queues,
    pub(crate) worker: Worker,
    pub(crate) collector: Collector,
}

impl World {
    /// With a worker that answers the attempts of a message with this status.
    pub(crate) async fn new(status: impl Fn(u32) -> u16 + Send + Sync + 'static) -> Self {
        let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "30")]);
        Self {
            queues: queues.await,
            worker: Worker::answering(move |attempt| status(attempt.receive_count)).await,
            collector: Collector::start().await,
        }
    }

    /// The name of the queue.
    pub(crate) fn name(&self) -> &str {
        name(&self.queues.url)
    }

    /// The name of an operation's spans.
    pub(crate) fn span(&self, operation: &str) -> String {
        format!("{operation} {}", self.name())
    }

    /// Sends a message with these attributes, and with this header of X-Ray.
    pub(crate) async fn send(&self, attributes: &[(&str, &str)], xray: Option<&str>) {
        let mut send = self
            .queues
            .client
            .send_message()
            .queue_url(&self.queues.url)
            .message_body("an order");
        for (name, value) in attributes {
            send = send.message_attributes(*name, text(value));
        }
        if let Some(xray) = xray {
            let header = MessageSystemAttributeValue::builder()
                .data_type("String")
                .string_value(xray)
                .build()
                .unwrap();
            let name = MessageSystemAttributeNameForSends::AwsTraceHeader;
            send = send.message_system_attributes(name, header);
        }
        send.send().await.unwrap();
    }

    /// A host that sends its spans to the collector.
    pub(crate) async fn host(&self, flags: &[&str], variables: &[(&str, &str)]) -> Running {
        let http = ["--http", &self.worker.url];
        self.host_with(&http, flags, variables).await
    }

    /// The same, with another handler.
    pub(crate) async fn host_with(
        &self,
        handler: &[&str],
        flags: &[&str],
        variables: &[(&str, &str)],
    ) -> Running {
        let mut host = self.command(handler, flags);
        host.envs(self.collector.variables())
            .envs(variables.iter().copied());
        Running::start_command(host).await
    }

    /// A host that knows of the collector only what is said here.
    pub(crate) async fn untraced(&self, flags: &[&str], variables: &[(&str, &str)]) -> Running {
        let mut host = self.command(&["--http", &self.worker.url], flags);
        host.envs(variables.iter().copied());
        Running::start_command(host).await
    }

    fn command(&self, handler: &[&str], flags: &[&str]) -> Command {
        let run = ["run", "--json", "--grace", "2s"].as_slice();
        command(&[run, &self.queues.arguments(), handler, flags].concat())
    }

    /// Waits until no message is in the queue.
    pub(crate) async fn emptied(&self) {
        eventually("the queue is empty", || async {
            self.queues.held().await == 0
        })
        .await;
    }
}

/// The name of the queue with this URL.
pub(crate) fn name(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

fn text(value: &str) -> MessageAttributeValue {
    let attribute = MessageAttributeValue::builder().data_type("String");
    attribute.string_value(value).build().unwrap()
}
