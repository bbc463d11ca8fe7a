//! Packages of the programs that are built, and what each has to do once it is installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use backstop_tests::backstop::{program, text};
use backstop_tests::documents::top;
use backstop_tests::emulator::services;
use backstop_tests::once::once_per_run;
use tempfile::TempDir;

/// What our packages call the processor of this machine.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x86-64",
        "aarch64" => "arm64",
        other => panic!("there are no packages for {other}"),
    }
}

/// The folder of the built programs and modules, without the names that a debugger reads. `BACKSTOP_PACKAGED` names another one: that of `make dist`.
fn programs() -> PathBuf {
    if let Some(folder) = std::env::var_os("BACKSTOP_PACKAGED") {
        return folder.into();
    }
    let made = once_per_run("packaged-programs", || {
        let folder = program("backstop").with_file_name("tmp/packaged");
        std::fs::create_dir_all(folder.join("gnu")).unwrap();
        let strip = |built: &Path, to: &str| {
            let mut strip = Command::new("strip");
            succeeds(strip.arg("-o").arg(folder.join(to)).arg(built));
        };
        for name in ["backstop", "backstop-lambda"] {
            strip(&program(name), name);
        }
        for name in ["libbackstop_python.so", "libbackstop_node.so"] {
            strip(
                &program("backstop").with_file_name(name),
                &format!("gnu/{name}"),
            );
        }
        folder.to_str().unwrap().to_owned()
    });
    made.into()
}

/// The packages of a kind, in a folder. Compressed a little only: that takes most of the time.
pub(crate) fn packages(kind: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    make(kind, folder.path());
    folder
}

/// The packages of a kind that several tests install, made once.
pub(crate) fn shared_packages(kind: &str) -> PathBuf {
    let name = format!("packaged-{kind}");
    let made = once_per_run(&name, || {
        let folder = program("backstop").with_file_name(format!("tmp/{name}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        make(kind, &folder);
        folder.to_str().unwrap().to_owned()
    });
    made.into()
}

/// Makes the packages of a kind.
pub(crate) fn make(kind: &str, output: &Path) {
    make_with(kind, output, &[]);
}

/// The same, with further options.
pub(crate) fn make_with(kind: &str, output: &Path, more: &[&str]) {
    let python = services().join("python/bin");
    let mut make = Command::new(python.join("python"));
    // The checkout stays as it is.
    make.arg("-B")
        .arg(top().join("host/dist"))
        .args([kind, "--level", "1", "--output"]);
    make.arg(output);
    make.arg(format!("--{}", architecture())).arg(programs());
    make.arg("--boms").arg(boms(output));
    make.arg("--certificates").arg(certificates());
    make.args(more).env("PATH", path_with(&python));
    succeeds(&mut make);
}

/// The certificates of authorities in the environment of the tests' services.
pub(crate) fn certificates() -> PathBuf {
    let mut python = Command::new(services().join("python/bin/python"));
    let printed = succeeds(python.args(["-c", "import certifi; print(certifi.where())"]));
    printed.trim().into()
}

/// A bill of materials in the place of the one of a release, for which cargo-sbom would have to be built.
fn boms(output: &Path) -> PathBuf {
    let folder = output.join("boms");
    std::fs::create_dir_all(&folder).unwrap();
    for crates in ["backstop-cli", "backstop-python"] {
        let bill = format!(r#"{{"spdxVersion":"SPDX-2.3","name":"{crates}"}}"#);
        std::fs::write(folder.join(format!("{crates}.spdx.json")), bill).unwrap();
    }
    folder
}

/// The PATH with another folder in front.
pub(crate) fn path_with(folder: &Path) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap();
    std::env::join_paths(
        [folder.to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&path)),
    )
    .unwrap()
}

/// The only file in a folder with this end.
pub(crate) fn one(folder: &Path, end: &str) -> PathBuf {
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().path());
    let mut found: Vec<_> = files
        .filter(|it| it.to_str().unwrap().ends_with(end))
        .collect();
    assert_eq!(found.len(), 1, "{found:?} with {end}");
    found.pop().unwrap()
}

/// What a command prints, which has to succeed.
pub(crate) fn succeeds(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let Output {
        status,
        stdout,
        stderr,
    } = &output;
    let (stdout, stderr) = (text(stdout), text(stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout + &stderr
}

/// A demo and the test of a policy, as a new user tries them. `scenarios` is where the command finds them.
pub(crate) fn works(backstop: &dyn Fn(&[&str]) -> Command, scenarios: &str) {
    let version = succeeds(&mut backstop(&["--version"]));
    assert_eq!(
        version,
        concat!("backstop ", env!("CARGO_PKG_VERSION"), "\n")
    );
    let demo = succeeds(&mut backstop(&["demo"]));
    assert!(demo.contains("Nothing was lost."), "{demo}");
    let tested = succeeds(&mut backstop(&[
        "policy",
        "test",
        "full-jitter",
        "--scenarios",
        scenarios,
    ]));
    assert!(tested.contains(" passed in "), "{tested}");
}

/// The scenarios of a built-in policy.
pub(crate) fn scenarios() -> PathBuf {
    top().join("policies/full-jitter/scenarios.toml")
}
