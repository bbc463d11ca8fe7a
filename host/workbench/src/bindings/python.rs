//! The bindings for Python: the entry module, which componentize-py runs instead of the policy's own. It imports the policy, and makes the strings well-formed that the policy passes to the host.

use super::contract::Written;
use crate::project::Project;

/// The part that is the same for every policy.
const ENTRY: &str = include_str!("entry.py");

/// The name of the module. It must differ from those of the author's modules.
pub(crate) const ENTRY_MODULE: &str = "policy_entry";

/// For each interface, the class that the policy exports.
const EXPORTED: [(&str, &str); 4] = [
    (
        "settings",
        "Settings = worded(policy.Settings, \"configure\")\n",
    ),
    (
        "classifier",
        "Classifier = worded(policy.Classifier, \"classify\")\n",
    ),
    ("backoff", "Backoff = policy.Backoff\n"),
    (
        "dead-lettering",
        "DeadLettering = worded(policy.DeadLettering, \"judge\")\n",
    ),
];

pub(super) fn add(project: &Project, written: &mut Written) {
    let mut text = ENTRY.to_owned();
    for (question, exported) in EXPORTED {
        if project.answers.contains(&question) {
            text.push_str(exported);
        }
    }
    written.add(format!("{ENTRY_MODULE}.py"), text);
}
