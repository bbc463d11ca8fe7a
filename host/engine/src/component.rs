//! One policy component, ready to be instantiated: compiled, with checked imports, linked, and with its interfaces resolved.

use std::fmt;
use std::sync::Arc;

use wasmtime::component::{HasSelf, InstancePre, Linker};

use backstop_core::policy::PolicyDigest;

use crate::bindings::{self, backoff, classifier, dead_lettering, outage, settings};
use crate::compiled;
use crate::compiler::{Compiler, Job, Wanted};
use crate::component_error::ComponentError;
use crate::encoding::{self, INTERFACES};
use crate::host::Host;
use crate::interfaces;
use crate::parts::Role;
use crate::sandbox::Sandbox;
use crate::wasi;

/// A file that is ready to be loaded. If a child process compiles, this process has not parsed any of it yet.
#[derive(Debug)]
pub enum Prepared {
    /// Loaded already.
    Loaded(Arc<Component>),
    /// It was compiled before.
    Component(CompiledComponent),
    /// It was just compiled by a child process.
    Code(Vec<u8>),
    /// It will be compiled in this process.
    File,
}

/// Compiled code that this process may run.
pub struct CompiledComponent(pub(super) wasmtime::component::Component);

impl fmt::Debug for CompiledComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompiledComponent")
    }
}

/// A policy component, ready to be instantiated.
pub struct Component {
    name: String,
    digest: PolicyDigest,
    pub(super) pre: InstancePre<Host>,
    pub(super) settings: Option<settings::GuestIndices>,
    pub(super) classifier: Option<classifier::GuestIndices>,
    pub(super) backoff: Option<backoff::GuestIndices>,
    pub(super) dead_lettering: Option<dead_lettering::GuestIndices>,
    pub(super) outage: Option<outage::GuestIndices>,
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.digest)
    }
}

impl Component {
    /// Compiles a policy's file and checks that it imports only what it is granted. The policy does not run yet.
    pub fn load(sandbox: &Sandbox, name: &str, file: &[u8]) -> Result<Arc<Self>, ComponentError> {
        let prepared = Self::prepare(sandbox, file, &|| true)?;
        Self::of(sandbox, name, file, prepared)
    }

    /// Compiles a file in a child process, if the sandbox uses one and the file was not compiled before.
    pub fn prepare(
        sandbox: &Sandbox,
        file: &[u8],
        wanted: Wanted<'_>,
    ) -> Result<Prepared, ComponentError> {
        let digest = PolicyDigest::of(file);
        if let Some(component) = sandbox.compiled.find(&sandbox.engine, digest) {
            return Ok(Prepared::Component(CompiledComponent(component)));
        }
        let job = Job {
            file,
            most: sandbox.limits.component,
            limits: sandbox.limits.compile,
            target: None,
        };
        match &sandbox.compiler {
            Compiler::InProcess => Ok(Prepared::File),
            child @ Compiler::Child(_) => child.code(&job, wanted).map(Prepared::Code),
        }
    }

    /// The component of a prepared file.
    pub fn of(
        sandbox: &Sandbox,
        name: &str,
        file: &[u8],
        prepared: Prepared,
    ) -> Result<Arc<Self>, ComponentError> {
        let digest = PolicyDigest::of(file);
        let component = match prepared {
            Prepared::Loaded(component) => return Ok(component),
            Prepared::Component(CompiledComponent(component)) => component,
            Prepared::Code(code) => compiled::of_own_child(&sandbox.engine, &code)?,
            Prepared::File => compile(sandbox, file)?,
        };
        component
            .initialize_copy_on_write_image()
            .map_err(ComponentError::of_this_machine)?;
        let linker = linker_for(&component)?;
        let pre = linker
            .instantiate_pre(&component)
            .map_err(|error| ComponentError::Link(format!("{error:#}")))?;
        let component = Self {
            name: name.to_owned(),
            digest,
            settings: interface(&pre, INTERFACES[0], settings::GuestIndices::new)?,
            classifier: interface(&pre, INTERFACES[1], classifier::GuestIndices::new)?,
            backoff: interface(&pre, INTERFACES[2], backoff::GuestIndices::new)?,
            dead_lettering: interface(&pre, INTERFACES[3], dead_lettering::GuestIndices::new)?,
            outage: interface(&pre, INTERFACES[4], outage::GuestIndices::new)?,
            pre,
        };
        if component.exports().next().is_none() {
            let found = found(&component.pre);
            return Err(ComponentError::NoInterface { found });
        }
        Ok(Arc::new(component))
    }

