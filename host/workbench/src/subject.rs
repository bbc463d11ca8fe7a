//! The policy under test: compiled once, evaluated with the settings of each test.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::clock;
use backstop_core::settings::Settings;
use backstop_engine::{Component, Part, Policy, Sandbox};
use backstop_versions::{PolicyError, Source};

/// A compiled policy. It has not been validated, so that tests can show why a host would reject it.
#[derive(Debug)]
pub struct Subject {
    sandbox: Sandbox,
    component: Arc<Component>,
    file: Vec<u8>,
    compiling: Duration,
}

impl Subject {
    /// Reads and compiles the policy. `name` is its name in reports.
    pub fn load(sandbox: &Sandbox, source: &Source, name: &str) -> Result<Self, PolicyError> {
        let file = source.read()?;
        let started = clock::instant();
        let component = compile(sandbox, name, &file)?;
        component.keep_code(sandbox);
        Ok(Self {
            sandbox: sandbox.clone(),
            component,
            file,
            compiling: started.elapsed(),
        })
    }

    /// The policy with these settings.
    pub fn policy(&self, settings: &Settings) -> Policy {
        policy(&self.sandbox, &self.component, settings)
    }

    /// The policy with these settings, compiled again in another sandbox.
    pub fn policy_in(&self, other: &Sandbox, settings: &Settings) -> Result<Policy, PolicyError> {
        let component = compile(other, self.component.name(), &self.file)?;
        Ok(policy(other, &component, settings))
    }

    /// The component.
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// Its file.
    pub fn file(&self) -> &[u8] {
        &self.file
    }

    /// How long it took to compile.
    pub fn compiling(&self) -> Duration {
        self.compiling
    }

    /// Its name and the digest of its file.
    pub fn title(&self) -> String {
        self.policy(&Settings::new()).title()
    }
}

fn compile(sandbox: &Sandbox, name: &str, file: &[u8]) -> Result<Arc<Component>, PolicyError> {
    Component::load(sandbox, name, file).map_err(|cause| PolicyError::Component {
        name: name.to_owned(),
        cause,
    })
}

fn policy(sandbox: &Sandbox, component: &Arc<Component>, settings: &Settings) -> Policy {
    Policy::single(
        sandbox,
        Part {
            component: Arc::clone(component),
            settings: settings.clone(),
        },
    )
}
