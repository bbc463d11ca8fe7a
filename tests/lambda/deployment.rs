//! The deployments of the Lambda retry handler in `examples/lambda`: the SAM template and the CDK app pass the linter, have the required settings, and result in the same resources.

mod math;
mod template;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use backstop_tests::documents::{document, top};
use backstop_tests::emulator::services;
use backstop_tests::once::once_per_run;
use serde_json::json;
use template::Template;

/// Transforms a SAM template to CloudFormation with AWS's own library. The code is not uploaded.
const TRANSFORM: &str = r#"
import json, sys
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

class NoManagedPolicies:
    def load(self):
        return {}

with open(sys.argv[1]) as file:
    template = yaml_parse(file.read())
for resource in template["Resources"].values():
    if resource["Type"] == "AWS::Serverless::Function":
        resource["Properties"]["CodeUri"] = "s3://bucket/key"
print(json.dumps(transform(template, {}, NoManagedPolicies())))
"#;

/// A first attempt, a retry that fails, and one that succeeds.
const ATTEMPTS: &str = r#"
import app

def envelope(attempt):
    return {"_retry_metadata": {"attempt": attempt, "initial_timestamp": 1767225600, "id": "r-1"}, "_original_payload": {"succeed_at": 3}}

assert app.handler({"order": 1}, None) == {"attempt": 1}
assert app.handler(envelope(3), None) == {"attempt": 3}
for event in ({"succeed_at": 3}, envelope(2)):
    try:
        app.handler(event, None)
    except ConnectionError:
        continue
    raise SystemExit(f"{event} did not fail")
"#;

/// Tests the function with the table of envelopes that every implementation is tested with.
const TABLE: &str = r#"
import app, json

with open("../../../tests/corpus/envelopes.json", encoding="utf-8") as file:
    cases = json.load(file)
for case in cases:
    event, envelope = json.loads(case["event"]), case["envelope"]
    expected = (event, 1) if envelope is None else (json.loads(envelope["payload"]), envelope["attempt"])
    assert app.opened(event) == expected, case["name"]
assert cases
"#;

const DAY: u64 = 24 * 60 * 60;

fn example() -> PathBuf {
    top().join("examples/lambda")
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}:\n{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

fn python() -> Command {
    let mut python = Command::new(services().join("python/bin/python"));
    python
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("AWS_DEFAULT_REGION", "eu-west-1");
    python
}

fn cfn_lint(arguments: &[&str], template: &Path) {
    let mut lint = Command::new(services().join("python/bin/cfn-lint"));
    run(lint.args(arguments).arg("--template").arg(template));
}

fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// The CDK app in its own folder, with a placeholder for the handler that `make lambda` builds.
struct CdkApp(tempfile::TempDir);

impl CdkApp {
    fn new() -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        copy_files(&example().join("cdk"), &this.folder());
        copy_files(
            &example().join("function"),
            &this.0.path().join("examples/lambda/function"),
        );
        let packages = this.0.path().join("target/lambda");
        std::fs::create_dir_all(&packages).unwrap();
        std::fs::write(packages.join("backstop-lambda-arm64.zip"), "a placeholder").unwrap();
        let modules = services().join("cdk/node_modules");
        std::os::unix::fs::symlink(modules, this.folder().join("node_modules")).unwrap();
        this
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("examples/lambda/cdk")
    }

    fn template(&self) -> PathBuf {
        self.folder().join("cdk.out/backstop-lambda.template.json")
    }

    /// `cdk synth`, which compiles the app first. It runs without this machine's AWS configuration and home directory.
    fn synth(&self, arguments: &[&str]) -> Command {
        let mut cdk = Command::new(services().join("cdk/node_modules/.bin/cdk"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("AWS_") {
                cdk.env_remove(name);
            }
        }
        cdk.current_dir(self.folder())
            .args(["synth", "--quiet", "--no-notices"])
            .args(arguments)
            .env("HOME", self.0.path())
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("CDK_DISABLE_CLI_TELEMETRY", "true")
            .env("CI", "true");
        cdk
    }

    fn synthesized(&self, arguments: &[&str]) -> String {
        run(&mut self.synth(arguments));
        std::fs::read_to_string(self.template()).unwrap()
    }
}

fn sam() -> &'static Template {
    static SAM: OnceLock<Template> = OnceLock::new();
    SAM.get_or_init(|| {
        Template::read(&once_per_run("sam-template", || {
            let mut transform = python();
            transform.args(["-c", TRANSFORM]);
            run(transform.arg(example().join("template.yaml")))
        }))
    })
}

