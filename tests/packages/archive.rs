//! The release archives.

use super::root::Root;
use super::world::{one, packages, shared_packages, succeeds};

#[test]
fn an_archive_runs_in_an_empty_root_and_is_the_same_when_it_is_made_again() {
    let archive = one(&shared_packages("archives"), ".tar.gz");
    let again = packages("archives");
    let again = one(again.path(), ".tar.gz");
    assert!(std::fs::read(&archive).unwrap() == std::fs::read(again).unwrap());

    let root = Root::new();
    root.unpack(&archive, "/opt");
    let folder = archive.file_name().unwrap().to_str().unwrap();
    let folder = format!("/opt/{}", folder.trim_end_matches(".tar.gz"));
    root.works(&format!("{folder}/backstop"));
    // Outside Lambda, it says that Lambda runs it.
    root.with_libraries(&root.path(&format!("{folder}/backstop-lambda")));
    let outside = root
        .command(&format!("{folder}/backstop-lambda"), &[])
        .output()
        .unwrap();
    assert!(!outside.status.success());
    for file in [
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "man/man1/backstop-run.1",
        "completions/_backstop",
    ] {
        assert!(root.path(&format!("{folder}/{file}")).is_file(), "{file}");
    }
    let mut listed = std::process::Command::new("tar");
    let listed = succeeds(listed.args(["-tvf"]).arg(&archive));
    assert!(
        listed
            .lines()
            .all(|line| line.contains(" 0/0 ") || line.contains("root/root")),
        "{listed}"
    );
}
