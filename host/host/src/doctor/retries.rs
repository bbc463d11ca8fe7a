//! The known mistakes in a deployment that retries asynchronous functions through a queue, found in its settings. Pure: makes no requests.

use super::deployment::{Deployment, Described, Events, Function, Mapping, Unseen, name_of};
use super::{Finding, Findings, Severity, queues};
use crate::config::LambdaConfig;
use crate::config::UNHINDERED_ATTEMPTS;
use crate::decision::LONGEST_DELAY;
use crate::lambda::STEP;
use crate::queue::{BATCH_BYTES, CREATE_IT, Description, short_name};

use Severity::{Unknown, Warning, Wrong};

/// Receives without an attempt that a message must be allowed, in addition to those in which it is delayed again.
const SPARE_RECEIVES: u32 = 22;

/// Receives that an outage of some hours may use up, in addition.
const MANY_RECEIVES: u32 = 500;

/// This many invisible records are close to the limit of SQS.
const MANY_IN_FLIGHT: usize = 100_000;

/// The only finding about a function that does not exist.
const MISSING: &str = "does not exist: create it or correct its name; the account and region must be those of the credentials";

/// Checks everything.
pub(super) fn check(deployment: &Deployment, lambda: &LambdaConfig) -> Vec<Finding> {
    let mut found = retry_queue(deployment, lambda);
    let own = deployment.dead_letters.as_ref();
    found.extend(dead_letters("dead-letter queue", own, deployment));
    for (class, queue) in &deployment.class_dead_letters {
        let subject = format!("dead-letter queue of class {class}");
        found.extend(dead_letters(&subject, Some(queue), deployment));
    }
    found.extend(mapping(deployment));
    found.extend(handler(deployment, lambda));
    for function in &deployment.functions {
        found.extend(retried(function, deployment, lambda));
    }
    if lambda.functions.is_empty() {
        let mut findings = Findings::about("functions");
        findings.add(Warning, "none configured: the handler invokes any function that a record names, and anyone who may send to the retry queue can write records. Set BACKSTOP_FUNCTIONS, or functions in [lambda]: then only these are invoked, and they are checked here");
        found.extend(findings.found);
    }
    found
}

/// What is known of a function whose retry queue is not.
pub(super) fn alone(function: &Function) -> Finding {
    let (severity, text) = match &function.settings {
        Err(_) if function.missing => (Wrong, MISSING.to_owned()),
        Err(reason) => (
            Unknown,
            format!("not checked: {reason}. Allow lambda:GetFunction"),
        ),
        Ok(_) => (
            Unknown,
            "not checked: its retry queue is not known".to_owned(),
        ),
    };
    Finding {
        subject: format!("function {}", name_of(&function.name)),
        severity,
        text,
        hold: None,
    }
}

fn retry_queue(deployment: &Deployment, lambda: &LambdaConfig) -> Vec<Finding> {
    let queue = &deployment.retry_queue;
    let mut findings = Findings::about(format!("retry queue {}", short_name(&queue.arn)));
    findings.expect(
        !queue.fifo,
        "is a standard queue",
        Wrong,
        "is a FIFO queue: Lambda delivers no on-failure records to one; use a standard queue",
    );
    let oldest = lambda.decider.bounds.max_age.unwrap_or(LONGEST_DELAY);
    let enough = queue.retention >= oldest;
    findings.expect(enough, "keeps a record for as long as an event may be retried", Warning, format!(
        "keeps a record for {} only, but max-age is {oldest}: longer delays are cut. Set its MessageRetentionPeriod to {}",
        queue.retention,
        oldest.0 / 1_000
    ));
    let steps = oldest.as_duration().as_secs().div_ceil(STEP.as_secs());
    let receives = SPARE_RECEIVES + u32::try_from(steps).unwrap_or(u32::MAX);
    match &queue.redrive {
        Some(redrive) if redrive.max_receive_count.get() < receives => findings.add(Wrong, format!(
            "gives a record up after {} receives, but a delayed record is received many times: set maxReceiveCount to at least {receives}, or better to 1000",
            redrive.max_receive_count
        )),
        Some(redrive) if redrive.max_receive_count.get() < MANY_RECEIVES => findings.add(Warning, format!(
            "gives a record up after {} receives: while Lambda accepts no invocations of a function, each attempt uses one up. Set maxReceiveCount to 1000",
            redrive.max_receive_count
        )),
        Some(_) => findings.add(Severity::Good, "does not give up a record that is only delayed"),
        None => findings.add(Warning, "has no redrive policy: a record that the handler can't read is received forever. Give it one with maxReceiveCount 1000"),
    }
    if let Some(in_flight) = queue.in_flight {
        findings.expect(in_flight < MANY_IN_FLIGHT, "has fewer invisible records than SQS allows", Warning, format!(
            "has {in_flight} invisible records now: at 120000, SQS delivers no more, without an error. Shorten the delays, or give some functions their own retry queue"
        ));
    }
    of_itself(&mut findings, queue, true);
    findings.expect(queue.max_message_bytes >= BATCH_BYTES, "accepts records of 1 MiB", Warning, format!(
        "accepts records of {} bytes only: Lambda loses the event of a larger one. Set its MaximumMessageSize to {BATCH_BYTES}",
        queue.max_message_bytes
    ));
    findings.found
}

