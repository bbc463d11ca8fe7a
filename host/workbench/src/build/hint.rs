//! Explains a build that fails because the policy lacks an export, with code to add in the policy's language.

use super::toolchain::ToolError;
use crate::project::{Language, Project};

/// The hint, starting on a new line. Empty if the failure has another cause.
pub(crate) fn for_failure(project: &Project, failure: &ToolError) -> String {
    let ToolError::Failed { output, .. } = failure else {
        return String::new();
    };
    let missing = project.answers.iter().filter(|question| {
        traces(project.language, question)
            .iter()
            .any(|trace| output.contains(trace))
    });
    let hints: Vec<_> = missing
        .map(|question| hint(project.language, question))
        .collect();
    hints.concat()
}

/// The hint for one missing interface.
fn hint(language: Language, question: &str) -> String {
    let (source, snippet) = (language.source(), snippet(language, question));
    // In Rust there is no list: the SDK has defaults for optional interfaces.
    let fix = if language == Language::Rust {
        format!("Add to {source}")
    } else {
        format!(
            "Remove it from `answers` in policy.toml to use the host's default, or add to {source}"
        )
    };
    format!("\n\nThe policy does not export `{question}`. {fix}:\n\n{snippet}")
}

/// The messages of the toolchain if an interface is missing.
fn traces(language: Language, question: &str) -> &'static [&'static str] {
    match (language, question) {
        (Language::Go, "settings") => &["undefined: policy.Configure"],
        (Language::Go, "classifier") => &["undefined: policy.Classify"],
        (Language::Go, "backoff") => &["undefined: policy.Delay"],
        (Language::Go, _) => &["undefined: policy.Judge"],
        (Language::C, "settings") => {
            &["undefined symbol: exports_backstop_policy_settings_configure"]
        }
        (Language::C, "classifier") => {
            &["undefined symbol: exports_backstop_policy_classifier_classify"]
        }
        (Language::C, "backoff") => &["undefined symbol: exports_backstop_policy_backoff_delay"],
        (Language::C, _) => &["undefined symbol: exports_backstop_policy_dead_lettering_judge"],
        (Language::Python, "settings") => &["no attribute 'Settings'", "class Settings without"],
        (Language::Python, "classifier") => {
            &["no attribute 'Classifier'", "class Classifier without"]
        }
        (Language::Python, "backoff") => &["no attribute 'Backoff'", "class Backoff without"],
        (Language::Python, _) => &[
            "no attribute 'DeadLettering'",
            "class DeadLettering without",
        ],
        (Language::JavaScript | Language::TypeScript, "settings") => &[
            "Could not find export 'settings'",
            "`settings` has no function",
        ],
        (Language::JavaScript | Language::TypeScript, "classifier") => &[
            "Could not find export 'classifier'",
            "`classifier` has no function",
        ],
        (Language::JavaScript | Language::TypeScript, "backoff") => &[
            "Could not find export 'backoff'",
            "`backoff` has no function",
        ],
        (Language::JavaScript | Language::TypeScript, _) => &[
            "Could not find export 'deadLettering'",
            "`deadLettering` has no function",
        ],
        (Language::Rust, "settings") => &["missing: `configure`", "missing: `configure`, `delay`"],
        (Language::Rust, "backoff") => &["missing: `delay`", "missing: `configure`, `delay`"],
        // The SDK has defaults for these.
        (Language::Rust, _) => &[],
    }
}

fn snippet(language: Language, question: &str) -> &'static str {
    match (language, question) {
        (Language::Rust, "settings") => {
            "impl Policy for … {\n    fn configure(settings: &[(String, String)]) -> Result<Self, String> {\n        Ok(Self)\n    }\n"
        }
        (Language::Rust, _) => {
            "impl Policy for … {\n    fn delay(&self, failure: &Failure, class: &ErrorClass) -> Duration {\n        Duration::from_secs(1)\n    }\n"
        }
        (Language::JavaScript | Language::TypeScript, "settings") => {
            "export const settings = { configure(settings) {} };\n"
        }
        (Language::JavaScript | Language::TypeScript, "classifier") => {
            "export const classifier = { classify(error) { return { tag: 'transient' }; } };\n"
        }
        (Language::JavaScript | Language::TypeScript, "backoff") => {
            "export const backoff = { delay(failure, errorClass) { return 1000; } };\n"
        }
        (Language::JavaScript | Language::TypeScript, _) => {
            "export const deadLettering = { judge(failure, errorClass) { return { tag: 'retry' }; } };\n"
        }
        (Language::Python, "settings") => {
            "class Settings(contract.Settings):\n    def configure(self, settings):\n        pass\n"
        }
        (Language::Python, "classifier") => {
            "class Classifier(contract.Classifier):\n    def classify(self, error):\n        return ErrorClass_Transient()\n"
        }
        (Language::Python, "backoff") => {
            "class Backoff(contract.Backoff):\n    def delay(self, failure, error_class):\n        return 1000\n"
        }
        (Language::Python, _) => {
            "class DeadLettering(contract.DeadLettering):\n    def judge(self, failure, error_class):\n        return Verdict_Retry()\n"
        }
        (Language::Go, "settings") => {
            "func Configure(settings []Tuple2[string, string]) Result[Unit, string] {\n\treturn Ok[Unit, string](Unit{})\n}\n"
        }
        (Language::Go, "classifier") => {
            "func Classify(err Error) ErrorClass {\n\treturn MakeErrorClassTransient()\n}\n"
        }
        (Language::Go, "backoff") => {
            "func Delay(failure Failure, class ErrorClass) Milliseconds {\n\treturn 1000\n}\n"
        }
        (Language::Go, _) => {
            "func Judge(failure Failure, class ErrorClass) Verdict {\n\treturn MakeVerdictRetry()\n}\n"
        }
        (Language::C, "settings") => {
            "bool exports_backstop_policy_settings_configure(backstop_list_tuple2_string_string_t *settings, backstop_string_t *refusal) {\n  return true;\n}\n"
        }
        (Language::C, "classifier") => {
            "void exports_backstop_policy_classifier_classify(exports_backstop_policy_classifier_error_t *error, exports_backstop_policy_classifier_error_class_t *class) {\n  class->tag = BACKSTOP_POLICY_TYPES_ERROR_CLASS_TRANSIENT;\n}\n"
        }
        (Language::C, "backoff") => {
            "exports_backstop_policy_backoff_milliseconds_t exports_backstop_policy_backoff_delay(exports_backstop_policy_backoff_failure_t *failure, exports_backstop_policy_backoff_error_class_t *class) {\n  return 1000;\n}\n"
        }
        (Language::C, _) => {
            "void exports_backstop_policy_dead_lettering_judge(exports_backstop_policy_dead_lettering_failure_t *failure, exports_backstop_policy_dead_lettering_error_class_t *class, exports_backstop_policy_dead_lettering_verdict_t *verdict) {\n  verdict->tag = BACKSTOP_POLICY_TYPES_VERDICT_RETRY;\n}\n"
        }
    }
}
