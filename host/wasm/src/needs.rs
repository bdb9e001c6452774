//! What instantiating a component takes at the least, counted from its binary before anything is compiled.
//!
//! Components can instantiate components: twenty lines of them are a million instances, and a compiler that inlines them
//! works for hours. So every definition is weighed once, and every instantiation adds the weight of what it names.

use wasmparser::{
    BinaryReaderError, ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind,
    Encoding, Instance, Payload,
};

use crate::error::LoadError;
use crate::limits::Limits;

const WASM_PAGE_BYTES: u64 = 65_536;
/// Component instances have no limit of their own: they cost little, but a million of them cost.
const MAX_COMPONENT_INSTANCES: u64 = 1000;

/// A weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Needs {
    memory_bytes: u64,
    table_elements: u64,
    instances: u64,
    memories: u64,
    tables: u64,
    component_instances: u64,
}

impl Needs {
    fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn or_worse(self, other: Self) -> Self {
        self.with(other, u64::max)
    }

    fn with(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            memory_bytes: combine(self.memory_bytes, other.memory_bytes),
            table_elements: combine(self.table_elements, other.table_elements),
            instances: combine(self.instances, other.instances),
            memories: combine(self.memories, other.memories),
            tables: combine(self.tables, other.tables),
            component_instances: combine(self.component_instances, other.component_instances),
        }
    }

    /// Refuses what no call could ever instantiate within its limits.
    pub(crate) fn check(&self, component: &str, limits: &Limits) -> Result<(), LoadError> {
        let pairs = [
            ("limits.plugin.memory_bytes", self.memory_bytes, limits.memory_bytes),
            ("limits.plugin.table_elements", self.table_elements, limits.table_elements),
            ("limits.plugin.instances", self.instances, u64::from(limits.instances)),
            ("limits.plugin.memories", self.memories, u64::from(limits.memories)),
            ("limits.plugin.tables", self.tables, u64::from(limits.tables)),
            ("limits.plugin.instances", self.component_instances, MAX_COMPONENT_INSTANCES),
        ];
        match pairs.into_iter().find(|(_, wanted, allowed)| wanted > allowed) {
            None => Ok(()),
            Some((key, wanted, allowed)) => {
                Err(LoadError::NeedsTooMuch { component: component.to_owned(), key, wanted, allowed })
            }
        }
    }
}

/// A module or component that is being read.
#[derive(Default)]
struct Scope {
    is_component: bool,
    /// Its own weight so far.
    needs: Needs,
    /// Weights by index, as in the binary's index spaces.
    modules: Vec<Needs>,
    components: Vec<Needs>,
}

/// Follows the payloads of a parser.
#[derive(Default)]
pub(crate) struct Scales {
    open: Vec<Scope>,
    /// Stands in for what comes from outside and is only known when it is instantiated.
    worst_module: Needs,
    worst_component: Needs,
    whole: Needs,
}

impl Scales {
    /// Whether the parser is in the outermost component itself.
    pub(crate) fn is_outermost(&self) -> bool {
        self.open.len() == 1
    }

    /// The weight of the whole component, once it was read.
    pub(crate) fn whole(&self) -> Needs {
        self.whole
    }

