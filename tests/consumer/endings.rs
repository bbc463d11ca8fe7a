//! `backstop run` ends by a crash or a signal while it handles messages. No message is lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::Write;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_core::clock;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, serve};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::worker::{Attempt, Worker, numbered};
use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{sleep, timeout};

#[tokio::test]
async fn a_crash_in_the_middle_of_work_loses_nothing() {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "2")]).await;
    let worker = Worker::by_name().await;
    let sent: BTreeSet<_> = [
        numbered("fine", 150),
        numbered("flaky", 50),
        numbered("wrong", 50),
    ]
    .concat()
    .into_iter()
    .collect();
    queues.send(sent.iter().cloned()).await;
    let policy = ["--policy", "linear", "--set", "base=1ms"];
    for enough in [20, 80, 160] {
        let running = serve(&queues, &worker, &policy).await;
        eventually("some work was done", || async {
            worker.attempts().len() >= enough
        })
        .await;
        running.kill().await;
    }
    let running = serve(&queues, &worker, &policy).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    assert_eq!(running.stop().await.0, 0);
    let dead: BTreeSet<_> = queues.take_dead().await.into_keys().collect();
    let attempted: BTreeSet<_> = worker
        .attempts()
        .into_iter()
        .map(|attempt| attempt.body)
        .collect();
    assert_eq!(attempted, sent);
    assert_eq!(dead, numbered("wrong", 50).into_iter().collect());
}

#[tokio::test]
async fn sigterm_finishes_current_attempts_and_returns_the_other_messages() {
    let queues = Queues::fifo(&ministack().endpoint, &[]).await;
    // One group: the first message takes a second while the others wait behind it.
    queues
        .send_grouped((0..5).map(|number| (Some("g".to_owned()), format!("slow-{number}"))))
        .await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = format!(
        "sh -c 'cat >> {log}; echo >> {log}; sleep 1'",
        log = log.display()
    );
    let more = ["--exec", &script, "--grace", "25s"];
    let running = Running::start(&[&queues.arguments()[..], &more].concat()).await;
    eventually("the first is being handled", || async { log.exists() }).await;
    let (code, counts) = running.stop().await;
    assert_eq!(code, 0);
    assert_eq!(std::fs::read_to_string(&log).unwrap().trim(), "slow-0");
    assert_eq!(
        (
            counts[0]["succeeded"].as_u64(),
            counts[0]["handed-back"].as_u64()
        ),
        (Some(1), Some(4))
    );
    // Visible at once, without the visibility timeout of 30 s.
    assert_eq!(queues.take_left().await.len(), 4);
}

#[tokio::test]
async fn an_attempt_that_exceeds_the_grace_period_is_stopped_and_its_message_returned() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.send(["endless".to_owned()]).await;
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let script = format!("sh -c 'touch {}; sleep 1000'", started.display());
    let more = ["--exec", &script, "--grace", "100ms"];
    let running = Running::start(&[&queues.arguments()[..], &more].concat()).await;
    eventually("the work has started", || async { started.exists() }).await;
    let (code, counts) = running.stop().await;
    assert_eq!((code, counts[0]["handed-back"].as_u64()), (0, Some(1)));
    assert_eq!(queues.take_left().await.len(), 1);
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.send(["endless".to_owned()]).await;
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let script = format!("sh -c 'touch {}; sleep 1000'", started.display());
    let more = ["--exec", &script, "--grace", "1h"];
    let running = Running::start(&[&queues.arguments()[..], &more].concat()).await;
    eventually("the work has started", || async { started.exists() }).await;
    running.signal(Signal::INT);
    eventually("the first signal is handled", || async {
        running.log().contains("stopping")
    })
    .await;
    sleep(Duration::from_millis(1_100)).await;
    running.signal(Signal::INT);
    assert_eq!(running.ended().await.0, 130);
}

/// As `timeout` of a shell does, which signals the process and then its group.
#[tokio::test]
async fn a_signal_that_comes_twice_ends_as_one_does() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.send(["slow".to_owned()]).await;
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let script = format!("sh -c 'touch {}; sleep 1'", started.display());
    let more = ["--exec", &script, "--grace", "25s"];
    let running = Running::start(&[&queues.arguments()[..], &more].concat()).await;
    eventually("the work has started", || async { started.exists() }).await;
    running.signal(Signal::TERM);
    eventually("it stops", || async { running.log().contains("stopping") }).await;
    running.signal(Signal::TERM);
    running.signal(Signal::INT);
    let (code, counts) = running.ended().await;
    assert_eq!((code, counts[0]["succeeded"].as_u64()), (0, Some(1)));
}

