//! Counts the declarations of components: each part with its complete type, and each instance again.

use std::collections::HashMap;

use wasmparser::component_types::{
    ComponentAnyTypeId, ComponentDefinedType, ComponentEntityType, ComponentItem, ComponentValType,
};
use wasmparser::types::TypesRef;
use wasmparser::{
    CanonicalFunction, ComponentAlias, ComponentExternalKind, ComponentInstance,
    ComponentOuterAliasKind, ComponentTypeRef, Instance, Payload,
};

use super::measure::{Measure, Shape, ShapeError};

/// The open components, and the sizes of types.
#[derive(Default)]
pub(super) struct Components {
    /// Outermost first.
    open: Vec<Component>,
    /// The number of parts of each type when all types in it are expanded.
    sizes: HashMap<ComponentAnyTypeId, u64>,
}

/// An open component.
#[derive(Default)]
struct Component {
    /// Its parts so far, including those of its instances.
    parts: u64,
    /// The parts of each component that it can instantiate, in the order of their indices.
    components: Vec<u64>,
    /// How many types, functions and instances have been counted.
    counted: [u32; 3],
}

impl Components {
    /// Opens a component. Its depth: 0 for the outermost.
    pub(super) fn open(&mut self) -> u64 {
        self.open.push(Component::default());
        self.open.len() as u64 - 1
    }

    /// Closes it: it can be instantiated from now on. Its declaration counts like one instance.
    pub(super) fn end(&mut self, shape: &mut Shape, offset: u64) -> Result<(), ShapeError> {
        let ended = self.open.pop().unwrap_or_default();
        if let Some(outer) = self.open.last_mut() {
            outer.components.push(ended.parts);
        }
        self.add(ended.parts, shape, offset)
    }

    /// Adds parts to the innermost component.
    fn add(&mut self, parts: u64, shape: &mut Shape, offset: u64) -> Result<(), ShapeError> {
        let Some(component) = self.open.last_mut() else {
            return Ok(());
        };
        component.parts = component.parts.saturating_add(parts);
        shape.raise(Measure::ExpandedParts, component.parts, offset)
    }

