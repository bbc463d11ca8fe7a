//! What a person sees of the command: its help, its demo, its answers to mistakes.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use backstop_tests::backstop::{command, run, text};

async fn help(arguments: &[&str]) -> String {
    // The help tells what a variable is set to: here it would be this machine's folder.
    let mut command = command(arguments);
    let output = command.env_remove("BACKSTOP_CACHE").output().await.unwrap();
    assert!(output.status.success());
    text(&output.stdout)
}

#[tokio::test]
async fn help_teaches() {
    insta::assert_snapshot!("help", help(&["--help"]).await);
    insta::assert_snapshot!("run-help", help(&["run", "--help"]).await);
    insta::assert_snapshot!("replay-help", help(&["policy", "replay", "--help"]).await);
}

#[tokio::test]
async fn the_demo_loses_nothing_and_shows_a_swap_and_a_refusal() {
    let output = run(&["demo"]).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for part in [
        "decides from now on",
        "refused: it ran out of fuel",
        "stays",
        "dead-lettered: permanent: ValidationException",
        "sent            100",
        "Nothing was lost.",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colour but on a terminal");
}

#[tokio::test]
async fn the_demo_counts_for_scripts() {
    let output = run(&["demo", "--json"]).await;
    let counts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (
            &counts["sent"],
            &counts["done"],
            &counts["dead-letters"],
            &counts["still-there"]
        ),
        (&100.into(), &85.into(), &15.into(), &0.into())
    );
}

#[tokio::test]
async fn a_mistyped_command_is_answered_with_the_right_one() {
    let output = run(&["rum"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("'run'"),
        "{}",
        text(&output.stderr)
    );
}
