//! What people see on a terminal of 80 columns.

use backstop_tests::backstop::{command, on_terminal, run, text};

const CONFIG: &str =
    "[queues.orders]\nurl = \"local:orders\"\nhandler = { exec = [\"true\"] }\nmax-attempts = 3\n";

/// The lines that are longer than a terminal of 80 columns.
fn too_long(printed: &str) -> Vec<&str> {
    let lines = printed.lines();
    // Progress is drawn again in the same line.
    let lines = lines.map(|line| line.rsplit('\r').next().unwrap_or(line));
    lines.filter(|line| line.chars().count() > 80).collect()
}

#[tokio::test]
async fn findings_are_broken_between_words_on_a_terminal_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backstop.toml");
    std::fs::write(&file, CONFIG).unwrap();
    let arguments = ["doctor", "--config", file.to_str().unwrap()];
    let printed = on_terminal(&command(&arguments), 80).await;
    let findings = printed.split_once("good ").unwrap().1;
    assert!(too_long(findings).is_empty(), "{printed}");
    let broken = findings
        .lines()
        .filter(|line| line.starts_with("          "));
    assert!(broken.count() >= 3, "{printed}");
    let piped = text(&run(&arguments).await.stdout);
    let lines: Vec<_> = piped.lines().collect();
    assert_eq!(lines.len(), 4, "{piped}");
    // The same words in both.
    let words = |printed: &str| {
        printed
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(findings), words(piped.split_once("good ").unwrap().1));
}

#[tokio::test]
async fn a_timetable_fits_a_terminal_and_leaves_out_what_does_not() {
    let arguments = ["policy", "simulate", "linear", "--messages", "50"];
    let arguments = [&arguments[..], &["--max-attempts", "60"]].concat();
    let printed = on_terminal(&command(&arguments), 80).await;
    assert!(too_long(&printed).is_empty(), "{printed}");
    assert!(
        printed.contains("…  ") && printed.contains(" more attempts: --csv lists them"),
        "{printed}"
    );
    assert!(!printed.contains('●'), "{printed}");
    let wide = on_terminal(&command(&arguments), 100).await;
    let is_narrow = wide
        .lines()
        .all(|line| line.rsplit('\r').next().unwrap().chars().count() <= 100);
    assert!(is_narrow && wide.contains('●'), "{wide}");
    let piped = text(&run(&arguments).await.stdout);
    assert!(
        piped.contains('●') && !too_long(&piped).is_empty(),
        "{piped}"
    );
}

/// The ids, which are long, come after what happened.
#[tokio::test]
async fn a_log_line_says_in_its_first_80_characters_what_was_decided_about_which_error() {
    let folder = tempfile::tempdir().unwrap();
    let messages = folder.path().join("messages");
    std::fs::write(&messages, "one\n").unwrap();
    let arguments = [
        &["run", "--queue-url", "local:orders", "--exec", "false"][..],
        &[
            "--messages",
            messages.to_str().unwrap(),
            "--max-attempts",
            "2",
        ],
    ];
    let log = text(&run(&arguments.concat()).await.stderr);
    let starts = |what: &str| {
        let line = log.lines().find(|line| line.contains(what)).unwrap();
        line.chars().take(80).collect::<String>()
    };
    assert!(
        starts(" retry ").ends_with("INFO retry error=\"exit 1\" class=transient delay=1s "),
        "{log}"
    );
    assert!(
        starts("dead-letter ").contains("WARN dead-letter error=\"exit 1\" class="),
        "{log}"
    );
    let ends =
        |line: &&str| line.contains(" message{queue=\"orders\" id=\"") && line.ends_with("}");
    assert_eq!(log.lines().filter(ends).count(), 2, "{log}");
    assert!(!log.contains(" text="), "{log}");
}
