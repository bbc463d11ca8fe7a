//! Removes custom sections from a WebAssembly file, at every depth.

use wasm_encoder::{ComponentSectionId, Encode, RawSection, Section};
use wasmparser::{ComponentExport, ComponentImport, Encoding, Parser, Payload};

/// Removes the custom sections whose name `is_dropped`, in nested modules and components too.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other sections are copied"
)]
pub fn without(file: &[u8], is_dropped: impl Fn(&str) -> bool) -> wasmparser::Result<Vec<u8>> {
    let mut output = Vec::with_capacity(file.len());
    // The outputs of the enclosing files. Each nested file is written when it ends, after its length.
    let mut outer = Vec::new();
    for payload in Parser::new(0).parse_all(file) {
        let payload = payload?;
        match &payload {
            Payload::Version { encoding, .. } => {
                output.extend_from_slice(match encoding {
                    Encoding::Component => &wasm_encoder::Component::HEADER,
                    Encoding::Module => &wasm_encoder::Module::HEADER,
                });
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                outer.push(std::mem::take(&mut output));
                continue;
            }
            Payload::End { .. } => {
                let Some(mut parent) = outer.pop() else { break };
                let id = if Parser::is_component(&output) {
                    ComponentSectionId::Component
                } else {
                    ComponentSectionId::CoreModule
                };
                parent.push(id as u8);
                output.as_slice().encode(&mut parent);
                output = parent;
            }
            _ => {}
        }
        if let Payload::CustomSection(section) = &payload
            && is_dropped(section.name())
        {
            continue;
        }
        if let Some((id, range)) = payload.as_section() {
            let range = usize::try_from(range.start)
                .ok()
                .zip(usize::try_from(range.end).ok());
            let data = range.and_then(|(start, end)| file.get(start..end));
            RawSection {
                id,
                data: data.unwrap_or_default(),
            }
            .append_to(&mut output);
        }
    }
    Ok(output)
}

/// What a component itself imports and exports, without its nested components. A core module has neither.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "only imports and exports matter"
)]
pub fn interfaces(
    file: &[u8],
) -> wasmparser::Result<(Vec<ComponentImport<'_>>, Vec<ComponentExport<'_>>)> {
    let (mut depth, mut imports, mut exports) = (0_u32, Vec::new(), Vec::new());
    for payload in Parser::new(0).parse_all(file) {
        match payload? {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    imports.push(import?);
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    exports.push(export?);
                }
            }
            _ => {}
        }
    }
    Ok((imports, exports))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_dropped_at_every_depth_and_the_rest_is_unchanged() {
        let text = "(component $outer (core module $inner (@custom \"kept\" \"this\") (@custom \"dropped\" \"that\") (func $secret (export \"f\"))) (core instance (instantiate $inner)))";
        let original = wat::parse_str(text).unwrap();
        let holds =
            |file: &[u8], text: &str| file.windows(text.len()).any(|it| it == text.as_bytes());
        assert!(holds(&original, "secret") && holds(&original, "this") && holds(&original, "that"));
        let left = without(&original, |name| name != "kept").unwrap();
        assert!(!holds(&left, "secret") && !holds(&left, "outer") && !holds(&left, "that"));
        assert!(holds(&left, "this"));
        wasmparser::Validator::new().validate_all(&left).unwrap();
        assert_eq!(without(&left, |name| name != "kept").unwrap(), left);
        assert_eq!(without(&original, |_| false).unwrap(), original);
    }
}
