//! The `[policies]` table: how policies are fetched, stored, verified and rolled back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::text::chain;

use super::{ConfigError, Places, raw, value};
use crate::policy::{Keys, REFRESH, RegistryOptions, RollBack, Store, StoreError, policy_name};

/// How policies are fetched, stored, verified and rolled back; the same for all queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policies {
    /// Where good versions and compiled code are stored.
    pub cache: Cache,
    /// How often to check S3 and registries for updates.
    pub refresh: Duration,
    /// How often to check files for updates, in place of watching their directories.
    pub poll: Option<Duration>,
    /// The public keys of those who may sign policies; without keys, no signature is required.
    pub keys: Option<Keys>,
    /// How registries are contacted.
    pub registries: RegistryOptions,
    /// When an active version that fails is rolled back.
    pub roll_back: RollBack,
}

/// Where good versions and compiled code are stored, to survive a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cache {
    /// In the user's cache directory, if it is usable.
    User,
    /// In this directory.
    Folder(PathBuf),
    /// Not at all.
    Off,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            cache: Cache::User,
            refresh: REFRESH,
            poll: None,
            keys: None,
            registries: RegistryOptions::default(),
            roll_back: RollBack::default(),
        }
    }
}

impl Cache {
    /// Parses `off`, or a directory; a relative one is relative to `folder`.
    pub fn parse(text: &str, folder: &Path) -> Self {
        match text {
            "off" => Self::Off,
            path => Self::Folder(folder.join(path)),
        }
    }

    /// The directory, if there is one.
    pub fn folder(&self) -> Option<PathBuf> {
        match self {
            Self::User => Store::default_folder(),
            Self::Folder(folder) => Some(folder.clone()),
            Self::Off => None,
        }
    }

    /// Opens the store. A directory that the operator named has to be usable; the user's cache directory is optional.
    pub fn open(&self) -> Result<Option<Store>, StoreError> {
        let Some(folder) = self.folder() else {
            return Ok(None);
        };
        match (Store::open(&folder), self) {
            (Ok(store), _) => Ok(Some(store)),
            (Err(error), Self::Folder(_)) => Err(error),
            (Err(error), Self::User | Self::Off) => {
                let error = chain(&error);
                tracing::warn!(
                    "the policy cache is disabled, because its directory can't be used: {error}"
                );
                Ok(None)
            }
        }
    }
}

impl raw::Policies {
    pub(super) fn convert(self, folder: &Path, places: &Places) -> Result<Policies, ConfigError> {
        let defaults = Policies::default();
        let at = |key: &str| places.of(&format!("policies.{key}"));
        let keys = self
            .require_signature
            .map(|keys| required_keys(&at("require-signature"), &keys, folder))
            .transpose()?;
        let roll_back = match self.rollback {
            None => defaults.roll_back,
            Some(given) => RollBack {
                broken: given.broken.unwrap_or(defaults.roll_back.broken),
                within: given
                    .within
                    .map_or(defaults.roll_back.within, |span| span.0),
            },
        };
        if roll_back.broken > 1_000 || roll_back.within.is_zero() {
            return Err(value(
                at("rollback"),
                "expected at most 1000 messages with broken decisions (0 for never) within more than 0s, such as { broken = 5, within = \"1m\" }",
            ));
        }
        Ok(Policies {
            cache: self
                .cache
                .map_or(defaults.cache, |cache| Cache::parse(&cache, folder)),
            refresh: self.refresh.map_or(defaults.refresh, |span| span.0),
            poll: self.poll.map(|span| span.0),
            keys,
            registries: RegistryOptions {
                plain_http: self.plain_http.unwrap_or_default(),
                token_servers: self.token_servers.unwrap_or_default(),
            },
            roll_back,
        })
    }
}

/// Checks the name of the policy that files have to be signed for.
pub(super) fn signed_for(place: &str, name: Option<String>) -> Result<Option<String>, ConfigError> {
    let checked = name.map(|name| policy_name(&name)).transpose();
    checked.map_err(|error| value(place, error.to_string()))
}

/// Reads the public keys.
fn required_keys(place: &str, keys: &[String], folder: &Path) -> Result<Keys, ConfigError> {
    if keys.is_empty() {
        return Err(value(
            place,
            "expected at least one public key; leave it out if policies need no signature",
        ));
    }
    Keys::read(keys, folder).map_err(|cause| ConfigError::Key {
        place: place.to_owned(),
        cause,
    })
}
