//! The wheels of `backstop-sqs`, of the programs and the module of the development build.

use std::path::{Path, PathBuf};
use std::process::Command;

use backstop_tests::documents::top;
use backstop_tests::emulator::services;
use serde_json::{Map, Value};

use super::world::{make, packages, scenarios, shared_packages, succeeds, works};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A program of the environment of the tests' services.
fn tool(name: &str) -> Command {
    Command::new(services().join("python/bin").join(name))
}

/// The wheel for the C library of this machine, glibc: a release also has one for musl.
fn wheel_in(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap());
    let names = files.map(|it| it.file_name().into_string().unwrap());
    let mut wheels = names.filter(|it| it.contains("manylinux"));
    let wheel = folder.join(wheels.next().unwrap());
    assert_eq!(wheels.next(), None);
    wheel
}

/// A virtual environment with the wheel and nothing else.
struct Environment(PathBuf);

impl Environment {
    fn with(wheel: &Path, folder: &Path) -> Self {
        let environment = Self(folder.join("environment"));
        succeeds(
            tool("python")
                .args(["-m", "venv", "--without-pip"])
                .arg(&environment.0),
        );
        succeeds(
            environment
                .pip(&["install", "--no-index", "--quiet"])
                .arg(wheel),
        );
        environment
    }

    /// The pip of the services, for this environment.
    fn pip(&self, arguments: &[&str]) -> Command {
        let mut pip = tool("pip");
        pip.args(["--disable-pip-version-check", "--python"])
            .arg(&self.0)
            .args(arguments);
        pip
    }

    /// A program of the environment, without any variable of this machine.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.0.join("bin").join(program));
        command.env_clear().env("HOME", &self.0);
        command
    }

    fn packages(&self) -> PathBuf {
        let mut python = self.command("python");
        let printed = succeeds(python.args([
            "-c",
            "import sysconfig; print(sysconfig.get_path('purelib'))",
        ]));
        printed.trim().into()
    }
}

#[test]
fn a_wheel_gives_the_command_and_the_module_to_a_fresh_virtual_environment() {
    let made = packages("wheels");
    let wheel = wheel_in(made.path());
    let first = std::fs::read(&wheel).unwrap();
    make("wheels", made.path());
    assert!(first == std::fs::read(&wheel).unwrap());

    let environment = Environment::with(&wheel, made.path());
    succeeds(&mut environment.pip(&["check"]));
    let scenarios = scenarios();
    let command = |arguments: &[&str]| {
        let mut command = environment.command("backstop");
        command.args(arguments);
        command
    };
    works(&command, scenarios.to_str().unwrap());
    // What `uvx backstop-sqs` runs.
    let version = succeeds(environment.command("backstop-sqs").arg("--version"));
    assert_eq!(version, format!("backstop {VERSION}\n"));
    let module = succeeds(
        environment
            .command("python")
            .args(["-m", "backstop", "--version"]),
    );
    assert_eq!(module, version);
    succeeds(&mut environment.pip(&["uninstall", "--yes", "--quiet", "backstop-sqs"]));
    assert!(!environment.0.join("bin/backstop").exists());
    assert!(!environment.packages().join("backstop").exists());
}

#[test]
fn the_module_of_a_wheel_serves_a_queue_and_compiles_by_the_command_next_to_it() {
    let made = tempfile::tempdir().unwrap();
    let wheel = wheel_in(&shared_packages("wheels"));
    let environment = Environment::with(&wheel, made.path());
    // It writes down what the module asks the command for.
    let (command, asked) = (
        environment.0.join("bin/backstop"),
        made.path().join("asked"),
    );
    let real = command.with_file_name("real");
    std::fs::rename(&command, &real).unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$1\" >>{}\nexec {} \"$@\"\n",
        asked.display(),
        real.display()
    );
    std::fs::write(&command, script).unwrap();
    succeeds(Command::new("chmod").arg("+x").arg(&command));
    let program = top().join("tests/packages/installed.py");
    let used = succeeds(environment.command("python").arg("-I").arg(&program));
    assert!(
        used.contains(VERSION) && used.contains(command.to_str().unwrap()),
        "{used}"
    );
    let asked = std::fs::read_to_string(asked).unwrap();
    assert!(
        asked.contains("--compile-the-policy-on-standard-input"),
        "{asked}"
    );

    // pytest finds the plugin by the wheel's entry point.
    let mut pytest = tool("pytest");
    let help = succeeds(
        pytest
            .arg("--help")
            .env("PYTHONPATH", environment.packages()),
    );
    assert!(help.contains("backstop_policies"), "{help}");
}

#[test]
fn a_wheel_in_a_folder_of_its_own_finds_its_command() {
    let made = tempfile::tempdir().unwrap();
    let wheel = wheel_in(&shared_packages("wheels"));
    let mut pip = tool("pip");
    pip.args(["install", "--disable-pip-version-check", "--no-index"])
        .args(["--quiet", "--target"]);
    succeeds(pip.arg(made.path()).arg(&wheel));
    let mut python = tool("python");
    python.env_clear().env("PYTHONPATH", made.path());
    let path = succeeds(python.args(["-c", "from backstop import command; print(command.path())"]));
    assert_eq!(Path::new(path.trim()), made.path().join("bin/backstop"));
}

#[test]
fn a_wheel_says_truly_what_it_holds() {
    let made = tempfile::tempdir().unwrap();
    let wheel = wheel_in(&shared_packages("wheels"));
    // It compares each file with its digest in RECORD.
    succeeds(
        tool("wheel")
            .args(["unpack", "--dest"])
            .arg(made.path())
            .arg(&wheel),
    );
    let info = made.path().join(format!(
        "backstop_sqs-{VERSION}/backstop_sqs-{VERSION}.dist-info"
    ));
    for crates in ["backstop-cli", "backstop-python"] {
        assert!(info.join(format!("sboms/{crates}.spdx.json")).is_file());
    }
    let metadata = std::fs::read_to_string(info.join("METADATA")).unwrap();
    let valid = "import sys; from packaging.metadata import Metadata; print(Metadata.from_email(sys.argv[1], validate=True).name)";
    let name = succeeds(tool("python").args(["-c", valid, &metadata]));
    assert_eq!(name, "backstop-sqs\n");
    assert!(!metadata.contains("](../"), "a registry has no such file");
    // The stable ABI of the oldest Python of its tag is all that the module asks of any.
    succeeds(tool("abi3audit").arg("--strict").arg(&wheel));
    // The platform of its name is the oldest that has what its files need.
    let audited = succeeds(tool("auditwheel").args(["show", "--json"]).arg(&wheel));
    let audited: Value = serde_json::from_str(&audited).unwrap();
    assert!(
        audited["overall_tag"]
            .as_str()
            .unwrap()
            .starts_with("manylinux_"),
        "{audited}"
    );
    assert_eq!(audited["external_libs"], Value::Object(Map::new()));
    let needed = audited["versioned_symbols"].as_object().unwrap().values();
    let needed = needed.flat_map(|versions| versions.as_array().unwrap());
    let minor = |version: &Value| {
        version
            .as_str()?
            .strip_prefix("GLIBC_2.")?
            .split('.')
            .next()?
            .parse::<u32>()
            .ok()
    };
    let newest = needed.filter_map(minor).max().unwrap().max(17);
    let name = wheel.file_name().unwrap().to_str().unwrap();
    assert!(
        name.contains(&format!(
            "-cp310-abi3-manylinux_2_{newest}_{}",
            std::env::consts::ARCH
        )),
        "{name} needs glibc 2.{newest}"
    );
}
