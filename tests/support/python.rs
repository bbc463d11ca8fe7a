//! The package for Python of this project.

use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::backstop::program;
use crate::documents::top;

/// A folder with the package as a wheel has it: what `PYTHONPATH` names.
pub fn package() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path());
    folder
}

fn install(folder: &Path) {
    let package = folder.join("backstop");
    std::fs::create_dir(&package).unwrap();
    for file in std::fs::read_dir(top().join("host/python/backstop")).unwrap() {
        let file = file.unwrap().path();
        if file.is_file() {
            std::fs::copy(&file, package.join(file.file_name().unwrap())).unwrap();
        }
    }
    let built = program("backstop").with_file_name("libbackstop_python.so");
    assert!(
        built.exists(),
        "{} is not there: run `make build`",
        built.display()
    );
    symlink(built, package.join("_native.abi3.so")).unwrap();
}
