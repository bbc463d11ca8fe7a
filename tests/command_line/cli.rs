//! The output of the command: help, demo, and explanations of mistakes.

use std::fs::File;
use std::path::Path;
use std::process::{Output, Stdio};

use backstop_tests::aws::CREDENTIALS;
use backstop_tests::backstop::{command, program, run, text};
use backstop_tests::emulator::free_port;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

async fn help(arguments: &[&str]) -> String {
    // The help shows the value of a variable, which would be a folder of this machine.
    let mut command = command(arguments);
    let output = command.env_remove("BACKSTOP_CACHE").output().await.unwrap();
    assert!(output.status.success());
    text(&output.stdout)
}

#[tokio::test]
async fn help_teaches() {
    insta::assert_snapshot!("help", help(&["--help"]).await);
    insta::assert_snapshot!("run-help", help(&["run", "--help"]).await);
    insta::assert_snapshot!("init-help", help(&["init", "--help"]).await);
    insta::assert_snapshot!("replay-help", help(&["policy", "replay", "--help"]).await);
}

#[tokio::test]
async fn the_demo_loses_nothing_and_shows_a_swap_and_a_refusal() {
    let output = run(&["demo"]).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for part in [
        "is active from now on",
        "rejected: it ran out of fuel",
        "stays active",
        "ValidationException  permanent  dead-lettered",
        "sent            100",
        "Nothing was lost.",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colour but on a terminal");
}

#[tokio::test]
async fn the_demo_counts_for_scripts() {
    let output = run(&["demo", "--json"]).await;
    let counts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (
            &counts["sent"],
            &counts["done"],
            &counts["dead-letters"],
            &counts["still-there"]
        ),
        (&100.into(), &85.into(), &15.into(), &0.into())
    );
}

/// Runs a command with these files as its output and errors. Returns the exit code.
async fn ended(arguments: &[&str], stdout: Stdio, stderr: Stdio) -> Output {
    let mut command = command(arguments);
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    command.spawn().unwrap().wait_with_output().await.unwrap()
}

#[tokio::test]
async fn unwritable_output_is_an_error_and_a_closed_pipe_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("text.wasm");
    std::fs::write(&file, "not a policy").unwrap();
    let bad = file.to_str().unwrap();
    let lines = folder.path().join("lines");
    std::fs::write(&lines, "one\n").unwrap();
    let lines = lines.to_str().unwrap();
    let consume = [
        "run",
        "--cache=off",
        "--queue-url=local:a",
        "--exec=false",
        "--max-attempts=1",
        "--messages",
        lines,
    ];
    for (arguments, code) in [
        (&[&consume[..], &["--json"]].concat()[..], 0),
        (&[&consume[..], &["--decisions=-"]].concat(), 0),
        (&["--help"], 0),
        (&["--version"], 0),
        (&["policy", "inspect", "linear"], 0),
        (&["policy", "inspect", "linear", "--json"], 0),
        (&["policy", "run", "linear"], 0),
        (&["policy", "run", "linear", "--json"], 0),
        (&["policy", "test", "--presets"], 0),
        (&["policy", "simulate", "linear", "--messages", "9"], 0),
        (
            &["policy", "simulate", "linear", "--messages", "9", "--csv"],
            0,
        ),
        (&["demo", "--json"], 0),
        // Other errors stay the same.
        (&["policy", "test", bad], 4),
    ] {
        let full = File::create("/dev/full").unwrap();
        let output = ended(arguments, full.into(), Stdio::piped()).await;
        let printed = text(&output.stderr);
        let expected = if code == 0 { 1 } else { code };
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{arguments:?}: {printed}"
        );
        if code == 0 {
            let expected = "error: can't write to standard output: No space left on device";
            assert!(printed.contains(expected), "{arguments:?}: {printed}");
        }
        assert!(!printed.contains("panicked"), "{arguments:?}: {printed}");

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = ended(arguments, writer.into(), Stdio::piped()).await;
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {printed}");
        if code == 0 && arguments[0] != "run" {
            assert_eq!(printed, "", "{arguments:?}");
        }
    }
    let full = File::create("/dev/full").unwrap();
    let bench = ["policy", "bench", "linear"];
    let output = ended(&bench, Stdio::piped(), full.into()).await;
    assert!(output.status.success(), "{}", text(&output.stdout));
}

