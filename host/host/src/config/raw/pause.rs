//! The maintenance windows of a queue, before they are checked.

use super::*;

/// A list of windows.
pub(crate) type Windows = Vec<Window>;

/// `{ at = "0 2 * * SUN", zone = "Europe/Berlin", for = "2h" }`
#[derive(Debug, Clone, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub(crate) struct Window {
    pub(crate) at: String,
    pub(crate) zone: String,
    #[serde(rename = "for")]
    pub(crate) over: Span,
    #[serde(default)]
    pub(crate) why: Option<String>,
}

only_tables! {
    Window: "a table of `at`, `zone` and `for`, such as { at = \"0 2 * * SUN\", zone = \"Europe/Berlin\", for = \"2h\" }";
}
