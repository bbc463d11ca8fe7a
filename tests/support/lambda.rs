//! A function on an emulator of Lambda: a real `provided.al2023` package whose bootstrap speaks the Runtime API.

use std::io::Write;

use aws_sdk_lambda::Client;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::{FunctionCode, Runtime, State};

use crate::aws::config;
use crate::eventually;

/// Fails with `OutOfStock` when the event says so.
const BOOTSTRAP: &str = r#"#!/usr/bin/env python3
import json, os, urllib.request
api = "http://" + os.environ["AWS_LAMBDA_RUNTIME_API"] + "/2018-06-01/runtime/invocation/"
while True:
    with urllib.request.urlopen(api + "next") as answer:
        id, event = answer.headers["Lambda-Runtime-Aws-Request-Id"], json.load(answer)
    failed = event.get("fail")
    body = {"errorType": "OutOfStock", "errorMessage": "none left"} if failed else {"ok": True}
    print("handled", id, flush=True)
    url = api + id + ("/error" if failed else "/response")
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), {"Lambda-Runtime-Function-Error-Type": "OutOfStock"}))
"#;

/// Makes the function and waits until it can be invoked.
pub async fn make_function(endpoint: &str, name: &str) {
    let client = Client::new(&config(endpoint).await);
    let code = FunctionCode::builder()
        .zip_file(Blob::new(package()))
        .build();
    let made = client
        .create_function()
        .function_name(name)
        .runtime(Runtime::Providedal2023)
        .handler("bootstrap")
        .role("arn:aws:iam::000000000000:role/test")
        .code(code)
        .timeout(10)
        .send()
        .await;
    made.unwrap();
    eventually("the function is active", || async {
        let function = client
            .get_function()
            .function_name(name)
            .send()
            .await
            .unwrap();
        function
            .configuration
            .and_then(|configuration| configuration.state)
            == Some(State::Active)
    })
    .await;
}

fn package() -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().unix_permissions(0o755);
    zip.start_file("bootstrap", options).unwrap();
    zip.write_all(BOOTSTRAP.as_bytes()).unwrap();
    zip.finish().unwrap().into_inner()
}
