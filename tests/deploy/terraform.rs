//! The Terraform module in `examples/lambda/terraform`: it parses, its references lead somewhere, it makes what the SAM template makes, and its handler may do what `backstop doctor --iam` prints. There is no Terraform here, so nothing is planned.

use std::collections::BTreeSet;

use backstop_tests::backstop::{command, text};
use backstop_tests::documents::top;
use serde_json::{Value, json};

use crate::checkers::{passes, python};

/// What the module makes: see the script.
fn module() -> Value {
    let lambda = top().join("examples/lambda");
    let mut script = python("python");
    script
        .args(["-c", include_str!("terraform.py")])
        .arg(lambda.join("terraform"))
        .arg(lambda.join("template.yaml"));
    serde_json::from_str(&passes(&mut script, "")).unwrap()
}

/// A handler with the names that the script gives the module.
const CONFIGURATION: &str = r#"
endpoint-url = "http://127.0.0.1:9"

[lambda]
retry-queue = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders-retries"
dead-letter-queue = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders-dead-letters"
functions = ["function"]
handler = "orders-retry-handler"
"#;

/// The permissions that the doctor prints, each with a resource.
async fn of_the_doctor() -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("backstop.toml"), CONFIGURATION).unwrap();
    let mut doctor = command(&["doctor", "--iam"]);
    let printed = doctor.current_dir(&folder).output().await.unwrap();
    assert!(printed.status.success(), "{}", text(&printed.stderr));
    let policy: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let mut all = BTreeSet::new();
    for statement in policy["Statement"].as_array().unwrap() {
        assert_eq!(statement["Effect"], "Allow");
        for action in statement["Action"].as_array().unwrap() {
            for resource in statement["Resource"].as_array().unwrap() {
                let (action, resource) = (action.as_str().unwrap(), resource.as_str().unwrap());
                all.insert(format!("{action} on {resource}"));
            }
        }
    }
    all
}

#[tokio::test]
async fn the_handler_of_the_module_may_do_what_the_doctor_prints_and_write_its_log() {
    let permissions: BTreeSet<String> =
        serde_json::from_value(module()["permissions"].clone()).unwrap();
    let of = |role: &str| -> BTreeSet<String> {
        let lines = permissions.iter().filter_map(|it| it.strip_prefix(role));
        lines.map(str::to_owned).collect()
    };
    let mut handler = of("role of handler: ");
    let log = "arn:aws:logs:eu-west-1:123456789012:log-group:/aws/lambda/orders-retry-handler:*";
    for action in ["logs:CreateLogStream", "logs:PutLogEvents"] {
        assert!(handler.remove(&format!("{action} on {log}")));
    }
    assert_eq!(handler, of_the_doctor().await);
    let retries = "arn:aws:sqs:eu-west-1:123456789012:orders-retries";
    let function = [format!("sqs:SendMessage on {retries}")];
    assert_eq!(of("role of function: "), function.into());
}

#[test]
fn the_module_has_the_alarms_and_the_settings_of_the_template() {
    let module = module();
    assert_eq!(module["alarms"][0], module["alarms"][1]);
    assert_eq!(module["alarms"][0].as_array().unwrap().len(), 9);
    assert_eq!(module["alarm of letters"][0], module["alarm of letters"][1]);
    assert_eq!(module["variables"], module["variables of sam"]);
    let resources = &module["resources"];
    for (resource, settings) in [
        (
            "aws_sqs_queue.retries",
            json!({"visibility_timeout_seconds": 360, "message_retention_seconds": 1_209_600, "max_message_size": 1_048_576, "sqs_managed_sse_enabled": true}),
        ),
        (
            "aws_sqs_queue.dead_letters",
            json!({"message_retention_seconds": 1_209_600, "max_message_size": 1_048_576, "sqs_managed_sse_enabled": true}),
        ),
        (
            "aws_lambda_function_event_invoke_config.function",
            json!({"maximum_retry_attempts": 0, "qualifier": "$LATEST"}),
        ),
        (
            "aws_lambda_function.handler",
            json!({"runtime": "provided.al2023", "timeout": 60, "memory_size": 256}),
        ),
        (
            "aws_lambda_event_source_mapping.retries",
            json!({"function_response_types": ["ReportBatchItemFailures"], "batch_size": 10}),
        ),
        (
            "aws_lambda_function_recursion_config.function",
            json!({"recursive_loop": "Allow"}),
        ),
        (
            "aws_lambda_function_recursion_config.handler",
            json!({"recursive_loop": "Allow"}),
        ),
    ] {
        for (name, value) in settings.as_object().unwrap() {
            assert_eq!(&resources[resource][name], value, "{resource} {name}");
        }
    }
    let redrive = resources["aws_sqs_queue_redrive_policy.retries"]["redrive_policy"].as_str();
    assert!(redrive.unwrap().contains("maxReceiveCount = 1000"));
}