#[tokio::test]
async fn an_input_file_that_can_not_be_read_is_exit_code_3_in_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let queue = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders-dead";
    let messages = ["run", "--queue-url=local:a", "--exec=true", "--messages"];
    let list = ["dlq", "list", queue, "--ids"];
    let triage = ["dlq", "triage", queue, "--policy=linear", "--ids"];
    let archive = ["dlq", "archive", queue, "--to=archive.jsonl", "--ids"];
    let redrive = ["dlq", "redrive", queue, "--to=local:a", "--ids"];
    let sqs = ["deliver", "sqs", "--queue-url", queue];
    let commands: [&[&str]; 16] = [
        &["run", "--config"],
        &["doctor", "--config"],
        &["waiting", "--config"],
        &["policy", "status", "--config"],
        &messages,
        &["why", "5fea7756"],
        &["policy", "replay", "--policy=linear"],
        &["policy", "test", "linear", "--scenarios"],
        &["policy", "run", "linear", "--failure"],
        &["policy", "run", "linear", "--payload"],
        &list,
        &triage,
        &archive,
        &redrive,
        &["dlq", "restore"],
        &sqs,
    ];
    for arguments in commands {
        for (file, why) in [("none.jsonl", "o such file"), (".", "folder")] {
            let output = command(&[arguments, &[file]].concat())
                .current_dir(folder.path())
                .stdin(Stdio::null())
                .output()
                .await
                .unwrap();
            let shown = text(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{arguments:?}: {shown}");
            assert!(shown.contains(why), "{arguments:?} {file}: {shown}");
        }
    }
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "a command that has no input creates no file");
}

#[tokio::test]
async fn the_configuration_of_the_folder_is_the_one_that_no_flag_names() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("backstop.toml");
    let lines = folder.path().join("lines");
    std::fs::write(&lines, "one\n").unwrap();
    let run = async |arguments: &[&str]| {
        let output = command(arguments)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let missing = "error: there is no backstop.toml in this folder: name one with --config, write one with `backstop init`, or give --queue-url and a handler";
    let functions = ", or --retry-queue or --function for a Lambda retry handler";
    for (command, more) in [("run", ""), ("doctor", functions)] {
        let (code, shown) = run(&[command]).await;
        assert_eq!((code, shown), (Some(2), format!("{missing}{more}\n")));
    }
    // Its mistake, with its place, shows that it is read.
    std::fs::write(
        &config,
        "admin = \"odd\"\n[queues.a]\nurl = \"local:a\"\nhandler.exec = \"true\"\n",
    )
    .unwrap();
    let commands: [&[&str]; 5] = [
        &["run"],
        &["doctor"],
        &["why", "5fea7756"],
        &["policy", "replay", "lines"],
        &["dlq", "list", "a"],
    ];
    for arguments in commands {
        let (code, shown) = run(arguments).await;
        assert_eq!(code, Some(3), "{arguments:?}: {shown}");
        let place = "backstop.toml: line 1, column 1: admin: `odd`";
        assert!(shown.contains(place), "{arguments:?}: {shown}");
    }
    // Flags of one queue are not for those of a file.
    for (flags, name, key) in [
        (&["run", "--exec", "true"][..], "exec", "handler.exec"),
        (
            &["run", "--max-attempts", "3"],
            "max-attempts",
            "max-attempts",
        ),
        (&["run", "--set", "base=2s"], "set", "settings"),
        (&["doctor", "--lambda", "ship"], "lambda", "handler.lambda"),
    ] {
        let (code, shown) = run(flags).await;
        assert_eq!(code, Some(2), "{shown}");
        let expected = format!(
            "error: --{name} is for a queue that --queue-url names, and with such flags backstop.toml is not read: set `{key}` in backstop.toml, or give --queue-url and a handler, too\n"
        );
        assert_eq!(shown, expected);
    }
    let one = [
        "run",
        "--cache=off",
        "--queue-url",
        "local:a",
        "--exec",
        "true",
        "--messages",
        "lines",
    ];
    let (code, shown) = run(&one).await;
    assert_eq!(code, Some(0), "{shown}");
}

