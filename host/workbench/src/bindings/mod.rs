//! `bindings/` in a policy's folder: the contract, and what the policy's language needs to speak it. Made anew by every build, committed by nobody.

mod go;
pub(super) mod javascript;
mod rust;

use std::io;
use std::path::{Path, PathBuf};

use wit_bindgen_core::wit_parser::{Resolve, WorldId};
use wit_bindgen_core::{Files, WorldGenerator};

use super::language::Language;
use super::project::Project;

/// The contract.
pub(super) const CONTRACT: &str = include_str!("../../wit/policy.wit");

/// What TypeScript is told of the contract: what a policy exports, and what it may import.
const TYPES: &str = include_str!("policy.d.ts");
const IMPORTS: &str = include_str!("imports.d.ts");

/// The world of one policy, with no more exports than it answers. Not the name of any file: componentize-py makes a module of it.
pub(super) const WORLD: &str = "answers";

/// Why there are no bindings.
#[derive(Debug, thiserror::Error)]
pub enum BindingsError {
    /// A generator gave up: a fault of this program.
    #[error("can't make the bindings for {language}: {reason}")]
    Generator {
        /// The language.
        language: Language,
        /// What the generator says.
        reason: String,
    },
    /// A file can't be written.
    #[error("can't write {}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

/// Files to be, by their path in `bindings/`.
#[derive(Default)]
struct Written(Vec<(String, Vec<u8>)>);

impl Written {
    fn add(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.push((path.into(), bytes.into()));
    }
}

/// Writes the bindings of a policy. A file that is as it should be is left alone, so that no toolchain builds anew for it.
pub(super) fn write(project: &Project) -> Result<(), BindingsError> {
    let mut written = Written::default();
    written.add("wit/policy.wit", CONTRACT);
    let made = match project.language {
        Language::Rust => rust::add(&mut written),
        Language::JavaScript => {
            javascript::add(project, &mut written);
            world_only(project, &mut written)
        }
        Language::TypeScript => {
            written.add("policy.d.ts", TYPES);
            written.add("imports.d.ts", IMPORTS);
            javascript::add(project, &mut written);
            world_only(project, &mut written)
        }
        Language::Python => world_only(project, &mut written),
        Language::Go => go::add(project, &mut written),
        Language::C => c(project, &mut written),
    };
    made.map_err(|reason| BindingsError::Generator {
        language: project.language,
        reason: format!("{reason:#}"),
    })?;
    let folder = project.bindings();
    remove_others(&folder, &folder, &written);
    for (path, bytes) in written.0 {
        let path = folder.join(path);
        put(&path, &bytes).map_err(|cause| BindingsError::Unwritable { path, cause })?;
    }
    Ok(())
}

/// Removes what an earlier build wrote and this one does not. What can't be removed does no harm to a build.
fn remove_others(top: &Path, folder: &Path, written: &Written) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let place = path.strip_prefix(top).unwrap_or(&path);
        // Python's own tool writes its bindings there.
        if place == Path::new("python") {
            continue;
        }
        if path.is_dir() {
            remove_others(top, &path, written);
        } else if !written.0.iter().any(|(kept, _)| place == Path::new(kept)) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, bytes)
}

/// The text of the policy's world, in the contract's own package.
pub(super) fn world(answers: &[&str]) -> String {
    let exports: String = answers
        .iter()
        .map(|question| format!("  export {question};\n"))
        .collect();
    format!(
        "package backstop:policy@0.1.0;\n\n/// What this policy answers, as its policy.toml says.\nworld {WORLD} {{\n  import log;\n  import payload;\n  import default-classifier;\n\n{exports}}}\n"
    )
}

fn world_only(project: &Project, written: &mut Written) -> anyhow::Result<()> {
    written.add("wit/answers.wit", world(&project.answers));
    Ok(())
}

/// The contract and the policy's world, for a generator.
fn generate(
    generator: &mut dyn WorldGenerator,
    answers: &[&str],
) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let (mut resolve, world) = resolved_for(answers)?;
    made(generator, &mut resolve, world)
}

/// The contract, and the world of a policy with these answers.
pub(super) fn resolved_for(answers: &[&str]) -> anyhow::Result<(Resolve, WorldId)> {
    let own = world(answers).replacen("package backstop:policy@0.1.0;", "", 1);
    resolved(&format!("{CONTRACT}\n{own}"), WORLD)
}

/// One of the contract's own worlds, for a generator.
fn generate_world(
    generator: &mut dyn WorldGenerator,
    name: &str,
) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let (mut resolve, world) = resolved(CONTRACT, name)?;
    made(generator, &mut resolve, world)
}

fn resolved(text: &str, world: &str) -> anyhow::Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("policy.wit", text)?;
    let world = resolve.select_world(&[package], Some(world))?;
    Ok((resolve, world))
}

fn made(
    generator: &mut dyn WorldGenerator,
    resolve: &mut Resolve,
    world: WorldId,
) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Files::default();
    generator.generate(resolve, world, &mut files)?;
    Ok(files
        .iter()
        .map(|(path, bytes)| (path.to_owned(), bytes.to_vec()))
        .collect())
}

/// A header, its source, and an object file with the contract's types.
fn c(project: &Project, written: &mut Written) -> anyhow::Result<()> {
    let mut generator = wit_bindgen_c::Opts {
        rename_world: Some("backstop".to_owned()),
        ..Default::default()
    }
    .build();
    for (path, bytes) in generate(generator.as_mut(), &project.answers)? {
        written.add(path, bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name of the contract, as TypeScript writes it, is in the types that are written by hand.
    #[test]
    fn the_types_for_typescript_have_every_name_of_the_contract() {
        let (resolve, _) = resolved(CONTRACT, "policy").unwrap();
        let camel = |name: &str| {
            let mut words = name.split('-');
            let first = words.next().unwrap_or_default().to_owned();
            words.fold(first, |sum, word| {
                let (head, tail) = word.split_at(1);
                sum + &head.to_uppercase() + tail
            })
        };
        let mut names = Vec::new();
        for (_, interface) in &resolve.interfaces {
            names.extend(interface.functions.keys().map(|name| camel(name)));
        }
        for (_, ty) in &resolve.types {
            use wit_bindgen_core::wit_parser::TypeDefKind;
            if let TypeDefKind::Record(record) = &ty.kind {
                names.extend(record.fields.iter().map(|field| camel(&field.name)));
            } else if let TypeDefKind::Variant(variant) = &ty.kind {
                names.extend(variant.cases.iter().map(|case| format!("'{}'", case.name)));
            } else if let TypeDefKind::Enum(levels) = &ty.kind {
                names.extend(levels.cases.iter().map(|case| format!("'{}'", case.name)));
            }
        }
        assert!(names.len() > 25 && names.contains(&"previousDelay".to_owned()));
        for name in names {
            let is_told = TYPES.contains(&name) || IMPORTS.contains(&name);
            assert!(is_told, "bindings/*.d.ts does not have {name}");
        }
    }
}
