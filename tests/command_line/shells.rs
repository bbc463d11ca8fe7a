//! What packages install next to the command: completions that their shell accepts, and manual pages of every command.

use std::path::Path;
use std::process::Command;

use backstop_tests::backstop::{run, text};

/// The output of a program, or `None` where it is not installed.
fn checked_by(program: &str, arguments: &[&str], file: &Path) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .arg(file)
        .output()
        .ok()?;
    let (printed, complaints) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{program}: {printed}{complaints}");
    Some(printed)
}

#[tokio::test]
async fn each_shell_accepts_its_completions() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]).await;
        let (script, file) = (text(&output.stdout), folder.path().join(shell));
        assert!(script.contains("max-attempts"), "{script}");
        std::fs::write(&file, script).unwrap();
        let checked = checked_by(shell, &["-n"], &file);
        assert!(
            shell != "bash" || checked.is_some(),
            "bash is not installed"
        );
    }
    let complete = "source \"$1\"; COMP_WORDS=(backstop dlq re); COMP_CWORD=2; _backstop backstop re dlq; echo \"${COMPREPLY[@]}\"";
    let script = folder.path().join("bash");
    let bash = Command::new("bash")
        .args(["-c", complete, "bash"])
        .arg(script)
        .output();
    let completed = text(&bash.unwrap().stdout);
    assert_eq!(completed.trim(), "redrive restore");
}

#[tokio::test]
async fn each_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let man = folder.path().join("man1");
    let output = run(&["man", man.to_str().unwrap()]).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = |name: &str| std::fs::read_to_string(man.join(name)).unwrap();
    let top = read("backstop.1");
    for command in ["run", "policy", "dlq", "completions"] {
        assert!(top.contains(&format!("backstop\\-{command}(1)")), "{top}");
    }
    // What only our own programs use has none.
    assert!(!top.contains("end\\-orphans"), "{top}");
    assert!(!man.join("backstop-man.1").exists());
    assert!(read("backstop-policy-test.1").contains(".SH OPTIONS"));
    assert!(read("backstop-run.1").contains(".SH EXAMPLES\n.nf\n"));
    for page in std::fs::read_dir(&man).unwrap() {
        let page = page.unwrap().path();
        // Its errors, not its opinion about the date, which a reproducible page does not have.
        checked_by("mandoc", &["-T", "lint", "-W", "error"], &page);
    }
}