#[tokio::test]
async fn a_slip_in_a_configuration_is_answered_with_what_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("backstop.toml");
    let queue = "[queues.a]\nurl = \"local:a\"\nhandler.exec = \"true\"\n";
    let built = folder.path().join("card-payments/build");
    std::fs::create_dir_all(&built).unwrap();
    std::fs::write(built.join("card-payments.wasm"), "").unwrap();
    std::fs::create_dir(folder.path().join("new")).unwrap();
    std::fs::write(folder.path().join("new/policy.toml"), "").unwrap();
    for (line, expected) in [
        (
            "max-attempt = 3",
            "queues.a: unknown key `max-attempt` (did you mean `max-attempts`?), expected one of `url`, ",
        ),
        (
            "base = \"2s\"",
            "queues.a: unknown key `base`: it is a setting of the policy, so write it into the table `settings`\n",
        ),
        (
            "policy = full-jitter",
            "queues.a.policy: a text needs quotes: \"full-jitter\"\n",
        ),
        (
            "policy = \"card-payments\"",
            "queues.a.policy: there is no built-in policy `card-payments`, but a folder of this name: name the file in it, ./card-payments/build/card-payments.wasm\n",
        ),
        (
            "policy = \"new\"",
            "name the file in it, ./new/build/new.wasm, which `backstop policy build` makes\n",
        ),
    ] {
        std::fs::write(&config, format!("{queue}{line}\n")).unwrap();
        let output = command(&["run"]).current_dir(&folder).output();
        let output = output.await.unwrap();
        assert_eq!(output.status.code(), Some(3), "{line}");
        let shown = text(&output.stderr);
        assert!(shown.contains(expected), "{line}: {shown}");
    }
}

#[tokio::test]
async fn an_input_without_messages_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("blank"), "\n  \n").unwrap();
    let queue = ["run", "--queue-url", "local:try", "--exec", "true"];
    for (file, named) in [("blank", "blank"), ("-", "standard input")] {
        let mut run = command(&[&queue[..], &["--messages", file]].concat());
        let run = run.current_dir(&folder).stdin(Stdio::null());
        let output = run.output().await.unwrap();
        let shown = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{shown}");
        let line = format!(" WARN {named} has no messages: each line that is not blank is one\n");
        assert!(shown.contains(&line), "{shown}");
    }
}

