//! A dead-letter queue, what is put into it, and the commands that read it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::MessageAttributeValue;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{command, text};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

/// A queue, its dead-letter queue, and a folder for files.
pub(crate) struct World {
    pub(crate) queues: Queues,
    pub(crate) folder: TempDir,
}

/// A letter to put into the dead-letter queue.
#[derive(Default)]
pub(crate) struct Given<'a> {
    pub(crate) body: &'a str,
    pub(crate) attributes: Vec<(String, MessageAttributeValue)>,
    pub(crate) group: Option<&'a str>,
}

/// An attribute of type `String`.
pub(crate) fn string(value: &str) -> MessageAttributeValue {
    let attribute = MessageAttributeValue::builder().data_type("String");
    attribute.string_value(value).build().unwrap()
}

/// An attribute of type `Number`.
pub(crate) fn number(value: u64) -> MessageAttributeValue {
    let attribute = MessageAttributeValue::builder().data_type("Number");
    attribute.string_value(value.to_string()).build().unwrap()
}

/// An attribute of type `Binary`.
pub(crate) fn binary(value: &[u8]) -> MessageAttributeValue {
    let attribute = MessageAttributeValue::builder().data_type("Binary.gzip");
    attribute.binary_value(Blob::new(value)).build().unwrap()
}

/// A letter as a host of Backstop writes it.
pub(crate) fn of_backstop<'a>(body: &'a str, reason: &str, class: &str, error: &str) -> Given<'a> {
    let attributes = [
        ("BackstopReason", string(reason)),
        (
            "BackstopMessageId",
            string(&format!(
                "original-of-{}",
                body.chars().take(40).collect::<String>()
            )),
        ),
        ("BackstopAttempt", number(3)),
        ("BackstopClass", string(class)),
        ("BackstopError", string(error)),
        ("BackstopFirstSent", number(1_767_225_600_000)),
        (
            "BackstopPolicy",
            string(&format!("sha256:{}", "ab".repeat(32))),
        ),
    ];
    Given {
        body,
        attributes: attributes
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        group: None,
    }
}

impl World {
    pub(crate) async fn standard(endpoint: &str) -> Self {
        Self {
            queues: Queues::standard(endpoint, &[]).await,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) async fn fifo(endpoint: &str) -> Self {
        Self {
            queues: Queues::fifo(endpoint, &[]).await,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Puts a letter into the dead-letter queue. Returns its id.
    pub(crate) async fn put(&self, letter: Given<'_>) -> String {
        let attributes: HashMap<_, _> = letter.attributes.into_iter().collect();
        let sent = self
            .queues
            .client
            .send_message()
            .queue_url(&self.queues.dead_letters)
            .message_body(letter.body)
            .set_message_attributes(Some(attributes))
            .set_message_group_id(letter.group.map(str::to_owned))
            .set_message_deduplication_id(letter.group.map(|_| {
                let id: u64 = std::hash::BuildHasher::hash_one(
                    &std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default(),
                    letter.body,
                );
                id.to_string()
            }))
            .send()
            .await
            .unwrap();
        sent.message_id.unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `backstop dlq` with this command, the dead-letter queue and further arguments.
    pub(crate) fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let queue = [
            "dlq",
            name,
            &self.queues.dead_letters,
            "--endpoint-url",
            &self.queues.endpoint,
        ];
        self.plain(&[&queue[..], arguments].concat())
    }

    /// `backstop` with these arguments.
    pub(crate) fn plain(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs `backstop dlq NAME` to its end. It has to succeed.
    pub(crate) async fn run(&self, name: &str, arguments: &[&str]) -> String {
        succeeded(&self.command(name, arguments).output().await.unwrap())
    }

    /// The same with `--json`: its one object.
    pub(crate) async fn json(&self, name: &str, arguments: &[&str]) -> Value {
        let shown = self.run(name, &[arguments, &["--json"]].concat()).await;
        serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{shown}"))
    }

    /// Runs `backstop dlq restore`.
    pub(crate) async fn restore(&self, arguments: &[&str]) -> Value {
        let restore = [
            "dlq",
            "restore",
            "--json",
            "--endpoint-url",
            &self.queues.endpoint,
        ];
        let output = self
            .plain(&[&restore[..], arguments].concat())
            .output()
            .await;
        serde_json::from_str(&succeeded(&output.unwrap())).unwrap()
    }

    /// How many letters can be received now.
    pub(crate) async fn visible(&self) -> usize {
        let received = self.queues.take_dead().await;
        received.len()
    }
}

/// The standard output of a command that has to succeed.
pub(crate) fn succeeded(output: &Output) -> String {
    let (shown, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{shown}\n{errors}");
    shown
}

/// The exit code of a command that has to fail, and what it says.
pub(crate) fn failed(output: &Output) -> (i32, String) {
    assert!(!output.status.success(), "{}", text(&output.stdout));
    (output.status.code().unwrap(), text(&output.stderr))
}

/// The groups as pairs of their key and their size.
pub(crate) fn groups(listing: &Value) -> Vec<(Value, u64)> {
    let groups = listing["queues"][0]["groups"].as_array().unwrap();
    let pair = |group: &Value| (group["by"].clone(), group["count"].as_u64().unwrap());
    groups.iter().map(pair).collect()
}
