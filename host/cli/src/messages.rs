//! `backstop run --messages`: fills a local queue with the lines of a file.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use backstop_host::config::Config;
use backstop_queue::{BATCH_BYTES, Connections, LocalQueue, Outgoing, Queue};

use crate::error::{Context, Exit, Result, open_input};

/// Sends the lines of a file to the local queue, and stops the run once the queue is empty.
pub(super) async fn fill(
    config: &Config,
    file: &Path,
    connections: &Connections,
    stop: &CancellationToken,
) -> Result<()> {
    let local = config
        .queues
        .first()
        .and_then(|queue| queue.url.strip_prefix("local:"));
    let Some(name) = local else {
        return Err(
            Exit::Usage.because("--messages fills only local queues: use --queue-url local:NAME")
        );
    };
    let queue = connections.local.named(name);
    let (filled, path) = (Arc::clone(&queue), file.to_owned());
    // On a thread that may block: a pipe may have no writer yet.
    let filling = tokio::task::spawn_blocking(move || {
        let expected =
            "--messages expects a file with one message in each line, or - for standard input";
        let input = open_input("the messages", &path, expected)?;
        let sent = Handle::current().block_on(send_lines(&filled, input));
        if matches!(sent, Ok(0)) {
            let input = match path.as_os_str() {
                name if name == "-" => "standard input".to_owned(),
                _ => path.display().to_string(),
            };
            tracing::warn!("{input} has no messages: each line that is not blank is one");
        }
        sent.with_context(|| path.display().to_string())
    });
    filling.await??;
    let stop = stop.clone();
    tokio::spawn(async move {
        queue.emptied().await;
        stop.cancel();
    });
    Ok(())
}

/// Sends every line that is not blank as a message, and returns their number.
async fn send_lines(queue: &LocalQueue, input: impl Read + Send) -> Result<usize> {
    let fifo = queue.describe().await?.fifo;
    let mut input = BufReader::new(input);
    let mut sent_lines = 0;
    for number in 1.. {
        let Some(line) = line(&mut input).with_context(|| format!("line {number}"))? else {
            break;
        };
        if line.trim().is_empty() {
            continue;
        }
        let message = Outgoing {
            group: fifo.then(|| "lines".to_owned()),
            deduplication_id: fifo.then(|| number.to_string()),
            ..Outgoing::new(line)
        };
        let sent = queue.send(&[message]).await?.into_iter().next();
        sent.unwrap_or(Ok(()))
            .with_context(|| format!("line {number} is rejected"))?;
        sent_lines += 1;
    }
    Ok(sent_lines)
}

/// The next line without its line ending, or `None` at the end of the file. Reads no more than a message may have.
fn line(input: &mut impl BufRead) -> Result<Option<String>> {
    let limit = BATCH_BYTES + "\r\n".len();
    let mut line = Vec::new();
    let read = input
        .take(u64::try_from(limit).unwrap_or(u64::MAX))
        .read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    let ended = line.ends_with(b"\n");
    if ended {
        line.pop();
        line.pop_if(|end| *end == b'\r');
    }
    if line.len() > BATCH_BYTES || (!ended && read == limit) {
        return Err(Exit::Unexpected.because(format!(
            "longer than {BATCH_BYTES} bytes, the size limit of a message"
        )));
    }
    let text = String::from_utf8(line);
    Ok(Some(text.map_err(io::Error::other).context("not UTF-8")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_queue::LocalSettings;
    use std::time::Duration;

    async fn filled(input: &str) -> Result<usize> {
        let queue = LocalQueue::new("try", LocalSettings::default());
        send_lines(&queue, input.as_bytes()).await?;
        Ok(queue.len())
    }

    #[tokio::test]
    async fn every_line_up_to_the_size_limit_is_a_message_unless_it_is_blank() {
        let half = "x".repeat(BATCH_BYTES / 2 + 1);
        let largest = "x".repeat(BATCH_BYTES);
        let lines = format!("{half}\n{half}\r\n\n{largest}\r\n{}", "y\n".repeat(25));
        assert_eq!(filled(&lines).await.unwrap(), 28);
    }

    #[tokio::test]
    async fn an_error_names_the_line() {
        let long = "x".repeat(BATCH_BYTES + 1);
        for (lines, expected) in [
            (
                format!("a\n\n{long}\nb\n"),
                "line 3: longer than 1048576 bytes",
            ),
            (format!("a\n{long}"), "line 2: longer than 1048576 bytes"),
            (
                "a\nb\u{1}\n".to_owned(),
                "line 2 is rejected: InvalidMessageContents",
            ),
        ] {
            let error = filled(&lines).await.unwrap_err();
            let error = backstop_core::text::chain(&error);
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[tokio::test]
    async fn a_line_is_a_message_without_its_line_ending() {
        let queue = LocalQueue::new("try", LocalSettings::default());
        send_lines(&queue, &b"one\r\ntwo"[..]).await.unwrap();
        let taken = queue.receive(10, Duration::ZERO, Default::default()).await;
        let bodies: Vec<_> = taken.unwrap().into_iter().map(|it| it.body).collect();
        assert_eq!(bodies, [std::sync::Arc::from("one"), "two".into()]);
    }
}
