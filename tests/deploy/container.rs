//! A host as a container runs it: with the arguments and variables of a manifest and no others, as another user if root runs the tests, and with its mounts at other paths, since the tests have no container engine.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use backstop_tests::backstop::program;
use rustix::process::{Resource, getrlimit};
use serde_json::Value;
use tokio::process::Command;

/// The user of the manifests.
const USER: &str = "65532";

/// A container of a manifest.
#[derive(Debug, Clone)]
pub(crate) struct Container {
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    /// The paths of the manifest, and those of the test.
    paths: Vec<(String, PathBuf)>,
    /// The most open files.
    files: u64,
}

impl Container {
    pub(crate) fn new(arguments: Vec<String>, variables: Vec<(Value, Value)>) -> Self {
        let text = |value: Value| value.as_str().unwrap().to_owned();
        let variables = variables.into_iter();
        Self {
            arguments,
            variables: variables
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
            paths: Vec::new(),
            files: 1024,
        }
    }

    /// Makes the folder of a mount: with files behind links, or empty and open to everybody.
    pub(crate) fn mount(&mut self, root: &Path, path: &str, files: &[(&str, &str)]) {
        let folder = root.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(folder.join("..2026")).unwrap();
        if files.is_empty() {
            std::fs::remove_dir(folder.join("..2026")).unwrap();
            let open = std::fs::Permissions::from_mode(0o777);
            std::fs::set_permissions(&folder, open).unwrap();
        } else {
            symlink("..2026", folder.join("..data")).unwrap();
        }
        for (name, text) in files {
            let text = self.replaced(text);
            std::fs::write(folder.join("..2026").join(name), text).unwrap();
            symlink(format!("..data/{name}"), folder.join(name)).unwrap();
        }
        self.paths.push((path.to_owned(), folder));
    }

    /// Replaces the files of a mount, whose texts may name other mounts.
    pub(crate) fn remount(&mut self, root: &Path, path: &str, files: &[(&str, &str)]) {
        self.paths.retain(|it| it.0 != path);
        std::fs::remove_dir_all(root.join(path.trim_start_matches('/'))).unwrap();
        self.mount(root, path, files);
    }

    /// A text of the manifest, with the paths of the test.
    pub(crate) fn replaced(&self, text: &str) -> String {
        let paths = self.paths.iter();
        paths.fold(text.to_owned(), |text, (path, folder)| {
            text.replace(path, folder.to_str().unwrap())
        })
    }

    /// Another text in place of one, such as the address of an emulator.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|it| it.0 != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this limit on open files, in place of the least that engines have.
    pub(crate) fn with_files(mut self, files: u64) -> Self {
        self.files = files;
        self
    }

    /// With other arguments of the host.
    pub(crate) fn with_arguments(mut self, change: impl Fn(&str) -> String) -> Self {
        self.arguments = self.arguments.iter().map(|it| change(it)).collect();
        self
    }

    /// `backstop` with other arguments in this container, such as those of a hook.
    pub(crate) fn command(&self, arguments: &[String]) -> Command {
        let program = program("backstop");
        let mut command = Command::new("prlimit");
        // More than this machine allows can't be tried on it.
        let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        command.arg(format!("--nofile={0}:{0}", self.files.min(most)));
        if rustix::process::getuid().is_root() {
            command.args(["setpriv", "--reuid", USER, "--regid", USER]);
            command.args(["--clear-groups", "--no-new-privs", "--bounding-set=-all"]);
        }
        command.arg(program);
        command
            .args(arguments.iter().map(|it| self.replaced(it)))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(
                self.variables
                    .iter()
                    .map(|(name, value)| (name, self.replaced(value))),
            )
            .current_dir("/")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// The host itself.
    pub(crate) fn host(&self) -> Command {
        self.command(&self.arguments)
    }
}