/// What is wrong with a queue by itself. The delay of a dead-letter queue delays no attempt.
fn of_itself(findings: &mut Findings, queue: &Description, has_attempts: bool) {
    let delay = queues::delay(queue).filter(|_| has_attempts);
    let access = queues::access(queue);
    let is_good = delay.is_none() && access.is_none();
    if let Some(text) = delay {
        findings.add(Warning, text);
    }
    if let Some((severity, text)) = access {
        findings.add(severity, text);
    }
    if is_good {
        findings.add(Severity::Good, "is not open to everybody");
    }
}

fn dead_letters(subject: &str, queue: Option<&Described>, deployment: &Deployment) -> Vec<Finding> {
    let mut findings = Findings::about(subject);
    let queue: &Description = match queue {
        None => {
            findings.add(Wrong, "there is none: configure one with dead-letter-queue, or give the retry queue a redrive policy");
            return findings.found;
        }
        Some(Err(Unseen::Missing)) => {
            findings.add(Wrong, format!("does not exist: {CREATE_IT}"));
            return findings.found;
        }
        Some(Err(Unseen::Unknown(reason))) => {
            findings.add(Unknown, format!("not checked: {reason}"));
            return findings.found;
        }
        Some(Ok(queue)) => queue,
    };
    findings.subject = format!("{subject} {}", short_name(&queue.arn));
    let retries = &deployment.retry_queue;
    findings.expect(
        queue.arn != retries.arn,
        "is not the retry queue",
        Wrong,
        "is the retry queue itself: dead letters would be retried forever",
    );
    findings.expect(
        !queue.fifo,
        "is a standard queue",
        Wrong,
        "is a FIFO queue: records have no message group; use a standard queue",
    );
    of_itself(&mut findings, queue, false);
    findings.expect(queue.retention >= LONGEST_DELAY, "keeps dead letters for 14 days", Warning, format!(
        "keeps dead letters for {} only. Set its MessageRetentionPeriod to 1209600, the maximum of SQS",
        queue.retention
    ));
    findings.expect(queue.max_message_bytes >= retries.max_message_bytes, "accepts everything that the retry queue accepts", Wrong, format!(
        "accepts {} bytes, the retry queue {}: a larger record can't be dead-lettered. Raise its MaximumMessageSize",
        queue.max_message_bytes, retries.max_message_bytes
    ));
    findings.found
}

