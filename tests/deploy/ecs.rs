//! The task definition of `examples/operate/ecs`: the models of the AWS SDK and cfn-lint accept it, and a host runs with what it says.

use std::process::Stdio;

use backstop_tests::aws::{CREDENTIALS, Queues};
use backstop_tests::backstop::{command, text};
use backstop_tests::documents::document;
use backstop_tests::emulator::{free_port, ministack};
use backstop_tests::eventually;
use backstop_tests::worker::Worker;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::checkers::{example, output, passes, python};
use crate::container::Container;

/// Validates the input of RegisterTaskDefinition with the SDK's model of it, and prints it as a template of CloudFormation.
const CHECK: &str = r#"
import botocore.session, json, sys
from botocore.validate import ParamValidator

task = json.load(sys.stdin)
model = botocore.session.get_session().get_service_model("ecs")
report = ParamValidator().validate(task, model.operation_model("RegisterTaskDefinition").input_shape)
unknown = set(task) - set(model.operation_model("RegisterTaskDefinition").input_shape.members)
if report.has_errors() or unknown:
    raise SystemExit(f"{report.generate_report()} {unknown or ''}")

def upper(value):
    if isinstance(value, list):
        return [upper(it) for it in value]
    if isinstance(value, dict):
        return {k[0].upper() + k[1:]: v if k == "options" else upper(v) for k, v in value.items()}
    return value

print(json.dumps({"Resources": {"Task": {"Type": "AWS::ECS::TaskDefinition", "Properties": upper(task)}}}))
"#;

fn task_text() -> String {
    std::fs::read_to_string(example("ecs/task-definition.json")).unwrap()
}

/// Checks a task definition.
fn check(task: &str) {
    let mut python_script = python("python");
    let template = passes(python_script.args(["-c", CHECK]), task);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("template.json");
    std::fs::write(&path, template).unwrap();
    passes(python("cfn-lint").arg(&path), "");
}

fn named<'a>(task: &'a Value, name: &str) -> &'a Value {
    let containers = task["containerDefinitions"].as_array().unwrap();
    containers.iter().find(|it| it["name"] == name).unwrap()
}

#[test]
fn the_models_of_aws_accept_the_task_and_its_host_ends_before_its_worker() {
    check(&task_text());
    for (right, wrong) in [
        ("\"stopTimeout\": 35", "\"stopTimeout\": \"35\""),
        ("\"networkMode\"", "\"network\""),
    ] {
        let wrong = task_text().replacen(right, wrong, 1);
        let refused = output(python("python").args(["-c", CHECK]), &wrong);
        assert!(!refused.status.success(), "{wrong}");
    }
    let task: Value = serde_json::from_str(&task_text()).unwrap();
    let backstop = named(&task, "backstop");
    // A container that depends on another one is stopped before it.
    assert_eq!(backstop["dependsOn"][0]["containerName"], "worker");
    // Many servers write to /tmp, and Fargate has no volume that a worker without root may write to.
    for container in ["worker", "backstop"] {
        assert!(named(&task, container)["readonlyRootFilesystem"].is_null());
    }
    let memory = |name: &str| named(&task, name)["memory"].as_u64().unwrap();
    let whole: u64 = task["memory"].as_str().unwrap().parse().unwrap();
    assert!(memory("backstop") + memory("worker") <= whole);
    let grace = backstop["command"].as_array().unwrap().iter();
    let grace = grace.skip_while(|it| *it != "--grace").nth(1).unwrap();
    let grace: u64 = grace
        .as_str()
        .unwrap()
        .trim_end_matches('s')
        .parse()
        .unwrap();
    for name in ["backstop", "worker"] {
        assert!(named(&task, name)["stopTimeout"].as_u64().unwrap() >= grace + 5);
    }
}

