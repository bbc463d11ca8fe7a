//! `--presets`: the failures that scenarios and flags can name.

use backstop_core::fallback;
use backstop_workbench::preset::PRESETS;
use serde_json::json;

use crate::output::println;

/// Prints the named failures, each with its class by the default classification.
pub(super) fn print(as_json: bool) {
    for preset in PRESETS {
        let error = preset.error();
        let class = fallback::class(&error);
        if as_json {
            let line = json!({
                "preset": preset.name, "about": preset.about, "error": error, "class": class,
            });
            println!("{line}");
            continue;
        }
        let class = class.to_string();
        println!(
            "{:<20}  {:<38}  {class:<9}  {}",
            preset.name, error.code, preset.about
        );
    }
}
