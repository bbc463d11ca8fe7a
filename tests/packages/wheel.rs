//! The wheels of `backstop-sqs`.

use std::process::Command;

use backstop_tests::emulator::services;

use super::world::{make, one, packages, scenarios, succeeds, works};

#[test]
fn a_wheel_gives_the_command_to_a_fresh_virtual_environment() {
    let made = packages("wheels");
    let wheel = one(made.path(), ".whl");
    let first = std::fs::read(&wheel).unwrap();
    make("wheels", made.path());
    assert!(first == std::fs::read(&wheel).unwrap());

    let python = |folder: &std::path::Path| Command::new(folder.join("bin/python"));
    let environment = made.path().join("environment");
    let services = services().join("python");
    succeeds(
        python(&services)
            .args(["-m", "venv", "--without-pip"])
            .arg(&environment),
    );
    let mut install = python(&services);
    install
        .args(["-m", "pip", "--disable-pip-version-check", "--python"])
        .arg(&environment);
    install
        .args(["install", "--no-index", "--quiet"])
        .arg(&wheel);
    succeeds(&mut install);
    let scenarios = scenarios();
    let scenarios = scenarios.to_str().unwrap();
    let command = |arguments: &[&str]| {
        let mut command = Command::new(environment.join("bin/backstop"));
        command.args(arguments).env_clear().env("HOME", made.path());
        command
    };
    works(&command, scenarios);
    // What `uvx backstop-sqs` runs.
    let version = succeeds(Command::new(environment.join("bin/backstop-sqs")).arg("--version"));
    assert!(version.starts_with("backstop "), "{version}");
    let module = succeeds(python(&environment).args(["-m", "backstop_sqs", "--version"]));
    assert_eq!(module, version);
    // pip compares every file with the digest in the list of the wheel, and removes what it lists.
    let mut remove = python(&services);
    remove
        .args(["-m", "pip", "--disable-pip-version-check", "--python"])
        .arg(&environment);
    succeeds(remove.args(["uninstall", "--yes", "--quiet", "backstop-sqs"]));
    assert!(!environment.join("bin/backstop").exists());
}
