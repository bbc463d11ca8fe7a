//! Functions in Python and Node.js for an emulator of Lambda, as AWS's own runtimes run them.

use std::collections::HashMap;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::emulator::services;
use crate::lambda::Function;
use crate::npm;

/// The variable that makes a function answer with its times: `imported`, `handled` and its own `answer`.
pub const MEASURES: &str = "MEASURES";

impl Function {
    /// A function in Python: the text of its `handler.py`, and a folder of packages in addition to those of the tests.
    pub fn of_python(handler: &str, packages: Option<&Path>) -> Self {
        let python = services().join("python/bin/python");
        let bootstrap = include_str!("runtimes/bootstrap.py");
        let function = Self::of_runtime(bootstrap, "PYTHON", &python, ("handler.py", handler));
        match packages {
            Some(packages) => function.with("PYTHONPATH", packages.to_str().unwrap()),
            None => function,
        }
    }

    /// A function in Node.js: the text of its `handler.mjs`, and its `node_modules`.
    pub fn of_node(handler: &str, modules: Option<&Path>) -> Self {
        let node = services().join("node_modules/.bin/node");
        let bootstrap = include_str!("runtimes/bootstrap.cjs");
        let function = Self::of_runtime(bootstrap, "NODE", &node, ("handler.mjs", handler));
        match modules {
            Some(modules) => function.with("NODE_MODULES", modules.to_str().unwrap()),
            None => function,
        }
    }

    fn of_runtime(bootstrap: &str, name: &str, program: &Path, handler: (&str, &str)) -> Self {
        let bootstrap = bootstrap.replacen(name, program.to_str().unwrap(), 1);
        let files = [("bootstrap", bootstrap.as_str()), handler];
        Self {
            files: files
                .map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))
                .into(),
            environment: HashMap::new(),
            timeout: 30,
        }
    }
}

/// A `node_modules` with `backstop-retry` of this project, and these packages of the tests.
pub fn node_modules(others: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let retry = npm::built("node-retry");
    symlink(retry, folder.path().join("backstop-retry")).unwrap();
    for name in others {
        let installed = services().join("node_modules").join(name);
        assert!(installed.exists(), "{}", installed.display());
        symlink(installed, folder.path().join(name)).unwrap();
    }
    folder
}
