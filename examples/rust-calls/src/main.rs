//! Calls that are retried: `cargo run --package rust-calls`.
use std::time::Duration;

use backstop_retry::{Attempt, Error, FullJitter, Retrier};

/// A service that throttles the first two calls, and sells no unicorns.
async fn price(article: &str, attempt: Attempt) -> Result<u32, Error> {
    match article {
        "unicorn" => Err(Error::new("ValidationException", "no such article")),
        _ if attempt.number() < 3 => Err(Error::new("ThrottlingException", "slow down")),
        _ => Ok(12),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), backstop_retry::BuildError> {
    let policy = FullJitter::default()
        .base(Duration::from_millis(50))
        .max_attempts(5);
    let retrier = Retrier::builder().policy(policy).build()?;
    for article in ["book", "unicorn"] {
        let call = retrier.run(|attempt| price(article, attempt));
        match call.deadline(Duration::from_secs(2)).await {
            Ok(price) => println!("{article}: {price}"),
            Err(error) => println!("{article}: {error}"),
        }
    }
    Ok(())
}
