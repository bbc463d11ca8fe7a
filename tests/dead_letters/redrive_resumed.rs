//! `backstop dlq redrive --resume` and further runs, after letters in doubt, a damaged journal and a clock that was changed.

use std::io::Write;

use backstop_tests::emulator::{fauxqs, ministack};
use backstop_tests::eventually;
use serde_json::{Value, json};

use crate::redrive::{command, letter, redrive, resume, runs};
use crate::redrive_killed::journal;
use crate::world::{World, failed};

/// A world with so many letters.
async fn with_letters(count: usize) -> World {
    let world = World::standard(&fauxqs().endpoint).await;
    for number in 0..count {
        world.put(letter(&format!("{number:02}"))).await;
    }
    world
}

/// Adds an entry to the journal of the only run, as a process writes it before it is killed.
fn note(world: &World, entry: &Value) {
    let journal = journal(world).unwrap();
    let mut file = std::fs::File::options().append(true).open(journal).unwrap();
    writeln!(file, "{entry}").unwrap();
}

/// The letters in the set of the only run that it has not touched.
fn left(world: &World) -> Vec<String> {
    let journal = journal(world).unwrap();
    let set = std::fs::read_to_string(journal.with_file_name("letters.jsonl")).unwrap();
    let text = std::fs::read_to_string(&journal).unwrap();
    let ids = set.lines().map(|line| {
        let (_, id): (bool, String) = serde_json::from_str(line).unwrap();
        id
    });
    ids.filter(|id| !text.contains(id)).collect()
}

/// Changes the plan of the only run.
fn replan(world: &World, change: impl FnOnce(&mut Value)) {
    let plan = journal(world).unwrap().with_file_name("plan.json");
    let text = std::fs::read_to_string(&plan).unwrap();
    let mut changed: Value = serde_json::from_str(&text).unwrap();
    change(&mut changed);
    std::fs::write(plan, changed.to_string()).unwrap();
}

/// Sets the clock of the machine that started the only run ahead of the emulator's.
fn start_in_the_future(world: &World, minutes: u64) {
    replan(world, |plan| {
        plan["started"] = json!(plan["started"].as_u64().unwrap() + minutes * 60_000);
    });
}

#[tokio::test]
async fn letters_in_doubt_that_are_gone_are_not_replaced_by_others() {
    let world = with_letters(12).await;
    let arguments = [
        "--to",
        &world.queues.url,
        "--ramp",
        "2,3",
        "--watch-for",
        "0s",
        "--visibility-timeout",
        "5s",
    ];
    let (code, result) = redrive(&world, &arguments).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(5)), "{result}");
    // A letter was being sent at a kill, and somebody has deleted it since.
    note(&world, &json!({"event": "sending", "ids": ["gone"]}));
    let (_, result) = resume(&world, result["run"].as_str().unwrap()).await;
    assert_eq!(
        (result["moved"].as_u64(), result["uncertain"].as_u64()),
        (Some(5), Some(1)),
        "{result}"
    );
    assert_eq!(world.queues.dead().await, 7);
}

#[tokio::test]
async fn a_further_run_is_refused_while_a_killed_one_has_letters_in_the_queue() {
    let world = with_letters(3).await;
    let arguments = [
        "--to",
        &world.queues.url,
        "--ramp",
        "1",
        "--watch-for",
        "0s",
    ];
    let (_, result) = redrive(&world, &arguments).await;
    let run = result["run"].as_str().unwrap();
    let left = left(&world).remove(0);
    note(&world, &json!({"event": "started", "at": 1, "who": "ann"}));
    note(&world, &json!({"event": "sending", "ids": [left]}));
    let output = command(&world, &["--to", &world.queues.url]).output().await;
    let (code, said) = failed(&output.unwrap());
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("would send 1 of its letters again")
            && said.contains(&format!("--resume {run}")),
        "{said}"
    );
    assert_eq!(runs(&world, &[]).await.len(), 1);
    let (_, result) = resume(&world, run).await;
    assert_eq!(result["uncertain"], 1, "{result}");
    let (code, result) = redrive(&world, &["--to", &world.queues.url]).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(1)), "{result}");
    assert_eq!(world.queues.held().await, 3);
}

