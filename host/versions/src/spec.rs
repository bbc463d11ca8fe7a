//! A policy as the operator names it.

use backstop_core::settings::Settings;
use backstop_engine::Parts;
use sha2::{Digest, Sha256};

use crate::source::{Location, Source};

/// One component and its settings, as the operator names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSpec {
    /// The component.
    pub source: Source,
    /// Its settings.
    pub settings: Settings,
}

/// A policy as the operator names it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are only a few for each queue"
)]
pub enum PolicySpec {
    /// One component.
    Single(PartSpec),
    /// A component for each role; the host's default for a role without one.
    Composed(Parts<PartSpec>),
}

impl PolicySpec {
    /// The sources of its parts, in the order in which these are evaluated.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.parts().map(|part| &part.source)
    }

    /// Its sources, for people.
    pub fn title(&self) -> String {
        let sources: Vec<_> = self.sources().map(ToString::to_string).collect();
        sources.join(" + ")
    }

    /// The same roles with other parts, in the order in which these are evaluated. `None` if there are more or fewer.
    pub fn with_parts(mut self, others: Vec<(Source, Settings)>) -> Option<Self> {
        let is_same = self.parts().count() == others.len();
        let mut others = others.into_iter();
        let mut change = |part: &mut PartSpec| {
            if let Some((source, settings)) = others.next() {
                *part = PartSpec { source, settings };
            }
        };
        match &mut self {
            Self::Single(part) => change(part),
            Self::Composed(parts) => parts.iter_mut().for_each(change),
        }
        is_same.then_some(self)
    }

    /// Whether it names the same bytes forever.
    pub fn is_pinned(&self) -> bool {
        self.sources().all(Source::is_pinned)
    }

    /// Whether any part is reached over the network.
    pub fn is_remote(&self) -> bool {
        self.sources().any(Source::is_remote)
    }

    /// Whether any part is a file or a folder.
    pub(crate) fn has_files(&self) -> bool {
        self.sources()
            .any(|source| matches!(source.location, Location::Path(_)))
    }

    /// Calls `change` for each source.
    pub fn for_each_source(&mut self, mut change: impl FnMut(&mut Source)) {
        match self {
            Self::Single(part) => change(&mut part.source),
            Self::Composed(parts) => parts.iter_mut().for_each(|part| change(&mut part.source)),
        }
    }

    /// The parts, in the order in which they are evaluated.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &PartSpec> {
        let (single, composed) = match self {
            Self::Single(part) => (Some(part), None),
            Self::Composed(parts) => (None, Some(parts)),
        };
        single
            .into_iter()
            .chain(composed.into_iter().flat_map(Parts::iter))
    }

    /// The key of the policy's state in a store. It is the same for the same sources, settings and `check`, from any working directory.
    pub(crate) fn identity(&self, check: &str) -> String {
        let mut digest = Sha256::new();
        let mut add = |text: &str| {
            digest.update(text.len().to_le_bytes());
            digest.update(text.as_bytes());
        };
        for part in self.parts() {
            add(&part.source.absolute());
            for (name, value) in &part.settings {
                add(name);
                add(value);
            }
            add("");
        }
        add(check);
        hex::encode(digest.finalize())
    }
}

impl From<Source> for PolicySpec {
    fn from(source: Source) -> Self {
        Self::Single(PartSpec {
            source,
            settings: Settings::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_depends_on_settings_and_check() {
        let spec = |path: &str, base: &str| {
            PolicySpec::Single(PartSpec {
                source: Source::path(path),
                settings: [("base", base)].into(),
            })
        };
        let identity = spec("/p.wasm", "1s").identity("");
        assert_eq!(identity, spec("/p.wasm", "1s").identity(""));
        for other in [
            spec("/p.wasm", "2s").identity(""),
            spec("/q.wasm", "1s").identity(""),
            spec("/p.wasm", "1s").identity("another check"),
        ] {
            assert_ne!(identity, other);
        }
        let absolute = std::path::absolute("p.wasm").unwrap();
        assert_eq!(
            spec("p.wasm", "1s").identity(""),
            spec(absolute.to_str().unwrap(), "1s").identity("")
        );
    }
}
