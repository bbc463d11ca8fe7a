//! The workflow that publishes a release.

use std::process::Command;

use backstop_tests::documents::{document, top};
use backstop_tests::emulator::services;

use super::world::succeeds;

const WORKFLOW: &str = ".github/workflows/release.yml";

#[test]
fn the_workflow_of_a_release_is_valid_and_safe() {
    let check = |program: &str, arguments: &[&str]| {
        let mut check = Command::new(services().join("python/bin").join(program));
        check.args(arguments).arg(WORKFLOW).current_dir(top());
        succeeds(&mut check)
    };
    assert_eq!(check("actionlint", &["-no-color"]), "");
    // Without looking anything up.
    check("zizmor", &["--offline", "--no-progress"]);
    let workflow = document(WORKFLOW);
    for line in workflow.lines().filter(|line| line.contains("host/dist/")) {
        let mut words = line.split_whitespace();
        let script = words.find(|word| word.starts_with("host/dist/")).unwrap();
        assert!(top().join(script).is_file(), "{line}");
    }
}
