//! The contract, the world of a policy, running generators on them, and the files that are generated.

use wit_bindgen_core::wit_parser::{Resolve, WorldId};
use wit_bindgen_core::{Files, WorldGenerator};

/// The text of the contract.
pub(crate) const CONTRACT: &str = include_str!("../../wit/policy.wit");

/// The name of the world of one policy, which has only the exports of that policy. It must differ from the names of files: componentize-py creates a module with this name.
pub(crate) const WORLD: &str = "answers";

/// The text of the policy's world, in the package of the contract.
pub(super) fn world(answers: &[&str]) -> String {
    let exports: String = answers
        .iter()
        .map(|question| format!("  export {question};\n"))
        .collect();
    format!(
        "package backstop:policy@0.1.0;\n\n/// The exports of this policy, as its policy.toml lists them.\nworld {WORLD} {{\n  import log;\n  import payload;\n  import default-classifier;\n\n{exports}}}\n"
    )
}

/// Generates bindings for the policy's world.
pub(super) fn generate(
    generator: &mut dyn WorldGenerator,
    answers: &[&str],
) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let (mut resolve, world) = resolve_for(answers)?;
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files)?;
    Ok(files
        .iter()
        .map(|(path, bytes)| (path.to_owned(), bytes.to_vec()))
        .collect())
}

/// The contract, and the world of a policy that exports `answers`.
pub(crate) fn resolve_for(answers: &[&str]) -> anyhow::Result<(Resolve, WorldId)> {
    let own = world(answers).replacen("package backstop:policy@0.1.0;", "", 1);
    resolve(&format!("{CONTRACT}\n{own}"), WORLD)
}

pub(super) fn resolve(text: &str, world: &str) -> anyhow::Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("policy.wit", text)?;
    let world = resolve.select_world(&[package], Some(world))?;
    Ok((resolve, world))
}

/// The generated files, each with its path in `bindings/`.
#[derive(Default)]
pub(super) struct Written(pub(super) Vec<(String, Vec<u8>)>);

impl Written {
    /// Adds a file.
    pub(super) fn add(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.push((path.into(), bytes.into()));
    }
}
