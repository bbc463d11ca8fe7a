//! The measures of a file, and their limits.

use std::fmt;

/// The size from which on a function counts as a large one, in bytes.
pub(super) const LARGE: u64 = 64 << 10;

/// A measure of a file, with its limit: for the complete file, or, if the title contains "in one", for the largest of its kind.
///
/// The limits are fixed. Every language of `backstop policy new` stays well below them; `host/docs/policies.md` has the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Core modules, at any depth.
    Modules,
    /// Components within components, at any depth.
    Components,
    /// How deep components are nested.
    Nesting,
    /// Bytes of what a component declares: its types, imports, exports, aliases, instances and canonical functions, all but its modules and nested components.
    Declarations,
    /// The fields, cases, parameters and names of one component type, each with all of its own type.
    TypeParts,
    /// The parts of all that components declare, each with all of its type, and those of a nested component again wherever it is instantiated.
    ExpandedParts,
    /// Function types of core modules.
    Types,
    /// Parameters of one function type.
    Parameters,
    /// Results of one function type.
    Results,
    /// Imports of core modules.
    Imports,
    /// Exports of core modules.
    Exports,
    /// Bytes of one name of an import or export of a core module.
    Name,
    /// Global variables.
    Globals,
    /// Memories.
    Memories,
    /// Tables.
    Tables,
    /// The elements that tables have from the start.
    TableElements,
    /// Element segments.
    ElementSegments,
    /// The elements of element segments.
    Elements,
    /// Data segments.
    DataSegments,
    /// Instructions in constant expressions, such as the first value of a global variable.
    ConstantInstructions,
    /// Functions with a body.
    Functions,
    /// Bytes of the bodies of functions.
    Code,
    /// Bytes of the bodies of functions larger than 64 KiB. They take up to twice as long to compile as the same code in small functions, and all that are compiled at the same time take their memory at the same time.
    LargeCode,
    /// Parameters and other locals of functions.
    Locals,
    /// Instructions of floating-point arithmetic, on vectors, and on ranges of memory and tables, and references to functions: each compiles to many machine instructions.
    Heavy,
    /// Calls of functions: each saves and restores what the function has in registers.
    Calls,
    /// Places in all functions where the control flow splits or joins.
    Branches,
    /// See [`Measure::FunctionLive`], for all functions together.
    Live,
    /// Bytes of the body of one function.
    FunctionCode,
    /// Parameters and other locals of one function.
    FunctionLocals,
    /// How deep the blocks of one function are nested.
    FunctionDepth,
    /// How deep the loops of one function are nested.
    FunctionLoops,
    /// Calls in one function.
    FunctionCalls,
    /// Places in one function where its control flow splits or joins.
    FunctionBranches,
    /// Live values of one function: its locals and the operands on its stack, added up over those places. Compiling time grows with it more than with the size of the code.
    FunctionLive,
}

impl Measure {
    /// All measures, in the order of the documentation.
    pub const ALL: [Self; 35] = [
        Self::Modules,
        Self::Components,
        Self::Nesting,
        Self::Declarations,
        Self::TypeParts,
        Self::ExpandedParts,
        Self::Types,
        Self::Parameters,
        Self::Results,
        Self::Imports,
        Self::Exports,
        Self::Name,
        Self::Globals,
        Self::Memories,
        Self::Tables,
        Self::TableElements,
        Self::ElementSegments,
        Self::Elements,
        Self::DataSegments,
        Self::ConstantInstructions,
        Self::Functions,
        Self::Code,
        Self::LargeCode,
        Self::Locals,
        Self::Heavy,
        Self::Calls,
        Self::Branches,
        Self::Live,
        Self::FunctionCode,
        Self::FunctionLocals,
        Self::FunctionDepth,
        Self::FunctionLoops,
        Self::FunctionCalls,
        Self::FunctionBranches,
        Self::FunctionLive,
    ];

    /// The maximum.
    pub fn limit(self) -> u64 {
        self.row().1
    }

