//! Compiled policies: machine code, stored by the digest of the policy's file, so that a start does not compile.
//!
//! Machine code runs outside of the sandbox, so it is loaded only from the folders that are installed with the program and from its private cache, and only as this module wrote it: complete, compiled from that policy's file by this version of the engine, and owned by a user who could have replaced the program too. Any other file is ignored, and the policy is compiled as usual.
#![expect(
    unsafe_code,
    reason = "loading machine code can't be made safe; this module decides whose code is trusted"
)]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wasmtime::Engine;

use backstop_core::policy::PolicyDigest;
use backstop_files::{atomic_write, regular_file};

use crate::compiler::{Compiler, Job, MOST_CODE};
use crate::component_error::ComponentError;
use crate::limits::CompileLimits;
use crate::trust;

/// The first bytes of a file of compiled code. They are followed by the digest of the policy's file, the SHA-256 of the code, and the code.
const MAGIC: &[u8] = b"backstop compiled 2\n";

/// The bytes before the code.
const HEADER: usize = MAGIC.len() + 2 * 32;

backstop_core::names! {
    /// A processor architecture that policies can be compiled for, without optional features.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Architecture {
        /// AWS Graviton and others.
        Arm64 = "arm64",
        /// Intel and AMD.
        X86_64 = "x86_64",
    }
}

impl Architecture {
    /// The architecture of this program, if policies can be compiled ahead of time for it.
    pub fn of_this_program() -> Option<Self> {
        match std::env::consts::ARCH {
            "aarch64" => Some(Self::Arm64),
            "x86_64" => Some(Self::X86_64),
            _ => None,
        }
    }

    fn triple(self) -> &'static str {
        match self {
            Self::Arm64 => "aarch64-unknown-linux-gnu",
            Self::X86_64 => "x86_64-unknown-linux-gnu",
        }
    }
}

/// Why a policy could not be compiled ahead of time.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The policy is not valid, or the engine can't compile for the architecture.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// The code can't be written.
    #[error("can't write {}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

/// The folders of compiled code: those installed with the program, searched in this order, and a private folder to which new code is added.
#[derive(Debug, Clone, Default)]
pub struct Compiled {
    folders: Vec<PathBuf>,
    cache: Option<PathBuf>,
}

impl Compiled {
    /// Searches these folders. They need not exist.
    pub fn folders(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            folders: folders.into_iter().collect(),
            cache: None,
        }
    }

    /// Sets the private folder for new code, if there is one.
    #[must_use]
    pub fn kept_in(mut self, cache: Option<PathBuf>) -> Self {
        self.cache = cache;
        self
    }

    /// The component with this digest, if its code is stored and was compiled for this engine.
    pub(super) fn find(
        &self,
        engine: &Engine,
        digest: PolicyDigest,
    ) -> Option<wasmtime::component::Component> {
        let packed = Architecture::of_this_program()
            .into_iter()
            .flat_map(|architecture| {
                let name = packed_name(digest, architecture);
                self.folders.iter().map(move |folder| folder.join(&name))
            });
        let kept = self.cache.iter().map(|cache| {
            let path = cache.join(kept_name(digest, engine));
            if path.exists() {
                atomic_write::touch(&path);
            }
            path
        });
        packed
            .chain(kept)
            .find_map(|path| match load(engine, digest, &path) {
                Ok(component) => component,
                Err(reason) => {
                    tracing::warn!(path = %path.display(), reason, "compiled code is ignored: the policy is compiled again");
                    None
                }
            })
    }

    /// Adds the code of a component to the private folder, if there is one.
    pub(super) fn keep(
        &self,
        engine: &Engine,
        digest: PolicyDigest,
        component: &wasmtime::component::Component,
    ) {
        let Some(cache) = &self.cache else { return };
        let path = cache.join(kept_name(digest, engine));
        if load(engine, digest, &path).is_ok_and(|code| code.is_some()) {
            return;
        }
        let written = component
            .serialize()
            .map_err(|error| io::Error::other(format!("{error:#}")))
            .and_then(|code| atomic_write::write(&path, &packed(digest, &code), 0o600));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "compiled code can't be kept");
        }
    }
}

