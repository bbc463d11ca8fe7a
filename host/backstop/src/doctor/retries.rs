//! The traps of retrying asynchronous functions over a queue, judged from what was seen of a deployment. Nothing here asks anybody.

use super::observed::{Events, Function, Mapping, Seen};
use super::{Finding, Findings, Verdict};
use crate::config::LambdaConfig;
use crate::config::UNHINDERED_ATTEMPTS;
use crate::decision::LONGEST_DELAY;
use crate::function_name::unqualified;
use crate::lambda::STEP;
use crate::queue::{BATCH_BYTES, Description, short_name};

use Verdict::{Unknown, Warning, Wrong};

/// Receives that come to nothing, which a message has to be allowed besides those that it waits in.
const SPARE_RECEIVES: u32 = 22;

/// Receives that an outage of some hours may use up, besides.
const MANY_RECEIVES: u32 = 500;

/// So many hidden records are close to what SQS allows.
const MANY_IN_FLIGHT: usize = 100_000;

/// What is said of a function that is not there: nothing else can be said of it.
const MISSING: &str = "does not exist: create it or correct its name; the account and region must be those of the credentials";

/// Judges it all.
pub(super) fn judge(seen: &Seen, lambda: &LambdaConfig) -> Vec<Finding> {
    let mut found = retry_queue(seen, lambda);
    found.extend(dead_letters(seen));
    found.extend(mapping(seen));
    found.extend(handler(seen, lambda));
    for function in &seen.functions {
        found.extend(retried(function, seen, lambda));
    }
    if seen.functions.is_empty() {
        let mut findings = Findings::about("functions");
        findings.add(Warning, "none named: any function that a record names is invoked, and whoever may send to the retry queue writes records. Set functions in [lambda] (--function): no other is invoked then, and those are looked at");
        found.extend(findings.found);
    }
    found
}

fn retry_queue(seen: &Seen, lambda: &LambdaConfig) -> Vec<Finding> {
    let queue = &seen.retry_queue;
    let mut findings = Findings::about(format!("retry queue {}", short_name(&queue.arn)));
    findings.expect(
        !queue.fifo,
        "is a standard queue",
        Wrong,
        "is a FIFO queue: Lambda delivers no on-failure records to one; use a standard queue",
    );
    let oldest = lambda.bounds.max_age.unwrap_or(LONGEST_DELAY);
    let enough = queue.retention >= oldest;
    findings.expect(enough, "keeps a record for as long as an event may be retried", Warning, format!(
        "keeps a record for {} only, but max-age is {oldest}: a longer delay is cut short. Set its MessageRetentionPeriod to {}",
        queue.retention,
        oldest.0 / 1_000
    ));
    let steps = oldest.as_duration().as_secs().div_ceil(STEP.as_secs());
    let receives = SPARE_RECEIVES + u32::try_from(steps).unwrap_or(u32::MAX);
    match &queue.redrive {
        Some(redrive) if redrive.max_receive_count.get() < receives => findings.add(Wrong, format!(
            "gives a record up after {} receives, but one that waits is received again and again: set maxReceiveCount to at least {receives}, better to 1000",
            redrive.max_receive_count
        )),
        Some(redrive) if redrive.max_receive_count.get() < MANY_RECEIVES => findings.add(Warning, format!(
            "gives a record up after {} receives: while Lambda takes no invocations of a function, each try uses one up. Set maxReceiveCount to 1000",
            redrive.max_receive_count
        )),
        Some(_) => findings.add(Verdict::Good, "does not give up a record that only waits"),
        None => findings.add(Warning, "has no redrive policy: a record that the handler can't even read comes for ever. Give it one with maxReceiveCount 1000"),
    }
    if let Some(in_flight) = queue.in_flight {
        findings.expect(in_flight < MANY_IN_FLIGHT, "hides fewer records than SQS can", Warning, format!(
            "hides {in_flight} records now: at 120000 SQS hands out no more, and says nothing. Shorten the delays, or give some functions a retry queue of their own"
        ));
    }
    findings.expect(queue.max_message_bytes >= BATCH_BYTES, "takes records of 1 MiB", Warning, format!(
        "takes records of {} bytes only: Lambda loses the event of a larger one. Set its MaximumMessageSize to {BATCH_BYTES}",
        queue.max_message_bytes
    ));
    findings.found
}

