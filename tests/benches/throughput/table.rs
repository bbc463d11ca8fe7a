//! Prints the results, and how they compare with the goals.

use crate::plan::{Case, Latency, Side};
use crate::run::Measured;

type Results = [(&'static Case, Measured)];

/// The tables of the cases with this latency, and the goals.
pub(crate) fn print(latency: Latency, results: &Results) {
    let mut heading = String::new();
    for (case, measured) in results.iter().filter(|(case, _)| case.latency == latency) {
        let (queue, failing) = (case.queue(), case.failing);
        let next = format!("{queue}, {}, {failing} % failing", latency.name());
        if heading != next {
            println!("\n{next}");
            println!(
                "  {:<47} {:>10}   {:>16}   {:>13}   {:>11}",
                "", "messages/s", "processor/message", "requests/msg", "peak memory"
            );
            heading = next;
        }
        println!(
            "  {:<47} {:>10.0}   {:>14.1} µs   {:>13.3}   {:>7.1} MiB",
            case.name(),
            measured.rate,
            measured.processor,
            measured.requests,
            measured.memory
        );
    }
    goals(latency, results);
}

/// The goals are those of a standard queue without failures. The fastest of each side counts.
fn goals(latency: Latency, results: &Results) {
    let fastest = |is_side: fn(Side) -> bool| {
        let plain = results.iter().filter(|(case, _)| {
            case.latency == latency && case.failing == 0 && !case.fifo && is_side(case.side)
        });
        plain.max_by(|(_, one), (_, other)| one.rate.total_cmp(&other.rate))
    };
    let backstop = fastest(|side| matches!(side, Side::Backstop { .. }));
    let bare = fastest(|side| side == Side::Bare);
    let (Some((case, ours)), Some((bare_case, bare))) = (backstop, bare) else {
        return;
    };
    println!(
        "\n  the fastest of each side: {}; {}",
        case.name(),
        bare_case.name()
    );
    println!(
        "  rate: {:.0} % of the bare loop's   goal: 90 % or more",
        100.0 * ours.rate / bare.rate
    );
    println!(
        "  processor time for each message: {:.2} times the bare loop's   goal: 1.3 or less",
        ours.processor / bare.processor
    );
    if let Some((case, bare)) = fastest(|side| side == Side::BareWithAttributes) {
        println!(
            "  of {}: {:.0} % of the rate, {:.2} times the processor time",
            case.name(),
            100.0 * ours.rate / bare.rate,
            ours.processor / bare.processor
        );
    }
    if let Some((_, node)) = fastest(|side| side == Side::SqsConsumer) {
        let (times, loops) = (ours.rate / node.rate, bare.rate / node.rate);
        println!(
            "  rate: {times:.1} times sqs-consumer's (the bare loop: {loops:.1})   goal: 5 or more without latency"
        );
    }
}
