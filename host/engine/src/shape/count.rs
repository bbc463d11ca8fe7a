//! Counts a file part by part, and validates each part once it is within the limits.

use wasmparser::{
    CompositeInnerType, ConstExpr, ElementItems, ElementKind, Encoding, FuncValidatorAllocations,
    Parser, Payload, TableInit, ValidPayload, Validator, WasmFeatures,
};

use super::component::Components;
use super::function;
use super::measure::{Measure, Shape, ShapeError};

/// The WebAssembly features that a policy may use: version 2.0 with tail calls, several memories and extended constant expressions, as a component or a core module. The engine allows slightly more.
const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::MULTI_MEMORY)
    .union(WasmFeatures::COMPONENT_MODEL);

/// The counting of one file.
pub(super) struct Counter {
    shape: Shape,
    allocations: FuncValidatorAllocations,
    validator: Validator,
    components: Components,
    /// The open modules and components, outermost first.
    open: Vec<Encoding>,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            shape: Shape::default(),
            allocations: FuncValidatorAllocations::default(),
            validator: Validator::new_with_features(FEATURES),
            components: Components::default(),
            open: Vec::new(),
        }
    }
}

impl Counter {
    pub(super) fn all(mut self, binary: &[u8]) -> Result<Shape, ShapeError> {
        let mut parser = Parser::new(0);
        parser.set_features(FEATURES);
        for payload in parser.parse_all(binary) {
            let payload = payload?;
            self.count(&payload)?;
            if let ValidPayload::Func(function, body) = self.validator.payload(&payload)? {
                function::count(&mut self.shape, &mut self.allocations, function, &body)?;
            }
            if let Some(types) = self.validator.types(0)
                && self.open.last() == Some(&Encoding::Component)
            {
                self.components.settle(&payload, types, &mut self.shape)?;
            }
        }
        Ok(self.shape)
    }

    /// Counts a part before it is validated.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "other parts cost no more than their bytes"
    )]
    fn count(&mut self, payload: &Payload<'_>) -> Result<(), ShapeError> {
        let shape = &mut self.shape;
        match payload {
            Payload::Version {
                encoding, range, ..
            } => {
                self.open.push(*encoding);
                match encoding {
                    Encoding::Module => shape.add(Measure::Modules, 1, range.start)?,
                    Encoding::Component => {
                        let depth = self.components.open();
                        shape.raise(Measure::Nesting, depth, range.start)?;
                        // The outermost is not nested.
                        let nested = u64::from(depth > 0);
                        shape.add(Measure::Components, nested, range.start)?;
                    }
                }
            }
            Payload::End(offset) => {
                if self.open.pop() == Some(Encoding::Component) {
                    self.components.end(&mut self.shape, *offset)?;
                }
            }
            Payload::TypeSection(section) => {
                let start = section.range().start;
                for group in section.clone().into_iter_with_offsets() {
                    let (offset, group) = group?;
                    for ty in group.types() {
                        shape.add(Measure::Types, 1, offset)?;
                        if let CompositeInnerType::Func(ty) = &ty.composite_type.inner {
                            shape.raise(Measure::Parameters, ty.params().len() as u64, offset)?;
                            shape.raise(Measure::Results, ty.results().len() as u64, offset)?;
                        }
                    }
                }
                shape.add(Measure::Types, 0, start)?;
            }
            Payload::ImportSection(section) => {
                let start = section.range().start;
                for import in section.clone().into_imports() {
                    let import = import?;
                    shape.add(Measure::Imports, 1, start)?;
                    shape.raise(Measure::Name, import.module.len() as u64, start)?;
                    shape.raise(Measure::Name, import.name.len() as u64, start)?;
                }
            }
            Payload::ExportSection(section) => {
                let start = section.range().start;
                for export in section.clone() {
                    shape.add(Measure::Exports, 1, start)?;
                    shape.raise(Measure::Name, export?.name.len() as u64, start)?;
                }
            }
            Payload::FunctionSection(section) => {
                let count = section.count().into();
                shape.add(Measure::Functions, count, section.range().start)?;
            }
            Payload::TableSection(section) => {
                for table in section.clone().into_iter_with_offsets() {
                    let (offset, table) = table?;
                    shape.add(Measure::Tables, 1, offset)?;
                    shape.add(Measure::TableElements, table.ty.initial, offset)?;
                    if let TableInit::Expr(expression) = &table.init {
                        shape.add_constant(expression, offset)?;
                    }
                }
            }
            Payload::MemorySection(section) => {
                let count = section.count().into();
                shape.add(Measure::Memories, count, section.range().start)?;
            }
            Payload::GlobalSection(section) => {
                for global in section.clone().into_iter_with_offsets() {
                    let (offset, global) = global?;
                    shape.add(Measure::Globals, 1, offset)?;
                    shape.add_constant(&global.init_expr, offset)?;
                }
            }
            Payload::ElementSection(section) => {
                for element in section.clone().into_iter_with_offsets() {
                    let (offset, element) = element?;
                    shape.add(Measure::ElementSegments, 1, offset)?;
                    if let ElementKind::Active { offset_expr, .. } = &element.kind {
                        shape.add_constant(offset_expr, offset)?;
                    }
                    match &element.items {
                        ElementItems::Functions(items) => {
                            shape.add(Measure::Elements, items.count().into(), offset)?;
                        }
                        ElementItems::Expressions(_, items) => {
                            shape.add(Measure::Elements, items.count().into(), offset)?;
                            for item in items.clone() {
                                shape.add_constant(&item?, offset)?;
                            }
                        }
                    }
                }
            }
            Payload::DataSection(section) => {
                for data in section.clone().into_iter_with_offsets() {
                    let (offset, data) = data?;
                    shape.add(Measure::DataSegments, 1, offset)?;
                    if let wasmparser::DataKind::Active { offset_expr, .. } = &data.kind {
                        shape.add_constant(offset_expr, offset)?;
                    }
                }
            }
            // The content of these is counted part by part; that of the last costs nothing.
            Payload::ModuleSection { .. }
            | Payload::ComponentSection { .. }
            | Payload::CustomSection(_) => {}
            other => {
                if let Some((_, range)) = other.as_section()
                    && self.open.last() == Some(&Encoding::Component)
                {
                    let size = range.end.saturating_sub(range.start);
                    shape.add(Measure::Declarations, size, range.start)?;
                }
            }
        }
        Ok(())
    }
}

impl Shape {
    fn add_constant(&mut self, expression: &ConstExpr<'_>, offset: u64) -> Result<(), ShapeError> {
        for operator in expression.get_operators_reader() {
            operator?;
            self.add(Measure::ConstantInstructions, 1, offset)?;
        }
        Ok(())
    }
}