#[tokio::test]
async fn damaged_lines_of_a_journal_are_named_and_lose_no_letter() {
    let world = with_letters(6).await;
    let arguments = [
        "--to",
        &world.queues.url,
        "--ramp",
        "4,all",
        "--watch-for",
        "0s",
    ];
    let (code, result) = redrive(&world, &arguments).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(6)), "{result}");
    let path = journal(&world).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let sent = |line: &&str| line.contains("\"event\":\"sent\"");
    let number = lines.iter().position(sent).unwrap();
    let damaged: Vec<_> = lines
        .iter()
        .enumerate()
        .map(|(at, line)| if at == number { "\u{0}\u{0}" } else { line })
        .collect();
    std::fs::write(&path, damaged.join("\n") + "\n").unwrap();
    let run = result["run"].as_str().unwrap();
    let detail = runs(&world, &[run]).await.remove(0);
    assert_eq!(detail["damaged-lines"], json!([number + 1]), "{detail}");
    let state = world.path("runs");
    let shown = world.plain(&["dlq", "runs", run, "--state", state.to_str().unwrap()]);
    let shown = crate::world::succeeded(&{ shown }.output().await.unwrap());
    assert!(
        shown.contains("can't be read") && shown.contains("may have been sent twice"),
        "{shown}"
    );
    let (code, result) = resume(&world, run).await;
    assert_eq!(
        (code, &result["damaged-lines"]),
        (0, &json!([number + 1])),
        "{result}"
    );
    assert_eq!(world.queues.held().await, 6);
}

#[tokio::test]
async fn letters_that_come_back_are_known_although_the_clock_was_ahead() {
    let world = with_letters(1).await;
    let (code, result) = redrive(&world, &["--to", &world.queues.url]).await;
    assert_eq!(code, 0, "{result}");
    start_in_the_future(&world, 10);
    // It dies again.
    world.put(letter("00")).await;
    let run = result["run"].as_str().unwrap();
    let detail = runs(&world, &[run, "--check"]).await.remove(0);
    assert_eq!(detail["failed-again"], 1, "{detail}");
}

#[tokio::test]
async fn a_letter_that_comes_back_to_a_fifo_queue_is_moved_once_although_the_clock_was_ahead() {
    let world = World::fifo(&ministack().endpoint).await;
    let put = async |body: &str| {
        let mut given = letter(body);
        given.group = Some("g");
        world.put(given).await
    };
    put("00").await;
    let arguments = ["--to", &world.queues.url, "--visibility-timeout", "5s"];
    let (code, result) = redrive(&world, &arguments).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(1)), "{result}");
    start_in_the_future(&world, 10);
    // It dies again, with another body, so that SQS takes it for another message.
    let mut again = letter("00");
    again.body = " 00";
    again.group = Some("g");
    world.put(again).await;
    let (_, result) = resume(&world, result["run"].as_str().unwrap()).await;
    assert_eq!(
        (result["moved"].as_u64(), result["failed-again"].as_u64()),
        (Some(1), Some(1)),
        "{result}"
    );
    assert_eq!(world.queues.dead().await, 1);
}

#[tokio::test]
async fn letters_of_one_message_that_were_there_before_the_run_are_all_moved() {
    let world = World::fifo(&ministack().endpoint).await;
    for body in ["00", " 00"] {
        // Both died of the same message.
        let mut given = letter("00");
        (given.body, given.group) = (body, Some("g"));
        world.put(given).await;
    }
    let arguments = [
        "--to",
        &world.queues.url,
        "--ramp",
        "1",
        "--watch-for",
        "0s",
        "--visibility-timeout",
        "5s",
    ];
    let (code, result) = redrive(&world, &arguments).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(1)), "{result}");
    // As if they had been there for long.
    start_in_the_future(&world, 20);
    replan(&world, |plan| plan["ramp"] = json!("1,all"));
    let (_, result) = resume(&world, result["run"].as_str().unwrap()).await;
    assert_eq!(
        (result["moved"].as_u64(), result["failed-again"].as_u64()),
        (Some(2), Some(0)),
        "{result}"
    );
    assert_eq!(world.queues.dead().await, 0);
}

#[tokio::test]
async fn a_letter_that_a_finished_run_could_not_delete_is_deleted_when_it_is_resumed() {
    let world = with_letters(3).await;
    let arguments = [
        "--to",
        &world.queues.url,
        "--ramp",
        "1",
        "--watch-for",
        "0s",
    ];
    let (_, result) = redrive(&world, &arguments).await;
    let run = result["run"].as_str().unwrap();
    let left = left(&world).remove(0);
    note(&world, &json!({"event": "sending", "ids": [left]}));
    let sent = json!({"event": "sent", "at": 1, "letters": [{"id": left}]});
    note(&world, &sent);
    let ended = json!({"event": "ended", "at": 1, "outcome": "done", "later": 0});
    note(&world, &ended);
    let output = command(&world, &["--to", &world.queues.url]).output().await;
    let (_, said) = failed(&output.unwrap());
    assert!(said.contains("would send 1 of its letters again"), "{said}");
    let (code, result) = resume(&world, run).await;
    assert_eq!(
        (
            code,
            result["not-deleted"].as_u64(),
            result["moved"].as_u64()
        ),
        (0, Some(0), Some(2)),
        "{result}"
    );
    assert_eq!(
        (world.queues.dead().await, world.queues.held().await),
        (1, 1)
    );
}

