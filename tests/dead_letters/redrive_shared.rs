//! Runs that several operators share, in a bucket or in a folder: each sees, stops and resumes those of the others.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use backstop_tests::aws::config;
use backstop_tests::backstop::text;
use backstop_tests::emulator::{Emulator, ministack, moto};
use backstop_tests::eventually;
use backstop_tests::proxy::{Fault, Proxy};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::Command;

use crate::redrive::letter;
use crate::world::{World, failed, succeeded};

const RAMP: [&str; 4] = ["--ramp", "10,all", "--watch-for", "20s"];

/// A world with 40 letters, and a bucket. Its URL is where the runs are kept.
async fn world_with_bucket(emulator: &Emulator, name: &str) -> (World, String) {
    let world = World::standard(&emulator.endpoint).await;
    for number in 0..40 {
        world.put(letter(&format!("letter-{number}"))).await;
    }
    let sdk = config(&emulator.endpoint).await;
    let sdk = aws_sdk_s3::config::Builder::from(&sdk)
        .force_path_style(true)
        .build();
    let s3 = aws_sdk_s3::Client::from_conf(sdk);
    let bucket = format!("{name}-{}", std::process::id());
    s3.create_bucket().bucket(&bucket).send().await.unwrap();
    (world, format!("s3://{bucket}/redrives"))
}

/// A command of an operator, on a machine of their own.
fn of(world: &World, who: &str, state: &str, arguments: &[&str]) -> Command {
    let mut command = world.plain(&[arguments, &["--state", state]].concat());
    command
        .env("XDG_STATE_HOME", world.path(who))
        .env("AWS_ENDPOINT_URL", &world.queues.endpoint);
    command
}

fn redrive(world: &World, who: &str, state: &str, more: &[&str]) -> Command {
    let all = [
        "dlq",
        "redrive",
        &world.queues.dead_letters,
        "--endpoint-url",
        &world.queues.endpoint,
        "--to",
        &world.queues.url,
        "--who",
        who,
        "--wait",
        "2s",
    ];
    of(world, who, state, &[&all[..], more].concat())
}

fn resume(world: &World, who: &str, state: &str, run: &str) -> Command {
    let arguments = ["dlq", "redrive", "--resume", run, "--who", who];
    of(world, who, state, &arguments)
}

/// The only run, as an operator sees it.
async fn seen(world: &World, who: &str, state: &str) -> Value {
    let listed = of(world, who, state, &["dlq", "runs", "--json"]);
    let listed = succeeded(&{ listed }.output().await.unwrap());
    serde_json::from_str(&listed).unwrap_or_else(|_| panic!("{listed}"))
}

async fn stop(world: &World, who: &str) -> String {
    let mut stop = world.command("stop", &["--who", who]);
    succeeded(&stop.output().await.unwrap())
}

