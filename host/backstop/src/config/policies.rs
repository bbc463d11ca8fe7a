//! The `[policies]` table: how policies are fetched, kept, trusted and taken back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::text::chain;

use super::{ConfigError, raw, value};
use crate::policy::{
    Catalog, Compiled, Keys, REFRESH, Remotes, RollBack, Sandbox, Store, StoreError,
};

/// How policies are fetched, kept, trusted and taken back; the same for all queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policies {
    /// Where good versions and compiled code are kept between two starts.
    pub cache: Cache,
    /// How often S3 and registries are looked at.
    pub refresh: Duration,
    /// How often files are looked at, where their folders are not to be watched.
    pub poll: Option<Duration>,
    /// Who may sign policies; without keys, no signature is asked for.
    pub keys: Option<Keys>,
    /// Registries spoken to without TLS.
    pub plain_http: Vec<String>,
    /// When a version that breaks at work is taken back.
    pub roll_back: RollBack,
}

/// Where good versions and compiled code are kept between two starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cache {
    /// In the user's cache folder, if there is one that can be used.
    User,
    /// In this folder.
    Folder(PathBuf),
    /// Nowhere.
    Off,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            cache: Cache::User,
            refresh: REFRESH,
            poll: None,
            keys: None,
            plain_http: Vec::new(),
            roll_back: RollBack::default(),
        }
    }
}

impl Cache {
    /// `off`, or a folder; a relative one is taken from `folder`.
    pub fn parse(text: &str, folder: &Path) -> Self {
        match text {
            "off" => Self::Off,
            path => Self::Folder(folder.join(path)),
        }
    }

    /// Where it is; the user's own is not asked for.
    pub fn folder(&self) -> Option<PathBuf> {
        match self {
            Self::User => Store::default_folder(),
            Self::Folder(folder) => Some(folder.clone()),
            Self::Off => None,
        }
    }

    /// The store there. A folder that was named has to be good; that of the user is done without where it is not.
    pub fn open(&self) -> Result<Option<Store>, StoreError> {
        let Some(folder) = self.folder() else {
            return Ok(None);
        };
        match (Store::open(&folder), self) {
            (Ok(store), _) => Ok(Some(store)),
            (Err(error), Self::Folder(_)) => Err(error),
            (Err(error), Self::User | Self::Off) => {
                let error = chain(&error);
                tracing::warn!("nothing is kept of policies between two starts: {error}");
                Ok(None)
            }
        }
    }
}

impl Policies {
    /// What they have in common, in this sandbox. `compiled` is what comes with the program; S3 is at `endpoint` in place of the region's own, if one is given.
    pub fn catalog(
        &self,
        sandbox: Sandbox,
        compiled: Compiled,
        endpoint: Option<String>,
    ) -> Result<Catalog, StoreError> {
        let store = self.cache.open()?;
        Ok(Catalog {
            sandbox: sandbox.with_compiled(compiled.kept_in(store.as_ref().map(Store::code))),
            remotes: Remotes::new(endpoint, self.plain_http.clone()),
            refusals: store.clone(),
            store,
            keys: self.keys.clone(),
            refresh: self.refresh,
            poll: self.poll,
            roll_back: self.roll_back,
        })
    }
}

impl raw::Policies {
    pub(super) fn convert(self, folder: &Path) -> Result<Policies, ConfigError> {
        let defaults = Policies::default();
        let at = |key: &str| format!("policies.{key}");
        let refresh = match self.refresh {
            Some(span) => refresh(&at("refresh"), span.0)?,
            None => defaults.refresh,
        };
        let poll = self
            .poll
            .map(|span| poll(&at("poll"), span.0))
            .transpose()?;
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
            refresh,
            poll,
            keys,
            plain_http: self.plain_http,
            roll_back,
        })
    }
}

/// From 1 s, so that a place that is paid by request is not asked all the time, to a day.
pub fn refresh(place: &str, span: Duration) -> Result<Duration, ConfigError> {
    if (Duration::from_secs(1)..=Duration::from_secs(86_400)).contains(&span) {
        return Ok(span);
    }
    Err(value(place, "expected 1s to 1d"))
}

fn poll(place: &str, span: Duration) -> Result<Duration, ConfigError> {
    if (Duration::from_millis(100)..=Duration::from_secs(3_600)).contains(&span) {
        return Ok(span);
    }
    Err(value(place, "expected 100ms to 1h"))
}

/// The public keys of those who may sign.
pub fn required_keys(place: &str, keys: &[String], folder: &Path) -> Result<Keys, ConfigError> {
    if keys.is_empty() {
        return Err(value(
            place,
            "expected at least one public key; leave the key out where no signature is asked for",
        ));
    }
    Keys::read(keys, folder).map_err(|cause| ConfigError::Key {
        place: place.to_owned(),
        cause,
    })
}
