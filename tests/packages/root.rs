//! A root folder with nothing in it but what is installed, and the libraries of a program that is not static.

use std::fs::{copy, create_dir_all, write};
use std::path::{Path, PathBuf};
use std::process::Command;

use backstop_tests::backstop::text;
use rustix::process::geteuid;
use tempfile::TempDir;

use super::world::{certificates, scenarios, succeeds, works};

/// The user of the image.
pub(crate) const USER: &str = "65532:65532";

/// The scenarios of a policy in the root.
const SCENARIOS: &str = "/scenarios.toml";

/// An empty root folder.
pub(crate) struct Root(TempDir);

impl Root {
    /// With a folder for temporary files, and `/dev/null`.
    pub(crate) fn new() -> Self {
        let root = Self(tempfile::tempdir().unwrap());
        create_dir_all(root.path("/tmp")).unwrap();
        create_dir_all(root.path("/dev")).unwrap();
        write(root.path("/dev/null"), "").unwrap();
        copy(scenarios(), root.path(SCENARIOS)).unwrap();
        root
    }

    /// A path of the root, seen from outside.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    /// With the certificates of authorities, as a system has them: what calls AWS needs them.
    pub(crate) fn with_certificates(self) -> Self {
        let folder = self.path("/etc/ssl/certs");
        create_dir_all(&folder).unwrap();
        copy(certificates(), folder.join("ca-certificates.crt")).unwrap();
        self
    }

    /// Copies a program of this machine, with its libraries.
    pub(crate) fn with_program(&self, name: &str) {
        let path = which(name);
        let target = self.path(path.to_str().unwrap());
        create_dir_all(target.parent().unwrap()).unwrap();
        copy(&path, target).unwrap();
        self.with_libraries(&path);
    }

    /// Copies the libraries that a program needs of this machine: none if it is static.
    pub(crate) fn with_libraries(&self, program: &Path) {
        let output = Command::new("ldd").arg(program).output().unwrap();
        let printed = text(&output.stdout);
        let paths = printed
            .split_whitespace()
            .filter(|word| word.starts_with('/'));
        for path in paths {
            let target = self.path(path);
            create_dir_all(target.parent().unwrap()).unwrap();
            copy(path, target).unwrap();
        }
    }

    /// A program in the root, without any variable.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = as_root("chroot");
        command.arg(self.0.path()).arg(program).args(arguments);
        command.env_clear().env("HOME", "/tmp");
        command
    }

    /// The same where nothing can be written but `/tmp`, and as the user of the image if root tests.
    pub(crate) fn read_only(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = as_root("unshare");
        let user = if geteuid().is_root() {
            format!("--userspec={USER}")
        } else {
            String::new()
        };
        let script = r#"mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && mount -t tmpfs -o mode=1777 tmpfs "$1/tmp" && root=$1 user=$2 && shift 2 && exec chroot $user "$root" "$@""#;
        command.args(["--mount", "sh", "-c", script, "sh"]);
        command
            .arg(self.0.path())
            .arg(user)
            .arg(program)
            .args(arguments);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap());
        command
    }

    /// An installed command runs the demo and the test of a policy.
    pub(crate) fn works(&self, program: &str) {
        self.with_libraries(&self.path(program));
        works(&|arguments| self.command(program, arguments), SCENARIOS);
    }

    /// The same where nothing can be written.
    pub(crate) fn works_read_only(&self, program: &str) {
        self.with_libraries(&self.path(program));
        works(&|arguments| self.read_only(program, arguments), SCENARIOS);
    }

    /// Unpacks an archive into a folder of the root.
    pub(crate) fn unpack(&self, archive: &Path, folder: &str) {
        create_dir_all(self.path(folder)).unwrap();
        let mut tar = as_root("tar");
        tar.arg("-xf").arg(archive).arg("-C").arg(self.path(folder));
        succeeds(&mut tar);
    }
}

/// A program that has to be root, or thinks that it is.
pub(crate) fn as_root(program: &str) -> Command {
    if geteuid().is_root() {
        return Command::new(which(program));
    }
    let mut command = Command::new(which("unshare"));
    command.args(["--map-root-user", program]);
    command
}

/// The path of a program of this machine.
pub(crate) fn which(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    // What only root uses is not on everybody's path.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let mut found = folders.map(|it| it.join(program));
    let found = found.find(|it| it.is_file());
    found.unwrap_or_else(|| panic!("the tests need {program}: run `make services`"))
}
