//! The bindings for JavaScript and TypeScript: the entry module, which the engine runs instead of the policy's own. It imports the policy, corrects numbers from 2^31 on, which componentize-qjs passes as negative ones, makes strings well-formed, and logs the message of an exception before the engine adds its own.

use super::contract::{Written, world};
use crate::project::{Language, Project};

/// The part that is the same for every policy.
const ENTRY: &str = include_str!("entry.js");

/// The modules that wrap the host's functions before the policy imports them.
const STRINGS: [(&str, &str); 2] = [
    ("freeze.js", include_str!("freeze.js")),
    ("strings.js", include_str!("strings.js")),
];

/// The types for TypeScript: a policy's exports and imports.
pub(super) const TYPES: &str = include_str!("policy.d.ts");
pub(super) const IMPORTS: &str = include_str!("imports.d.ts");

/// The path of the module in the policy's folder.
pub(crate) const ENTRY_MODULE: &str = "bindings/entry.js";

/// For each interface, the export that forwards the call to the policy. An exception of `configure` is not logged: it is an answer that rejects the settings.
const FORWARDED: [&str; 5] = [
    "import { settings as policySettings } from 'POLICY';
export const settings = { configure: refusing(method(policySettings, 'settings', 'configure')) };",
    "import { classifier as policyClassifier } from 'POLICY';
const classify = logged(method(policyClassifier, 'classifier', 'classify'));
export const classifier = { classify: (given) => worded(classify(error(given))) };",
    "import { backoff as policyBackoff } from 'POLICY';
const delay = logged((given, errorClass) => milliseconds(policyDelay(given, errorClass)));
const policyDelay = method(policyBackoff, 'backoff', 'delay');
export const backoff = { delay: (given, errorClass) => delay(failure(given), errorClass) };",
    "import { deadLettering as policyDeadLettering } from 'POLICY';
const judge = logged(method(policyDeadLettering, 'deadLettering', 'judge'));
export const deadLettering = { judge: (given, errorClass) => worded(judge(failure(given), errorClass)) };",
    "import { outage as policyOutage } from 'POLICY';
const downFor = logged((given, errorClass) => optional(policyDownFor(given, errorClass)));
const policyDownFor = method(policyOutage, 'outage', 'downFor');
export const outage = { downFor: (given, errorClass) => downFor(failure(given), errorClass) };",
];

pub(super) fn add(project: &Project, written: &mut Written) {
    let policy = if project.language == Language::TypeScript {
        written.add("policy.d.ts", TYPES);
        written.add("imports.d.ts", IMPORTS);
        // The output of tsc.
        "../build/javascript/policy.js"
    } else {
        "../policy.js"
    };
    let mut text = ENTRY.to_owned();
    for (_, forwarded) in project.of_answers(FORWARDED) {
        text.push('\n');
        text.push_str(&forwarded.replace("POLICY", policy));
        text.push('\n');
    }
    written.add("wit/answers.wit", world(&project.answers));
    written.add("entry.js", text);
    for (path, text) in STRINGS {
        written.add(path, text);
    }
}
