//! deb and rpm, installed by dpkg and rpm into a root without a system, and the unit that they install.

use std::path::Path;
use std::process::Command;

use backstop_tests::documents::top;

use super::root::{Root, as_root, which};
use super::world::{one, shared_packages, succeeds};

/// The configuration that an administrator has written.
const CHANGED: &str = "# changed\n";

/// A root with a shell and what makes a user: all that the scripts of a package run.
fn root() -> Root {
    let root = Root::new().with_certificates();
    std::fs::create_dir_all(root.path("/etc")).unwrap();
    std::fs::create_dir_all(root.path("/run")).unwrap();
    for program in ["sh", "rm", "systemd-sysusers"] {
        root.with_program(program);
    }
    // Where scripts and rpm look for the shell, whatever its path is here.
    if !root.path("/bin/sh").exists() {
        std::fs::create_dir_all(root.path("/bin")).unwrap();
        std::fs::copy(which("sh"), root.path("/bin/sh")).unwrap();
    }
    root
}

fn read(root: &Root, path: &str) -> String {
    std::fs::read_to_string(root.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What both packages install.
fn is_installed(root: &Root) {
    root.works("/usr/bin/backstop");
    for path in [
        "/usr/share/man/man1/backstop-run.1.gz",
        "/usr/share/bash-completion/completions/backstop",
        "/usr/share/fish/vendor_completions.d/backstop.fish",
        "/usr/lib/systemd/system/backstop.service",
    ] {
        assert!(root.path(path).is_file(), "{path}");
    }
    let users = read(root, "/etc/passwd");
    assert!(
        users.contains("\nbackstop:x:") || users.starts_with("backstop:x:"),
        "{users}"
    );
    // The example names no queue, and the host says so.
    let mut run = root.command(
        "/usr/bin/backstop",
        &["run", "--config", "/etc/backstop.toml"],
    );
    let run = run.output().unwrap();
    assert_eq!(run.status.code(), Some(3));
    let explained = String::from_utf8(run.stderr).unwrap();
    assert!(
        explained.contains("expected at least one queue"),
        "{explained}"
    );
    // What is in it works, without its comments.
    let example: Vec<_> = read(root, "/etc/backstop.toml")
        .lines()
        .filter_map(|line| {
            Some(line.strip_prefix('#')?.to_owned()).filter(|it| !it.starts_with([' ', '#']))
        })
        .collect();
    std::fs::write(
        root.path("/example.toml"),
        example.join("\n").replace(":9465", ":0"),
    )
    .unwrap();
    let mut run = root.command("/usr/bin/backstop", &["run", "--config", "/example.toml"]);
    run.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        .env("AWS_REGION", "eu-west-1");
    run.env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test");
    let run = run.output().unwrap();
    let explained = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(5), "{explained}");
    std::fs::write(root.path("/etc/backstop.toml"), CHANGED).unwrap();
}

#[test]
fn a_deb_is_installed_upgraded_removed_and_purged() {
    let made = shared_packages("system");
    let package = one(&made, ".deb");
    let root = root();
    let dpkg = |arguments: &[&str]| {
        let mut dpkg = as_root("dpkg");
        dpkg.arg(format!("--root={}", root.path("/").display()))
            .args(["--force-depends", "--force-bad-path"]);
        dpkg.args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        succeeds(&mut dpkg)
    };
    for folder in ["info", "updates", "triggers"] {
        std::fs::create_dir_all(root.path("/var/lib/dpkg").join(folder)).unwrap();
    }
    std::fs::write(root.path("/var/lib/dpkg/status"), "").unwrap();
    let install = ["--install", package.to_str().unwrap()];
    dpkg(&install);
    is_installed(&root);
    dpkg(&install);
    assert_eq!(read(&root, "/etc/backstop.toml"), CHANGED);
    dpkg(&["--remove", "backstop"]);
    assert_eq!(read(&root, "/etc/backstop.toml"), CHANGED);
    assert!(!root.path("/usr/bin/backstop").exists());
    std::fs::create_dir_all(root.path("/var/lib/backstop")).unwrap();
    dpkg(&["--purge", "backstop"]);
    assert!(!root.path("/etc/backstop.toml").exists());
    assert!(!root.path("/var/lib/backstop").exists());

    let mut lintian = Command::new(which("lintian"));
    // The tests' program is neither static nor without sections.
    lintian.args([
        "--allow-root",
        "--fail-on=warning",
        "--suppress-tags=mismatched-override",
    ]);
    succeeds(lintian.arg(&package));
}

#[test]
fn an_rpm_is_installed_upgraded_and_removed() {
    let made = shared_packages("system");
    let package = one(&made, ".rpm");
    let root = root();
    let rpm = |arguments: &[&str]| {
        let mut rpm = as_root("rpm");
        // The dependencies are not in the root.
        rpm.arg("--root").arg(root.path("/")).args([
            "--nodeps",
            "--nosignature",
            "--define",
            "_dbpath /var/lib/rpm",
        ]);
        succeeds(rpm.args(arguments))
    };
    let package = package.to_str().unwrap();
    rpm(&["--install", package]);
    is_installed(&root);
    rpm(&["--upgrade", "--replacepkgs", package]);
    assert_eq!(read(&root, "/etc/backstop.toml"), CHANGED);
    rpm(&["--erase", "backstop"]);
    assert!(!root.path("/usr/bin/backstop").exists());
    assert_eq!(read(&root, "/etc/backstop.toml.rpmsave"), CHANGED);

    let mut rpmlint = Command::new(which("rpmlint"));
    rpmlint
        .arg("--config")
        .arg(top().join("host/dist/system/rpmlintrc.toml"));
    let linted = succeeds(rpmlint.arg(package));
    assert!(linted.contains("0 errors, 0 warnings"), "{linted}");
}

#[test]
fn the_unit_is_valid_and_its_sandbox_is_narrow() {
    let unit = top().join("host/dist/system/backstop.service");
    let folder = tempfile::tempdir().unwrap();
    // With a program that is there, and without the manual page that is not.
    let text = std::fs::read_to_string(&unit).unwrap();
    let here = text
        .replace("/usr/bin/backstop", "/bin/true")
        .replace("Documentation=man:backstop-run(1)\n", "");
    let copy = folder.path().join("backstop.service");
    std::fs::write(&copy, here).unwrap();
    let verified = succeeds(&mut analyze(&["verify"], &copy));
    assert_eq!(verified, "");
    // In tenths.
    succeeds(&mut analyze(
        &["security", "--offline=true", "--threshold=20"],
        &unit,
    ));
}

fn analyze(arguments: &[&str], unit: &Path) -> Command {
    let mut command = Command::new(which("systemd-analyze"));
    command.args(arguments).arg(unit);
    command
}
