//! The report: Markdown for people, and JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::checker::Found;
use crate::evidence::Evidence;
use crate::plan::Program;
use crate::site::World;

/// The commit that is checked out, and whether there is more than it.
fn commit() -> String {
    let said = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .output();
    let said = said.ok().filter(|it| it.status.success());
    said.map_or_else(
        || "unknown".to_owned(),
        |it| String::from_utf8_lossy(&it.stdout).trim().to_owned(),
    )
}

/// What each host is.
fn programs(world: &World) -> BTreeMap<&str, Program> {
    let hosts = world.hosts.iter();
    hosts.map(|it| (it.plan.name, it.program)).collect()
}

/// What was seen, in numbers.
fn figures(world: &World, evidence: &Evidence, drained: Duration, took: Duration) -> Value {
    let attempts: usize = evidence.attempts.values().map(Vec::len).sum();
    let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
    for window in &evidence.windows {
        *faults.entry(window.kind.name()).or_default() += 1;
    }
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for letter in evidence.letters.values().flatten() {
        let reason = letter.attributes["BackstopReason"]["StringValue"].as_str();
        *reasons
            .entry(reason.unwrap_or("none").to_owned())
            .or_default() += 1;
    }
    let succeeded = |it: &&Vec<crate::evidence::Attempt>| {
        it.iter()
            .filter(|it| it.answered.is_some_and(|it| it.1 == 200))
            .count()
    };
    let successes: Vec<_> = evidence
        .attempts
        .values()
        .map(|it| succeeded(&it))
        .collect();
    let log = world.log.lock().unwrap();
    let stops = &log.stops;
    json!({
        "seed": world.settings.seed,
        "commit": commit(),
        "seconds": world.settings.seconds,
        "took-seconds": took.as_secs(),
        "drained-seconds": drained.as_secs_f64(),
        "messages": evidence.sent.len(),
        "attempts": attempts,
        "succeeded": successes.iter().filter(|it| **it > 0).count(),
        "succeeded-twice": successes.iter().filter(|it| **it > 1).count(),
        "letters": evidence.letters.values().map(Vec::len).sum::<usize>(),
        "waiting": evidence.left.values().map(Vec::len).sum::<usize>(),
        "sent-perhaps-twice": evidence.sent.values().filter(|it| it.doubtful).count(),
        "letters-by-reason": reasons,
        "faults": evidence.windows.len(),
        "faults-by-kind": faults,
        "left-out": log.left_out,
        "redriven": evidence.journals.iter().map(|it| it.deleted.len()).sum::<usize>(),
        "programs": programs(world),
        "starts-of-hosts": evidence.lives.values().map(Vec::len).sum::<usize>(),
        "longest-stop-ms": stops.iter().max(),
        "stops": stops.len(),
        "memory-mib": evidence.memory,
        "skipped": log.skipped,
    })
}

pub(crate) fn write(
    world: &World,
    evidence: &Evidence,
    found: &Found,
    drained: Duration,
    took: Duration,
) {
    let figures = figures(world, evidence, drained, took);
    let rules: Vec<_> = found
        .counts
        .iter()
        .map(|(rule, counts)| json!({"rule": rule, "meaning": rule.meaning(), "counts": counts}))
        .collect();
    let all = json!({"figures": figures, "rules": rules, "wrong": found.wrong});
    let text = serde_json::to_string_pretty(&all).unwrap();
    std::fs::write(world.folder.join("report.json"), text).unwrap();
    let text = markdown(&figures, found);
    println!("{text}");
    std::fs::write(world.folder.join("report.md"), text).unwrap();
}

fn markdown(figures: &Value, found: &Found) -> String {
    let mut text = format!(
        "| | |\n|---|---|\n| seed | {} |\n| commit | `{}` |\n",
        figures["seed"],
        figures["commit"].as_str().unwrap_or_default()
    );
    let rows = [
        ("messages sent", "messages"),
        ("attempts that workers saw", "attempts"),
        ("messages that succeeded", "succeeded"),
        ("of these, twice or more", "succeeded-twice"),
        ("letters at the end", "letters"),
        ("messages that still wait, for hours", "waiting"),
        ("letters that were redriven", "redriven"),
        ("disturbances", "faults"),
        (
            "left out, since their host was disturbed already",
            "left-out",
        ),
        ("starts of hosts", "starts-of-hosts"),
        ("stops by SIGTERM", "stops"),
        ("the longest stop, ms", "longest-stop-ms"),
        (
            "seconds until the queues were empty, after the last disturbance",
            "drained-seconds",
        ),
        ("seconds in all", "took-seconds"),
    ];
    for (name, key) in rows {
        let value = match figures[key].as_f64() {
            Some(number) if figures[key].is_f64() => format!("{number:.1}"),
            _ => figures[key].to_string(),
        };
        let _ = writeln!(text, "| {name} | {value} |");
    }
    let programs = figures["programs"].as_object().into_iter().flatten();
    let programs: Vec<_> = programs
        .map(|(host, of)| format!("{host} {}", of.as_str().unwrap_or_default()))
        .collect();
    let _ = writeln!(text, "| what hosts are | {} |", programs.join(", "));
    let memory = figures["memory-mib"].as_object().into_iter().flatten();
    let memory: Vec<_> = memory
        .map(|(host, mib)| format!("{host} {:.0}", mib.as_f64().unwrap_or(0.0)))
        .collect();
    let _ = writeln!(
        text,
        "| peak memory of hosts, MiB | {} |",
        memory.join(", ")
    );
    for (title, key) in [
        ("disturbance", "faults-by-kind"),
        ("reason of letters", "letters-by-reason"),
    ] {
        let _ = write!(text, "\n| {title} | times |\n|---|---|\n");
        for (name, times) in figures[key].as_object().into_iter().flatten() {
            let _ = writeln!(text, "| {name} | {times} |");
        }
    }
    text += "\n| rule | checked | excused | broken |\n|---|---|---|---|\n";
    for (rule, counts) in &found.counts {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            rule.meaning(),
            counts.checked,
            counts.excused,
            counts.broken
        );
    }
    for skipped in figures["skipped"].as_array().into_iter().flatten() {
        let _ = write!(
            text,
            "\nSkipped: {}.\n",
            skipped.as_str().unwrap_or_default()
        );
    }
    text
}
