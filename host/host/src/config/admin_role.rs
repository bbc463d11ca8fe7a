//! What somebody may do at the admin interface.

use serde::{Deserialize, Serialize};

/// What somebody may do at the admin interface. Each may do what those before may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdminRole {
    /// Look, without the bodies of messages.
    View,
    /// Look, and see the bodies of messages.
    Bodies,
    /// Look, see bodies, and change something.
    Act,
}

impl AdminRole {
    const ALL: [Self; 3] = [Self::View, Self::Bodies, Self::Act];

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Bodies => "bodies",
            Self::Act => "act",
        }
    }

    /// The role with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}
