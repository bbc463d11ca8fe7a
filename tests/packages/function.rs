//! The Lambda retry handler as a package and as a layer.

use std::process::Stdio;

use backstop_tests::backstop::text;
use backstop_tests::runtime_api::RuntimeApi;
use serde_json::json;

use super::root::Root;
use super::world::{one, packages, succeeds};

/// What every function of the retry handler is configured with.
const VARIABLES: [(&str, &str); 14] = [
    ("RETRY_QUEUE_URL", "http://127.0.0.1:1/000000000000/retries"),
    (
        "DEAD_LETTER_QUEUE_URL",
        "http://127.0.0.1:1/000000000000/dead",
    ),
    ("BACKSTOP_FUNCTIONS", "orders"),
    ("MAX_RETRIES", "11"),
    ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "test"),
    ("AWS_REGION", "us-east-1"),
    ("LAMBDA_TASK_ROOT", "/var/task"),
    ("AWS_LAMBDA_FUNCTION_NAME", "retries"),
    ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
    ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
    ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
    ("TZ", ":UTC"),
];

/// Unpacks a zip into a folder of a root, and runs its bootstrap as Lambda does.
async fn starts(zip: &std::path::Path, folder: &str) {
    let root = Root::new().with_certificates();
    std::fs::create_dir_all(root.path(folder)).unwrap();
    let mut unzip = std::process::Command::new("python3");
    let script = "import os, sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\nfor i in z.infolist():\n os.chmod(z.extract(i, sys.argv[2]), i.external_attr >> 16)";
    succeeds(unzip.args(["-c", script]).arg(zip).arg(root.path(folder)));
    let bootstrap = format!("{folder}/bootstrap");
    root.with_libraries(&root.path(&bootstrap));
    let api = RuntimeApi::start().await;
    let mut command = root.command(&bootstrap, &[]);
    command
        .envs(VARIABLES)
        .env("AWS_LAMBDA_RUNTIME_API", &api.address);
    command
        .env("BACKSTOP_CACHE", "off")
        .env("BACKSTOP_POLICY", "full-jitter");
    let mut running = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let answer = api.invoke(json!({ "Records": [] }).to_string()).await;
    running.kill().unwrap();
    let output = running.wait_with_output().unwrap();
    let log = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(answer, Ok(json!({ "batchItemFailures": [] })), "{log}");
    // It would warn that it compiles.
    assert!(!log.contains("WARN"), "{log}");
}

#[tokio::test]
async fn a_package_and_a_layer_start_with_policies_that_are_compiled() {
    let made = packages("function");
    let layer = one(
        made.path(),
        &format!("layer-{}.zip", super::world::architecture()),
    );
    starts(&layer, "/opt").await;
    let package = format!("lambda-{}.zip", super::world::architecture());
    starts(&one(made.path(), &package), "/var/task").await;
}
