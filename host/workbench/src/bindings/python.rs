//! The bindings for Python: the entry module, which componentize-py runs instead of the policy's own. It imports the policy, and makes the strings well-formed that the policy passes to the host.

use super::contract::{Written, world};
use crate::project::Project;

/// The part that is the same for every policy.
const ENTRY: &str = include_str!("entry.py");

/// The name of the module. It must differ from those of the author's modules.
pub(crate) const ENTRY_MODULE: &str = "policy_entry";

/// For each interface, the class that the policy exports.
const EXPORTED: [&str; 5] = [
    "Settings = worded(policy.Settings, \"configure\")\n",
    "Classifier = worded(policy.Classifier, \"classify\")\n",
    "Backoff = policy.Backoff\n",
    "DeadLettering = worded(policy.DeadLettering, \"judge\")\n",
    "Outage = policy.Outage\n",
];

pub(super) fn add(project: &Project, written: &mut Written) {
    let exported = project.of_answers(EXPORTED).map(|(_, class)| class);
    let text: String = std::iter::once(ENTRY).chain(exported).collect();
    written.add("wit/answers.wit", world(&project.answers));
    written.add(format!("{ENTRY_MODULE}.py"), text);
}
