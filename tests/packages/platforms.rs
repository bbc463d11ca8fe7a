//! The platforms of wheels, of small stand-ins: a static program, and modules for each C library and processor.

use std::fs::{create_dir_all, read, write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use backstop_tests::backstop::{program, text};
use backstop_tests::documents::top;
use backstop_tests::emulator::services;
use tempfile::TempDir;

use super::world::{architecture, succeeds};

/// What ELF files call the processors.
const MACHINES: [(&str, [u8; 2]); 2] = [("x86-64", [62, 0]), ("arm64", [183, 0])];

/// A wheel, by the end of its name, or none.
type Choice = Option<&'static str>;

/// What pip has to choose on a platform, by a Python.
const CHOICES: [(&str, &str, Choice); 9] = [
    (
        "manylinux_2_17_x86_64",
        "3.10",
        Some("manylinux2014_x86_64.whl"),
    ),
    (
        "manylinux2014_x86_64",
        "3.14",
        Some("manylinux2014_x86_64.whl"),
    ),
    (
        "manylinux_2_17_aarch64",
        "3.11",
        Some("manylinux2014_aarch64.whl"),
    ),
    (
        "musllinux_1_2_x86_64",
        "3.13",
        Some("musllinux_1_2_x86_64.whl"),
    ),
    (
        "musllinux_1_2_aarch64",
        "3.12",
        Some("musllinux_1_2_aarch64.whl"),
    ),
    ("manylinux_2_12_x86_64", "3.12", None),
    ("musllinux_1_1_x86_64", "3.12", None),
    ("manylinux_2_17_x86_64", "3.9", None),
    ("macosx_11_0_arm64", "3.12", None),
];

/// Links a shared library without the C library of this machine.
fn link(folder: &Path, to: &str, code: &str, more: &[&str]) {
    let (source, to) = (folder.join("source.c"), folder.join(to));
    write(&source, code).unwrap();
    create_dir_all(to.parent().unwrap()).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-nostdlib", "-o"]).arg(to).arg(source).args(more);
    succeeds(cc.current_dir(folder));
}

/// A program and modules for this machine's processor, the modules with what they would need of each C library.
fn stand_ins(folder: &Path, glibc: &str) {
    link(folder, "backstop", "void _start(void) {}", &["-static"]);
    write(
        folder.join("map"),
        format!("GLIBC_2.2.5 {{}}; GLIBC_{glibc} {{ global: getenv; }};"),
    )
    .unwrap();
    let library = "char *getenv(const char *name) { return 0; }";
    let module =
        "char *getenv(const char *); void *PyInit__native(void) { return getenv(\"HOME\"); }";
    for (libc, soname, script) in [
        ("gnu", "libc.so.6", "-Wl,--version-script=map"),
        ("musl", "libc.so", "-Wl,--as-needed"),
    ] {
        let soname_option = format!("-Wl,-soname,{soname}");
        let stub = format!("stub/{soname}");
        link(
            folder,
            &stub,
            library,
            &["-shared", "-fPIC", &soname_option, script],
        );
        let to = format!("{libc}/libbackstop_python.so");
        link(folder, &to, module, &["-shared", "-fPIC", &stub]);
    }
}

/// The same files, as if they were for another processor.
fn as_if_for(machine: [u8; 2], from: &Path, to: &Path) {
    for file in [
        "backstop",
        "gnu/libbackstop_python.so",
        "musl/libbackstop_python.so",
    ] {
        let mut content = read(from.join(file)).unwrap();
        content[18..20].copy_from_slice(&machine);
        create_dir_all(to.join(file).parent().unwrap()).unwrap();
        write(to.join(file), content).unwrap();
    }
}

fn make(folder: &Path, programs: &[(&str, PathBuf)]) -> Output {
    let mut make = Command::new(services().join("python/bin/python"));
    make.arg(top().join("host/dist"))
        .args(["wheels", "--output"]);
    make.arg(folder).arg("--writer").arg(program("backstop"));
    for (architecture, folder) in programs {
        make.arg(format!("--{architecture}")).arg(folder);
    }
    make.output().unwrap()
}

/// What pip downloads for a platform and a Python.
fn chosen(wheels: &Path, platform: &str, version: &str) -> Option<PathBuf> {
    let folder = TempDir::new().unwrap();
    let mut pip = Command::new(services().join("python/bin/pip"));
    pip.args(["download", "--quiet", "--disable-pip-version-check"])
        .args(["--no-deps", "--no-index", "--only-binary=:all:"])
        .args(["--implementation", "cp", "--abi", "abi3"])
        .args(["--platform", platform, "--python-version", version])
        .arg("--find-links")
        .arg(wheels)
        .arg("--dest")
        .arg(folder.path())
        .arg("backstop-sqs");
    let output = pip.output().unwrap();
    let explained = text(&output.stderr);
    assert!(
        output.status.success() || explained.contains("No matching distribution"),
        "{explained}"
    );
    let found = std::fs::read_dir(folder.path()).unwrap().next()?;
    Some(found.unwrap().file_name().into())
}

#[test]
fn pip_finds_the_wheel_of_each_processor_and_c_library_and_no_other() {
    let folder = TempDir::new().unwrap();
    let made_here = folder.path().join("here");
    create_dir_all(&made_here).unwrap();
    stand_ins(&made_here, "2.17");
    let folders = MACHINES.map(|(architecture, machine)| {
        let folder = folder.path().join(architecture);
        as_if_for(machine, &made_here, &folder);
        (architecture, folder)
    });
    let wheels = folder.path().join("wheels");
    let made = make(&wheels, &folders);
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert_eq!(std::fs::read_dir(&wheels).unwrap().count(), 4);
    for (platform, version, expected) in CHOICES {
        let found = chosen(&wheels, platform, version);
        let found = found.as_deref().and_then(Path::to_str);
        assert!(
            match (found, expected) {
                (Some(found), Some(end)) => found.ends_with(end),
                (found, end) => found == end,
            },
            "{platform}, Python {version}: {found:?}, expected {expected:?}"
        );
    }
}

#[test]
fn a_wheel_needs_the_glibc_that_its_module_needs_and_no_other_library() {
    let folder = TempDir::new().unwrap();
    stand_ins(folder.path(), "2.28");
    let wheels = folder.path().join("wheels");
    let made = text(&make(&wheels, &[(architecture(), folder.path().to_owned())]).stdout);
    assert!(
        made.contains(&format!(
            "-cp310-abi3-manylinux_2_28_{}.whl",
            std::env::consts::ARCH
        )),
        "{made}"
    );
    let library = ["-shared", "-fPIC", "-Wl,-soname,libother.so.1"];
    link(
        folder.path(),
        "stub/libother.so.1",
        "int other(void) { return 1; }",
        &library,
    );
    let module = "int other(void); int PyInit__native(void) { return other(); }";
    let to = "gnu/libbackstop_python.so";
    link(
        folder.path(),
        to,
        module,
        &["-shared", "-fPIC", "stub/libother.so.1"],
    );
    let refused = make(&wheels, &[(architecture(), folder.path().to_owned())]);
    let explained = text(&refused.stderr);
    assert!(
        !refused.status.success()
            && explained.contains("no platform of a wheel for gnu has libother.so.1"),
        "{explained}"
    );
}