#[tokio::test]
async fn a_run_whose_plan_is_damaged_hides_no_other() {
    let world = with_letters(2).await;
    for _ in 0..2 {
        let one = [
            "--to",
            &world.queues.url,
            "--ramp",
            "1",
            "--watch-for",
            "0s",
        ];
        redrive(&world, &one).await;
    }
    let state = world.path("runs");
    let mut names: Vec<_> = std::fs::read_dir(&state)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    std::fs::write(state.join(&names[1]).join("plan.json"), "{").unwrap();
    // Somebody's folder is no run.
    std::fs::create_dir(state.join("no run")).unwrap();
    std::fs::write(state.join("no run/plan.json"), "{}").unwrap();
    let all = runs(&world, &[]).await;
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(all[0]["outcome"], "unreadable", "{all:?}");
    let why = all[0]["reason"].as_str().unwrap();
    assert!(why.contains("plan.json: EOF while parsing"), "{why}");
    assert_eq!(all[1]["moved"], 1);
}

#[tokio::test]
async fn a_full_disk_stops_a_run_and_loses_no_letter() {
    let world = with_letters(200).await;
    let redrive = command(
        &world,
        &["--to", &world.queues.url, "--visibility-timeout", "5s"],
    );
    // The set fits, and a part of the journal.
    let mut shell = tokio::process::Command::new("sh");
    shell
        .args(["-c", "ulimit -f 32; exec \"$@\"", "sh"])
        .arg(redrive.as_std().get_program())
        .args(redrive.as_std().get_args())
        .current_dir(world.folder.path());
    for (name, value) in redrive.as_std().get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    let (code, said) = failed(&shell.output().await.unwrap());
    assert_ne!(code, 2, "{said}");
    assert!(said.contains("can't write the journal"), "{said}");
    let run = runs(&world, &[]).await.remove(0);
    let before = run["moved"].as_u64().unwrap();
    assert!((1..200).contains(&before), "{run}");
    // There is space again.
    let (code, result) = resume(&world, run["run"].as_str().unwrap()).await;
    assert_eq!(
        (code, &result["damaged-lines"]),
        (0, &json!([])),
        "{result}"
    );
    let uncertain = usize::try_from(result["uncertain"].as_u64().unwrap()).unwrap();
    let held = world.queues.held().await;
    assert!((200..=200 + uncertain).contains(&held), "{held}: {result}");
    assert_eq!(world.queues.take_left().await.len(), 200);
    assert_eq!(world.queues.dead().await, 0);
}

#[tokio::test]
async fn a_resumed_run_that_looks_during_a_step_ends_although_letters_are_gone() {
    let world = with_letters(3).await;
    let slow = [
        "--to",
        &world.queues.url,
        "--ramp",
        "1,all",
        "--watch-for",
        "10m",
        "--visibility-timeout",
        "20s",
    ];
    let mut child = command(&world, &slow).spawn().unwrap();
    eventually("one is moved", async || world.queues.held().await == 1).await;
    eventually("it is noted", async || {
        let text = std::fs::read_to_string(journal(&world).unwrap()).unwrap();
        text.contains("\"event\":\"deleted\"")
    })
    .await;
    child.kill().await.unwrap();
    // Somebody takes the others, and looking costs less than waiting for them.
    let purge = world.queues.client.purge_queue();
    let purge = purge.queue_url(&world.queues.dead_letters);
    purge.send().await.unwrap();
    let path = journal(&world).unwrap().with_file_name("plan.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"watch\": 600", "\"watch\": 1")).unwrap();
    let run = runs(&world, &[]).await.remove(0);
    let resumed = resume(&world, run["run"].as_str().unwrap());
    let resumed = tokio::time::timeout(std::time::Duration::from_secs(60), resumed).await;
    let (code, result) = resumed.expect("the run ends");
    assert_eq!((code, result["missing"].as_u64()), (9, Some(2)), "{result}");
}