fn cdk() -> &'static Template {
    static CDK: OnceLock<Template> = OnceLock::new();
    CDK.get_or_init(|| {
        Template::read(&once_per_run("cdk-template", || {
            CdkApp::new().synthesized(&[])
        }))
    })
}

fn both() -> [&'static Template; 2] {
    [sam(), cdk()]
}

#[test]
fn cfn_lint_finds_nothing_in_the_sam_template() {
    cfn_lint(&[], &example().join("template.yaml"));
}

#[test]
fn the_cdk_app_synthesizes_without_an_account_and_cfn_lint_finds_nothing() {
    let app = CdkApp::new();
    app.synthesized(&[]);
    // CDK adds the dependency of a function on its role twice.
    cfn_lint(&["--ignore-checks", "W3005"], &app.template());
}

#[test]
fn the_cdk_app_applies_its_context() {
    let app = CdkApp::new();
    let zip = app.0.path().join("other.zip");
    std::fs::write(&zip, "another placeholder").unwrap();
    let zip = format!("handlerZip={}", zip.display());
    let topic = "arn:aws:sns:eu-west-1:123456789012:on-call";
    let topic_context = format!("alarmTopicArn={topic}");
    let context = [
        &zip,
        &topic_context,
        "policy=linear",
        "policySettings=base=1m,cap=12h",
    ];
    let arguments: Vec<_> = context
        .into_iter()
        .flat_map(|value| ["--context", value])
        .collect();
    let template = Template::read(&app.synthesized(&arguments));
    let handler = template.named("handler");
    let variables = &handler["Environment"]["Variables"];
    assert_eq!(variables["BACKSTOP_POLICY"], "linear");
    assert_eq!(variables["BACKSTOP_SETTINGS"], "base=1m,cap=12h");
    assert_ne!(handler["Code"], cdk().named("handler")["Code"]);
    for alarm in template.of_kind("AWS::CloudWatch::Alarm") {
        assert_eq!(alarm["AlarmActions"], json!([topic]));
    }
}

