//! The task definition of `examples/operate/ecs`, for a queue of the person's own.

use serde_json::{Value, json};

use super::files::Files;
use super::given::{Given, Handler};
use super::place::Place;
use super::seen::Seen;
use crate::error::{Exit, Result};

const TASK: &str = include_str!("../../ecs/task-definition.json");

/// Where it is written.
pub(super) const FILE: &str = "ecs/task-definition.json";

/// What the command line of the example says, and what it is for.
const WORKER: &str = "http://127.0.0.1:8080/";

/// Adds the task definition: the example's text, whose command line has the values of the queue.
pub(super) fn add(files: &mut Files, given: &Given, seen: &Seen) -> Result<()> {
    let place = Place::of(given, seen, "--ecs")?;
    let Handler::Http(worker) = &given.handler else {
        return Err(Exit::Usage.because(
            "--ecs writes a task with a worker beside the host, which --http names: a command or a function needs no such task",
        ));
    };
    let text = TASK.replace(
        "\"https://sqs.eu-west-1.amazonaws.com/123456789012/orders\"",
        "\"QUEUE\"",
    );
    let text = place
        .named(&text)
        .replace("\"QUEUE\"", &quoted(&given.url))
        .replace(&quoted(WORKER), &quoted(worker))
        .replace("\"full-jitter\"", &quoted(&given.policy))
        .replace(
            "\"--max-attempts\", \"12\"",
            &format!(
                "\"--max-attempts\", {}",
                json!(seen.max_attempts.to_string())
            ),
        );
    let text = match &given.dead_letter_queue {
        Some(url) => text.replace(
            "\"--grace\"",
            &format!(
                "\"--dead-letter-queue\", {},\n        \"--grace\"",
                quoted(url)
            ),
        ),
        None => text,
    };
    files.add(FILE, text);
    Ok(())
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
