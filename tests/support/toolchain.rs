//! A policy's folder in each language, made and built by the command with the toolchains of `.services`.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use tempfile::TempDir;
use tokio::process::Command;

use crate::backstop::{self, program, text};
use crate::documents::top;
use crate::emulator::services;

/// A policy in a folder of its own, as `backstop policy new` makes it.
#[derive(Debug)]
pub struct Author {
    _parent: TempDir,
    /// The policy's folder.
    pub folder: PathBuf,
}

impl Author {
    /// Makes a policy called `card-payments`.
    pub async fn new(language: &str) -> Self {
        let parent = tempfile::tempdir().unwrap();
        // In a folder whose name has a meaning inside a policy's folder.
        let build = parent.path().join("build");
        std::fs::create_dir(&build).unwrap();
        let folder = build.join("card-payments");
        let author = Self {
            folder: build,
            _parent: parent,
        };
        let made = author
            .backstop(&["policy", "new", "card-payments", "--lang", language])
            .await;
        assert!(made.status.success(), "{}", text(&made.stderr));
        Self { folder, ..author }
    }

    /// Runs `backstop` in the folder.
    pub async fn backstop(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().await.unwrap()
    }

    /// `backstop` in the folder, not yet run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("backstop"));
        self.set_up(command.args(arguments));
        command
    }

    /// Runs a block of shell in the folder, with `backstop` and the toolchains on its path.
    pub async fn shell(&self, block: &str) -> Output {
        let mut command = Command::new("sh");
        self.set_up(command.args(["-ec", block]))
            .output()
            .await
            .unwrap()
    }

    fn set_up<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let services = services();
        let cache = services.join("cache");
        let ours = [
            program("backstop").parent().unwrap().to_owned(),
            services.join("node_modules/.bin"),
            services.join("python/bin"),
        ];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = ours.into_iter().chain(std::env::split_paths(&path));
        command
            .current_dir(&self.folder)
            .env("PATH", std::env::join_paths(path).unwrap())
            // The toolchains' caches stay in the project's folder.
            .env("GOCACHE", cache.join("go"))
            .env("GOTOOLCHAIN", "local")
            .env("ZIG_GLOBAL_CACHE_DIR", cache.join("zig"))
            .env("CARGO_TARGET_DIR", cache.join("rust"))
            .env("BACKSTOP_CACHE", backstop::cache())
            .env("NO_COLOR", "1")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .kill_on_drop(true)
    }

    /// Changes the policy's source: `from` must be in it.
    pub fn change(&self, file: &str, from: &str, to: &str) {
        let path = self.folder.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from:?} is not in {file}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    }

    /// The component that was built.
    pub fn component(&self) -> PathBuf {
        self.folder.join("build/card-payments.wasm")
    }
}

/// The example of a language in `examples/policies`.
pub fn example(language: &str) -> PathBuf {
    top().join("examples/policies").join(language)
}
