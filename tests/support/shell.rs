//! Commands of the documents, run as their readers run them.

use std::path::{Path, PathBuf};

use crate::aws::CREDENTIALS;
use crate::backstop::{program, text};

/// A shell in a folder, with `backstop` on its path.
#[derive(Debug, Clone)]
pub struct Shell {
    folder: PathBuf,
    path: Vec<PathBuf>,
    variables: Vec<(String, String)>,
}

/// What a block of commands has written.
#[derive(Debug, Clone)]
pub struct Written {
    /// To standard output.
    pub stdout: String,
    /// To standard error.
    pub stderr: String,
}

impl Written {
    /// Whether either has this text.
    pub fn contains(&self, part: &str) -> bool {
        self.stdout.contains(part) || self.stderr.contains(part)
    }
}

impl Shell {
    /// A shell in this folder.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            path: vec![program("backstop").parent().unwrap().to_owned()],
            variables: Vec::new(),
        }
    }

    /// With the programs of another folder.
    pub fn path(mut self, folder: PathBuf) -> Self {
        self.path.push(folder);
        self
    }

    /// With a variable.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With credentials for an emulator, and everything that `backstop` keeps in folders of this one.
    pub fn with_account(self) -> Self {
        let folder = |name: &str| self.folder.join(name).to_str().unwrap().to_owned();
        let (cache, state) = (folder("cache"), folder("state"));
        let shell = CREDENTIALS
            .iter()
            .fold(self, |shell, (name, value)| shell.with(name, value));
        shell
            .with("BACKSTOP_CACHE", &cache)
            .with("XDG_STATE_HOME", &state)
            .with("NO_COLOR", "1")
    }

    /// Runs a block of commands. Each has to succeed.
    pub async fn run(&self, block: &str) -> Written {
        let path = std::env::var_os("PATH").unwrap();
        let path = self
            .path
            .iter()
            .cloned()
            .chain(std::env::split_paths(&path));
        let output = tokio::process::Command::new("sh")
            .args(["-ec", block])
            .current_dir(&self.folder)
            .env("PATH", std::env::join_paths(path).unwrap())
            .envs(self.variables.iter().cloned())
            .output()
            .await
            .unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{block}\n{stdout}{stderr}");
        Written { stdout, stderr }
    }
}
