//! The `[limits]` table: what each policy component may use.

use super::{ConfigError, raw, value};
use crate::policy::Limits;

impl raw::Limits {
    pub(super) fn convert(self) -> Result<Limits, ConfigError> {
        let mut limits = Limits::default();
        limits.fuel = self.fuel.unwrap_or(limits.fuel);
        limits.time = self.time.map_or(limits.time, |span| span.0);
        limits.memory = self.memory.map_or(limits.memory, |bytes| bytes.0);
        limits.table_elements = self.table_elements.unwrap_or(limits.table_elements);
        limits.instances = self.instances.unwrap_or(limits.instances);
        limits.log = self.log.map_or(limits.log, |bytes| bytes.0);
        limits.strings = self.strings.map_or(limits.strings, |bytes| bytes.0);
        limits.payload = self.payload.map_or(limits.payload, |bytes| bytes.0);
        limits.component = self.component.map_or(limits.component, |bytes| bytes.0);
        if let Some(compile) = self.compile {
            let child = &mut limits.compile;
            child.time = compile.time.map_or(child.time, |span| span.0);
            child.cpu = compile.cpu.map_or(child.cpu, |span| span.0);
            child.memory = compile.memory.map_or(child.memory, |bytes| bytes.0);
            if child.time.is_zero() || child.cpu.is_zero() || child.memory == 0 {
                return Err(value(
                    "limits.compile",
                    "expected values above zero, such as { time = \"5m\", cpu = \"2m\", memory = \"2GiB\" }",
                ));
            }
        }
        Ok(limits)
    }
}
