//! The macro that makes a table of [`raw`](crate::config::raw) from the entries of its keys.

use super::Key;
use crate::config::{ConfigError, Places, Variables};

/// A table of the configuration.
pub(crate) trait Table {
    /// Its keys, in the order of a file.
    const KEYS: &'static [Key];

    /// Overrides the values of the file with those of the environment.
    fn override_by(
        &mut self,
        variable: Variables<'_>,
        places: &mut Places,
    ) -> Result<(), ConfigError>;

    /// Checks that each value is within the bounds of its key, and so do the tables in it. `path` is the name of this one.
    fn check_bounds(&self, path: &str, places: &Places) -> Result<(), ConfigError>;
}

/// A table of keys, with what an error expects in its place. Each entry has
///
/// - what the key says: the documentation of its method, and its row in `configuration.md` unless it has a `row` of its own,
/// - its name and type, and after `=` its default as in a file,
/// - after `=>` the method of the builder that sets it, and the kind of its argument (see `argument!`),
/// - after `as` the type of its field in the table's typed struct, if the table has one (see `typed!`),
/// - what else there is to know of it: fields of [`Key`].
///
/// The names in the expansion are those that `raw` imports.
macro_rules! table {
    (
        $(#[doc = $about:literal])*
        $table:ident at $at:literal, $expects:literal
        $(, as $(#[doc = $typed_about:literal])* $typed:ident)?;
        $(
            $(#[doc = $doc:literal])*
            $(#[serde($serde:ident)])?
            $key:ident: $type:ty $(= $default:literal)? $(=> $method:ident($given:ident))? $(as $meaning:ty)? {
                $($attribute:ident: $value:expr),* $(,)?
            }
        )*
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Default, Deserialize)]
        #[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
        pub(crate) struct $table {
            $(
                $(#[doc = $doc])*
                $(#[serde($serde)])?
                pub(crate) $key: $type,
            )*
        }

        only_tables! {
            $table: $expects;
        }

        impl Table for $table {
            const KEYS: &'static [Key] = &[$(Key {
                $($attribute: $value,)*
                ..Key {
                    table: $at,
                    field: stringify!($key),
                    sentence: concat!($($doc, "\n"),*),
                    row: "",
                    default: concat!($($default)?),
                    shown: "",
                    bounds: "",
                    method: stringify!($($method)?),
                    variable: "",
                    flag: None,
                    at_once: None,
                    is_in_files: true,
                    apply: |host, texts| {
                        let value = <$type>::of_flag(texts)?.in_working_directory(&host);
                        Ok($table::change(host, stringify!($key), |it| it.$key.clone_from(&value)))
                    },
                    check: |key, text| key.checked(<$type>::of_flag(&[text.to_owned()])).map(drop),
                    ranges: ranges::<$type>,
                    is_required: <$type>::IN_FILES.0,
                    schema: <$type>::IN_FILES.1,
                }
            }),*];

            fn override_by(
                &mut self,
                variable: Variables<'_>,
                places: &mut Places,
            ) -> Result<(), ConfigError> {
                let mut keys = Self::KEYS.iter();
                $(
                    if let Some(key) = keys.next() {
                        override_by(key, &mut self.$key, variable, places)?;
                    }
                )*
                Ok(())
            }

            fn check_bounds(&self, path: &str, places: &Places) -> Result<(), ConfigError> {
                let mut keys = Self::KEYS.iter();
                $(
                    if let Some(key) = keys.next() {
                        self.$key.check_at(key, &key.path_in(path), places)?;
                    }
                )*
                Ok(())
            }
        }

        impl RawValue for $table {
            fn schema() -> Value {
                schema_of(Self::KEYS)
            }

            fn check_at(&self, _: &Key, path: &str, places: &Places) -> Result<(), ConfigError> {
                self.check_bounds(path, places)
            }
        }

        typed! {
            [$($($typed_about)*)? $table as $($typed)?]
            { $([$($doc)*] $key [$($meaning)?];)* }
        }

        $(
            method! { $table $key [$($doc)*] [$($default)?] $($method($given))? }
        )*
    };
}

/// The method of the builder that sets a key, if there is one.
macro_rules! method {
    ($table:ident $key:ident [$($doc:literal)*] [$($default:literal)?]) => {};
    ($table:ident $key:ident [$($doc:literal)*] [$($default:literal)?] $method:ident($given:ident)) => {
        impl Backstop {
            $(#[doc = $doc])*
            $(#[doc = ""] #[doc = concat!("The default is `", $default, "`.")])?
            pub fn $method(self, value: argument!($given)) -> Self {
                let value = Some(raw_value!($given, self, value));
                $table::change(self, stringify!($key), |it| it.$key.clone_from(&value))
            }
        }
    };
}

/// The argument of a method.
macro_rules! argument {
    (String) => { impl Into<String> };
    (Policy) => { impl Into<String> };
    (Path) => { impl AsRef<std::path::Path> };
    (Texts) => { impl IntoIterator<Item = impl Into<String>> };
    (Command) => { impl IntoIterator<Item = impl Into<String>> };
    (Bytes) => { usize };
    ($type:ident) => { $type };
}

/// The value that a method sets for its argument.
macro_rules! raw_value {
    (String, $host:ident, $value:ident) => {
        $value.into()
    };
    (Policy, $host:ident, $value:ident) => {
        Policy::Single($value.into())
    };
    (Path, $host:ident, $value:ident) => {
        $host.in_working_directory($value.as_ref())
    };
    (Texts, $host:ident, $value:ident) => {
        $value.into_iter().map(Into::into).collect()
    };
    (Command, $host:ident, $value:ident) => {
        Command($value.into_iter().map(Into::into).collect())
    };
    (Duration, $host:ident, $value:ident) => {
        Span($value)
    };
    (Bytes, $host:ident, $value:ident) => {
        Bytes($value)
    };
    ($type:ident, $host:ident, $value:ident) => {
        $value
    };
}

pub(in crate::config) use {argument, method, raw_value, table};