/// A full pipe without a reader.
fn full_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut filler = writer.try_clone().unwrap();
    std::thread::spawn(move || {
        let _ = filler.write_all(&vec![b'\n'; 1 << 22]);
        drop(reader);
    });
    writer.into()
}

fn closed_pipe() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

fn full_disk() -> Stdio {
    File::create("/dev/full").unwrap().into()
}

#[tokio::test]
async fn a_log_that_can_t_be_written_delays_neither_messages_nor_the_shutdown() {
    // The counts are lost, which only a closed pipe accepts.
    let streams: [(fn() -> Stdio, i32); 3] = [(full_pipe, 1), (closed_pipe, 0), (full_disk, 1)];
    let runs = streams.map(|(stream, code)| async move {
        let queues = Queues::standard(&ministack().endpoint, &[]).await;
        let worker = Worker::by_name().await;
        queues
            .send(["fine", "flaky", "wrong"].map(str::to_owned))
            .await;
        let arguments = [
            &[
                "run",
                "--json",
                "-vv",
                "--decisions",
                "-",
                "--http",
                &worker.url,
            ][..],
            &["--policy", "linear", "--set", "base=1ms", "--grace", "2s"],
            &queues.arguments(),
        ]
        .concat();
        let mut child = command(&arguments)
            .stdin(Stdio::null())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .unwrap();
        eventually("the queue is empty", || async { queues.held().await == 0 }).await;
        assert_eq!(worker.attempts_of("flaky"), 3);
        assert_eq!(queues.dead().await, 1);
        let id = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
        kill_process(id, Signal::TERM).unwrap();
        let ended = timeout(Duration::from_secs(60), child.wait()).await;
        assert_eq!(ended.expect("SIGTERM ends it").unwrap().code(), Some(code));
    });
    join_all(runs).await;
}

/// A terminal that closes sends more than one, and systemd one after its SIGTERM.
#[tokio::test]
async fn repeated_hangups_act_like_one_sigterm() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.send(["slow".to_owned()]).await;
    let folder = tempfile::tempdir().unwrap();
    let (started, done) = (folder.path().join("started"), folder.path().join("done"));
    let script = format!(
        "sh -c 'touch {}; sleep 1; touch {}'",
        started.display(),
        done.display()
    );
    let more = ["--exec", &script, "--grace", "25s"];
    let running = Running::start(&[&queues.arguments()[..], &more].concat()).await;
    eventually("the work has started", || async { started.exists() }).await;
    running.signal(Signal::HUP);
    eventually("it stops", || async { running.log().contains("stopping") }).await;
    running.signal(Signal::HUP);
    let (code, counts) = running.ended().await;
    assert_eq!((code, counts[0]["succeeded"].as_u64()), (0, Some(1)));
    assert!(done.exists());
}

