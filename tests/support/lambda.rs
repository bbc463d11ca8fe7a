//! Functions on an emulator of Lambda: real `provided.al2023` packages whose bootstraps speak the Runtime API.

use std::collections::HashMap;
use std::io::Write;
use std::process::Command;

use aws_sdk_lambda::Client;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::{
    DestinationConfig, Environment, FunctionCode, FunctionResponseType, OnFailure, Runtime, State,
};

use crate::aws::config;
use crate::backstop::program;
use crate::eventually;

/// The loop of a function in Python: `handle(event, id)` answers or raises an error `(type, message)`.
const LOOP: &str = r#"#!/usr/bin/env python3
import json, os, urllib.request
api = "http://" + os.environ["AWS_LAMBDA_RUNTIME_API"] + "/2018-06-01/runtime/invocation/"
class Failed(Exception): pass
HANDLER
while True:
    with urllib.request.urlopen(api + "next") as answer:
        id, event = answer.headers["Lambda-Runtime-Aws-Request-Id"], json.load(answer)
    try:
        ended, body = "/response", handle(event, id)
    except Failed as failed:
        ended, body = "/error", {"errorType": failed.args[0], "errorMessage": failed.args[1]}
    print("handled", id, flush=True)
    urllib.request.urlopen(urllib.request.Request(api + id + ended, json.dumps(body).encode(), {"Lambda-Runtime-Function-Error-Type": body.get("errorType", "")}))
"#;

/// Fails with `OutOfStock` if the event requests it.
pub const FAILS_WHEN_TOLD: &str = r#"
def handle(event, id):
    if event.get("fail"): raise Failed("OutOfStock", "none left")
    return {"ok": True}
"#;

/// Unwraps an order, writes the attempt to the file LOG, and fails as the order requests: `{"order": 1, "fails": [["Type", attempts], …]}`, each type for that many attempts.
pub const ORDERS: &str = r#"
def handle(event, id):
    retry = event.get("_retry_metadata", {"attempt": 1, "id": id})
    order = event.get("_original_payload", event)
    failure = None
    left = retry["attempt"]
    for code, attempts in order["fails"]:
        if left <= attempts:
            failure = code
            break
        left -= attempts
    with open(os.environ["LOG"], "a") as log:
        log.write(json.dumps({"order": order["order"], "attempt": retry["attempt"], "id": retry["id"], "failed": failure}) + "\n")
    if failure: raise Failed(failure, "as ordered")
    return {"ok": True}
"#;

/// A function to create.
#[derive(Debug)]
pub struct Function {
    /// The package: names and contents.
    pub files: Vec<(String, Vec<u8>)>,
    /// Its environment.
    pub environment: HashMap<String, String>,
    /// In seconds.
    pub timeout: i32,
}

impl Function {
    /// A function in Python with this handler.
    pub fn python(handler: &str) -> Self {
        let bootstrap = LOOP.replace("HANDLER", handler);
        Self {
            files: vec![("bootstrap".to_owned(), bootstrap.into_bytes())],
            environment: HashMap::new(),
            timeout: 30,
        }
    }

    /// A program of this workspace, without the names that a debugger reads.
    pub fn of_program(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stripped = folder.path().join("bootstrap");
        let mut strip = Command::new("strip");
        strip.arg(program(name)).arg("-o").arg(&stripped);
        assert!(strip.status().unwrap().success());
        Self {
            files: vec![("bootstrap".to_owned(), std::fs::read(stripped).unwrap())],
            environment: HashMap::new(),
            timeout: 30,
        }
    }

    /// The retry handler.
    pub fn retry_handler() -> Self {
        Self::of_program("backstop-lambda")
    }

    /// With a variable of its environment.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// With another file in its package.
    #[must_use]
    pub fn with_file(mut self, name: &str, text: &str) -> Self {
        self.files.push((name.to_owned(), text.as_bytes().to_vec()));
        self
    }

    /// Creates it and waits until it can be invoked; its ARN.
    pub async fn make(self, endpoint: &str, name: &str) -> String {
        let role = "arn:aws:iam::000000000000:role/test";
        self.make_as(endpoint, name, role).await
    }

    /// As [`Function::make`], with this role: one emulator checks that it exists.
    pub async fn make_as(self, endpoint: &str, name: &str, role: &str) -> String {
        let client = Client::new(&config(endpoint).await);
        let environment = Environment::builder().set_variables(Some(self.environment));
        let made = client
            .create_function()
            .function_name(name)
            .runtime(Runtime::Providedal2023)
            .handler("bootstrap")
            .role(role)
            .code(
                FunctionCode::builder()
                    .zip_file(Blob::new(package(&self.files)))
                    .build(),
            )
            .environment(environment.build())
            .timeout(self.timeout)
            .send()
            .await
            .unwrap();
        eventually("the function is active", || async {
            let function = client.get_function().function_name(name).send().await;
            let configuration = function.unwrap().configuration;
            configuration.and_then(|it| it.state) == Some(State::Active)
        })
        .await;
        made.function_arn.unwrap()
    }
}

/// Deletes a function.
pub async fn delete(endpoint: &str, name: &str) {
    let client = Client::new(&config(endpoint).await);
    client
        .delete_function()
        .function_name(name)
        .send()
        .await
        .unwrap();
}

fn package(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in files {
        let mode = if name == "bootstrap" { 0o755 } else { 0o644 };
        let options = zip::write::SimpleFileOptions::default().unix_permissions(mode);
        zip.start_file(name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Disables Lambda's own retries for this function and sends its failures to the queue with this ARN.
pub async fn send_failures(endpoint: &str, function: &str, queue_arn: &str) {
    let client = Client::new(&config(endpoint).await);
    let on_failure = OnFailure::builder().destination(queue_arn).build();
    client
        .put_function_event_invoke_config()
        .function_name(function)
        .maximum_retry_attempts(0)
        .maximum_event_age_in_seconds(3_600)
        .destination_config(DestinationConfig::builder().on_failure(on_failure).build())
        .send()
        .await
        .unwrap();
}

/// Feeds the function from the queue with this ARN, in batches of ten with partial responses. The mapping's id.
pub async fn map(endpoint: &str, function: &str, queue_arn: &str) -> String {
    let client = Client::new(&config(endpoint).await);
    let made = client
        .create_event_source_mapping()
        .function_name(function)
        .event_source_arn(queue_arn)
        .batch_size(10)
        .function_response_types(FunctionResponseType::ReportBatchItemFailures)
        .send()
        .await
        .unwrap();
    made.uuid.unwrap()
}

/// Ends a mapping.
pub async fn unmap(endpoint: &str, id: &str) {
    let client = Client::new(&config(endpoint).await);
    client
        .delete_event_source_mapping()
        .uuid(id)
        .send()
        .await
        .unwrap();
}

/// Invokes asynchronously.
pub async fn invoke(endpoint: &str, function: &str, event: &serde_json::Value) {
    let client = Client::new(&config(endpoint).await);
    let answer = client
        .invoke()
        .function_name(function)
        .invocation_type(aws_sdk_lambda::types::InvocationType::Event)
        .payload(Blob::new(event.to_string()))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status_code, 202);
}

/// Invokes, and waits for the answer.
pub async fn answer(
    endpoint: &str,
    function: &str,
    event: &serde_json::Value,
) -> serde_json::Value {
    let client = Client::new(&config(endpoint).await);
    let invoke = client.invoke().function_name(function);
    let answer = invoke.payload(Blob::new(event.to_string())).send().await;
    let answer = answer.unwrap().payload.unwrap();
    serde_json::from_slice(answer.as_ref()).unwrap()
}
