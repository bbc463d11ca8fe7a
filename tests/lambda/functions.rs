//! The functions of the examples, each tested in its own language.

use std::process::Command;

use backstop_tests::documents::top;

/// Runs the tests in an example's folder and returns their number, from the line that starts with `summary`. All must pass.
fn tests_that_ran(example: &str, command: &mut Command, summary: &str) -> usize {
    let output = command
        .current_dir(top().join("examples").join(example))
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(output.status.success(), "{command:?}:\n{printed}");
    printed
        .lines()
        .find_map(|line| line.strip_prefix(summary)?.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{command:?} did not count its tests:\n{printed}"))
}

#[test]
fn the_python_function_unwraps_envelopes_and_nothing_else() {
    let mut python = Command::new("python3");
    python.args(["-B", "-m", "unittest"]);
    assert!(tests_that_ran("python-function", &mut python, "Ran ") > 0);
}

#[test]
fn the_node_function_unwraps_envelopes_and_nothing_else() {
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter=tap"]);
    assert!(tests_that_ran("node-function", &mut node, "# pass ") > 0);
}
