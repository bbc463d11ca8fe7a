//! The setup for trying in `examples/operate/compose`: Docker Compose accepts it, and its emulator, its worker and a host work together. The tests have no container engine, so the three run as processes.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::config;
use backstop_tests::backstop::text;
use backstop_tests::emulator::{free_port, services};
use backstop_tests::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::checkers::{example, output, python, yaml};
use crate::container::Container;

/// A process that ends with the test.
struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> Self {
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(quiet.spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn file(name: &str) -> std::path::PathBuf {
    example("compose").join(name)
}

/// Docker Compose itself: the package's own command loses the exit status.
const COMPOSE: &str = r#"
import compose, os, sys
program = os.path.join(os.path.dirname(compose.__file__), "docker-compose")
os.execv(program, [program, *sys.argv[1:]])
"#;

/// The file as Docker Compose reads it.
fn composed(path: &Path) -> std::process::Output {
    let mut compose = python("python");
    compose.args(["-c", COMPOSE, "--file"]).arg(path);
    output(compose.args(["config", "--quiet"]), "")
}

#[test]
fn docker_compose_accepts_the_file() {
    let path = file("compose.yaml");
    assert!(
        composed(&path).status.success(),
        "{}",
        text(&composed(&path).stderr)
    );
    let folder = tempfile::tempdir().unwrap();
    let wrong = std::fs::read_to_string(&path).unwrap();
    let wrong = wrong.replace("depends_on", "depend_on");
    let path = folder.path().join("compose.yaml");
    std::fs::write(&path, wrong).unwrap();
    assert!(!composed(&path).status.success());
    // No port is open to other machines.
    let printed = std::fs::read_to_string(file("compose.yaml")).unwrap();
    for service in yaml(&printed)[0]["services"].as_object().unwrap().values() {
        for port in service["ports"].as_array().into_iter().flatten() {
            assert!(port.as_str().unwrap().starts_with("127.0.0.1:"));
        }
    }
}

/// How many messages a queue has that can be received, and how many that wait.
async fn depth(client: &Client, url: &str) -> Option<(String, String)> {
    let names = [
        Q::ApproximateNumberOfMessages,
        Q::ApproximateNumberOfMessagesNotVisible,
    ];
    let request = client.get_queue_attributes().queue_url(url);
    let answer = request.set_attribute_names(Some(names.to_vec())).send();
    let attributes = answer.await.ok()?.attributes?;
    let [visible, hidden] = names.map(|it| attributes[&it].clone());
    Some((visible, hidden))
}

#[tokio::test]
async fn its_emulator_worker_and_host_deliver_retry_and_give_up() {
    let printed = std::fs::read_to_string(file("compose.yaml")).unwrap();
    let services_of = yaml(&printed)[0]["services"].clone();
    let (sqs_port, worker_port, admin_port) = (free_port(), free_port(), free_port());
    let fauxqs = services().join("node_modules/fauxqs/dist/cli.js");
    let _sqs = Process::start(
        Command::new(services().join("node_modules/.bin/node"))
            .arg(fauxqs)
            .env("FAUXQS_INIT", file("queues.json"))
            .env("FAUXQS_PORT", sqs_port.to_string())
            .env("FAUXQS_HOST", "127.0.0.1"),
    );
    let _worker = Process::start(
        python("python")
            .arg(file("worker.py"))
            .env("PORT", worker_port.to_string()),
    );
    let endpoint = format!("http://127.0.0.1:{sqs_port}");
    let client = Client::new(&config(&endpoint).await);
    let url = |name: &str| format!("{endpoint}/000000000000/{name}");
    eventually("the emulator has the queue", || async {
        depth(&client, &url("orders")).await.is_some()
    })
    .await;

    let backstop = &services_of["backstop"];
    let arguments: Vec<String> = serde_json::from_value(backstop["command"].clone()).unwrap();
    let variables = backstop["environment"].as_object().unwrap().iter();
    let variables = variables.map(|(name, value)| (Value::from(name.as_str()), value.clone()));
    let configuration = std::fs::read_to_string(file("backstop.toml")).unwrap();
    let configuration = configuration
        .replace("http://sqs:4566", &endpoint)
        .replace(
            "http://worker:8080",
            &format!("http://127.0.0.1:{worker_port}"),
        )
        .replace("0.0.0.0:9465", &format!("0.0.0.0:{admin_port}"));
    let folder = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let mut container = Container::new(arguments, variables.collect());
    container.mount(folder.path(), "/var/cache/backstop", &[]);
    container.mount(
        folder.path(),
        "/etc/backstop",
        &[("backstop.toml", &configuration)],
    );
    let files = backstop["ulimits"]["nofile"].as_u64().unwrap();
    let container = container
        .with("BACKSTOP_CACHE", "/var/cache/backstop/image")
        .with_files(files);
    let host = container.host().stderr(Stdio::piped()).spawn().unwrap();
    for body in ["one", "busy", "wrong"] {
        let send = client.send_message().queue_url(url("orders"));
        send.message_body(body).send().await.unwrap();
    }
    let nothing = ("0".to_owned(), "0".to_owned());
    eventually("one letter is dead and all else is done", || async {
        let letters = depth(&client, &url("orders-dead")).await;
        letters.is_some_and(|it| it.0 == "1")
            && depth(&client, &url("orders")).await == Some(nothing.clone())
    })
    .await;
    let id = i32::try_from(host.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    let ended = host.wait_with_output().await.unwrap();
    let log = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{log}");
    assert_eq!(log.matches("HTTP 429").count(), 2, "{log}");
}