fn mapping(deployment: &Deployment) -> Vec<Finding> {
    let mut findings = Findings::about("event source mapping");
    let mappings = match &deployment.mappings {
        Ok(mappings) => mappings,
        Err(reason) => {
            findings.add(
                Unknown,
                format!("not checked: {reason}. Allow lambda:ListEventSourceMappings"),
            );
            return findings.found;
        }
    };
    let [mapping] = mappings.as_slice() else {
        let text = match mappings.len() {
            0 => "there is none: nothing receives records from the retry queue. Create one for the handler, with ReportBatchItemFailures".to_owned(),
            more => format!("{more} mappings receive records from the retry queue: each handles a part of them. Delete all but one"),
        };
        findings.add(Wrong, text);
        return findings.found;
    };
    let Mapping {
        state,
        window,
        reports_failures,
        filters,
        ..
    } = mapping;
    findings.expect(*reports_failures, "accepts partial responses", Wrong, "does not have ReportBatchItemFailures: every delayed record is deleted, and its event lost. Set FunctionResponseTypes");
    findings.expect(
        matches!(
            state.as_str(),
            "Enabled" | "Enabling" | "Creating" | "Updating"
        ),
        "is enabled",
        Wrong,
        format!("is {state}: records accumulate. Enable it"),
    );
    findings.expect(
        !filters,
        "has no filter criteria",
        Wrong,
        "has filter criteria: records that do not match are deleted, and their events lost. Remove them",
    );
    let named = deployment
        .handler
        .as_ref()
        .map(|handler| name_of(&handler.name));
    if let Some(name) = named
        && name_of(&mapping.function) != name
    {
        findings.add(
            Wrong,
            format!(
                "invokes {}, not {name}: create one for the handler",
                name_of(&mapping.function)
            ),
        );
    }
    let Some(Ok(settings)) = deployment.handler.as_ref().map(|handler| &handler.settings) else {
        return findings.found;
    };
    let visibility = deployment.retry_queue.visibility_timeout.seconds();
    let advised = 6 * settings.timeout + window;
    let (severity, text) = if visibility < settings.timeout {
        (
            Wrong,
            "a record is received again while it is being handled",
        )
    } else {
        (
            Warning,
            "a record may be received again while it waits for a free handler",
        )
    };
    findings.expect(visibility >= advised, "gives a batch enough time before it is received again", severity, format!(
        "{text}: set the retry queue's VisibilityTimeout to at least {advised}, six times the handler's timeout and the batching window (it is {visibility})"
    ));
    if let (Some(reserved), Some(most)) = (settings.reserved_concurrency, mapping.max_concurrency)
        && most > reserved
    {
        findings.add(Warning, format!("may run {most} handlers at once, but {reserved} are reserved: throttled batches use up receives. Set MaximumConcurrency to at most {reserved}"));
    }
    findings.found
}

fn handler(deployment: &Deployment, lambda: &LambdaConfig) -> Vec<Finding> {
    let mut findings = Findings::about("handler");
    let Some(handler) = &deployment.handler else {
        findings.add(
            Unknown,
            "unknown: there is no mapping, and none is configured",
        );
        return findings.found;
    };
    findings.subject = format!("handler {}", name_of(&handler.name));
    if handler.missing {
        findings.add(Wrong, MISSING);
        return findings.found;
    }
    match &handler.settings {
        Ok(settings) if settings.reserved_concurrency == Some(0) => {
            findings.add(Wrong, "has a reserved concurrency of 0: it never runs")
        }
        Ok(settings) if u64::from(settings.timeout) <= lambda.margin.as_secs() => findings.add(
            Wrong,
            format!(
                "has a timeout of {} s, all of which is the margin of {} s: set its Timeout to 60",
                settings.timeout,
                lambda.margin.as_secs()
            ),
        ),
        Ok(_) => findings.add(Severity::Good, "exists and may run"),
        Err(reason) => findings.add(
            Unknown,
            format!("not checked: {reason}. Allow lambda:GetFunction"),
        ),
    }
    recursion(&mut findings, handler, lambda);
    findings.found
}

fn retried(function: &Function, deployment: &Deployment, lambda: &LambdaConfig) -> Vec<Finding> {
    let mut findings = Findings::about(format!("function {}", name_of(&function.name)));
    if function.missing {
        findings.add(Wrong, MISSING);
        return findings.found;
    }
    match &function.settings {
        Ok(settings) => {
            let is_wrong =
                settings.dead_letter_config.as_deref() == Some(deployment.retry_queue.arn.as_str());
            if settings.reserved_concurrency == Some(0) {
                findings.add(Warning, "has a reserved concurrency of 0: each of its events arrives here at once, and uses up attempts without running");
            }
            findings.expect(!is_wrong, "does not send events without a record to the retry queue", Wrong, "has the retry queue in its DeadLetterConfig, which carries neither error nor function: set it as the on-failure destination instead");
        }
        Err(reason) => findings.add(
            Unknown,
            format!("not checked: {reason}. Allow lambda:GetFunction"),
        ),
    }
    match &function.events {
        Ok(events) => {
            destination(&mut findings, events.as_ref(), &deployment.retry_queue.arn);
            success(&mut findings, events.as_ref(), deployment);
        }
        Err(reason) => findings.add(
            Unknown,
            format!("its event-invoke configuration is not checked: {reason}. Allow lambda:GetFunctionEventInvokeConfig"),
        ),
    }
    recursion(&mut findings, function, lambda);
    findings.found
}

