//! For JavaScript and TypeScript: the module that the engine runs in place of the policy's own. It imports the policy, mends what componentize-qjs makes of numbers from 2^31 on, and puts an exception's own words before the engine's.

use super::written::Written;
use crate::project::{Language, Project};

/// The part that is the same for every policy.
const ENTRY: &str = include_str!("entry.js");

/// Where the module is, in the policy's folder.
pub(crate) const ENTRY_MODULE: &str = "bindings/entry.js";

/// How each question is handed on. What `configure` throws is its answer, and no fault.
const HANDED_ON: [(&str, &str); 4] = [
    (
        "settings",
        "import { settings as itsSettings } from 'POLICY';
export const settings = { configure: method(itsSettings, 'settings', 'configure') };",
    ),
    (
        "classifier",
        "import { classifier as itsClassifier } from 'POLICY';
const classify = told(method(itsClassifier, 'classifier', 'classify'));
export const classifier = { classify: (given) => classify(error(given)) };",
    ),
    (
        "backoff",
        "import { backoff as itsBackoff } from 'POLICY';
const delay = told((given, errorClass) => milliseconds(itsDelay(given, errorClass)));
const itsDelay = method(itsBackoff, 'backoff', 'delay');
export const backoff = { delay: (given, errorClass) => delay(failure(given), errorClass) };",
    ),
    (
        "dead-lettering",
        "import { deadLettering as itsDeadLettering } from 'POLICY';
const judge = told(method(itsDeadLettering, 'deadLettering', 'judge'));
export const deadLettering = { judge: (given, errorClass) => judge(failure(given), errorClass) };",
    ),
];

pub(super) fn add(project: &Project, written: &mut Written) {
    let policy = if project.language == Language::TypeScript {
        // As tsc leaves it.
        "../build/javascript/policy.js"
    } else {
        "../policy.js"
    };
    let mut text = ENTRY.to_owned();
    for (question, handed_on) in HANDED_ON {
        if project.answers.contains(&question) {
            text.push('\n');
            text.push_str(&handed_on.replace("POLICY", policy));
            text.push('\n');
        }
    }
    written.add("entry.js", text);
}