#[tokio::test]
async fn a_file_size_limit_drops_records_and_no_messages() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let worker = Worker::by_name().await;
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("decisions.jsonl");
    // Space for a few records. With a much lower limit, policies can't be compiled.
    let limit = 64 << 20;
    File::create(&records)
        .unwrap()
        .set_len(limit - 3_000)
        .unwrap();
    queues.send(numbered("wrong", 20)).await;
    let arguments = [
        &["run", "--json", "--grace", "2s", "--http", &worker.url][..],
        &["--decisions", records.to_str().unwrap()],
        &queues.arguments(),
    ]
    .concat();
    let backstop = command(&arguments);
    let mut limited = tokio::process::Command::new("sh");
    limited
        .args(["-c", r#"ulimit -f 131072; exec "$0" "$@""#])
        .arg(backstop.as_std().get_program())
        .args(backstop.as_std().get_args())
        .envs(
            backstop
                .as_std()
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .kill_on_drop(true);
    let running = Running::start_command(limited).await;
    eventually("all are dead-lettered", || async {
        queues.dead().await == 20
    })
    .await;
    running.logged("decision records can't be written").await;
    assert_eq!(running.stop().await.0, 0);
    assert!(std::fs::metadata(&records).unwrap().len() <= limit);
}

/// How long a message may wait while consumers are replaced. 0.2 s is usual; a poll takes 20 s.
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// How long sending a message and waiting for the next one takes, with a wide margin.
const USUAL_SEND: Duration = Duration::from_millis(250);

#[tokio::test]
async fn a_rolling_restart_of_three_consumers_delays_no_message() {
    // A message that a poll delivers to no one returns after an hour.
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "3600")]).await;
    let worker = Worker::by_name().await;
    let start = || serve(&queues, &worker, &["--grace", "25s"]);
    let mut consumers = VecDeque::from(join_all([start(), start(), start()]).await);
    let sent = AtomicUsize::new(0);
    let (arrived, stalls) = (Mutex::new(BTreeMap::new()), Mutex::new(Duration::ZERO));
    let sending = async {
        loop {
            let body = format!("fine-{}", sent.fetch_add(1, Ordering::Relaxed));
            let started = clock::instant();
            queues.send([body.clone()]).await;
            arrived.lock().unwrap().insert(body, clock::instant());
            sleep(Duration::from_millis(50)).await;
            *stalls.lock().unwrap() += started.elapsed().saturating_sub(USUAL_SEND);
        }
    };
    let restarting = async {
        for _ in 0..3 {
            let old = consumers.pop_front().unwrap();
            let (new, (code, _)) = tokio::join!(start(), old.stop());
            assert_eq!(code, 0);
            consumers.push_back(new);
        }
    };
    tokio::select! {
        () = sending => {}
        () = restarting => {}
    }
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let attempts = worker.attempts();
    let attempted: BTreeSet<_> = attempts.iter().map(|attempt| &attempt.body).collect();
    // The last one may have been cancelled before it was sent.
    assert!(attempted.len() + 1 >= sent.into_inner());
    assert_eq!(attempts.len(), attempted.len());
    // There is always a consumer that polls, and no start or stop delays the others. On a busy machine the consumers stall as the sender does.
    let arrived = arrived.into_inner().unwrap();
    let delay = |attempt: &Attempt| {
        let arrived = arrived.get(&attempt.body)?;
        Some(attempt.at.saturating_duration_since(*arrived))
    };
    let longest = attempts.iter().filter_map(delay).max().unwrap();
    let limit = LONGEST_DELAY + stalls.into_inner().unwrap();
    assert!(longest <= limit, "{longest:?}, above {limit:?}");
    // A stop would wait for their polls.
    join_all(consumers.into_iter().map(Running::kill)).await;
}

#[tokio::test]
async fn a_message_that_arrives_while_the_last_consumer_stops_stays_in_the_queue() {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "3600")]).await;
    let worker = Worker::by_name().await;
    let running = serve(&queues, &worker, &["--grace", "25s"]).await;
    running.signal(Signal::TERM);
    eventually("the signal is handled", || async {
        running.log().contains("stopping")
    })
    .await;
    queues.send(["fine".to_owned()]).await;
    assert_eq!(running.ended().await.0, 0);
    assert_eq!(worker.attempts_of("fine"), 0);
    assert_eq!(queues.take_left().await.len(), 1);
}

#[tokio::test]
async fn commands_end_with_a_host_that_is_killed() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.send(["endless".to_owned()]).await;
    let folder = tempfile::tempdir().unwrap();
    let ids = folder.path().join("ids");
    let script = format!(
        "sh -c 'setsid sleep 1000 & echo $! $$ > {ids}.new; mv {ids}.new {ids}; wait'",
        ids = ids.display()
    );
    let running = Running::start(&[&queues.arguments()[..], &["--exec", &script]].concat()).await;
    eventually("the work has started", || async { ids.exists() }).await;
    // The environment of a process that has ended is empty.
    let runs =
        |id: &str| std::fs::read(format!("/proc/{id}/environ")).is_ok_and(|it| !it.is_empty());
    let ids = std::fs::read_to_string(&ids).unwrap();
    let ids: Vec<_> = ids.split_whitespace().collect();
    assert!(ids.len() == 2 && ids.iter().all(|id| runs(id)), "{ids:?}");
    running.kill().await;
    eventually("they have ended", || async {
        !ids.iter().any(|id| runs(id))
    })
    .await;
}
