//! What started the process learns how it is: systemd, or another service manager that names a socket in `NOTIFY_SOCKET`.
//!
//! The protocol is that of `sd_notify(3)`: lines of text in a datagram. A service manager that does not read is waited for a moment, and no longer.

use std::convert::Infallible;
use std::fmt::Write;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::time::Duration;

use tokio::net::UnixDatagram;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::admin::{AdminQueue, Interface};
use crate::text::one_line;

/// How often the status is sent at least, if it has changed. A watchdog may need more.
const PACE: Duration = Duration::from_secs(5);

/// The least time between two reports, however short a watchdog is.
const FASTEST: Duration = Duration::from_millis(10);

/// How much longer a stop may take, each time that it is under way still.
const EXTENSION: Duration = Duration::from_secs(30);

/// How long a service manager that does not read is waited for.
const LONGEST: Duration = Duration::from_millis(200);

/// How many queues a status names.
const NAMED: usize = 3;

/// The service manager that has started this process.
#[derive(Debug)]
pub struct Supervisor {
    socket: UnixDatagram,
    pace: Duration,
    has_watchdog: bool,
}

impl Supervisor {
    /// That of this process, if it has one.
    pub fn of_process() -> io::Result<Option<Self>> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(path) = variable("NOTIFY_SOCKET") else {
            return Ok(None);
        };
        // A watchdog of another process: a shell that systemd has started, and that started this one.
        let is_ours =
            variable("WATCHDOG_PID").is_none_or(|id| id == std::process::id().to_string());
        let watchdog = variable("WATCHDOG_USEC").filter(|_| is_ours);
        let watchdog = watchdog.and_then(|microseconds| microseconds.parse().ok());
        // Zero, as sd_watchdog_enabled(3) has it, is none.
        let watchdog = watchdog.filter(|microseconds| *microseconds > 0);
        Self::at(&path, watchdog.map(Duration::from_micros)).map(Some)
    }

    /// The one that listens on this socket, and restarts what does not report within the time of its watchdog.
    fn at(path: &str, watchdog: Option<Duration>) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixDatagram::unbound()?;
        match path.strip_prefix('@') {
            // A name of Linux that is no file: sd_notify(3).
            Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
            None => socket.connect(path)?,
        }
        socket.set_nonblocking(true)?;
        let socket = UnixDatagram::from_std(socket)?;
        Ok(Self {
            socket,
            // As sd_watchdog_enabled(3) asks, and once more: a ping may be late.
            pace: watchdog
                .map_or(PACE, |watchdog| watchdog / 3)
                .clamp(FASTEST, PACE),
            has_watchdog: watchdog.is_some(),
        })
    }

    /// The host checks its queues, and is not ready.
    pub async fn checking(&self) {
        self.send("STATUS=checking queues, handlers and policies\n")
            .await;
    }

    /// Reports for as long as it is polled: first that the host is ready. It is polled in the task of the consumers, so a ping of the watchdog says that they run, and `is_serving` that none has ended before the stop.
    pub(super) async fn report(
        &self,
        host: &Interface,
        stop: &CancellationToken,
        is_serving: impl Fn() -> bool,
    ) -> Infallible {
        let mut beats = interval(self.pace);
        // A process that was stopped for a while does not make up for it.
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut lines, mut last) = ("READY=1\n".to_owned(), String::new());
        loop {
            let is_stopping = stop.is_cancelled();
            if is_stopping {
                let _ = writeln!(lines, "EXTEND_TIMEOUT_USEC={}", EXTENSION.as_micros());
            }
            if self.has_watchdog && is_serving() {
                lines.push_str("WATCHDOG=1\n");
            }
            let status = status(host.queues().unwrap_or_default(), is_stopping);
            if status != last {
                let _ = writeln!(lines, "STATUS={}", one_line(&status));
                last = status;
            }
            if !lines.is_empty() {
                self.send(&lines).await;
            }
            lines.clear();
            tokio::select! {
                _ = beats.tick() => {}
                () = stop.cancelled(), if !is_stopping => lines.push_str("STOPPING=1\n"),
            }
        }
    }

    /// The queues are no longer served: what is left is to write files. An idle host stops before anything else is reported.
    pub(super) async fn ending(&self) {
        self.send("STOPPING=1\n").await;
    }

    /// Sends lines. A service manager that ends or restarts has its own record of this process.
    async fn send(&self, lines: &str) {
        // One that does not read must not hold up the start or the stop.
        match timeout(LONGEST, self.socket.send(lines.as_bytes())).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the service manager can't be reached"),
            Err(_) => tracing::debug!("the service manager does not read"),
        }
    }
}

/// What `systemctl status` shows.
fn status(queues: &[AdminQueue], is_stopping: bool) -> String {
    let in_hand: u64 = queues.iter().map(AdminQueue::in_hand).sum();
    let what = if is_stopping {
        "stopping".to_owned()
    } else {
        let names = listed(queues.iter().map(|queue| queue.name.clone()).collect());
        format!("serving {names}")
    };
    let not_polled = queues.iter().filter_map(|queue| {
        let reason = queue.not_polled()?;
        Some(format!("queue `{}` {reason}", queue.name))
    });
    let not_polled: Vec<_> = not_polled.filter(|_| !is_stopping).collect();
    let separator = if not_polled.is_empty() { "" } else { "; " };
    format!(
        "{what}; messages in hand: {in_hand}{separator}{}",
        listed(not_polled)
    )
}

/// The first few, and how many more there are.
fn listed(mut items: Vec<String>) -> String {
    let more = items.len().saturating_sub(NAMED);
    items.truncate(NAMED);
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    format!("{}{more}", items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_names_the_first_few() {
        let names = |count: usize| listed((1..=count).map(|it| it.to_string()).collect());
        let expected = [(0, ""), (1, "1"), (3, "1, 2, 3"), (5, "1, 2, 3 and 2 more")];
        for (count, expected) in expected {
            assert_eq!(names(count), expected);
        }
    }

    #[tokio::test]
    async fn a_watchdog_gets_no_ping_of_a_host_that_has_stopped_serving() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let watchdog = Duration::from_millis(30);
        let supervisor = Supervisor::at(path.to_str().unwrap(), Some(watchdog)).unwrap();
        let (host, stop) = (Interface::of(Vec::new()), CancellationToken::new());
        let serving = std::sync::atomic::AtomicU32::new(3);
        let is_serving = || {
            let left = serving.load(std::sync::atomic::Ordering::Relaxed);
            serving.store(left.saturating_sub(1), std::sync::atomic::Ordering::Relaxed);
            left > 0
        };
        let reporting = supervisor.report(&host, &stop, is_serving);
        let _ = tokio::time::timeout(watchdog * 10, reporting).await;
        let (mut pings, mut buffer) = (0, [0; 1024]);
        while let Ok(length) = manager.try_recv(&mut buffer) {
            let lines = String::from_utf8_lossy(&buffer[..length]).into_owned();
            pings += lines.matches("WATCHDOG=1\n").count();
        }
        assert_eq!(pings, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_manager_that_does_not_read_holds_up_nothing() {
        let name = format!("backstop-{}-{}", std::process::id(), rand::random::<u32>());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = std::os::unix::net::UnixDatagram::bind_addr(&address).unwrap();
        let supervisor = Supervisor::at(&format!("@{name}"), None).unwrap();
        // More than the kernel keeps for it.
        for _ in 0..300 {
            supervisor.checking().await;
        }
        supervisor.ending().await;
        let mut buffer = [0; 1024];
        let length = manager.recv(&mut buffer).unwrap();
        assert!(buffer[..length].starts_with(b"STATUS=checking"));
    }
}