async fn until_first_step(world: &World, who: &str, state: &str) -> String {
    eventually("the first step is done", async || {
        let listed = of(world, who, state, &["dlq", "runs", "--json"]);
        let listed = text(&{ listed }.output().await.unwrap().stdout);
        let run: Value = serde_json::from_str(&listed).unwrap_or_default();
        run["moved"] == 10
    })
    .await;
    seen(world, who, state).await["run"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn an_operator_sees_stops_and_resumes_the_run_of_another_machine() {
    let (world, state) = world_with_bucket(ministack(), "shared").await;
    let said = stop(&world, "ben").await;
    assert!(said.contains("no run has the lock of this queue"), "{said}");
    let first = redrive(&world, "ana", &state, &RAMP).spawn().unwrap();
    let run = until_first_step(&world, "ben", &state).await;
    let listed = seen(&world, "ben", &state).await;
    assert_eq!(
        (&listed["outcome"], &listed["who"]),
        (&"running".into(), &"ana".into())
    );
    let (_, errors) = failed(&resume(&world, "ben", &state, &run).output().await.unwrap());
    assert!(
        errors.contains(&format!("the run {run} of ana moves letters")),
        "{errors}"
    );

    // To note letters that came back would stop it.
    let check = of(&world, "ben", &state, &["dlq", "runs", &run, "--check"]);
    let (_, errors) = failed(&{ check }.output().await.unwrap());
    assert!(errors.contains("moves letters of this queue"), "{errors}");

    let said = stop(&world, "ben").await;
    assert!(
        said.contains(&format!("the run {run} of ana has stopped")),
        "{said}"
    );
    let ended = first.wait_with_output().await.unwrap();
    let (code, errors) = failed(&ended);
    assert_eq!(code, 9);
    assert!(
        errors.contains("ben has stopped it: `backstop dlq redrive --resume"),
        "{errors}"
    );
    let listed = seen(&world, "cem", &state).await;
    assert_eq!(listed["outcome"], "interrupted");
    assert_eq!(listed["reason"], "ben has stopped it");

    // What asked it to stop is no reason to stop again.
    succeeded(&resume(&world, "ben", &state, &run).output().await.unwrap());
    assert_eq!(world.queues.take_left().await.len(), 40);
    for who in ["ana", "ben", "cem"] {
        let listed = seen(&world, who, &state).await;
        assert_eq!(
            (&listed["outcome"], &listed["moved"]),
            (&"done".into(), &40.into())
        );
        assert_eq!(listed["starts"], 2);
    }
}

/// A run that is killed is resumed on another machine, by the bucket alone.
async fn killed(emulator: &Emulator) {
    let (world, state) = world_with_bucket(emulator, "killed").await;
    let mut first = redrive(&world, "ana", &state, &RAMP).spawn().unwrap();
    let run = until_first_step(&world, "ana", &state).await;
    first.kill().await.unwrap();
    std::fs::remove_dir_all(world.path("ana")).unwrap();
    // Five minutes later.
    let set = world.queues.client.tag_queue();
    let set = set.queue_url(&world.queues.dead_letters);
    let over = format!("{run} 1700000000000 ana");
    set.tags("backstop-redrive", over).send().await.unwrap();
    assert_eq!(seen(&world, "ben", &state).await["outcome"], "killed");
    let (_, errors) = failed(&redrive(&world, "ben", &state, &[]).output().await.unwrap());
    assert!(errors.contains("has not ended well"), "{errors}");
    succeeded(&resume(&world, "ben", &state, &run).output().await.unwrap());
    let left = world.queues.take_left().await;
    assert_eq!(left.len(), 40);
    let shown = of(&world, "cem", &state, &["dlq", "runs", &run]);
    let shown = succeeded(&{ shown }.output().await.unwrap());
    assert!(shown.contains(&format!("files: {state}/{run}")), "{shown}");
}

#[tokio::test]
async fn a_killed_run_is_resumed_where_nothing_of_it_is_but_the_bucket() {
    killed(ministack()).await;
}

#[tokio::test]
async fn without_permission_for_tags_one_of_two_that_work_on_a_run_stops() {
    let emulator = ministack();
    let (mut world, state) = world_with_bucket(emulator, "two").await;
    let proxy = Proxy::start(&emulator.endpoint, |operation, _| match operation {
        "ListQueueTags" | "TagQueue" => Fault::Denied,
        _ => Fault::None,
    })
    .await;
    world.queues = world.queues.behind(&proxy.endpoint);
    let ramp = ["--ramp", "10,all", "--watch-for", "8s"];
    let first = redrive(&world, "ana", &state, &ramp).spawn().unwrap();
    let run = until_first_step(&world, "ben", &state).await;
    let second = resume(&world, "ben", &state, &run).output().await.unwrap();
    let first = first.wait_with_output().await.unwrap();
    let said = [text(&first.stderr), text(&second.stderr)];
    let stopped: Vec<_> = said
        .iter()
        .filter(|said| said.contains("another process works on this run"))
        .collect();
    assert_eq!(stopped.len(), 1, "{said:?}");
    assert_ne!(first.status.success(), second.status.success(), "{said:?}");
    assert_eq!(world.queues.take_left().await.len(), 40);
}

#[tokio::test]
async fn a_bucket_that_can_not_be_used_starts_no_run() {
    let (world, _) = world_with_bucket(moto(), "none").await;
    for state in ["s3://no-such-bucket-here/x", "s3://"] {
        let output = redrive(&world, "ana", state, &[]).output().await.unwrap();
        let (code, errors) = failed(&output);
        assert!([2, 3, 5].contains(&code), "{code}: {errors}");
        assert!(errors.contains("bucket"), "{errors}");
    }
    let mut empty = world.plain(&["dlq", "runs"]);
    let (code, errors) = failed(&empty.env("BACKSTOP_STATE", "").output().await.unwrap());
    assert_eq!(code, 2);
    assert!(errors.contains("BACKSTOP_STATE is empty"), "{errors}");
    assert_eq!(world.queues.take_dead().await.len(), 40);
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn a_folder_of_a_group_has_runs_of_the_group_and_one_of_a_user_is_private() {
    let world = World::standard(&ministack().endpoint).await;
    for (name, folder, file) in [("group", 0o2770, 0o660), ("own", 0o700, 0o600)] {
        let state = world.path(name);
        std::fs::create_dir(&state).unwrap();
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(folder)).unwrap();
        world.put(letter(name)).await;
        let path = state.to_str().unwrap();
        succeeded(&redrive(&world, "ana", path, &[]).output().await.unwrap());
        let runs: Vec<_> = std::fs::read_dir(&state).unwrap().collect();
        let run = runs[0].as_ref().unwrap().path();
        assert_eq!(mode(&run), folder, "{name}");
        for name in ["plan.json", "letters.jsonl", "journal.jsonl", "lock"] {
            assert_eq!(mode(&run.join(name)), file, "{name}");
        }
    }
}

#[tokio::test]
async fn a_run_that_does_not_answer_is_not_reported_as_stopped() {
    let world = World::standard(&ministack().endpoint).await;
    for number in 0..40 {
        world.put(letter(&format!("letter-{number}"))).await;
    }
    let state = world.path("ana");
    let first = redrive(&world, "ana", state.to_str().unwrap(), &RAMP)
        .spawn()
        .unwrap();
    until_first_step(&world, "ana", state.to_str().unwrap()).await;
    let id = Pid::from_raw(first.id().unwrap().cast_signed()).unwrap();
    kill_process(id, Signal::STOP).unwrap();
    let mut stop = world.command("stop", &["--json", "--wait", "12s", "--who", ""]);
    let output = stop.output().await.unwrap();
    let (code, errors) = failed(&output);
    assert_eq!(code, 9, "{errors}");
    assert!(errors.contains("has not answered within 12s"), "{errors}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&said["result"], &said["who"]),
        (&"no-answer".into(), &"ana".into())
    );
    kill_process(id, Signal::CONT).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), first.wait_with_output()).await;
    let (code, errors) = failed(&ended.unwrap().unwrap());
    assert_eq!(code, 9);
    assert!(errors.contains("somebody has stopped it"), "{errors}");
}