#[tokio::test]
async fn a_host_runs_with_the_arguments_variables_and_limits_of_the_task() {
    let task: Value = serde_json::from_str(&task_text()).unwrap();
    let backstop = named(&task, "backstop");
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.redrive_after(1000).await;
    let worker = Worker::answering(|_| 200).await;
    let admin = format!("127.0.0.1:{}", free_port());
    let arguments: Vec<String> = serde_json::from_value(backstop["command"].clone()).unwrap();
    let variables = backstop["environment"].as_array().unwrap().iter();
    let variables = variables.map(|it| (it["name"].clone(), it["value"].clone()));
    let folder = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let mut container = Container::new(arguments, variables.collect()).with_arguments(|it| {
        it.replace(
            "https://sqs.eu-west-1.amazonaws.com/123456789012/orders",
            &queues.url,
        )
        .replace("http://127.0.0.1:8080/", &worker.url)
        .replace("0.0.0.0:9465", &admin)
    });
    // The image has a folder for the cache, which belongs to its user, and names it.
    container.mount(folder.path(), "/var/cache/backstop", &[]);
    let secret = backstop["secrets"][0]["name"].as_str().unwrap();
    let files = backstop["ulimits"][0]["hardLimit"].as_u64().unwrap();
    let container = CREDENTIALS
        .iter()
        .fold(container, |it, (name, value)| it.with(name, value))
        .with("BACKSTOP_CACHE", "/var/cache/backstop/image")
        .with(secret, "an-operator-of-the-tests")
        .with("AWS_ENDPOINT_URL", &queues.endpoint)
        .with_files(files);
    let host = container.host().stderr(Stdio::piped()).spawn().unwrap();
    let health: Vec<String> =
        serde_json::from_value(backstop["healthCheck"]["command"].clone()).unwrap();
    assert_eq!(health[..2], ["CMD", "backstop"]);
    eventually("the host is healthy", || async {
        let healthy = container.command(&health[2..]).output().await.unwrap();
        healthy.status.success()
    })
    .await;
    queues.send(["one".to_owned()]).await;
    eventually("the worker has the message", || async {
        worker.attempts_of("one") == 1
    })
    .await;
    let id = i32::try_from(host.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    let ended = host.wait_with_output().await.unwrap();
    let log = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{log}");
    assert!(!log.contains("\"WARN\""), "{log}");
}

#[tokio::test]
async fn the_task_that_init_writes_is_valid_and_has_the_values_of_the_queue() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.redrive_after(5).await;
    let folder = tempfile::tempdir().unwrap();
    let mut init = command(&["init", "--ecs", "--policy", "linear", "--name", "Bills"]);
    init.args([
        "--queue-url",
        &queues.url,
        "--endpoint-url",
        &queues.endpoint,
    ])
    .args(["--http", "http://127.0.0.1:7000/a"])
    .args(["--dead-letter-queue", &queues.dead_letters])
    .current_dir(&folder);
    let written = init.output().await.unwrap();
    assert!(written.status.success(), "{}", text(&written.stderr));
    // The command of deploy.md.
    let register =
        "aws ecs register-task-definition --cli-input-json file://ecs/task-definition.json\n";
    let shown = text(&written.stdout);
    assert!(shown.contains(register), "{shown}");
    assert!(document("host/docs/deploy/deploy.md").contains(register));
    let task = std::fs::read_to_string(folder.path().join("ecs/task-definition.json")).unwrap();
    check(&task);
    let task: Value = serde_json::from_str(&task).unwrap();
    assert_eq!(task["family"], "bills-worker");
    let words: Vec<String> =
        serde_json::from_value(named(&task, "backstop")["command"].clone()).unwrap();
    let of = |flag: &str| words[words.iter().position(|it| it == flag).unwrap() + 1].clone();
    assert_eq!(of("--queue-url"), queues.url);
    assert_eq!(of("--dead-letter-queue"), queues.dead_letters);
    assert_eq!(of("--http"), "http://127.0.0.1:7000/a");
    assert_eq!(
        (of("--policy"), of("--max-attempts")),
        ("linear".into(), "4".into())
    );
}
