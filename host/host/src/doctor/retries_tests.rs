use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::super::deployment::Settings;
use super::super::documented::expect_row;
use super::*;
use crate::config::Config;
use crate::failure::Milliseconds;
use crate::queue::{Redrive, VisibilityTimeout};

fn queue(name: &str) -> Description {
    Description {
        arn: format!("arn:aws:sqs:eu-west-1:1:{name}"),
        fifo: false,
        visibility_timeout: VisibilityTimeout::from_seconds(360),
        retention: LONGEST_DELAY,
        max_message_bytes: BATCH_BYTES,
        visible: Some(0),
        in_flight: Some(0),
        redrive: None,
        delay: Milliseconds(0),
        delayed: None,
        access_policy: None,
    }
}

fn function(name: &str) -> Function {
    Function {
        name: format!("arn:aws:lambda:eu-west-1:1:function:{name}"),
        missing: false,
        settings: Ok(Settings {
            timeout: 60,
            memory: Some(256),
            variables: Ok(BTreeMap::new()),
            reserved_concurrency: None,
            dead_letter_config: None,
        }),
        detects_recursion: Ok(false),
        events: Ok(Some(Events {
            retries: Some(0),
            max_age: Some(3_600),
            on_failure: Some(queue("retries").arn),
            on_success: None,
        })),
    }
}

/// A deployment without a fault.
fn good() -> Deployment {
    let mut retry_queue = queue("retries");
    retry_queue.redrive = Some(Redrive {
        dead_letter_arn: queue("dead").arn,
        max_receive_count: NonZeroU32::new(1_000).unwrap(),
    });
    Deployment {
        retry_queue,
        dead_letters: Some(Ok(queue("dead"))),
        class_dead_letters: vec![("permanent".to_owned(), Ok(queue("invalid")))],
        mappings: Ok(vec![Mapping {
            function: function("handler").name,
            state: "Enabled".to_owned(),
            reports_failures: true,
            ..Mapping::default()
        }]),
        handler: Some(function("handler")),
        functions: vec![function("orders")],
    }
}

fn lambda(max_attempts: &str) -> LambdaConfig {
    let variable = |name: &str| match name {
        "BACKSTOP_MAX_ATTEMPTS" => Some(max_attempts.to_owned()),
        "BACKSTOP_FUNCTIONS" => Some("orders".to_owned()),
        _ => None,
    };
    Config::of_lambda(&variable).unwrap().lambda.unwrap()
}

/// An access policy that admits everybody.
const OPEN: &str =
    r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage"}}"#;

/// Has the function send its successes there.
fn succeed(deployment: &mut Deployment, to: String) {
    let events = deployment.functions[0].events.as_mut().unwrap();
    events.as_mut().unwrap().on_success = Some(to);
}

#[test]
fn successes_elsewhere_are_good_and_said_with_what_they_carry() {
    let mut deployment = good();
    succeed(&mut deployment, queue("done").arn);
    let found = check(&deployment, &lambda("12"));
    let said = found
        .iter()
        .find(|it| it.text.contains("sends its successes to arn"))
        .unwrap();
    assert_eq!(said.severity, Severity::Good);
    assert!(said.text.contains("is the envelope"), "{said}");
}

#[test]
fn a_handler_that_invokes_anything_is_reported() {
    let everything = LambdaConfig {
        functions: Vec::new(),
        ..lambda("12")
    };
    let found = check(&good(), &everything);
    let warning = found.iter().find(|it| it.severity == Warning).unwrap();
    assert!(warning.text.contains("Set BACKSTOP_FUNCTIONS"), "{warning}");
}

/// The verdicts and texts of all findings after the change that are not good.
fn after(change: impl Fn(&mut Deployment)) -> Vec<(Severity, String)> {
    let mut deployment = good();
    change(&mut deployment);
    let found = check(&deployment, &lambda("20")).into_iter();
    let bad = found.filter(|finding| finding.severity != Severity::Good);
    bad.map(|finding| (finding.severity, finding.to_string()))
        .collect()
}

#[test]
fn a_deployment_without_a_fault_has_good_findings_only() {
    assert_eq!(after(|_| {}), []);
    assert!(check(&good(), &lambda("20")).len() > 12);
}

