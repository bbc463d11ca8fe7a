//! The flags of `backstop run` that set keys.

/// A flag of `backstop run`.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// What its value is called.
    pub value: &'static str,
    /// What it says, with `{policies}` for the names of the built-in ones. The default of the key is added.
    pub help: &'static str,
    /// The flag that it means nothing without.
    pub requires: Option<&'static str>,
    /// An environment variable with its value.
    pub variable: Option<&'static str>,
    /// Whether it overrides a file. Others are for a queue that is configured by flags.
    pub overrides_file: bool,
    /// Whether it may be repeated.
    pub repeats: bool,
}

impl Flag {
    pub(in crate::config) const fn new(
        name: &'static str,
        value: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            name,
            value,
            help,
            requires: None,
            variable: None,
            overrides_file: false,
            repeats: false,
        }
    }

    pub(in crate::config) const fn requires(mut self, flag: &'static str) -> Self {
        self.requires = Some(flag);
        self
    }

    pub(in crate::config) const fn or_variable(mut self, name: &'static str) -> Self {
        self.variable = Some(name);
        self
    }

    pub(in crate::config) const fn overriding_file(mut self) -> Self {
        self.overrides_file = true;
        self
    }

    pub(in crate::config) const fn repeated(mut self) -> Self {
        self.repeats = true;
        self
    }
}