    /// Counts what a valid section of the innermost component has declared.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "instances and calls are counted here, everything with a type below"
    )]
    pub(super) fn settle(
        &mut self,
        payload: &Payload<'_>,
        types: TypesRef<'_>,
        shape: &mut Shape,
    ) -> Result<(), ShapeError> {
        let Some((_, range)) = payload.as_section() else {
            return Ok(());
        };
        let offset = range.start;
        match payload {
            Payload::ComponentImportSection(section) => {
                for import in section.clone() {
                    if let ComponentTypeRef::Component(_) = import?.ty {
                        return Err(ShapeError::GivenComponent { offset });
                    }
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section.clone() {
                    self.alias(&alias?, offset)?;
                    self.add(1, shape, offset)?;
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section.clone() {
                    let export = export?;
                    // An export gets an additional index.
                    if export.kind == ComponentExternalKind::Component {
                        let parts = self.parts_of(0, export.index);
                        self.declare(parts);
                    }
                    self.add(1, shape, offset)?;
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section.clone() {
                    let parts = match instance? {
                        ComponentInstance::Instantiate {
                            component_index,
                            args,
                        } => self
                            .parts_of(0, component_index)
                            .saturating_add(args.len() as u64),
                        ComponentInstance::FromExports(exports) => exports.len() as u64,
                    };
                    self.add(parts, shape, offset)?;
                }
            }
            Payload::InstanceSection(section) => {
                for instance in section.clone() {
                    let parts = match instance? {
                        Instance::Instantiate { args, .. } => args.len(),
                        Instance::FromExports(exports) => exports.len(),
                    };
                    self.add(1 + parts as u64, shape, offset)?;
                }
            }
            Payload::ComponentCanonicalSection(section) => {
                for function in section.clone() {
                    let parts = match function? {
                        CanonicalFunction::Lower { func_index, .. } => {
                            let ty = types.component_function_at(func_index);
                            self.size(types, ComponentAnyTypeId::Func(ty))
                        }
                        _ => 1,
                    };
                    self.add(parts, shape, offset)?;
                }
            }
            _ => {}
        }
        self.declared(types, shape, offset)
    }

    /// The declarations of the last section that have a type.
    fn declared(
        &mut self,
        types: TypesRef<'_>,
        shape: &mut Shape,
        offset: u64,
    ) -> Result<(), ShapeError> {
        let counts = [
            types.component_type_count(),
            types.component_function_count(),
            types.component_instance_count(),
        ];
        let Some(component) = self.open.last_mut() else {
            return Ok(());
        };
        let [known_types, functions, instances] = std::mem::replace(&mut component.counted, counts);
        let [all_types, all_functions, all_instances] = counts;
        let declared = (known_types..all_types)
            .map(|index| types.component_any_type_at(index))
            .chain(
                (functions..all_functions)
                    .map(|index| ComponentAnyTypeId::Func(types.component_function_at(index))),
            )
            .chain(
                (instances..all_instances)
                    .map(|index| ComponentAnyTypeId::Instance(types.component_instance_at(index))),
            );
        for id in declared {
            let size = self.size(types, id);
            shape.raise(Measure::TypeParts, size, offset)?;
            self.add(size, shape, offset)?;
        }
        Ok(())
    }

    fn alias(&mut self, alias: &ComponentAlias<'_>, offset: u64) -> Result<(), ShapeError> {
        match alias {
            ComponentAlias::InstanceExport {
                kind: ComponentExternalKind::Component,
                ..
            } => Err(ShapeError::GivenComponent { offset }),
            ComponentAlias::Outer {
                kind: ComponentOuterAliasKind::Component,
                count,
                index,
            } => {
                let parts = self.parts_of(*count, *index);
                self.declare(parts);
                Ok(())
            }
            ComponentAlias::InstanceExport { .. }
            | ComponentAlias::CoreInstanceExport { .. }
            | ComponentAlias::Outer { .. } => Ok(()),
        }
    }

    /// Adds a component that the innermost one can instantiate.
    fn declare(&mut self, parts: u64) {
        if let Some(component) = self.open.last_mut() {
            component.components.push(parts);
        }
    }

    /// The parts of a component by its index, `outwards` components out of the innermost.
    fn parts_of(&self, outwards: u32, index: u32) -> u64 {
        let component = self.open.iter().rev().nth(outwards as usize);
        let parts = component.and_then(|it| it.components.get(index as usize));
        // All indices are valid here. A component that was not counted counts as unlimited.
        parts.copied().unwrap_or(u64::MAX)
    }

    /// The number of parts of a type. Types nest at most 100 deep, and each is computed once.
    #[expect(
        clippy::indexing_slicing,
        reason = "a valid part refers to existing types"
    )]
    fn size(&mut self, types: TypesRef<'_>, id: ComponentAnyTypeId) -> u64 {
        if let Some(size) = self.sizes.get(&id) {
            return *size;
        }
        let inner = match id {
            ComponentAnyTypeId::Resource(_) => 0,
            ComponentAnyTypeId::Defined(id) => match &types[id] {
                ComponentDefinedType::Primitive(_)
                | ComponentDefinedType::Own(_)
                | ComponentDefinedType::Borrow(_) => 0,
                ComponentDefinedType::Record(record) => {
                    self.values(types, record.fields.values().copied().map(Some))
                }
                ComponentDefinedType::Variant(variant) => {
                    self.values(types, variant.cases.values().map(|case| case.ty))
                }
                ComponentDefinedType::Tuple(tuple) => {
                    self.values(types, tuple.types.iter().copied().map(Some))
                }
                ComponentDefinedType::Flags(names) | ComponentDefinedType::Enum(names) => {
                    names.len() as u64
                }
                ComponentDefinedType::List { element, .. }
                | ComponentDefinedType::FixedLengthList { element, .. } => {
                    self.values(types, [Some(*element)])
                }
                ComponentDefinedType::Option { ty, .. } => self.values(types, [Some(*ty)]),
                ComponentDefinedType::Map { key, value, .. } => {
                    self.values(types, [Some(*key), Some(*value)])
                }
                ComponentDefinedType::Result { ok, err, .. } => self.values(types, [*ok, *err]),
                ComponentDefinedType::Future { ty, .. }
                | ComponentDefinedType::Stream { ty, .. } => self.values(types, [*ty]),
            },
            ComponentAnyTypeId::Func(id) => {
                let function = &types[id];
                let parameters = function.params.iter().map(|(_, ty)| Some(*ty));
                self.values(types, parameters.chain([function.result]))
            }
            ComponentAnyTypeId::Instance(id) => self.items(types, types[id].exports.values()),
            ComponentAnyTypeId::Component(id) => {
                let component = &types[id];
                let items = component.imports.values().chain(component.exports.values());
                self.items(types, items)
            }
        };
        let size = inner.saturating_add(1);
        self.sizes.insert(id, size);
        size
    }

    fn values(
        &mut self,
        types: TypesRef<'_>,
        values: impl IntoIterator<Item = Option<ComponentValType>>,
    ) -> u64 {
        values.into_iter().fold(0, |sum, value| {
            sum.saturating_add(match value {
                Some(ComponentValType::Type(id)) => {
                    self.size(types, ComponentAnyTypeId::Defined(id))
                }
                Some(ComponentValType::Primitive(_)) | None => 1,
            })
        })
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "a valid part refers to existing types"
    )]
    fn items<'a>(
        &mut self,
        types: TypesRef<'a>,
        items: impl Iterator<Item = &'a ComponentItem>,
    ) -> u64 {
        items.fold(0, |sum: u64, item| {
            sum.saturating_add(match item.ty {
                ComponentEntityType::Module(id) => {
                    let module = &types[id];
                    1 + module.imports.len() as u64 + module.exports.len() as u64
                }
                ComponentEntityType::Func(id) => self.size(types, ComponentAnyTypeId::Func(id)),
                ComponentEntityType::Value(value) => self.values(types, [Some(value)]),
                ComponentEntityType::Type { referenced, .. } => self.size(types, referenced),
                ComponentEntityType::Instance(id) => {
                    self.size(types, ComponentAnyTypeId::Instance(id))
                }
                ComponentEntityType::Component(id) => {
                    self.size(types, ComponentAnyTypeId::Component(id))
                }
            })
        })
    }
}
