//! A worker: `cargo run -p rust-worker -- URL POLICY`. Each new version of the policy is activated while it runs.
use backstop::{Backstop, Error, Message, RunError};
use std::{env::args, sync::Arc};

/// The work. The policy classifies an error by its code.
async fn ship(order: Arc<Message>) -> Result<(), Error> {
    match order.body.as_ref() {
        "a tricky order" if order.receive_count.get() == 1 => Err(Error::new("ECONNRESET", "")),
        "an impossible order" => Err(Error::new("ValidationException", "no such article")),
        _ => Ok(()),
    }
}

#[tokio::main]
async fn main() -> Result<(), RunError> {
    let orders = ["an order", "a tricky order", "an impossible order"];
    let host = match args().nth(1) {
        Some(url) => Backstop::queue(url).policy(args().nth(2).unwrap_or("full-jitter".into())),
        None => Backstop::queue("local:orders").messages(orders),
    };
    let counts = host.set("base", "1s").handler(ship).run().await?;
    println!("{counts}");
    Ok(())
}