    /// What is counted, in the plural.
    pub fn title(self) -> &'static str {
        self.row().0
    }

    fn row(self) -> (&'static str, u64) {
        match self {
            Self::Modules => ("core modules", 64),
            Self::Components => ("nested components", 64),
            Self::Nesting => ("levels of nested components", 8),
            Self::Declarations => ("bytes of component declarations", 512 << 10),
            Self::TypeParts => ("parts in one component type", 10_000),
            Self::ExpandedParts => ("parts of components, once instantiated", 100_000),
            Self::Types => ("function types", 10_000),
            Self::Parameters => ("parameters in one function type", 64),
            Self::Results => ("results in one function type", 16),
            Self::Imports => ("imports of core modules", 10_000),
            Self::Exports => ("exports of core modules", 20_000),
            Self::Name => ("bytes in one name", 1_024),
            Self::Globals => ("globals", 10_000),
            Self::Memories => ("memories", 16),
            Self::Tables => ("tables", 32),
            Self::TableElements => ("initial table elements", 100_000),
            Self::ElementSegments => ("element segments", 1_000),
            Self::Elements => ("elements in segments", 100_000),
            Self::DataSegments => ("data segments", 100_000),
            Self::ConstantInstructions => ("instructions in constant expressions", 300_000),
            Self::Functions => ("functions", 30_000),
            Self::Code => ("bytes of code", 10 << 20),
            Self::LargeCode => ("bytes of code in functions over 64 KiB", 1_536 << 10),
            Self::Locals => ("locals", 200_000),
            Self::Heavy => ("floating-point, vector and memory instructions", 50_000),
            Self::Calls => ("calls", 150_000),
            Self::Branches => ("branches", 800_000),
            Self::Live => ("live values at branches", 12_000_000),
            Self::FunctionCode => ("bytes of code in one function", 640 << 10),
            Self::FunctionLocals => ("locals in one function", 1_000),
            Self::FunctionDepth => ("levels of nested blocks in one function", 1_500),
            Self::FunctionLoops => ("levels of nested loops in one function", 30),
            Self::FunctionCalls => ("calls in one function", 6_000),
            Self::FunctionBranches => ("branches in one function", 24_000),
            Self::FunctionLive => ("live values at branches in one function", 600_000),
        }
    }
}

/// Why a file is refused before it is compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// More of something than its limit.
    #[error("it has {count} {}, more than the limit of {} (at byte {offset})", measure.title(), measure.limit())]
    TooMany {
        /// The measure.
        measure: Measure,
        /// The count when it was refused.
        count: u64,
        /// The offset in the file. For text, in the assembled file.
        offset: u64,
    },
    /// A component that imports a component or gets one from an instance: its instances can't be counted.
    #[error(
        "one of its components imports another component, which a policy may not do (at byte {offset})"
    )]
    GivenComponent {
        /// The offset in the file.
        offset: u64,
    },
    /// It violates the rules of WebAssembly, or uses a proposal that policies may not use.
    #[error("it is not valid: {0}")]
    Invalid(String),
}

impl From<wasmparser::BinaryReaderError> for ShapeError {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// The measures of a policy's file.
#[derive(Clone, PartialEq, Eq)]
pub struct Shape {
    counts: [u64; Measure::ALL.len()],
}

impl Shape {
    /// The value of a measure.
    pub fn get(&self, measure: Measure) -> u64 {
        self.counts.get(measure as usize).copied().unwrap_or(0)
    }

    /// Adds to a measure. `offset` is the position in the file.
    pub(super) fn add(
        &mut self,
        measure: Measure,
        more: u64,
        offset: u64,
    ) -> Result<(), ShapeError> {
        let count = self.get(measure).saturating_add(more);
        self.raise(measure, count, offset)
    }

    /// Raises a measure to this value, if it is lower.
    pub(super) fn raise(
        &mut self,
        measure: Measure,
        count: u64,
        offset: u64,
    ) -> Result<(), ShapeError> {
        if count > measure.limit() {
            return Err(ShapeError::TooMany {
                measure,
                count,
                offset,
            });
        }
        if let Some(most) = self.counts.get_mut(measure as usize) {
            *most = count.max(*most);
        }
        Ok(())
    }
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            counts: [0; Measure::ALL.len()],
        }
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = Measure::ALL.map(|measure| (measure, self.get(measure)));
        f.debug_map().entries(counts).finish()
    }
}