#[test]
fn the_cdk_app_says_how_to_build_a_missing_package() {
    let app = CdkApp::new();
    let output = app
        .synth(&["--context", "handlerZip=nowhere.zip"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("nowhere.zip is not there: `make lambda` makes it"),
        "{stderr}"
    );
}

#[test]
fn both_deployments_have_the_same_settings() {
    assert_eq!(sam().settings(), cdk().settings());
}

#[test]
fn a_failed_event_goes_to_the_retry_queue_and_lambda_does_not_retry_it() {
    for template in both() {
        let config = template.only("AWS::Lambda::EventInvokeConfig");
        assert_eq!(config["MaximumRetryAttempts"], 0);
        assert_eq!(config["Qualifier"], "$LATEST");
        let age = template.text(&config["MaximumEventAgeInSeconds"]);
        assert!(
            (60..=21_600).contains(&age.parse::<u32>().unwrap()),
            "{age}"
        );
        let destination = &config["DestinationConfig"]["OnFailure"]["Destination"];
        assert_eq!(template.text(destination), "retries.Arn");
    }
}

#[test]
fn the_handler_reports_each_record_and_the_visibility_timeout_exceeds_its_timeout() {
    for template in both() {
        let mapping = template.only("AWS::Lambda::EventSourceMapping");
        let reports = json!(["ReportBatchItemFailures"]);
        assert_eq!(mapping["FunctionResponseTypes"], reports);
        let timeout = template.named("handler")["Timeout"].as_u64().unwrap();
        let window = mapping["MaximumBatchingWindowInSeconds"].as_u64();
        let visibility = template.named("retries")["VisibilityTimeout"].as_u64();
        assert!(visibility.unwrap() >= 6 * timeout + window.unwrap_or(0));
    }
}

#[test]
fn recursion_detection_is_off_for_function_and_handler() {
    for template in both() {
        for name in ["function", "handler"] {
            assert_eq!(template.named(name)["RecursiveLoop"], "Allow", "{name}");
        }
    }
}

#[test]
fn the_queues_keep_messages_for_14_days_and_allow_1000_receives() {
    for template in both() {
        for name in ["retries", "dead letters"] {
            let queue = template.named(name);
            assert_eq!(queue["MessageRetentionPeriod"], 14 * DAY, "{name}");
            assert_eq!(queue["MaximumMessageSize"], 1_048_576, "{name}");
            assert_eq!(queue["SqsManagedSseEnabled"], true, "{name}");
        }
        let retries = template.named("retries");
        assert_eq!(retries["RedrivePolicy"]["maxReceiveCount"], 1_000);
        // The queues refer to each other, so one of the two ARNs is composed from a name.
        let allow = &template.named("dead letters")["RedriveAllowPolicy"];
        assert_eq!(allow["redrivePermission"], "byQueue");
        let name = template.text(&retries["QueueName"]);
        let arn =
            format!("arn:${{AWS::Partition}}:sqs:${{AWS::Region}}:${{AWS::AccountId}}:{name}");
        assert_eq!(template.plain(&allow["sourceQueueArns"]), json!([arn]));
    }
}

#[test]
fn the_handler_has_the_runtime_of_its_build_and_every_required_variable() {
    for template in both() {
        let handler = template.named("handler");
        assert_eq!(handler["Runtime"], "provided.al2023");
        assert_eq!(handler["Architectures"], json!(["arm64"]));
        assert_eq!(handler["LoggingConfig"]["LogFormat"], "JSON");
        let variables = template.plain(&handler["Environment"]["Variables"]);
        let expected = json!({
            "BACKSTOP_RETRY_QUEUE_URL": "retries",
            "BACKSTOP_DEAD_LETTER_QUEUE_URL": "dead letters",
            "BACKSTOP_POLICY": "full-jitter",
            "BACKSTOP_SETTINGS": "base=30s,cap=6h",
            "BACKSTOP_MAX_ATTEMPTS": "12",
            "BACKSTOP_METRICS": "true",
            "BACKSTOP_MAX_AGE": "14d",
            "BACKSTOP_FUNCTIONS": "function",
        });
        assert_eq!(variables, expected);
    }
    let zip = "CodeUri: ../../target/lambda/backstop-lambda-arm64.zip";
    let template = std::fs::read_to_string(example().join("template.yaml")).unwrap();
    assert!(template.contains(zip));
}

/// There is no managed policy, and no wildcard except for the versions of the function and for what has no resource.
#[test]
fn the_roles_have_the_required_permissions_and_no_others() {
    let expected = [
        "role of function: logs:CreateLogStream on logs of function.Arn",
        "role of function: logs:PutLogEvents on logs of function.Arn",
        "role of function: sqs:SendMessage on retries.Arn",
        "role of handler: lambda:GetFunctionRecursionConfig on function.Arn",
        "role of handler: lambda:GetFunctionRecursionConfig on handler.Arn",
        "role of handler: lambda:InvokeFunction on function.Arn",
        "role of handler: lambda:InvokeFunction on function.Arn:*",
        "role of handler: lambda:ListEventSourceMappings on *",
        "role of handler: logs:CreateLogStream on logs of handler.Arn",
        "role of handler: logs:PutLogEvents on logs of handler.Arn",
        "role of handler: sqs:ChangeMessageVisibility on retries.Arn",
        "role of handler: sqs:DeleteMessage on retries.Arn",
        "role of handler: sqs:GetQueueAttributes on dead letters.Arn",
        "role of handler: sqs:GetQueueAttributes on retries.Arn",
        "role of handler: sqs:ReceiveMessage on retries.Arn",
        "role of handler: sqs:SendMessage on dead letters.Arn",
        "role of handler: sqs:SendMessage on retries.Arn",
    ];
    for template in both() {
        let permissions = template.permissions();
        let found: Vec<_> = permissions.iter().map(String::as_str).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn alarms_cover_every_silent_failure() {
    let expected = [
        "AWS/Lambda AsyncEventsDropped of function: Sum from 100 for 1 x 300 s",
        "AWS/Lambda DestinationDeliveryFailures of function: Sum from 1 for 1 x 300 s",
        "AWS/Lambda Duration of handler: Maximum from 48000 for 3 x 300 s",
        "AWS/Lambda Errors of handler: Sum from 1 for 1 x 300 s",
        "AWS/Lambda Throttles of handler: Sum from 1 for 3 x 300 s",
        "AWS/SQS ApproximateAgeOfOldestMessage of dead letters.QueueName: Maximum from 604800 for 1 x 300 s",
        "AWS/SQS ApproximateNumberOfMessagesNotVisible of retries.QueueName: Maximum from 100000 for 1 x 300 s",
        "AWS/SQS ApproximateNumberOfMessagesVisible of retries.QueueName: Minimum from 100 for 3 x 300 s",
        "Backstop retries.QueueName-error-lines: Sum from 1 for 1 x 300 s",
        "IF(FILL(sent, 0) > 0 OR DIFF(FILL(visible, 0) + FILL(hidden, 0)) > 0, 1, 0) with hidden = AWS/SQS ApproximateNumberOfMessagesNotVisible of dead letters.QueueName: Average, sent = AWS/SQS NumberOfMessagesSent of dead letters.QueueName: Sum, visible = AWS/SQS ApproximateNumberOfMessagesVisible of dead letters.QueueName: Average from 1 for 1 x 300 s",
    ];
    for template in both() {
        let alarms = template.alarms();
        let found: Vec<_> = alarms.iter().map(String::as_str).collect();
        assert_eq!(found, expected);
    }
    let topic =
        json!({"Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopicArn"}], {"Ref": "AWS::NoValue"}]});
    for alarm in sam().of_kind("AWS::CloudWatch::Alarm") {
        assert_eq!(alarm["AlarmActions"], topic);
    }
}

