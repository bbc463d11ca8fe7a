//! What a program that adds the library compiles: the crates of its closure, and the time of a clean build.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use backstop_core::clock;
use tests_benches::{Better, Figure, Table, Unit};

/// The figures of all sides.
pub(crate) fn compare() -> Table {
    let mut table = Table::new("A program that adds the library and tokio, for debugging")
        .column("clean build", Unit::Seconds, Better::Less)
        .column("crates", Unit::Number, Better::Less)
        .because("The library brings the types of decisions and records, JSON and regular expressions, which the others have no use for.");
    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/../../host/retry");
    for (side, dependency) in [
        (
            "backon, tokio",
            r#"backon = { version = "1.6", features = ["tokio-sleep"] }"#.to_owned(),
        ),
        (
            "tower, tokio",
            r#"tower = { version = "0.5", features = ["retry"] }"#.to_owned(),
        ),
        (
            "Backstop",
            format!("backstop-retry = {{ path = {ours:?} }}"),
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write_program(folder.path(), &dependency);
        let crates = crates(folder.path());
        let took = build(folder.path());
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let figures = [took.as_secs_f64(), crates as f64].map(Figure::exact);
        table.row(side == "Backstop", side, figures);
    }
    table
}

fn write_program(folder: &Path, dependency: &str) {
    let manifest = format!(
        "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n{dependency}\ntokio = {{ version = \"1\", features = [\"rt\", \"time\"] }}\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    std::fs::create_dir(folder.join("src")).unwrap();
    std::fs::write(folder.join("src/main.rs"), "fn main() {}\n").unwrap();
    cargo(folder, &["fetch", "--quiet"]);
}

fn crates(folder: &Path) -> usize {
    let tree = cargo(folder, &["tree", "--edges", "normal", "--prefix", "none"]);
    let lines: std::collections::BTreeSet<_> = tree
        .lines()
        .map(|line| line.trim_end_matches(" (*)"))
        .collect();
    // Without the program itself.
    lines.len() - 1
}

fn build(folder: &Path) -> Duration {
    let start = clock::instant();
    cargo(folder, &["build", "--quiet"]);
    start.elapsed()
}

fn cargo(folder: &Path, arguments: &[&str]) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo
        .args(arguments)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
