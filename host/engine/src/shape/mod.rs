//! The shape of a policy's file: counts of everything that costs time or memory to compile, with limits that are checked before compiling.
//!
//! The size of a file says little about what compiling it costs: 84 KB can take minutes, or gigabytes. So the file is read once from front to back, and each part is counted, and validated if it is within the limits. The time is proportional to the file's size, whatever its content.

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
