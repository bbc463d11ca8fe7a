//! Unit tests wait for no time to pass.

use std::fs;

use crate::map::{is_tests, sources};

/// Whether code calls a function with this name, and not a method.
fn calls(code: &str, name: &str) -> bool {
    code.match_indices(&format!("{name}("))
        .any(|(at, _)| !code[..at].ends_with(|c: char| c == '.' || c == '_' || c.is_alphanumeric()))
}

#[test]
fn unit_tests_never_sleep() {
    let mut checked = 0;
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        let (tests, end) = match text.split_once("#[cfg(test)]\nmod ") {
            _ if is_tests(&path) => (text.as_str(), "\n}\n"),
            Some((_, tests)) => (tests, "\n    }\n"),
            None => continue,
        };
        checked += 1;
        let path = path.display();
        assert!(!tests.contains("thread::sleep("), "{path}");
        for test in tests.split("#[tokio::test").skip(1) {
            let (how, test) = test.split_once(']').unwrap();
            let test = test.split(end).next().unwrap_or_default();
            let (name, _) = test.split_once('(').unwrap();
            // A test that moves the time on by itself pauses it.
            let is_paused = how.contains("start_paused = true") || test.contains("time::pause()");
            let sleeps = calls(test, "sleep") || calls(test, "sleep_until");
            assert!(
                is_paused || !sleeps,
                "{path}: {} sleeps in real time",
                name.trim()
            );
        }
    }
    assert!(checked > 100, "{checked}");
}