#[tokio::test]
async fn a_mistyped_command_is_answered_with_a_suggestion() {
    let output = run(&["rum"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("'run'"),
        "{}",
        text(&output.stderr)
    );
}

#[tokio::test]
async fn texts_of_messages_and_workers_forge_no_log_lines_and_no_control_sequences() {
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("said");
    // U+009B is a control sequence introducer, U+202E turns the line around.
    std::fs::write(
        &said,
        r#"{"errorType":"E\r\n2026-01-01T00:00:00Z  INFO message{queue=\"try\"}: all is well\u001b[2J\u009b31m\u202e\u2028","errorMessage":"\u001b]0;title\u0007"}"#,
    )
    .unwrap();
    let work = folder.path().join("work.sh");
    std::fs::write(&work, format!("cat {}; exit 1", said.display())).unwrap();
    let lines = folder.path().join("lines");
    std::fs::write(&lines, "one\n").unwrap();
    let exec = format!("sh {}", work.display());
    let run = async |more: &[&str]| {
        let arguments = [
            "run",
            "--queue-url",
            "local:try",
            "--cache",
            "off",
            "--exec",
            &exec,
            "--max-attempts",
            "1",
            "--messages",
            lines.to_str().unwrap(),
        ];
        let output = command(&[&arguments, more].concat())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        (text(&output.stdout), text(&output.stderr))
    };
    let (_, log) = run(&["--json"]).await;
    assert!(log.contains("all is well"), "{log}");
    for line in log.lines() {
        let level = line.split_ascii_whitespace().nth(1);
        let is_ours = [Some("INFO"), Some("WARN")].contains(&level);
        let is_forged = line.starts_with("2026-01-01T00:00:00Z");
        assert!(is_ours && !is_forged, "{line:?}");
        let odd = |c: char| c.is_control() || ['\u{202e}', '\u{2028}'].contains(&c);
        assert!(!line.contains(odd), "{line:?}");
    }

    // The same names in the log, in the summary and in the record.
    let (counts, log) = run(&["--json", "--log-format", "json"]).await;
    let counts: serde_json::Value = serde_json::from_str(&counts).unwrap();
    assert_eq!(counts["dead-lettered"], 1);
    assert!(log.contains(r#""message":"dead-letter""#), "{log}");
    let (records, log) = run(&["--decisions", "-"]).await;
    let record = records.lines().next().unwrap();
    let record: serde_json::Value = serde_json::from_str(record).unwrap();
    assert_eq!(record["verdict"], "dead-letter");
    assert!(log.contains("dead-lettered=1"), "{log}");
    let (by, class) = (
        record["by"].as_str().unwrap(),
        record["class"].as_str().unwrap(),
    );
    assert!(log.contains(&format!("class={class} ")), "{log}");
    assert!(log.contains(&format!("by=\"{by}\"")), "{log}");
}

#[tokio::test]
async fn an_invalid_flag_is_explained_in_terms_of_the_user() {
    let queue = ["run", "--queue-url", "local:try", "--exec", "true"];
    for (flags, right) in [
        (
            ["--endpoint-url", "localhost:4566"],
            "it has no scheme, expected http://localhost:4566",
        ),
        (
            ["--endpoint-url", "http://localhost:99999"],
            "the port is not a number up to 65535",
        ),
        (["--max-attempts", "many"], "expected a whole number from"),
        (["--max-in-flight", "1.5"], "expected a whole number from"),
        (["--max-age", "3"], "expected a duration"),
    ] {
        let output = run(&[&queue[..], &flags].concat()).await;
        let printed = text(&output.stderr);
        assert!(printed.contains(right), "{right:?} is not in:\n{printed}");
        assert_eq!(output.status.code(), Some(2), "{printed}");
    }
}

/// Internal terms of the SDK that must not appear.
const OF_THE_SDK: [&str; 6] = [
    "dispatch failure",
    "Request {",
    "client error",
    "Attempted:",
    "credential provider",
    "Invalid Configuration",
];

/// Invalid environment variables next to valid ones, and their errors; `-NAME` removes a variable.
fn wrong_settings(nobody: &str) -> Vec<(Vec<(&'static str, String)>, String)> {
    let endpoint = |url: &str| vec![("AWS_ENDPOINT_URL", url.to_owned())];
    let refused = format!("nothing listens at the endpoint {nobody}: check --endpoint-url");
    vec![
        (
            endpoint("localhost:4566"),
            "it has no scheme, expected http://localhost:4566".to_owned(),
        ),
        (
            endpoint("not a url"),
            "`not a url` is not an endpoint: it has no scheme".to_owned(),
        ),
        (endpoint(nobody), refused),
        (
            endpoint("http://no-such-host.invalid"),
            "the host name of the endpoint http://no-such-host.invalid can't be resolved: check"
                .to_owned(),
        ),
        (
            vec![("-AWS_ACCESS_KEY_ID", String::new())],
            "no AWS credentials were found: set AWS_ACCESS_KEY_ID".to_owned(),
        ),
        (
            vec![
                ("-AWS_ACCESS_KEY_ID", String::new()),
                ("AWS_PROFILE", "none-such".to_owned()),
            ],
            "no AWS credentials were found (AWS_PROFILE is none-such): set".to_owned(),
        ),
        (
            vec![("-AWS_REGION", String::new())],
            "no AWS region is set: set AWS_REGION".to_owned(),
        ),
    ]
}

fn with_settings(
    mut command: Command,
    home: &Path,
    settings: &[(&'static str, String)],
) -> Command {
    command
        .env("HOME", home)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env_remove("AWS_DEFAULT_REGION")
        .stdin(Stdio::null());
    for (name, value) in settings {
        match name.strip_prefix('-') {
            Some(name) => command.env_remove(name),
            None => command.env(name, value),
        };
    }
    command
}

#[tokio::test]
async fn failed_requests_to_aws_are_explained_with_advice() {
    const QUEUE: &str = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders";
    let home = tempfile::tempdir().unwrap();
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let commands: [&[&str]; 5] = [
        &["run", "--queue-url", QUEUE, "--exec", "cat"],
        &["run", "--queue-url", "local:try", "--lambda", "orders"],
        &["doctor", "--queue-url", QUEUE, "--exec", "cat"],
        &["doctor", "--retry-queue", QUEUE, "--function", "orders"],
        &[
            "policy",
            "pull",
            "s3://policies/orders.wasm",
            "-o",
            "pulled.wasm",
        ],
    ];
    for (settings, right) in wrong_settings(&nobody) {
        let outputs = commands.map(|arguments| {
            let mut command = with_settings(command(arguments), home.path(), &settings);
            async move { (arguments, command.output().await.unwrap()) }
        });
        for (arguments, output) in futures_util::future::join_all(outputs).await {
            let printed = text(&output.stdout) + &text(&output.stderr);
            let case = format!("{arguments:?} {settings:?}");
            assert!(
                printed.contains(&right),
                "{case}: {right:?} is not in:\n{printed}"
            );
            for odd in OF_THE_SDK {
                assert!(!printed.contains(odd), "{case}: {odd:?} is in:\n{printed}");
            }
            assert!(!output.status.success(), "{case}:\n{printed}");
        }
    }
}

#[tokio::test]
async fn a_function_explains_in_the_same_way_why_its_policy_is_unreachable() {
    let home = tempfile::tempdir().unwrap();
    let nobody = format!("http://127.0.0.1:{}", free_port());
    for (settings, right) in wrong_settings(&nobody) {
        let mut handler = Command::new(program("backstop-lambda"));
        handler
            .envs(CREDENTIALS)
            // There is no Runtime API, so it ends once it has started.
            .env(
                "AWS_LAMBDA_RUNTIME_API",
                nobody.trim_start_matches("http://"),
            )
            .env("AWS_LAMBDA_FUNCTION_NAME", "backstop")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512")
            .env("BACKSTOP_POLICY", "s3://policies/orders.wasm")
            .env("BACKSTOP_CACHE", home.path().join("cache"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = with_settings(handler, home.path(), &settings)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let printed = loop {
            let line = lines.next_line().await.unwrap().expect("it says so");
            if line.contains("the fallback decides") {
                break line;
            }
        };
        assert!(
            printed.contains(&right),
            "{settings:?}: {right:?} is not in:\n{printed}"
        );
        for odd in OF_THE_SDK {
            assert!(
                !printed.contains(odd),
                "{settings:?}: {odd:?} is in:\n{printed}"
            );
        }
        child.kill().await.unwrap();
    }
}

#[tokio::test]
async fn doctor_rejects_flags_of_one_queue_next_to_a_configuration() {
    for flags in [
        &["--allow-discard", "false"][..],
        &[
            "--http",
            "http://127.0.0.1:1",
            "--http-proxy",
            "http://127.0.0.1:2",
        ],
        &["--lambda", "orders"],
    ] {
        let output = run(&[&["doctor", "--config", "none.toml"], flags].concat()).await;
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(printed.contains("cannot be used with"), "{printed}");
    }
}
