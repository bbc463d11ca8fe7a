//! Removes custom sections from a WebAssembly file, at every depth.

use wasm_encoder::{ComponentSectionId, Encode, RawSection, Section};
use wasmparser::{Encoding, Parser, Payload};

/// The file without those of its custom sections whose name `is_dropped`, in the modules and components that are nested in it too.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most sections are copied, whatever they are"
)]
pub fn without(file: &[u8], is_dropped: impl Fn(&str) -> bool) -> wasmparser::Result<Vec<u8>> {
    let mut output = Vec::with_capacity(file.len());
    // What the nested files were begun in; each is written when it ends, with its length before it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_goes_at_every_depth_and_the_rest_stays_as_it_was() {
        let text = "(component $outer (core module $inner (@custom \"kept\" \"this\") (@custom \"dropped\" \"that\") (func $secret (export \"f\"))) (core instance (instantiate $inner)))";
        let whole = wat::parse_str(text).unwrap();
        let holds =
            |file: &[u8], text: &str| file.windows(text.len()).any(|it| it == text.as_bytes());
        assert!(holds(&whole, "secret") && holds(&whole, "this") && holds(&whole, "that"));
        let left = without(&whole, |name| name != "kept").unwrap();
        assert!(!holds(&left, "secret") && !holds(&left, "outer") && !holds(&left, "that"));
        assert!(holds(&left, "this"));
        wasmparser::Validator::new().validate_all(&left).unwrap();
        assert_eq!(without(&left, |name| name != "kept").unwrap(), left);
        assert_eq!(without(&whole, |_| false).unwrap(), whole);
    }
}
