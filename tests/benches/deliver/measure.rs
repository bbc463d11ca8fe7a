//! Runs one side, and measures its process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use backstop_tests::process::{peak_memory, processor_seconds};

use crate::sides::Work;

/// The network between a side and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Latency {
    None,
    TenMilliseconds,
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Bare,
    Deliver,
    /// With this many batches at the same time.
    Recursive(usize),
    BareDynamoDb,
    DeliverDynamoDb,
}

/// One side in one setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    side: Side,
    latency: Latency,
    /// How many of a hundred entries fail once.
    pub(crate) failing: u32,
    pub(crate) entries: usize,
}

impl Case {
    pub(crate) const fn new(side: Side, latency: Latency, failing: u32, entries: usize) -> Self {
        Self {
            side,
            latency,
            failing,
            entries,
        }
    }

    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.side, Side::Deliver | Side::DeliverDynamoDb)
    }

    pub(crate) fn name(&self) -> String {
        let side = match self.side {
            Side::Bare | Side::BareDynamoDb => "16 bare loops".to_owned(),
            Side::Deliver | Side::DeliverDynamoDb => "Backstop, 16 requests".to_owned(),
            Side::Recursive(1) => "recursion".to_owned(),
            Side::Recursive(loops) => format!("recursion, {loops} at once"),
        };
        format!("{side}, {} entries", self.entries)
    }
}

/// One round of a case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// Entries a second.
    pub(crate) rate: f64,
    /// Microseconds of processor time for each entry.
    pub(crate) processor: f64,
    /// Requests for each entry.
    pub(crate) requests: f64,
    /// Peak memory in MiB.
    pub(crate) memory: f64,
}

/// The server, and the proxy in front of it.
pub(crate) struct Servers {
    direct: String,
    delayed: String,
    _running: [Child; 2],
}

impl Servers {
    pub(crate) fn start(failing: u32) -> Self {
        let (server, direct) = start(&["server", &failing.to_string()]);
        let (proxy, delayed) = start(&["proxy", direct.trim_start_matches("http://")]);
        Self {
            direct,
            delayed,
            _running: [server, proxy],
        }
    }

    /// The requests and the delivered entries since the last call.
    async fn counts(&self) -> (f64, f64) {
        let answer = reqwest::get(format!("{}/counts", self.direct))
            .await
            .unwrap();
        let text = answer.text().await.unwrap();
        let (requests, delivered) = text.split_once(' ').unwrap();
        (requests.parse().unwrap(), delivered.parse().unwrap())
    }
}

/// Starts a part of this program that prints a line, such as its address.
fn start(arguments: &[&str]) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = child.stdout.as_mut().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    (child, line.trim().to_owned())
}

/// Runs a side to its end.
pub(crate) async fn measure(servers: &Servers, case: &Case) -> Measured {
    let (name, loops) = match case.side {
        Side::Bare => ("bare", 0),
        Side::Deliver => ("deliver", 0),
        Side::Recursive(loops) => ("recursive", loops),
        Side::BareDynamoDb => ("bare-dynamodb", 0),
        Side::DeliverDynamoDb => ("deliver-dynamodb", 0),
    };
    let work = Work {
        endpoint: match case.latency {
            Latency::None => servers.direct.clone(),
            Latency::TenMilliseconds => servers.delayed.clone(),
        },
        entries: case.entries,
        loops,
    };
    servers.counts().await;
    let numbers = [work.entries.to_string(), work.loops.to_string()];
    let arguments = [name, &work.endpoint, &numbers[0], &numbers[1]];
    // The side waits after its line, so that its process is still there.
    let (mut child, line) = start(&arguments);
    let seconds: f64 = line.strip_prefix("end ").unwrap().parse().unwrap();
    let (processor, memory) = (processor_seconds(child.id()), peak_memory(child.id()));
    let (requests, delivered) = servers.counts().await;
    child.kill().unwrap();
    child.wait().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let count = case.entries as f64;
    assert!((delivered - count).abs() < 0.5, "{delivered} of {count}");
    Measured {
        rate: count / seconds,
        processor: processor * 1e6 / count,
        requests: requests / count,
        memory,
    }
}