#[test]
fn the_thresholds_of_the_alarms_follow_the_timeout_and_the_retention() {
    for template in both() {
        let threshold = |metric: &str| {
            let alarms = template.of_kind("AWS::CloudWatch::Alarm");
            let alarm = alarms.iter().find(|alarm| alarm["MetricName"] == metric);
            alarm.unwrap()["Threshold"].as_f64().unwrap()
        };
        let timeout = template.named("handler")["Timeout"].as_f64().unwrap();
        assert_eq!(threshold("Duration"), 0.8 * 1_000.0 * timeout);
        let letters = template.named("dead letters");
        let retention = letters["MessageRetentionPeriod"].as_f64().unwrap();
        assert_eq!(threshold("ApproximateAgeOfOldestMessage"), retention / 2.0);
    }
}

/// No emulator evaluates alarms, so `math` does, as CloudWatch documents its functions. Each series has a value for each five minutes: the letters that were sent, and the averages of those that are visible and hidden. A period in which the queue was idle has none.
#[test]
fn new_dead_letters_raise_the_alarm_whoever_moved_them_and_old_ones_do_not() {
    let (idle, none) = (None, Some(0.0));
    let (one, two, part) = (Some(1.0), Some(2.0), Some(0.4));
    for (name, sent, visible, hidden, expected) in [
        ("no letters", [none; 4], [none; 4], [none; 4], [0; 4]),
        ("an idle queue", [idle; 4], [idle; 4], [idle; 4], [0; 4]),
        (
            "a letter of the handler",
            [none, one, none, none],
            [none, part, one, one],
            [none; 4],
            [0, 1, 1, 0],
        ),
        (
            "the first letter after idle hours",
            [idle, one, none, none],
            [idle, one, one, one],
            [idle, none, none, none],
            [0, 1, 0, 0],
        ),
        ("an old letter", [none; 4], [one; 4], [none; 4], [0; 4]),
        (
            "a letter that SQS moved",
            [none; 4],
            [one, one, two, two],
            [none; 4],
            [0, 0, 1, 0],
        ),
        (
            "the first one that SQS moved, after idle hours",
            [idle, idle, none, none],
            [idle, idle, one, one],
            [idle, idle, none, none],
            [0, 0, 1, 0],
        ),
        (
            "letters that are read",
            [none; 4],
            [two, part, none, two],
            [none, Some(1.6), two, none],
            [0; 4],
        ),
        (
            "letters that are removed",
            [none; 4],
            [two, one, none, none],
            [none; 4],
            [0; 4],
        ),
        (
            "a new one while another is removed",
            [none, none, one, none],
            [one; 4],
            [none; 4],
            [0, 0, 1, 0],
        ),
    ] {
        let series = |id: &str| match id {
            "sent" => sent.to_vec(),
            "visible" => visible.to_vec(),
            "hidden" => hidden.to_vec(),
            other => panic!("{other} is not a metric of the alarm"),
        };
        for template in both() {
            let found = math::evaluated(&template.expression(), 4, &series);
            // Missing data do not breach.
            let raised = found
                .iter()
                .map(|it| u8::from(it.is_some_and(|value| value >= 1.0)));
            // The first period has none before it.
            let raised: Vec<_> = raised.skip(1).collect();
            assert_eq!(raised, expected[1..], "{name}: {found:?}");
        }
    }
}

