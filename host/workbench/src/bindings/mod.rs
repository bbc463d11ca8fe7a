//! The generated `bindings/` in a policy's folder: the contract, and what the policy's language needs to implement it. Every build generates them again; they are not committed.

mod contract;
mod go;
mod javascript;
mod python;
mod rust;

use std::io;
use std::path::{Path, PathBuf};

use crate::project::{Language, Project};
use contract::{Written, generate};

pub(crate) use contract::{CONTRACT, WORLD, resolve_for};
pub(crate) use javascript::ENTRY_MODULE;
pub(crate) use python::ENTRY_MODULE as PYTHON_ENTRY_MODULE;

/// Why bindings can't be generated.
#[derive(Debug, thiserror::Error)]
pub enum BindingsError {
    /// A generator failed, which is a bug of this program.
    #[error("can't generate the bindings for {language}: {reason}")]
    Generator {
        /// The language.
        language: Language,
        /// The error of the generator.
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

/// Writes the bindings of a policy. Unchanged files are not written, so that toolchains do not rebuild.
pub(crate) fn write(project: &Project) -> Result<(), BindingsError> {
    let mut written = Written::default();
    written.add("wit/policy.wit", CONTRACT);
    let made = match project.language {
        Language::Rust => rust::add(&mut written),
        Language::JavaScript | Language::TypeScript => {
            javascript::add(project, &mut written);
            Ok(())
        }
        Language::Python => {
            python::add(project, &mut written);
            Ok(())
        }
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
        write_if_changed(&path, &bytes)
            .map_err(|cause| BindingsError::Unwritable { path, cause })?;
    }
    Ok(())
}

/// Removes files that an earlier build generated and this one does not. Failures are ignored: such files do not affect the build.
fn remove_others(top: &Path, folder: &Path, written: &Written) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let relative = path.strip_prefix(top).unwrap_or(&path);
        // The bindings that componentize-py generates.
        if relative == Path::new("python") {
            continue;
        }
        if path.is_dir() {
            remove_others(top, &path, written);
        } else if !written
            .0
            .iter()
            .any(|(kept, _)| relative == Path::new(kept))
        {
            let _ = std::fs::remove_file(&path);
        }
    }
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|current| current == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, bytes)
}

/// Generates a header, its source, and an object file with the contract's types.
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
    use super::contract::resolve;
    use super::javascript::{IMPORTS, TYPES};
    use super::*;

    /// They are written by hand, so they could miss one.
    #[test]
    fn the_types_for_typescript_have_every_name_of_the_contract() {
        let (resolved, _) = resolve(CONTRACT, "policy").unwrap();
        let camel = |name: &str| {
            let mut words = name.split('-');
            let first = words.next().unwrap_or_default().to_owned();
            words.fold(first, |sum, word| {
                let (head, tail) = word.split_at(1);
                sum + &head.to_uppercase() + tail
            })
        };
        let mut names = Vec::new();
        for (_, interface) in &resolved.interfaces {
            names.extend(interface.functions.keys().map(|name| camel(name)));
        }
        for (_, ty) in &resolved.types {
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
            let is_known = TYPES.contains(&name) || IMPORTS.contains(&name);
            assert!(is_known, "bindings/*.d.ts does not have {name}");
        }
    }
}
