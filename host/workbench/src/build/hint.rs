//! Explains a build that fails because the policy lacks an export, with code to add in the policy's language.

use super::toolchain::ToolError;
use crate::project::{Language, Project};

/// The hint, starting on a new line. Empty if the failure has another cause.
pub(crate) fn for_failure(project: &Project, failure: &ToolError) -> String {
    let ToolError::Failed { output, .. } = failure else {
        return String::new();
    };
    let language = project.language;
    let snippets = project.of_answers(snippets(language));
    let hints = project.of_answers(traces(language)).zip(snippets);
    let hints = hints.filter(|((_, traces), _)| traces.iter().any(|it| output.contains(it)));
    hints
        .map(|(_, (question, snippet))| hint(language, question, snippet))
        .collect()
}

/// The hint for one missing interface.
fn hint(language: Language, question: &str, snippet: &str) -> String {
    let source = language.source();
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

/// The messages of the toolchain if an interface is missing, for each.
fn traces(language: Language) -> [&'static [&'static str]; 5] {
    match language {
        Language::Go => [
            &["undefined: policy.Configure"],
            &["undefined: policy.Classify"],
            &["undefined: policy.Delay"],
            &["undefined: policy.Judge"],
            &["undefined: policy.DownFor"],
        ],
        Language::C => [
            &["undefined symbol: exports_backstop_policy_settings_configure"],
            &["undefined symbol: exports_backstop_policy_classifier_classify"],
            &["undefined symbol: exports_backstop_policy_backoff_delay"],
            &["undefined symbol: exports_backstop_policy_dead_lettering_judge"],
            &["undefined symbol: exports_backstop_policy_outage_down_for"],
        ],
        Language::Python => [
            &["no attribute 'Settings'", "class Settings without"],
            &["no attribute 'Classifier'", "class Classifier without"],
            &["no attribute 'Backoff'", "class Backoff without"],
            &[
                "no attribute 'DeadLettering'",
                "class DeadLettering without",
            ],
            &["no attribute 'Outage'", "class Outage without"],
        ],
        Language::JavaScript | Language::TypeScript => [
            &["find export 'settings'", "`settings` has no function"],
            &["find export 'classifier'", "`classifier` has no function"],
            &["find export 'backoff'", "`backoff` has no function"],
            &[
                "find export 'deadLettering'",
                "`deadLettering` has no function",
            ],
            &["find export 'outage'", "`outage` has no function"],
        ],
        // The SDK has defaults for the others.
        Language::Rust => [
            &["missing: `configure`", "missing: `configure`, `delay`"],
            &[],
            &["missing: `delay`", "missing: `configure`, `delay`"],
            &[],
            &[],
        ],
    }
}

/// What to add for each interface.
fn snippets(language: Language) -> [&'static str; 5] {
    let delay = "impl Policy for … {\n    fn delay(&self, failure: &Failure, class: &ErrorClass) -> Duration {\n        Duration::from_secs(1)\n    }\n";
    match language {
        Language::Rust => [
            "impl Policy for … {\n    fn configure(settings: &[(String, String)]) -> Result<Self, String> {\n        Ok(Self)\n    }\n",
            delay,
            delay,
            delay,
            delay,
        ],
        Language::JavaScript | Language::TypeScript => [
            "export const settings = { configure(settings) {} };\n",
            "export const classifier = { classify(error) { return { tag: 'transient' }; } };\n",
            "export const backoff = { delay(failure, errorClass) { return 1000; } };\n",
            "export const deadLettering = { judge(failure, errorClass) { return { tag: 'retry' }; } };\n",
            "export const outage = { downFor(failure, errorClass) { return undefined; } };\n",
        ],
        Language::Python => [
            "class Settings(contract.Settings):\n    def configure(self, settings):\n        pass\n",
            "class Classifier(contract.Classifier):\n    def classify(self, error):\n        return ErrorClass_Transient()\n",
            "class Backoff(contract.Backoff):\n    def delay(self, failure, error_class):\n        return 1000\n",
            "class DeadLettering(contract.DeadLettering):\n    def judge(self, failure, error_class):\n        return Verdict_Retry()\n",
            "class Outage(contract.Outage):\n    def down_for(self, failure, error_class):\n        return None\n",
        ],
        Language::Go => [
            "func Configure(settings []Tuple2[string, string]) Result[Unit, string] {\n\treturn Ok[Unit, string](Unit{})\n}\n",
            "func Classify(err Error) ErrorClass {\n\treturn MakeErrorClassTransient()\n}\n",
            "func Delay(failure Failure, class ErrorClass) Milliseconds {\n\treturn 1000\n}\n",
            "func Judge(failure Failure, class ErrorClass) Verdict {\n\treturn MakeVerdictRetry()\n}\n",
            "func DownFor(failure Failure, class ErrorClass) Option[Milliseconds] {\n\treturn None[Milliseconds]()\n}\n",
        ],
        Language::C => [
            "bool exports_backstop_policy_settings_configure(backstop_list_tuple2_string_string_t *settings, backstop_string_t *refusal) {\n  return true;\n}\n",
            "void exports_backstop_policy_classifier_classify(exports_backstop_policy_classifier_error_t *error, exports_backstop_policy_classifier_error_class_t *class) {\n  class->tag = BACKSTOP_POLICY_TYPES_ERROR_CLASS_TRANSIENT;\n}\n",
            "exports_backstop_policy_backoff_milliseconds_t exports_backstop_policy_backoff_delay(exports_backstop_policy_backoff_failure_t *failure, exports_backstop_policy_backoff_error_class_t *class) {\n  return 1000;\n}\n",
            "void exports_backstop_policy_dead_lettering_judge(exports_backstop_policy_dead_lettering_failure_t *failure, exports_backstop_policy_dead_lettering_error_class_t *class, exports_backstop_policy_dead_lettering_verdict_t *verdict) {\n  verdict->tag = BACKSTOP_POLICY_TYPES_VERDICT_RETRY;\n}\n",
            "bool exports_backstop_policy_outage_down_for(exports_backstop_policy_outage_failure_t *failure, exports_backstop_policy_outage_error_class_t *class, exports_backstop_policy_outage_milliseconds_t *down_for) {\n  return false;\n}\n",
        ],
    }
}