/// The handler writes each line as an object with its level (`host/lambda/src/main.rs`).
#[test]
fn error_lines_of_the_handler_are_counted_for_an_alarm() {
    for template in both() {
        let filter = template.only("AWS::Logs::MetricFilter");
        assert_eq!(filter["FilterPattern"], r#"{ $.level = "ERROR" }"#);
        assert_eq!(template.text(&filter["LogGroupName"]), "logs of handler");
        let counted = &filter["MetricTransformations"][0];
        assert_eq!(template.text(&counted["MetricValue"]), "1");
        let name = template.text(&counted["MetricName"]);
        assert_eq!(name, "retries.QueueName-error-lines");
    }
}

#[test]
fn every_chart_of_the_dashboard_has_metrics_that_the_handler_writes() {
    let text = document("host/docs/deploy/lambda.md");
    let (_, table) = text.split_once("\n## Metrics\n").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let dashboard = sam().dashboard();
    let widgets = dashboard["widgets"].as_array().unwrap();
    let mut shown = BTreeSet::new();
    for widget in widgets {
        let metrics = widget["properties"]["metrics"].as_array().unwrap();
        assert!(!metrics.is_empty(), "{widget}");
        for metric in metrics.iter().filter(|metric| metric[0] == "Backstop") {
            assert_eq!(
                (&metric[2], &metric[3]),
                (&json!("Queue"), &json!("retries.QueueName"))
            );
            shown.insert(metric[1].as_str().unwrap().to_owned());
        }
    }
    for name in &shown {
        assert!(table.contains(&format!("| `{name}` |")), "{name}");
    }
    assert_eq!(shown.len(), 8, "{shown:?}");
}

#[test]
fn the_readme_names_every_alarm_and_every_parameter() {
    let readme = std::fs::read_to_string(example().join("README.md")).unwrap();
    let parameters = sam().parameters.as_object().unwrap().keys();
    let alarms = sam()
        .resources
        .iter()
        .filter(|(_, resource)| resource["Type"] == "AWS::CloudWatch::Alarm")
        .map(|(id, _)| id);
    for name in parameters.chain(alarms) {
        assert!(readme.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn the_example_function_unwraps_envelopes() {
    for script in [ATTEMPTS, TABLE] {
        let mut function = python();
        function.current_dir(example().join("function"));
        run(function.args(["-c", script]));
    }
}
