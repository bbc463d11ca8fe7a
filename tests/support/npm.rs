//! Packages for npm of this project, with their development dependencies.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::backstop::{cache, program, text};
use crate::documents::top;
use crate::once::once_per_run;

/// What a command prints; it has to succeed.
pub fn succeeds(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{out}{err}");
    out
}

/// The folder of the package `host/NAME`, which is built once in a run.
pub fn built(name: &str) -> PathBuf {
    let folder = top().join("host").join(name);
    once_per_run(name, || {
        install(&folder);
        let mut build = Command::new("node");
        build.arg("build.mjs").current_dir(&folder);
        // The target folder that this test is of, and its programs.
        let debug = program("backstop").parent().unwrap().to_owned();
        build.env("CARGO_TARGET_DIR", debug.parent().unwrap());
        build.env("BACKSTOP", program("backstop"));
        build.env("BACKSTOP_CACHE", cache());
        succeeds(&mut build);
        String::new()
    });
    folder
}

/// Installs the dependencies, unless those of this lock file are there.
fn install(folder: &Path) {
    let stamp = folder.join("node_modules/.stamp");
    let lock = std::fs::read_to_string(folder.join("package-lock.json")).unwrap();
    if std::fs::read_to_string(&stamp).ok().as_ref() != Some(&lock) {
        let mut install = Command::new("npm");
        succeeds(install.args(["ci", "--silent"]).current_dir(folder));
        std::fs::write(&stamp, &lock).unwrap();
    }
}
