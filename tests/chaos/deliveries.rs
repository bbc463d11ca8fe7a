//! `backstop deliver`, killed in the middle and run again, perhaps with a damaged state: another producer.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use backstop_core::clock;
use backstop_tests::backstop::command;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use tokio::time::sleep;

use crate::hostile::damage_file;
use crate::link::{Link, Weather};
use crate::messages::{Body, Do, Planned};
use crate::operators::ask;
use crate::plan::QUEUES;
use crate::producers::Sent;
use crate::site::World;

/// The messages of a delivery.
const MESSAGES: u32 = 30;

/// The numbers of delivered messages begin here.
const FIRST: u32 = 1_000_000_000;

/// Delivers messages to a queue, with a kill in between. What is reported as delivered is counted as sent.
pub(crate) async fn deliver(
    world: &World,
    queue: usize,
    random: u64,
    killed: Duration,
    damaged: bool,
) {
    let begin = clock::now().0;
    let first = {
        let log = world.log.lock().unwrap();
        FIRST + u32::try_from(log.delivered.len()).unwrap()
    };
    let bodies = (first..first + MESSAGES).map(|n| Body {
        n,
        what: Do::Fine,
        k: 0,
        ms: 5,
        pad: String::new(),
    });
    let planned: Vec<_> = bodies.map(|body| planned(body, queue)).collect();
    // Their numbers are taken from now on.
    world
        .log
        .lock()
        .unwrap()
        .delivered
        .extend(planned.iter().map(|it| (it.clone(), None)));
    let input = world.folder.join(format!("deliver-{first}"));
    let lines = planned
        .iter()
        .map(|it| serde_json::to_string(&it.body).unwrap() + "\n");
    std::fs::write(&input, lines.collect::<String>()).unwrap();
    // Requests take as long as on a bad day, so that there is something to kill.
    let link = Link::to(world.emulators[QUEUES[queue].site].port).await;
    link.set(Weather::Slow(Duration::from_millis(500)));
    let endpoint = format!("http://127.0.0.1:{}", link.port);
    let input = input.to_str().unwrap();
    let mut left = format!("{input}.undelivered");
    let arguments = |left: &str| {
        let fixed = [
            "deliver",
            "sqs",
            "--bodies",
            "--json",
            "--requests",
            "1",
            input,
        ];
        let named = [
            "--queue-url",
            &world.urls[queue].0,
            "--endpoint-url",
            &endpoint,
        ];
        let own = ["--undelivered", left];
        let all = fixed.iter().chain(&named).chain(&own);
        all.map(|it| (*it).to_owned()).collect::<Vec<_>>()
    };
    let words = arguments(&left);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut child = command(&words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    sleep(killed).await;
    let _ = child.kill().await;
    let state = format!("{left}.progress");
    if damaged {
        let mut random = ChaCha8Rng::seed_from_u64(random);
        let how = damage_file(Path::new(&state), &mut random);
        world.note(format!("{state} is damaged: {how:?}"));
    }
    for again in 0..6 {
        let words = arguments(&left);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let claim = ask(world, "delivery", queue, &world.folder, &words).await;
        if claim.exit == 0 || claim.exit == 9 {
            count(world, &planned, &left, begin);
            return;
        }
        // A state that can't be read is given up, as the command says how: everything is sent again.
        if damaged {
            left = format!("{input}.undelivered.{again}");
        }
        sleep(Duration::from_secs(2)).await;
    }
}

fn planned(body: Body, queue: usize) -> Planned {
    Planned {
        body,
        queue,
        group: 0,
        at: 0,
    }
}

/// What is not in the file of what was not delivered was delivered, perhaps twice.
fn count(world: &World, planned: &[Planned], left: &str, at: u64) {
    let left = std::fs::read_to_string(left).unwrap_or_default();
    let left: BTreeSet<&str> = left.lines().collect();
    let mut log = world.log.lock().unwrap();
    for (of, sent) in &mut log.delivered {
        let n = of.body.n;
        let is_one = planned.iter().any(|it| it.body.n == n);
        let is_left = left.contains(&*serde_json::to_string(&of.body).unwrap());
        if is_one && !is_left {
            *sent = Some(Sent {
                n,
                id: String::new(),
                at,
                doubtful: true,
            });
        }
    }
}
