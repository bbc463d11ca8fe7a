//! What workers say: HTTP answers, the output of commands, and when to come again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use backstop_core::failure::{Error, Timestamp};
use backstop_core::lock::lock;
use backstop_core::retry_after as waits;
use backstop_handlers::{Exec, Handler, Http, HttpOptions};
use backstop_queue::{Message, ordinary_message};
use tokio::runtime::Runtime;

use crate::text;

/// One thread: the runtime of all handlers.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let builder = &mut tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
});

/// A worker that answers with the given bytes, and the handler that posts to it.
struct Worker {
    answer: Arc<Mutex<Vec<u8>>>,
    handler: Http,
}

static WORKER: LazyLock<Worker> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let answer = Arc::<Mutex<Vec<u8>>>::default();
    let told = Arc::clone(&answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer_once(stream, &lock(&told));
        }
    });
    let options = HttpOptions {
        url,
        ..HttpOptions::default()
    };
    let handler = Http::new(&options, "orders", Duration::from_secs(10)).unwrap();
    Worker { answer, handler }
});

/// Reads one request, answers and closes the connection.
fn answer_once(stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        let name = line.to_ascii_lowercase();
        if let Some(value) = name.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    reader.into_inner().write_all(answer)
}

/// Whatever a worker answers, the attempt has succeeded only by a status of 2xx, and its error is within the bounds that a policy can get.
pub(crate) fn http(input: &[u8]) {
    let worker = &*WORKER;
    input.clone_into(&mut lock(&worker.answer));
    let handled = RUNTIME.block_on(worker.handler.handle(&ordinary_message()));
    match handled {
        // After any number of interim answers.
        Ok(()) => assert!(
            input
                .windows(10)
                .any(|it| it.starts_with(b"HTTP/1.") && it[8] == b' ' && it[9] == b'2')
        ),
        Err(error) => {
            assert!(
                error.status.is_none_or(|it| !(200..300).contains(&it)),
                "{error:?}"
            );
            assert_is_bounded(&error);
        }
    }
}

fn assert_is_bounded(error: &Error) {
    let bounded = error.clone().within_bounds();
    assert_eq!(bounded.clone().within_bounds(), bounded);
    let size = |text: &str| text.len();
    let details: usize = error
        .details
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    let all = size(&error.code) + size(&error.message) + details;
    assert!(all < 1 << 20, "{all} bytes");
}

/// The first byte is the exit status, and whether the rest is the output or the errors.
pub(crate) fn exec(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else {
        return;
    };
    let status = first & 0x7f;
    let stream = if first & 0x80 == 0 { "" } else { ">&2" };
    let script = format!("cat {stream}; exit {status}");
    let handler = Exec::new("sh", ["-c".to_owned(), script]);
    let message = Message {
        body: text(rest).as_ref().into(),
        ..ordinary_message()
    };
    match RUNTIME.block_on(handler.handle(&message)) {
        Ok(()) => assert_eq!(status, 0),
        Err(error) => {
            assert_ne!(status, 0, "{error:?}");
            assert!(!error.unavailable, "it has started: {error:?}");
            assert_is_bounded(&error);
        }
    }
}

/// Each value is a wait or nothing, of which a later look leaves no more.
pub(crate) fn retry_after(input: &[u8]) {
    let text = text(input);
    let at = Timestamp(1_445_412_450_250);
    let wait = waits::parse_retry_after(&text, at);
    let later = waits::parse_retry_after(&text, at.plus(Duration::from_secs(60)));
    assert_eq!(wait.is_some(), later.is_some());
    assert!(later <= wait);
    let (first, second) = text.split_once('\n').unwrap_or((&text, ""));
    let both = waits::retry_after(|name| match name {
        "x-amz-retry-after" => Some(first),
        "retry-after" => Some(second),
        _ => None,
    });
    let is_number = !first.trim().is_empty() && first.trim().bytes().all(|it| it.is_ascii_digit());
    assert!(!is_number || both.is_some());
}
