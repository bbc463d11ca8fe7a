//! The commands of the documents run, and the documents show their output.

use backstop_tests::backstop::{command, text};
use backstop_tests::documents::{blocks, compare_block, document, lasting, top};
use backstop_tests::emulator::services;
use backstop_tests::registry::Registry;
use backstop_tests::shell::{Shell, Written};
use backstop_tests::testing;

fn expect(written: &[Written], expected: &[&str]) {
    assert_eq!(written.len(), expected.len());
    for (written, expected) in written.iter().zip(expected) {
        assert!(
            written.contains(expected),
            "{expected:?} is not in:\n{}{}",
            written.stdout,
            written.stderr
        );
    }
}

/// The output of a replay.
fn replay(written: &Written) -> &str {
    let at = written.stdout.find("recorded   ").unwrap();
    &written.stdout[at..]
}

/// Runs the blocks of shell in a document that name a queue in memory or a policy, one after another, in one folder, with the toolchains on the path.
async fn commands_of(name: &str) -> Vec<Written> {
    commands_in(&document(name)).await
}

/// See [`commands_of`].
async fn commands_in(document: &str) -> Vec<Written> {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(top().join("examples"), folder.path().join("examples")).unwrap();
    let shell = Shell::new(folder.path()).path(services().join("node_modules/.bin"));
    let mut written = Vec::new();
    for block in blocks(document, "sh") {
        if !block.contains("local:") && !block.contains("backstop policy") {
            continue;
        }
        written.push(shell.run(&block).await);
    }
    written
}

#[tokio::test]
async fn the_commands_of_the_readme_without_an_account_run() {
    let written = commands_of("README.md").await;
    let expected = [" ended ", "18 passed"];
    expect(&written, &expected);
}

#[tokio::test]
async fn the_commands_for_authors_run() {
    let written = commands_of("host/docs/policies/write-a-policy.md").await;
    let expected = [
        "18 passed",
        "metadata   card-payments, 0.1.0, TypeScript",
        "package    card-payments 0.1.0",
        " ended ",
        "verdict   retry in ",
    ];
    expect(&written, &expected);
}

#[tokio::test]
async fn the_commands_for_registries_run() {
    let registry = Registry::start();
    let name = "host/docs/policies/registries.md";
    let text = document(name);
    let address = registry.address();
    let written = commands_in(&text.replace("localhost:5000", &address)).await;
    expect(
        &written,
        &["exports    backstop:policy/backoff@0.1.0", ", verified\n"],
    );
    let pushed = written[0].stdout.replace(&address, "localhost:5000");
    let end = pushed.find("\npolicy = ").unwrap() + 1;
    let end = end + pushed[end..].find('\n').unwrap();
    compare_block(
        name,
        &blocks(&text, "text")[0],
        &pushed[..end],
        str::to_owned,
    );
}

#[tokio::test]
async fn the_commands_of_a_replay_print_the_output_in_the_document() {
    let name = "host/docs/policies/replay.md";
    let written = commands_of(name).await;
    expect(
        &written,
        &[
            "800 of the queue orders: 800 the same, none different",
            "150  18.8 %  verdict  retry     dead-letter",
        ],
    );
    let shown = blocks(&document(name), "text");
    assert_eq!(shown.len(), 2);
    let (all_the_same, _) = replay(&written[0]).split_once("\n\n").unwrap();
    compare_block(name, &shown[0], all_the_same, lasting);
    compare_block(name, &shown[1], replay(&written[1]), lasting);
}

#[tokio::test]
async fn the_simulation_of_an_outage_prints_the_output_in_the_document() {
    let name = "host/docs/policies/simulate.md";
    let document = document(name);
    let (_, section) = document.split_once("## What an outage costs").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let written = commands_in(section).await;
    assert_eq!(written.len(), 1);
    compare_block(
        name,
        &blocks(section, "text")[0],
        &written[0].stdout,
        str::to_owned,
    );
}

#[tokio::test]
async fn the_doctor_prints_the_forecast_in_the_document() {
    let name = "host/docs/deploy/holding.md";
    let written = commands_of(name).await;
    assert_eq!(written.len(), 1);
    let forecast = written[0].stdout.lines();
    let forecast = forecast.filter(|line| line.contains("wait at once"));
    let shown = blocks(&document(name), "text");
    let printed = forecast.collect::<Vec<_>>().join("\n");
    compare_block(name, &shown[0], &printed, str::to_owned);
}

/// The lines of an output from the one with this start to the next test.
fn of_test<'a>(output: &'a str, beginning: &str) -> &'a str {
    let start = output
        .find(beginning)
        .unwrap_or_else(|| panic!("{beginning:?} is not in:\n{output}"));
    let rest = &output[start..];
    let ends = ["\n✓", "\n✗", "\n\n✗"];
    let next = ends.iter().filter_map(|end| rest.find(end));
    let summary = rest.rfind("\n\n").into_iter();
    let end = next.chain(summary).min().unwrap_or(rest.len());
    rest[..end].trim_end()
}

#[tokio::test]
async fn failed_tests_print_the_output_in_the_document() {
    let name = "host/docs/policies/scenarios.md";
    let text_of = document(name);
    let shown = blocks(&text_of, "text");
    assert_eq!(shown.len(), 2);

    let scenarios =
        blocks(&text_of, "toml")[0].replace("{ delay = \"2s\" },", "{ delay = \"3s\" },");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("scenarios.toml"), scenarios).unwrap();
    let traps_late = testing::delays(&format!(
        "(if (i32.ge_u {} (i32.const 7)) (then (unreachable))) (i32.const 1000)",
        testing::ATTEMPT
    ));
    let (late, _) = testing::folder(&traps_late, "");

    let scenario: &[&str] = &[
        "full-jitter",
        "--no-checks",
        "--scenarios",
        "scenarios.toml",
    ];
    let check: &[&str] = &["./mine.wat", "--cases", "2000"];
    let tests = [(&folder, scenario), (&late, check)];
    for (block, (folder, arguments)) in shown.iter().zip(tests) {
        let output = command(&[&["policy", "test"], arguments].concat())
            .current_dir(folder)
            .output()
            .await
            .unwrap();
        assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
        let printed = text(&output.stdout);
        let beginning = block.lines().next().unwrap();
        let beginning = beginning.split("  ").next().unwrap();
        compare_block(name, block, of_test(&printed, beginning), str::to_owned);
    }
}