/// Compiles a policy's file for an architecture and writes the code into `folder`, which is created if needed. Returns the path of the code.
pub fn compile_ahead(
    file: &[u8],
    architecture: Architecture,
    limit: usize,
    folder: &Path,
) -> Result<PathBuf, CompileError> {
    let job = Job {
        file,
        most: limit,
        limits: CompileLimits::default().within_container(),
        target: Some(architecture.triple()),
    };
    let code = Compiler::of_this_program().code(&job, &|| true)?;
    let digest = PolicyDigest::of(file);
    let path = folder.join(packed_name(digest, architecture));
    write(&path, &packed(digest, &code)).map_err(|cause| CompileError::Unwritable {
        path: path.clone(),
        cause,
    })?;
    Ok(path)
}

/// The name of a file in the folders that are installed with the program.
fn packed_name(digest: PolicyDigest, architecture: Architecture) -> String {
    format!("{}.{}.compiled", digest.hex(), architecture.as_str())
}

/// The name of a file in the private folder. It contains a hash of everything that machine code depends on.
fn kept_name(digest: PolicyDigest, engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{}.{:016x}.compiled", digest.hex(), hasher.finish())
}

/// The content of a file of compiled code.
fn packed(digest: PolicyDigest, code: &[u8]) -> Vec<u8> {
    [MAGIC, digest.as_bytes(), &Sha256::digest(code), code].concat()
}

/// Writes a file that every user can read, like the rest of a package.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    atomic_write::write(path, bytes, 0o644)
}

/// The component in a file, if there is such a file.
fn load(
    engine: &Engine,
    digest: PolicyDigest,
    path: &Path,
) -> Result<Option<wasmtime::component::Component>, String> {
    let file = match regular_file::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let text = |error: io::Error| error.to_string();
    let folder = path.parent().unwrap_or(Path::new("."));
    trust::own(&folder.metadata().map_err(text)?, "its folder")?;
    trust::own(&file.metadata().map_err(text)?, "it")?;
    let most = usize::try_from(MOST_CODE).unwrap_or(usize::MAX);
    let bytes = regular_file::capped(file, most.saturating_add(HEADER)).map_err(text)?;
    let code = checked(&bytes, digest)
        .ok_or("it is incomplete, changed, or of another program or policy")?;
    // SAFETY: the code is complete and as `write` wrote it, in a file and a folder that only root and this user can write to, and both could replace the program itself. The engine rejects code of another version, of other settings and for features that this processor lacks.
    unsafe { wasmtime::component::Component::deserialize(engine, code) }
        .map(Some)
        .map_err(|error| format!("{error:#}"))
}

/// The component of code that a child of this program has just compiled.
pub(super) fn of_own_child(
    engine: &Engine,
    code: &[u8],
) -> Result<wasmtime::component::Component, ComponentError> {
    // SAFETY: the code came through a pipe from a child process of this same program, which only compiled: the code is what this process itself would have compiled. The engine rejects code of another version or of other settings.
    unsafe { wasmtime::component::Component::deserialize(engine, code) }
        .map_err(ComponentError::of_this_machine)
}