fn dead_letters(seen: &Seen) -> Vec<Finding> {
    let mut findings = Findings::about("dead-letter queue");
    let queue: &Description = match &seen.dead_letters {
        None => {
            findings.add(Wrong, "there is none: name one with dead-letter-queue, or give the retry queue a redrive policy");
            return findings.found;
        }
        Some(Err(reason)) => {
            findings.add(Unknown, format!("can't be looked at: {reason}"));
            return findings.found;
        }
        Some(Ok(queue)) => queue,
    };
    findings.subject = format!("dead-letter queue {}", short_name(&queue.arn));
    let retries = &seen.retry_queue;
    findings.expect(
        queue.arn != retries.arn,
        "is another queue than the retry queue",
        Wrong,
        "is the retry queue itself: dead letters would be retried for ever",
    );
    findings.expect(
        !queue.fifo,
        "is a standard queue",
        Wrong,
        "is a FIFO queue: records have no message group; use a standard queue",
    );
    findings.expect(queue.retention >= LONGEST_DELAY, "keeps dead letters for 14 days", Warning, format!(
        "keeps dead letters for {} only. Set its MessageRetentionPeriod to 1209600, the most that SQS allows",
        queue.retention
    ));
    findings.expect(queue.max_message_bytes >= retries.max_message_bytes, "takes whatever the retry queue takes", Wrong, format!(
        "takes {} bytes, the retry queue {}: a larger record can't be dead-lettered. Raise its MaximumMessageSize",
        queue.max_message_bytes, retries.max_message_bytes
    ));
    findings.found
}

fn mapping(seen: &Seen) -> Vec<Finding> {
    let mut findings = Findings::about("event source mapping");
    let mappings = match &seen.mappings {
        Ok(mappings) => mappings,
        Err(reason) => {
            findings.add(
                Unknown,
                format!("can't be looked at: {reason}. Allow lambda:ListEventSourceMappings"),
            );
            return findings.found;
        }
    };
    let [mapping] = mappings.as_slice() else {
        let text = match mappings.len() {
            0 => "there is none: nothing takes records from the retry queue. Make one for the handler, with ReportBatchItemFailures".to_owned(),
            more => format!("{more} mappings take records from the retry queue: each handles a part of them. Leave one"),
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
    findings.expect(*reports_failures, "takes partial responses", Wrong, "does not have ReportBatchItemFailures: every record that is to wait is deleted, and its event lost. Set FunctionResponseTypes");
    findings.expect(
        matches!(
            state.as_str(),
            "Enabled" | "Enabling" | "Creating" | "Updating"
        ),
        "is enabled",
        Wrong,
        format!("is {state}: records pile up. Enable it"),
    );
    findings.expect(
        !filters,
        "filters nothing out",
        Wrong,
        "has filter criteria: what they leave out is deleted, and its event lost. Remove them",
    );
    let named = seen.handler.as_ref().map(|handler| name_of(&handler.name));
    if let Some(name) = named
        && name_of(&mapping.function) != name
    {
        findings.add(
            Wrong,
            format!(
                "hands the records to {}, not to {name}: make one for the handler",
                name_of(&mapping.function)
            ),
        );
    }
    let Some(Ok(settings)) = seen.handler.as_ref().map(|handler| &handler.settings) else {
        return findings.found;
    };
    let visibility = seen.retry_queue.visibility_timeout.seconds();
    let advised = 6 * settings.timeout + window;
    let (verdict, text) = if visibility < settings.timeout {
        (Wrong, "a record comes again while it is being handled")
    } else {
        (
            Warning,
            "a record may come again while it waits for a free handler",
        )
    };
    findings.expect(visibility >= advised, "gives a batch its time before it comes again", verdict, format!(
        "{text}: set the retry queue's VisibilityTimeout to at least {advised}, six times the handler's timeout and the batching window (it is {visibility})"
    ));
    if let (Some(reserved), Some(most)) = (settings.reserved_concurrency, mapping.max_concurrency)
        && most > reserved
    {
        findings.add(Warning, format!("may run {most} handlers at once, but {reserved} are reserved: what is throttled uses up receives. Set MaximumConcurrency to at most {reserved}"));
    }
    findings.found
}

fn handler(seen: &Seen, lambda: &LambdaConfig) -> Vec<Finding> {
    let mut findings = Findings::about("handler");
    let Some(handler) = &seen.handler else {
        findings.add(Unknown, "not known: there is no mapping, and none is named");
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
                "has a timeout of {} s, which the margin of {} s takes up: set its Timeout to 60",
                settings.timeout,
                lambda.margin.as_secs()
            ),
        ),
        Ok(_) => findings.add(Verdict::Good, "is there and may run"),
        Err(reason) => findings.add(Wrong, format!("can't be looked at: {reason}")),
    }
    recursion(&mut findings, handler, lambda);
    findings.found
}

