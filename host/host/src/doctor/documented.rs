//! Whether `host/docs/deploy/doctor.md` has a finding: for tests, so that its tables stay complete.

use super::Severity;

/// Fails unless a row of the document has this severity and this text, of which `…` stands for any part.
pub(super) fn expect_row(severity: Severity, text: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/deploy/doctor.md");
    let document = std::fs::read_to_string(path).unwrap();
    let name = serde_json::to_string(&severity).unwrap();
    let is_row = |line: &str| {
        let mut cells = line.trim_matches(['|', ' ']).split(" | ");
        let (Some(finding), Some(of_row)) = (cells.next(), cells.next()) else {
            return false;
        };
        let finding = finding.trim_matches('`');
        name.trim_matches('"') == of_row && !finding.is_empty() && has(text, finding)
    };
    assert!(
        document.lines().any(is_row),
        "host/docs/deploy/doctor.md has no row for this finding ({severity:?}): {text}"
    );
}

/// Whether the parts of a pattern are in the text, in this order.
fn has(text: &str, pattern: &str) -> bool {
    let mut left = text;
    pattern.split('…').all(|part| {
        let found = left.split_once(part).map(|(_, after)| after);
        left = found.unwrap_or_default();
        found.is_some()
    })
}