    /// Stores its code for the next start, if the sandbox has a folder for it.
    pub fn keep_code(&self, sandbox: &Sandbox) {
        let (engine, compiled) = (&sandbox.engine, &sandbox.compiled);
        compiled.keep(engine, self.digest, self.pre.component());
    }

    /// The operator's name for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The digest of its file.
    pub fn digest(&self) -> PolicyDigest {
        self.digest
    }

    /// Whether it takes settings.
    pub fn takes_settings(&self) -> bool {
        self.settings.is_some()
    }

    /// Its imports: interfaces of the contract, and those of WASI, which grant nothing.
    pub fn imports(&self) -> Vec<String> {
        let component = self.pre.component();
        let ty = component.component_type();
        let imports = ty.imports(component.engine());
        imports.map(|(name, _)| name.to_owned()).collect()
    }

    /// Whether it answers the question of this role.
    pub(crate) fn fills(&self, role: Role) -> bool {
        match role {
            Role::Classifier => self.classifier.is_some(),
            Role::DeadLettering => self.dead_lettering.is_some(),
            Role::Backoff => self.backoff.is_some(),
            Role::Outage => self.outage.is_some(),
        }
    }

    /// The interfaces of the contract that it exports, in their order there.
    pub fn exports(&self) -> impl Iterator<Item = &'static str> {
        let present = [
            self.settings.is_some(),
            self.classifier.is_some(),
            self.backoff.is_some(),
            self.dead_lettering.is_some(),
            self.outage.is_some(),
        ];
        INTERFACES
            .into_iter()
            .zip(present)
            .filter_map(|(name, present)| present.then_some(name))
    }
}

fn compile(
    sandbox: &Sandbox,
    file: &[u8],
) -> Result<wasmtime::component::Component, ComponentError> {
    let bytes = encoding::component(file, sandbox.limits.component)?;
    interfaces::check(&bytes)?;
    wasmtime::component::Component::from_binary(&sandbox.engine, &bytes)
        .map_err(ComponentError::compile)
}

/// A linker with the imports of this component that a policy is granted.
fn linker_for(component: &wasmtime::component::Component) -> Result<Linker<Host>, ComponentError> {
    let link = |error: wasmtime::Error| ComponentError::Link(format!("{error:#}"));
    let mut linker = Linker::new(component.engine());
    bindings::types::add_to_linker::<_, HasSelf<Host>>(&mut linker, |host| host).map_err(link)?;
    bindings::log::add_to_linker::<_, HasSelf<Host>>(&mut linker, |host| host).map_err(link)?;
    bindings::payload::add_to_linker::<_, HasSelf<Host>>(&mut linker, |host| host).map_err(link)?;
    bindings::default_classifier::add_to_linker::<_, HasSelf<Host>>(&mut linker, |host| host)
        .map_err(link)?;
    let mut refused = Vec::new();
    for (import, item) in component.component_type().imports(component.engine()) {
        if interfaces::is_wasi(import) {
            wasi::define(&mut linker, import, &item.ty).map_err(link)?;
        } else if !interfaces::is_ours(import) {
            refused.push(import.to_owned());
        }
    }
    if !refused.is_empty() {
        return Err(ComponentError::Import(refused.join("`, `")));
    }
    // Only imports of WASI are left.
    linker
        .define_unknown_imports_as_traps(component)
        .map_err(link)?;
    Ok(linker)
}

/// The functions of an interface of the contract, if the component exports it.
fn interface<T>(
    pre: &InstancePre<Host>,
    interface: &'static str,
    look_up: impl Fn(&InstancePre<Host>) -> wasmtime::Result<T>,
) -> Result<Option<T>, ComponentError> {
    if pre.component().get_export_index(None, interface).is_none() {
        return Ok(None);
    }
    look_up(pre)
        .map(Some)
        .map_err(|error| ComponentError::Interface {
            interface,
            reason: format!("{error:#}"),
        })
}

fn found(pre: &InstancePre<Host>) -> String {
    let component = pre.component();
    let ty = component.component_type();
    let exports = ty.exports(component.engine());
    interfaces::listed(exports.map(|(name, _)| name.to_owned()))
}