fn retried(function: &Function, seen: &Seen, lambda: &LambdaConfig) -> Vec<Finding> {
    let mut findings = Findings::about(format!("function {}", name_of(&function.name)));
    if function.missing {
        findings.add(Wrong, MISSING);
        return findings.found;
    }
    match &function.settings {
        Ok(settings) => {
            let is_wrong =
                settings.dead_letter_config.as_deref() == Some(seen.retry_queue.arn.as_str());
            if settings.reserved_concurrency == Some(0) {
                findings.add(Warning, "has a reserved concurrency of 0: each of its events comes here at once, and uses up attempts without running");
            }
            findings.expect(!is_wrong, "sends no bare events to the retry queue", Wrong, "has the retry queue in its DeadLetterConfig, which carries neither error nor function: set it as the on-failure destination instead");
        }
        Err(reason) => findings.add(Wrong, format!("can't be looked at: {reason}")),
    }
    match &function.events {
        Ok(events) => destination(&mut findings, events.as_ref(), &seen.retry_queue.arn),
        Err(reason) => findings.add(
            Unknown,
            format!("its event-invoke configuration can't be looked at: {reason}"),
        ),
    }
    recursion(&mut findings, function, lambda);
    findings.found
}

fn destination(findings: &mut Findings, events: Option<&Events>, retry_queue: &str) {
    let Some(events) = events else {
        findings.add(Wrong, "has no event-invoke configuration: its failures do not come here, and Lambda retries twice by itself. Set OnFailure to the retry queue, MaximumRetryAttempts to 0 and MaximumEventAgeInSeconds");
        return;
    };
    let comes_here = events.on_failure.as_deref() == Some(retry_queue);
    findings.expect(
        comes_here,
        "sends its failures to the retry queue",
        Wrong,
        format!(
            "sends its failures to {}: set its OnFailure destination to {retry_queue}",
            events.on_failure.as_deref().unwrap_or("nowhere")
        ),
    );
    findings.expect(events.retries == Some(0), "leaves retries to the policy", Warning, "is retried by Lambda first, after a minute and after two more: set MaximumRetryAttempts to 0");
    findings.expect(events.max_age.is_some(), "bounds how long Lambda goes on with a throttled event", Warning, "waits up to six hours in Lambda when it is throttled, before the policy is asked: set MaximumEventAgeInSeconds (60 to 21600)");
}

/// A chain of more than about 16 invocations is cut off, unless the function says otherwise.
fn recursion(findings: &mut Findings, function: &Function, lambda: &LambdaConfig) {
    let most = lambda.bounds.max_attempts.unwrap_or(UNHINDERED_ATTEMPTS);
    let name = name_of(&function.name);
    match &function.detects_recursion {
        Ok(false) => findings.add(Verdict::Good, "may be invoked again as often as the policy says"),
        Ok(true) if most > UNHINDERED_ATTEMPTS => findings.add(Wrong, format!(
            "is cut off after about 16 attempts, but max-attempts is {most}: aws lambda put-function-recursion-config --function-name {name} --recursive-loop Allow"
        )),
        Ok(true) => findings.add(Warning, format!(
            "is cut off after about 16 attempts, those after a redrive included: aws lambda put-function-recursion-config --function-name {name} --recursive-loop Allow (max-attempts and max-age bound them)"
        )),
        Err(reason) => findings.add(Unknown, format!("its recursion setting can't be looked at: {reason}. Allow lambda:GetFunctionRecursionConfig")),
    }
}

/// The name alone, without account, version or alias.
fn name_of(function: &str) -> &str {
    unqualified(function).rsplit(':').next().unwrap_or(function)
}

#[cfg(test)]
#[path = "retries_tests.rs"]
mod tests;