#[test]
fn each_mistake_is_found_with_what_to_change() {
    type Change = fn(&mut Deployment);
    let traps: [(&str, Change, Severity, &str); 37] = [
        (
            "a delay of the queue",
            |it| it.retry_queue.delay = Milliseconds(60_000),
            Warning,
            "for 1m (DelaySeconds)",
        ),
        (
            "an open retry queue",
            |it| it.retry_queue.access_policy = Some(OPEN.to_owned()),
            Warning,
            "lets everybody send messages to it",
        ),
        (
            "open dead letters",
            |it| {
                let queue = it.dead_letters.as_mut().unwrap().as_mut().unwrap();
                queue.access_policy = Some(OPEN.to_owned());
            },
            Warning,
            "dead-letter queue dead: lets everybody",
        ),
        (
            "dead letters that are gone",
            |it| it.dead_letters = Some(Err(Unseen::Missing)),
            Wrong,
            "does not exist: create it",
        ),
        (
            "successes to the retry queue",
            |it| succeed(it, queue("retries").arn),
            Wrong,
            "sends its successes to the retry queue",
        ),
        (
            "successes to the dead letters",
            |it| succeed(it, queue("dead").arn),
            Wrong,
            "sends its successes to the dead-letter queue",
        ),
        (
            "successes to a class's dead letters",
            |it| succeed(it, queue("invalid").arn),
            Wrong,
            "sends its successes to the dead-letter queue",
        ),
        (
            "successes to the handler",
            |it| succeed(it, format!("{}:$LATEST", function("handler").name)),
            Wrong,
            "sends its successes to the retry handler",
        ),
        (
            "fifo",
            |it| it.retry_queue.fifo = true,
            Wrong,
            "use a standard queue",
        ),
        (
            "retention",
            |it| it.retry_queue.retention = Milliseconds(4 * 86_400_000),
            Warning,
            "MessageRetentionPeriod to 1209600",
        ),
        (
            "receives",
            |it| {
                it.retry_queue.redrive.as_mut().unwrap().max_receive_count =
                    NonZeroU32::new(50).unwrap()
            },
            Wrong,
            "maxReceiveCount to at least 51",
        ),
        (
            "few receives",
            |it| {
                it.retry_queue.redrive.as_mut().unwrap().max_receive_count =
                    NonZeroU32::new(51).unwrap()
            },
            Warning,
            "maxReceiveCount to 1000",
        ),
        (
            "another's mapping",
            |it| it.mappings.as_mut().unwrap()[0].function = function("other").name,
            Wrong,
            "invokes other, not handler",
        ),
        (
            "a short timeout",
            |it| {
                it.handler
                    .as_mut()
                    .unwrap()
                    .settings
                    .as_mut()
                    .unwrap()
                    .timeout = 3
            },
            Wrong,
            "set its Timeout to 60",
        ),
        (
            "no concurrency",
            |it| {
                it.functions[0]
                    .settings
                    .as_mut()
                    .unwrap()
                    .reserved_concurrency = Some(0)
            },
            Warning,
            "uses up attempts without running",
        ),
        (
            "in flight",
            |it| it.retry_queue.in_flight = Some(110_000),
            Warning,
            "has 110000 invisible records now",
        ),
        (
            "no redrive",
            |it| it.retry_queue.redrive = None,
            Warning,
            "has no redrive policy",
        ),
        (
            "small records",
            |it| it.retry_queue.max_message_bytes = 262_144,
            Warning,
            "MaximumMessageSize to 1048576",
        ),
        (
            "no dead letters",
            |it| it.dead_letters = None,
            Wrong,
            "there is none: configure one",
        ),
        (
            "itself",
            |it| it.dead_letters = Some(Ok(it.retry_queue.clone())),
            Wrong,
            "is the retry queue itself",
        ),
        (
            "short dead letters",
            |it| {
                it.dead_letters
                    .as_mut()
                    .unwrap()
                    .as_mut()
                    .unwrap()
                    .retention = Milliseconds(1)
            },
            Warning,
            "the maximum of SQS",
        ),
        (
            "small dead letters",
            |it| {
                it.dead_letters
                    .as_mut()
                    .unwrap()
                    .as_mut()
                    .unwrap()
                    .max_message_bytes = 1_024
            },
            Wrong,
            "can't be dead-lettered",
        ),
        (
            "a class without a dead-letter queue",
            |it| it.class_dead_letters[0].1 = Ok(it.retry_queue.clone()),
            Wrong,
            "dead-letter queue of class permanent retries: is the retry queue itself",
        ),
        (
            "no mapping",
            |it| it.mappings = Ok(Vec::new()),
            Wrong,
            "nothing receives records",
        ),
        (
            "two mappings",
            |it| {
                let one = it.mappings.clone().unwrap();
                it.mappings.as_mut().unwrap().extend(one);
            },
            Wrong,
            "2 mappings receive records",
        ),
        (
            "no partial responses",
            |it| it.mappings.as_mut().unwrap()[0].reports_failures = false,
            Wrong,
            "ReportBatchItemFailures",
        ),
        (
            "disabled",
            |it| it.mappings.as_mut().unwrap()[0].state = "Disabled".to_owned(),
            Wrong,
            "is Disabled",
        ),
        (
            "filters",
            |it| it.mappings.as_mut().unwrap()[0].filters = true,
            Wrong,
            "filter criteria",
        ),
        (
            "short visibility",
            |it| it.retry_queue.visibility_timeout = VisibilityTimeout::from_seconds(120),
            Warning,
            "VisibilityTimeout to at least 360",
        ),
        (
            "shorter visibility",
            |it| it.retry_queue.visibility_timeout = VisibilityTimeout::from_seconds(59),
            Wrong,
            "while it is being handled",
        ),
        (
            "a window",
            |it| it.mappings.as_mut().unwrap()[0].window = 30,
            Warning,
            "VisibilityTimeout to at least 390",
        ),
        (
            "no destination",
            |it| it.functions[0].events = Ok(None),
            Wrong,
            "has no event-invoke configuration",
        ),
        (
            "another destination",
            |it| {
                it.functions[0]
                    .events
                    .as_mut()
                    .unwrap()
                    .as_mut()
                    .unwrap()
                    .on_failure = None
            },
            Wrong,
            "sends its failures to nowhere",
        ),
        (
            "lambda's retries",
            |it| {
                it.functions[0]
                    .events
                    .as_mut()
                    .unwrap()
                    .as_mut()
                    .unwrap()
                    .retries = Some(2)
            },
            Warning,
            "MaximumRetryAttempts to 0",
        ),
        (
            "event age",
            |it| {
                it.functions[0]
                    .events
                    .as_mut()
                    .unwrap()
                    .as_mut()
                    .unwrap()
                    .max_age = None
            },
            Warning,
            "MaximumEventAgeInSeconds",
        ),
        (
            "recursion",
            |it| it.functions[0].detects_recursion = Ok(true),
            Wrong,
            "--function-name orders --recursive-loop Allow",
        ),
        (
            "dead-letter config",
            |it| {
                it.functions[0]
                    .settings
                    .as_mut()
                    .unwrap()
                    .dead_letter_config = Some(it.retry_queue.arn.clone())
            },
            Wrong,
            "as the on-failure destination instead",
        ),
    ];
    for (name, change, severity, advice) in traps {
        let found = after(change);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        expect_row(severity, &found[0].1);
        assert!(
            found[0].0 == severity && found[0].1.contains(advice),
            "{name}: {found:?}"
        );
    }
}

