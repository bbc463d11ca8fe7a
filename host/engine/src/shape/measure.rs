//! The measures of a file, and their limits.

use std::fmt;

/// The size from which on a function counts as a large one, in bytes.
pub(super) const LARGE: u64 = 64 << 10;

/// A row for each measure: its name, its title and its limit.
macro_rules! measures {
    ($($(#[$meaning:meta])* $measure:ident = $title:literal, $limit:expr;)+) => {
        /// A measure of a file, with its limit: for the complete file, or, if the title contains "in one", for the largest of its kind.
        ///
        /// The limits are fixed. Every language of `backstop policy new` stays well below them; `host/docs/contributing/limits-and-sources.md` has the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Measure {
            $($(#[$meaning])* $measure,)+
        }

        impl Measure {
            /// All measures, in the order of the documentation.
            pub const ALL: [Self; [$($title),+].len()] = [$(Self::$measure),+];

            fn row(self) -> (&'static str, u64) {
                match self {
                    $(Self::$measure => ($title, $limit),)+
                }
            }
        }
    };
}

measures! {
    /// Core modules, at any depth.
    Modules = "core modules", 64;
    /// Components within components, at any depth.
    Components = "nested components", 64;
    /// How deep components are nested.
    Nesting = "levels of nested components", 8;
    /// Bytes of what a component declares: its types, imports, exports, aliases, instances and canonical functions, all but its modules and nested components.
    Declarations = "bytes of component declarations", 512 << 10;
    /// The fields, cases, parameters and names of one component type, each with all of its own type.
    TypeParts = "parts in one component type", 10_000;
    /// The parts of all that components declare, each with all of its type, and those of a nested component again wherever it is instantiated.
    ExpandedParts = "parts of components, once instantiated", 100_000;
    /// Function types of core modules.
    Types = "function types", 10_000;
    /// Parameters of one function type.
    Parameters = "parameters in one function type", 64;
    /// Results of one function type.
    Results = "results in one function type", 16;
    /// Imports of core modules.
    Imports = "imports of core modules", 10_000;
    /// Exports of core modules.
    Exports = "exports of core modules", 20_000;
    /// Bytes of one name of an import or export of a core module.
    Name = "bytes in one name", 1_024;
    /// Global variables.
    Globals = "globals", 10_000;
    /// Memories.
    Memories = "memories", 16;
    /// Tables.
    Tables = "tables", 32;
    /// The elements that tables have from the start.
    TableElements = "initial table elements", 100_000;
    /// Element segments.
    ElementSegments = "element segments", 1_000;
    /// The elements of element segments.
    Elements = "elements in segments", 100_000;
    /// Data segments.
    DataSegments = "data segments", 100_000;
    /// Instructions in constant expressions, such as the first value of a global variable.
    ConstantInstructions = "instructions in constant expressions", 300_000;
    /// Functions with a body.
    Functions = "functions", 30_000;
    /// Bytes of the bodies of functions.
    Code = "bytes of code", 10 << 20;
    /// Bytes of the bodies of functions larger than 64 KiB. They take up to twice as long to compile as the same code in small functions, and all that are compiled at the same time take their memory at the same time.
    LargeCode = "bytes of code in functions over 64 KiB", 1_536 << 10;
    /// Parameters and other locals of functions.
    Locals = "locals", 200_000;
    /// Instructions of floating-point arithmetic, on vectors, and on ranges of memory and tables, and references to functions: each compiles to many machine instructions.
    Heavy = "floating-point, vector and memory instructions", 50_000;
    /// Calls of functions: each saves and restores what the function has in registers.
    Calls = "calls", 150_000;
    /// Places in all functions where the control flow splits or joins.
    Branches = "branches", 800_000;
    /// See [`Measure::FunctionLive`], for all functions together.
    Live = "live values at branches", 12_000_000;
    /// Bytes of the body of one function.
    FunctionCode = "bytes of code in one function", 640 << 10;
    /// Parameters and other locals of one function.
    FunctionLocals = "locals in one function", 1_000;
    /// How deep the blocks of one function are nested.
    FunctionDepth = "levels of nested blocks in one function", 1_500;
    /// How deep the loops of one function are nested.
    FunctionLoops = "levels of nested loops in one function", 30;
    /// Calls in one function.
    FunctionCalls = "calls in one function", 6_000;
    /// Places in one function where its control flow splits or joins.
    FunctionBranches = "branches in one function", 24_000;
    /// Live values of one function: its locals and the operands on its stack, added up over those places. Compiling time grows with it more than with the size of the code.
    FunctionLive = "live values at branches in one function", 600_000;
}

impl Measure {
    /// The maximum.
    pub fn limit(self) -> u64 {
        self.row().1
    }

    /// What is counted, in the plural.
    pub fn title(self) -> &'static str {
        self.row().0
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
