//! `GET /v1/story/ID`: the life of one message, as the files of this host tell it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;

use crate::admin::answer::{Answer, Refused};
use crate::admin::call::Call;
use crate::admin::interface::Interface;
use crate::failure::ID_BYTES;

/// How long a story waits for another one: each reads all files.
const TURN: Duration = Duration::from_secs(4);

/// What a host's files tell of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostStory {
    /// Its process id.
    pub process: u32,
    /// Whether it writes decision records to a file, and so knows anything.
    pub has_records: bool,
    /// The ids of the message that belong together.
    #[serde(default)]
    pub ids: Vec<String>,
    /// What happened, in its order: as in the answer of `backstop why --json`.
    #[serde(default)]
    pub steps: Vec<Value>,
    /// What could not be read.
    #[serde(default)]
    pub gaps: Vec<String>,
}

/// What is known of a message.
pub(super) async fn story(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    call.expect_only(&[])?;
    if !(1..=ID_BYTES).contains(&call.variable.len()) {
        return Err(Refused::invalid(format!(
            "expected an id of 1 to {ID_BYTES} bytes"
        )));
    }
    let tools = Arc::clone(host.tools()?);
    let turn = timeout(TURN, host.story_turn()).await;
    let turn = turn
        .map_err(|_| Refused::unavailable("other stories are being read: try again in a moment"))?;
    // It is read to its end even if nobody waits for it any more, and has the turn until then.
    let reading = tokio::spawn(async move {
        let story = tools.story(&call.variable).await;
        drop(turn);
        story
    });
    let story = reading.await.map_err(Refused::internal)?;
    let (has_records, story) = story.map_err(Refused::internal)?;
    let list = |name: &str| {
        let list = story.get(name).and_then(Value::as_array).cloned();
        list.unwrap_or_default()
    };
    let texts = |name: &str| {
        let texts = list(name).into_iter();
        let texts = texts.filter_map(|it| it.as_str().map(str::to_owned));
        texts.collect::<Vec<_>>()
    };
    Answer::json(&HostStory {
        process: std::process::id(),
        has_records,
        ids: texts("ids"),
        steps: list("steps"),
        gaps: texts("gaps"),
    })
}
