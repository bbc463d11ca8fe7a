//! The generated files, before they are written.

/// The generated files, each with its path in `bindings/`.
#[derive(Default)]
pub(super) struct Written(pub(super) Vec<(String, Vec<u8>)>);

impl Written {
    /// Adds a file.
    pub(super) fn add(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.push((path.into(), bytes.into()));
    }
}
