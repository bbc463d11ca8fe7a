//! A worker of your own: an async Rust function behind a queue and a policy, in one program.
//!
//! `cargo run -p rust-worker` runs it on a queue in memory with three orders in it. `cargo run -p rust-worker -- URL DEAD_LETTER_URL` serves a queue of SQS until Ctrl-C.

use std::sync::Arc;

use anyhow::Result;
use backstop::consumer::{self, Consumer, Options};
use backstop::decider::Decider;
use backstop::decision::Bounds;
use backstop::failure::Error;
use backstop::handler::{Handler, function};
use backstop::policy::{Limits, LivePolicy, PartSpec, PolicySpec, Sandbox, Source};
use backstop::queue::{Connections, Message, Outgoing, Queue};
use tokio_util::sync::CancellationToken;

/// The work. An error's code is what the policy classifies.
async fn ship(order: Arc<Message>) -> Result<(), Error> {
    match order.body.as_ref() {
        "a tricky order" if order.receive_count.get() == 1 => {
            Err(Error::new("ECONNRESET", "the warehouse hung up"))
        }
        "an impossible order" => Err(Error::new(
            "ValidationException",
            "there is no such article",
        )),
        _ => Ok(()),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments
        .next()
        .unwrap_or_else(|| "local:orders".to_owned());
    let dead_letters = arguments.next();

    // The policy: one of the built-in ones, or Source::path("policy.wasm").
    let sandbox = Sandbox::new(Limits::default()).map_err(|error| anyhow::anyhow!("{error:#}"))?;
    let spec = PolicySpec::Single(PartSpec {
        source: Source::builtin("full-jitter"),
        settings: [("base", "1s"), ("max-attempts", "5")].into(),
    });
    let policy = LivePolicy::load(&sandbox, spec)?;

    // The queue, checked together with its dead-letter queue, the handler and the policy.
    let connections = Connections::default();
    let handler: Arc<dyn Handler> = Arc::new(function(ship));
    let bounds = Bounds::default();
    let decider = Decider::new("orders", policy, bounds);
    let (ready, warnings) = consumer::check(
        &connections,
        &url,
        dead_letters.as_deref(),
        handler.as_ref(),
        &decider,
        &bounds,
        &Options::default(),
    )
    .await?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }

    let stop = CancellationToken::new();
    let ended = stop.clone();
    let consumer = Consumer::new("orders", ready, handler, decider, Options::default());
    if let Some(name) = url.strip_prefix("local:") {
        let queue = connections.local.named(name);
        let orders = ["an order", "a tricky order", "an impossible order"];
        queue.send(&orders.map(Outgoing::new)).await?;
        tokio::spawn(async move {
            queue.emptied().await;
            ended.cancel();
        });
    } else {
        tokio::spawn(async move {
            let _ = tokio::signal::ctrl_c().await;
            ended.cancel();
        });
    }
    let summary = consumer.run(stop).await;
    println!(
        "{} done, {} tried again, {} dead-lettered",
        summary.succeeded, summary.retried, summary.dead_lettered
    );
    Ok(())
}