/// The code in a file's bytes, if they are complete and of the policy's file with this digest.
fn checked(bytes: &[u8], digest: PolicyDigest) -> Option<&[u8]> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let rest = rest.strip_prefix(digest.as_bytes().as_slice())?;
    let (hash, code) = rest.split_at_checked(32)?;
    (Sha256::digest(code).as_slice() == hash).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Sandbox, builtin, encoding};
    use wasmtime::Config;

    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn compiled(folder: &Path) -> (PathBuf, PolicyDigest) {
        let file = builtin::bytes("linear").unwrap();
        let architecture = Architecture::of_this_program().unwrap();
        let path = compile_ahead(file, architecture, usize::MAX, folder).unwrap();
        (path, PolicyDigest::of(file))
    }

    fn is_found(folder: &Path, digest: PolicyDigest) -> bool {
        let folders = Compiled::folders([folder.to_owned()]);
        let sandbox = Sandbox::new(Limits::default()).unwrap();
        let slow = Sandbox::on_demand(Limits::default()).unwrap();
        let found = folders.find(&sandbox.engine, digest).is_some();
        assert_eq!(folders.find(&slow.engine, digest).is_some(), found);
        found
    }

    #[test]
    fn code_is_loaded_only_if_it_is_complete_and_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let (path, digest) = compiled(folder.path());
        assert!(is_found(folder.path(), digest));
        assert!(!is_found(folder.path(), PolicyDigest::of(b"another")));
        assert!(!is_found(&folder.path().join("nowhere"), digest));

        let complete = std::fs::read(&path).unwrap();
        let mut flipped = complete.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let mut foreign = complete.clone();
        foreign[0] ^= 1;
        let bare = complete[MAGIC.len() + 64..].to_vec();
        let half = complete[..complete.len() / 2].to_vec();
        for bad in [flipped, foreign, bare, half, Vec::new(), MAGIC.to_vec()] {
            std::fs::write(&path, bad).unwrap();
            assert!(!is_found(folder.path(), digest));
        }
        std::fs::write(&path, &complete).unwrap();
        assert!(is_found(folder.path(), digest));
    }

    #[test]
    fn a_pipe_in_the_cache_is_ignored_without_waiting_for_its_other_end() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let engine = Sandbox::on_demand(Limits::default()).unwrap().engine;
        let digest = PolicyDigest::of(b"any");
        let path = folder.path().join(kept_name(digest, &engine));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let compiled = Compiled::default().kept_in(Some(folder.path().to_owned()));
        let (sender, found) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(compiled.find(&engine, digest).is_some()));
        let found = found.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(found, Ok(false));
    }

    #[test]
    fn code_that_others_may_write_is_not_loaded() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let (path, digest) = compiled(folder.path());
        for mode in [0o664, 0o646] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(!is_found(folder.path(), digest), "{mode:o}");
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(!is_found(folder.path(), digest));
    }

    #[test]
    fn code_of_another_engine_is_not_loaded() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let file = builtin::bytes("linear").unwrap();
        let bytes = encoding::component(file, usize::MAX).unwrap();
        let without_fuel = Engine::new(&Config::new()).unwrap();
        let code = without_fuel.precompile_component(&bytes).unwrap();
        let digest = PolicyDigest::of(file);
        let name = packed_name(digest, Architecture::of_this_program().unwrap());
        write(&folder.path().join(name), &packed(digest, &code)).unwrap();
        assert!(!is_found(folder.path(), digest));
    }

    #[test]
    fn code_of_another_policy_is_not_loaded_under_this_name() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let (path, digest) = compiled(folder.path());
        let other = PolicyDigest::of(builtin::bytes("full-jitter").unwrap());
        let name = packed_name(other, Architecture::of_this_program().unwrap());
        std::fs::rename(path, folder.path().join(name)).unwrap();
        assert!(!is_found(folder.path(), other));
        assert!(!is_found(folder.path(), digest));
    }

    #[test]
    fn compiled_code_is_stored_and_loaded_only_if_it_is_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = || {
            let compiled = Compiled::default().kept_in(Some(folder.path().to_owned()));
            Sandbox::new(Limits::default())
                .unwrap()
                .with_compiled(compiled)
        };
        let file = builtin::bytes("linear").unwrap();
        let digest = PolicyDigest::of(file);
        let is_kept = || {
            let sandbox = sandbox();
            sandbox.compiled.find(&sandbox.engine, digest).is_some()
        };
        let compile_and_keep = || {
            let sandbox = sandbox();
            let component = crate::Component::load(&sandbox, "linear", file).unwrap();
            component.keep_code(&sandbox);
        };
        assert!(!is_kept());
        compile_and_keep();
        assert!(is_kept());

        let path = folder.path().read_dir().unwrap().next().unwrap().unwrap();
        let path = path.path();
        let complete = std::fs::read(&path).unwrap();
        for bad in [&complete[..complete.len() / 2], b"", &complete[1..]] {
            std::fs::write(&path, bad).unwrap();
            assert!(!is_kept());
            // It is compiled again, which repairs the file.
            compile_and_keep();
            assert!(is_kept());
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        assert!(!is_kept());
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let mut limits = Limits::default();
        limits.memory /= 2;
        // Other limits use the same code; another engine has another file name.
        let other = Sandbox::new(limits).unwrap();
        assert_eq!(
            kept_name(digest, &other.engine),
            kept_name(digest, &sandbox().engine)
        );
        let foreign = Engine::new(&Config::new()).unwrap();
        assert_ne!(
            kept_name(digest, &foreign),
            kept_name(digest, &other.engine)
        );
    }
}
