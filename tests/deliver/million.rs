//! A million entries of a file, delivered by the command to an emulator: its memory does not grow. It takes minutes: `cargo test --test deliver -- --ignored --nocapture a_million`.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use backstop_core::clock;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{command, text};
use backstop_tests::emulator::fauxqs;
use serde_json::{Value, json};
use tokio::time::sleep;

const ENTRIES: u32 = 1_000_000;

/// Writes a line of about 200 bytes for each entry.
fn write(path: &Path) -> u64 {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    for number in 0..ENTRIES {
        let line = json!({"MessageBody": format!("{number} {number:0150}")});
        writeln!(file, "{line}").unwrap();
    }
    file.into_inner().unwrap().metadata().unwrap().len()
}

/// The memory of a process in MiB, if it still runs.
fn memory(id: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}

/// How much of the input is read, by the file that a killed delivery goes on from.
fn position(path: &Path) -> Option<u64> {
    let progress: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    progress["position"].as_u64()
}

#[tokio::test]
#[ignore = "a million entries take minutes"]
async fn a_million_entries_of_a_file_need_as_much_memory_as_a_tenth_of_them() {
    let queues = Queues::standard(&fauxqs().endpoint, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("entries.jsonl");
    let length = write(&input);
    let arguments = [
        "deliver",
        "sqs",
        "--queue-url",
        &queues.url,
        "--endpoint-url",
        &queues.endpoint,
        "--json",
        "entries.jsonl",
    ];
    let started = clock::instant();
    let mut running = command(&arguments);
    running.current_dir(folder.path()).stdin(Stdio::null());
    running.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = running.spawn().unwrap();
    let id = running.id().unwrap();
    let measuring = tokio::spawn(async move {
        // The most memory in each tenth of the input.
        let mut tenths = [0.0_f64; 10];
        while let Some(memory) = memory(id) {
            if let Some(at) = position(&folder.path().join("undelivered.jsonl.progress")) {
                let tenth = usize::try_from(at * 10 / length).unwrap().min(9);
                tenths[tenth] = tenths[tenth].max(memory);
            }
            sleep(Duration::from_millis(200)).await;
        }
        tenths
    });
    let output = running.wait_with_output().await.unwrap();
    let took = started.elapsed();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let tenths = measuring.await.unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("{summary}\n{took:?}, MiB in each tenth of the input: {tenths:.1?}");
    assert_eq!(summary["delivered"], ENTRIES, "{summary}");
    let (first, last) = (tenths[0], tenths[9]);
    assert!(first > 0.0 && last < first * 1.2, "{tenths:?}");

    let name = QueueAttributeName::ApproximateNumberOfMessages;
    let attributes = queues.client.get_queue_attributes().queue_url(&queues.url);
    let attributes = attributes.attribute_names(name.clone()).send();
    let attributes = attributes.await.unwrap().attributes.unwrap();
    assert_eq!(attributes[&name], ENTRIES.to_string());
}
