//! The shape of a policy's file: how much there is of everything that costs time or memory to compile, counted and held to limits before anything is compiled.
//!
//! The size of a file says little about what compiling it costs: 84 KB can take minutes, or gigabytes. So the file is read once from front to back, and each part is counted first and validated once it is within the limits. That takes time in proportion to the file's size, whatever is in it.

mod component;
mod count;
mod function;
mod measure;

pub use measure::{Measure, Shape, ShapeError};

impl Shape {
    /// Counts and validates a component or a core module, in the binary format. Takes time in proportion to its size and stops at the first limit that it exceeds.
    pub fn of(binary: &[u8]) -> Result<Self, ShapeError> {
        count::Counter::default().all(binary)
    }
}

#[cfg(test)]
mod tests;
