//! What a value means: the typed form that an entry names after `as`. The table's typed struct is made of these entries.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::raw::{Bytes, Span};
use super::super::{ConfigError, value};
use super::{Key, RawValue};
use crate::hold::HoldMode;
use crate::queue::VisibilityTimeout;
use backstop_core::rate::Rate;

/// Where a value is.
pub(in crate::config) struct Spot<'a> {
    /// What relative paths are relative to.
    pub(in crate::config) folder: &'a Path,
    /// What errors call the keys of its table.
    pub(in crate::config) at: &'a dyn Fn(&str) -> String,
    /// Its own name.
    pub(in crate::config) name: String,
}

impl Spot<'_> {
    pub(in crate::config) fn place(&self) -> String {
        (self.at)(&self.name)
    }

    /// The place of a key, if it is a table.
    pub(in crate::config) fn of(&self, key: &str) -> String {
        (self.at)(&format!("{}.{key}", self.name))
    }
}

/// The typed form of a value.
pub(in crate::config) trait Typed<R>: Sized {
    fn of(raw: &R, spot: &Spot<'_>) -> Result<Self, ConfigError>;

    /// What it is if nobody sets it and it has no default.
    fn absent() -> Option<Self> {
        None
    }
}

/// Converts the value of a field, or the default of its key if nobody has set it.
pub(in crate::config) fn meaning<R: RawValue, T: Typed<R>>(
    raw: Option<&R>,
    spot: &Spot<'_>,
    keys: &[Key],
) -> Result<T, ConfigError> {
    let key = keys.iter().find(|key| key.name() == spot.name);
    let default = key.map_or("", |key| key.default);
    let wrong = |expected: String| value(spot.place(), expected);
    match raw {
        Some(raw) => T::of(raw, spot),
        None if !default.is_empty() => {
            let default = R::of_flag(&[default.to_owned()]);
            T::of(&default.map_err(wrong)?, spot)
        }
        None => T::absent().ok_or_else(|| wrong("is missing".to_owned())),
    }
}

impl<R, T: Typed<R>> Typed<R> for Option<T> {
    fn of(raw: &R, spot: &Spot<'_>) -> Result<Self, ConfigError> {
        T::of(raw, spot).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl Typed<usize> for usize {
    fn of(raw: &usize, _: &Spot<'_>) -> Result<Self, ConfigError> {
        Ok(*raw)
    }
}

impl Typed<Bytes> for usize {
    fn of(raw: &Bytes, _: &Spot<'_>) -> Result<Self, ConfigError> {
        Ok(raw.0)
    }
}

impl Typed<Span> for Duration {
    fn of(raw: &Span, _: &Spot<'_>) -> Result<Self, ConfigError> {
        Ok(raw.0)
    }
}

impl Typed<Span> for VisibilityTimeout {
    fn of(raw: &Span, _: &Spot<'_>) -> Result<Self, ConfigError> {
        Ok(Self::rounded_up(raw.0))
    }
}

impl Typed<HoldMode> for HoldMode {
    fn of(raw: &HoldMode, _: &Spot<'_>) -> Result<Self, ConfigError> {
        Ok(*raw)
    }
}

impl Typed<PathBuf> for PathBuf {
    fn of(raw: &PathBuf, spot: &Spot<'_>) -> Result<Self, ConfigError> {
        Ok(spot.folder.join(raw))
    }
}

impl Typed<String> for Rate {
    fn of(raw: &String, spot: &Spot<'_>) -> Result<Self, ConfigError> {
        let rate = raw.parse::<Self>();
        rate.map_err(|error| value(spot.place(), error.to_string()))
    }
}

/// The typed struct of a table: a field for each entry with an `as`, and its conversion.
macro_rules! typed {
    ($head:tt { $($keys:tt)* }) => {
        typed! { @keys $head {} $($keys)* }
    };
    (@keys $head:tt $done:tt $doc:tt $key:ident []; $($rest:tt)*) => {
        typed! { @keys $head $done $($rest)* }
    };
    (@keys $head:tt { $($done:tt)* } $doc:tt $key:ident [$type:ty]; $($rest:tt)*) => {
        typed! { @keys $head { $($done)* $doc $key [$type] } $($rest)* }
    };
    (@keys [$($about:literal)* $table:ident as] {}) => {};
    (@keys [$($about:literal)* $table:ident as $typed:ident] { $([$($doc:literal)*] $key:ident [$type:ty])* }) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $typed {
            $(
                $(#[doc = $doc])*
                pub $key: $type,
            )*
        }

        impl $typed {
            /// Converts the values of a table, each by itself.
            pub(in crate::config) fn typed(
                raw: &$table,
                folder: &std::path::Path,
                at: &dyn Fn(&str) -> String,
            ) -> Result<Self, ConfigError> {
                Ok(Self {
                    $($key: {
                        let name = stringify!($key).replace('_', "-");
                        meaning(raw.$key.as_ref(), &Spot { folder, at, name }, $table::KEYS)?
                    },)*
                })
            }
        }

        impl Default for $typed {
            fn default() -> Self {
                let nowhere = std::path::Path::new("");
                let typed = Self::typed(&$table::default(), nowhere, &|key| key.to_owned());
                typed.expect("every key has a default, or may be absent")
            }
        }
    };
}

pub(in crate::config) use typed;