#[test]
fn a_handler_that_can_t_keep_up_is_reported() {
    let found = after(|it| {
        it.handler
            .as_mut()
            .unwrap()
            .settings
            .as_mut()
            .unwrap()
            .reserved_concurrency = Some(5);
        it.mappings.as_mut().unwrap()[0].max_concurrency = Some(10);
    });
    assert!(
        found.len() == 1 && found[0].1.contains("MaximumConcurrency to at most 5"),
        "{found:?}"
    );
    let found = after(|it| {
        it.handler
            .as_mut()
            .unwrap()
            .settings
            .as_mut()
            .unwrap()
            .reserved_concurrency = Some(0)
    });
    assert!(
        found.len() == 1 && found[0].1.contains("it never runs"),
        "{found:?}"
    );
}

#[test]
fn recursion_detection_is_no_fault_for_a_few_attempts() {
    let mut deployment = good();
    deployment.handler.as_mut().unwrap().detects_recursion = Ok(true);
    let worst = |most| {
        check(&deployment, &lambda(most))
            .into_iter()
            .map(|it| it.severity)
            .max()
    };
    assert_eq!((worst("12"), worst("13")), (Some(Warning), Some(Wrong)));
}

#[test]
fn what_can_t_be_checked_is_unknown() {
    let found = after(|it| {
        it.mappings = Err("AccessDeniedException".to_owned());
        it.dead_letters = Some(Err(Unseen::Unknown("AccessDenied".to_owned())));
        it.functions[0].detects_recursion = Err("AccessDeniedException".to_owned());
        it.functions[0].events = Err("AccessDeniedException".to_owned());
        it.functions[0].settings = Err("AccessDeniedException".to_owned());
        it.retry_queue.access_policy = Some("Statement".to_owned());
    });
    assert_eq!(found.len(), 6);
    assert!(
        found
            .iter()
            .all(|(severity, text)| *severity == Unknown && text.contains("not checked")),
        "{found:?}"
    );
}