    pub(crate) fn weigh(&mut self, payload: &Payload<'_>) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::Version { encoding, .. } => {
                self.open.push(Scope { is_component: *encoding == Encoding::Component, ..Scope::default() });
            }
            Payload::End(_) => self.close(),
            Payload::MemorySection(memories) => {
                for memory in memories.clone() {
                    let memory_bytes = memory?.initial.saturating_mul(WASM_PAGE_BYTES);
                    self.add(Needs { memory_bytes, memories: 1, ..Needs::default() });
                }
            }
            Payload::TableSection(tables) => {
                for table in tables.clone() {
                    self.add(Needs { table_elements: table?.ty.initial, tables: 1, ..Needs::default() });
                }
            }
            Payload::InstanceSection(instances) => {
                for instance in instances.clone() {
                    if let Instance::Instantiate { module_index, .. } = instance? {
                        let module = self.module(0, module_index);
                        self.add(module.plus(Needs { instances: 1, ..Needs::default() }));
                    }
                }
            }
            Payload::ComponentInstanceSection(instances) => {
                for instance in instances.clone() {
                    if let ComponentInstance::Instantiate { component_index, .. } = instance? {
                        let component = self.component(0, component_index);
                        self.add(component.plus(Needs { component_instances: 1, ..Needs::default() }));
                    }
                }
            }
            Payload::ComponentAliasSection(aliases) => {
                for alias in aliases.clone() {
                    self.alias(&alias?);
                }
            }
            Payload::ComponentImportSection(imports) => {
                for import in imports.clone() {
                    self.unknown(import?.ty.kind());
                }
            }
            Payload::ComponentExportSection(exports) => {
                for export in exports.clone() {
                    let export = export?;
                    // An export is a new index for the same thing.
                    match export.kind {
                        ComponentExternalKind::Module => self.define_module(self.module(0, export.index)),
                        ComponentExternalKind::Component => {
                            self.define_component(self.component(0, export.index))
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self) {
        let Some(scope) = self.open.pop() else { return };
        if self.open.is_empty() {
            self.whole = scope.needs;
        } else if scope.is_component {
            self.define_component(scope.needs);
        } else {
            self.define_module(scope.needs);
        }
    }

    fn alias(&mut self, alias: &ComponentAlias<'_>) {
        match alias {
            ComponentAlias::Outer { kind: ComponentOuterAliasKind::CoreModule, count, index } => {
                self.define_module(self.module(*count, *index));
            }
            ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count, index } => {
                self.define_component(self.component(*count, *index));
            }
            ComponentAlias::InstanceExport { kind, .. } => self.unknown(*kind),
            _ => {}
        }
    }

    fn unknown(&mut self, kind: ComponentExternalKind) {
        match kind {
            ComponentExternalKind::Module => self.define_module(self.worst_module),
            ComponentExternalKind::Component => self.define_component(self.worst_component),
            _ => {}
        }
    }

    fn scope(&self, outward: u32) -> Option<&Scope> {
        let outward = usize::try_from(outward).ok()?;
        self.open.len().checked_sub(1)?.checked_sub(outward).and_then(|at| self.open.get(at))
    }

    /// An index that does not exist is the validator's business.
    fn module(&self, outward: u32, index: u32) -> Needs {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        self.scope(outward).and_then(|scope| scope.modules.get(index)).copied().unwrap_or(self.worst_module)
    }

    fn component(&self, outward: u32, index: u32) -> Needs {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        self.scope(outward)
            .and_then(|scope| scope.components.get(index))
            .copied()
            .unwrap_or(self.worst_component)
    }

    fn define_module(&mut self, needs: Needs) {
        self.worst_module = self.worst_module.or_worse(needs);
        if let Some(scope) = self.open.last_mut() {
            scope.modules.push(needs);
        }
    }

    fn define_component(&mut self, needs: Needs) {
        self.worst_component = self.worst_component.or_worse(needs);
        if let Some(scope) = self.open.last_mut() {
            scope.components.push(needs);
        }
    }

    fn add(&mut self, needs: Needs) {
        if let Some(scope) = self.open.last_mut() {
            scope.needs = scope.needs.plus(needs);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;

    fn weigh(wat: &str) -> Needs {
        let wasm = wat::parse_str(wat).unwrap();
        let mut scales = Scales::default();
        for payload in wasmparser::Parser::new(0).parse_all(&wasm) {
            scales.weigh(&payload.unwrap()).unwrap();
        }
        scales.whole()
    }

    #[test]
    fn every_instantiation_counts_and_a_definition_does_not() {
        let needs = weigh(
            "(component
               (core module $m (memory 3) (table 5 funcref))
               (core module (memory 1000))
               (core instance (instantiate $m))
               (core instance (instantiate $m)))",
        );
        assert_eq!((needs.instances, needs.memories, needs.tables), (2, 2, 2));
        assert_eq!((needs.memory_bytes, needs.table_elements), (6 * 65_536, 10));
    }

    #[test]
    fn components_multiply() {
        let needs = weigh(
            "(component
               (core module $m (memory 1))
               (component $a (alias outer 1 $m (core module $n)) (core instance (instantiate $n)) (core instance (instantiate $n)))
               (component $b (alias outer 1 $a (component $c)) (instance (instantiate $c)) (instance (instantiate $c)))
               (instance (instantiate $b))
               (instance (instantiate $b)))",
        );
        assert_eq!((needs.instances, needs.memories, needs.component_instances), (8, 8, 6));
    }

    #[test]
    fn what_comes_from_outside_weighs_as_much_as_the_worst() {
        let needs = weigh(
            "(component
               (component $heavy
                 (core module $m (memory 7)) (core instance (instantiate $m)))
               (component $proxy
                 (import \"c\" (component $given)) (instance (instantiate $given)) (instance (instantiate $given)))
               (instance (instantiate $proxy (with \"c\" (component $heavy)))))",
        );
        assert_eq!(needs.memory_bytes, 14 * 65_536);
    }
}