fn destination(findings: &mut Findings, events: Option<&Events>, retry_queue: &str) {
    let Some(events) = events else {
        findings.add(Wrong, "has no event-invoke configuration: its failures do not arrive here, and Lambda itself retries twice. Set OnFailure to the retry queue, MaximumRetryAttempts to 0 and MaximumEventAgeInSeconds");
        return;
    };
    let arrives_here = events.on_failure.as_deref() == Some(retry_queue);
    findings.expect(
        arrives_here,
        "sends its failures to the retry queue",
        Wrong,
        format!(
            "sends its failures to {}: set its OnFailure destination to {retry_queue}",
            events.on_failure.as_deref().unwrap_or("nowhere")
        ),
    );
    findings.expect(events.retries == Some(0), "leaves retries to the policy", Warning, "Lambda retries it first, after one minute and after two more: set MaximumRetryAttempts to 0");
    findings.expect(events.max_age.is_some(), "limits how long Lambda retries a throttled event", Warning, "a throttled event stays in Lambda for up to six hours before it reaches the policy: set MaximumEventAgeInSeconds (60 to 21600)");
}

/// What happens to the record of a success.
fn success(findings: &mut Findings, events: Option<&Events>, deployment: &Deployment) {
    let Some(to) = events.and_then(|events| events.on_success.as_deref()) else {
        return;
    };
    let dead_letters = deployment.dead_letters.iter();
    let mut dead_letters =
        dead_letters.chain(deployment.class_dead_letters.iter().map(|(_, it)| it));
    if to == deployment.retry_queue.arn {
        findings.add(Wrong, "sends its successes to the retry queue too, where each becomes a dead letter: remove its OnSuccess destination, or set another");
    } else if dead_letters.any(|it| it.as_ref().is_ok_and(|queue| queue.arn == to)) {
        findings.add(Wrong, "sends its successes to the dead-letter queue, where nobody can tell them from failures: remove its OnSuccess destination, or set another");
    } else if deployment
        .handler
        .as_ref()
        .is_some_and(|handler| handler.is_named(to))
    {
        findings.add(Wrong, "sends its successes to the retry handler, which reads batches of the retry queue only: remove its OnSuccess destination, or set another");
    } else {
        findings.add(Severity::Good, format!("sends its successes to {to}: after a retry, their requestPayload is the envelope with the event in it"));
    }
}

/// Lambda ends a chain of more than about 16 invocations, unless the function's settings allow it.
fn recursion(findings: &mut Findings, function: &Function, lambda: &LambdaConfig) {
    let most = lambda
        .decider
        .bounds
        .max_attempts
        .unwrap_or(UNHINDERED_ATTEMPTS);
    let name = name_of(&function.name);
    match &function.detects_recursion {
        Ok(false) => findings.add(Severity::Good, "may be invoked as often as the policy decides"),
        Ok(true) if most > UNHINDERED_ATTEMPTS => findings.add(Wrong, format!(
            "Lambda ends its retries after about 16 attempts, but max-attempts is {most}: aws lambda put-function-recursion-config --function-name {name} --recursive-loop Allow"
        )),
        Ok(true) => findings.add(Warning, format!(
            "Lambda ends its retries after about 16 attempts, including those after a redrive: aws lambda put-function-recursion-config --function-name {name} --recursive-loop Allow (max-attempts and max-age limit them)"
        )),
        Err(reason) => findings.add(Unknown, format!("its recursion setting is not checked: {reason}. Allow lambda:GetFunctionRecursionConfig")),
    }
}

#[cfg(test)]
#[path = "retries_tests.rs"]
mod tests;
