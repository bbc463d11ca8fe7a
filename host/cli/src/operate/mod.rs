//! The commands for running hosts: how queues are served, and an operator's pauses, limits and stops.

pub(crate) mod drain;
pub(crate) mod pause;
pub(crate) mod resume;
pub(crate) mod set;
pub(crate) mod status;

use backstop_core::text::one_line;
use backstop_host::admin::HostAnswer;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Result;
use crate::hosts::{HostArgs, print_each};
use crate::terminal::println;
use crate::terminal::style::BOLD;

/// Sends an action on a queue to every host that serves it, and prints the answers: for people, what `said` makes of each.
fn act<T: DeserializeOwned + Serialize>(
    args: &HostArgs,
    queue: &str,
    action: &str,
    body: &Value,
    said: impl Fn(&T) -> String,
) -> Result<()> {
    let hosts = args.serving(queue)?;
    let answers: Vec<(_, HostAnswer<T>)> =
        hosts.each(async |host| host.post(&["v1", action], body).await)?;
    if args.json {
        print_each(&answers)?;
    } else {
        let queue = one_line(queue);
        for (host, answer) in &answers {
            let (host, said) = (one_line(host.name()), said(&answer.result));
            println!("{BOLD}{queue}{BOLD:#}  {host}  {said}");
        }
    }
    hosts.carried_out_by(answers.len())
}
