//! A policy as a JavaScript package: an ES module with the component's core modules next to it, for Node.js, browsers and bundlers.
//!
//! The component is made into JavaScript by `js-component-bindgen`. What it imports is in `host.js`, which grants what a host grants; the host's rules that it may need, such as the default classification, come as WebAssembly, built of the host's own sources: `rules.wasm`.

mod transpile;

use std::time::Duration;

use backstop_core::policy::PolicyDigest;
use backstop_engine::{Component, INTERFACES};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::build::Metadata;

pub use transpile::ExportError;

/// The names of the package's own files.
const HOST: (&str, &str) = ("host.js", include_str!("host.js"));
const TYPES: (&str, &str) = ("index.d.ts", include_str!("index.d.ts"));

/// The host's rules: `host/node-retry/build.sh` builds it.
const RULES: (&str, &[u8]) = ("rules.wasm", include_bytes!("rules.wasm"));

/// The oldest Node.js that packages are made for.
const OLDEST_NODE: u32 = 20;

/// The longest that the conversion may take. That of Python's runtime takes seconds.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// How a policy is exported.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExportOptions {
    /// The core modules are text in the JavaScript, for bundlers that leave files out.
    pub inline: bool,
    /// The policy keeps no state between answers, so one instance may give many.
    pub pure: bool,
}

/// A policy as a JavaScript package.
#[derive(Debug)]
pub struct Exported {
    /// The name of the package.
    pub name: String,
    /// Its version: the policy's, or `0.0.0`.
    pub version: String,
    /// The digest of the policy's file.
    pub digest: PolicyDigest,
    /// The oldest Node.js that runs it.
    pub node: u32,
    /// The files, by their names. The manifest is the first.
    pub files: Vec<(String, Vec<u8>)>,
}

/// Makes a package of a policy's file, whose component was loaded as hosts load it. `name` and `version` are for a file that has none.
pub fn export(
    component: &Component,
    file: &[u8],
    version: Option<&str>,
    options: ExportOptions,
) -> Result<Exported, ExportError> {
    let metadata = Metadata::of(file);
    let name = package_name(metadata.name.as_deref().unwrap_or(component.name()));
    let version = metadata
        .version
        .as_deref()
        .or(version)
        .filter(|version| is_version(version))
        .unwrap_or("0.0.0")
        .to_owned();
    let made = transpile::transpile(file, TIME_LIMIT)?;
    let digest = component.digest();
    let needs_rules = needs_rules(component);
    let mut modules: Vec<(&str, &[u8])> = made.modules();
    if needs_rules {
        modules.push(RULES);
    }
    let mut files = vec![
        // First: it marks a folder as one that an export may replace.
        (
            "package.json".to_owned(),
            manifest(&name, &version, digest, made.node, options),
        ),
        (
            "index.js".to_owned(),
            index(&name, &version, digest, made.node, &modules, options).into_bytes(),
        ),
        (TYPES.0.to_owned(), TYPES.1.as_bytes().to_vec()),
        (HOST.0.to_owned(), HOST.1.as_bytes().to_vec()),
        (transpile::MODULE.to_owned(), made.javascript.clone()),
    ];
    if !options.inline {
        let owned = modules
            .iter()
            .map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()));
        files.extend(owned);
    }
    Ok(Exported {
        name,
        version,
        digest,
        node: made.node,
        files,
    })
}

/// Whether a file of this name in a package is one of its modules.
pub fn is_module(name: &str) -> bool {
    let number = name
        .strip_prefix("policy.core")
        .and_then(|it| it.strip_suffix(".wasm"));
    name == RULES.0 || number.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether it needs the host's rules: for an import, or for a question that it does not answer. Nothing answers `outage` by default, nor settings.
fn needs_rules(component: &Component) -> bool {
    let imports = component.imports();
    let is_random = |name: &String| name.starts_with("wasi:random/");
    let is_classifier = |name: &String| name.starts_with("backstop:policy/default-classifier@");
    let answered: Vec<_> = component.exports().collect();
    let answers_all = INTERFACES[1..4].iter().all(|it| answered.contains(it));
    !answers_all || imports.iter().any(|it| is_random(it) || is_classifier(it))
}

/// The module that a program imports.
fn index(
    name: &str,
    version: &str,
    digest: PolicyDigest,
    node: u32,
    modules: &[(&str, &[u8])],
    options: ExportOptions,
) -> String {
    let source = |file: &str, bytes: &[u8]| {
        if options.inline {
            format!("'{}'", STANDARD.encode(bytes))
        } else {
            format!("new URL('./{file}', import.meta.url)")
        }
    };
    let (rules, own): (Vec<_>, Vec<_>) = modules.iter().partition(|(file, _)| *file == RULES.0);
    let entries: String = own
        .iter()
        .map(|(file, bytes)| format!("    '{file}': {},\n", source(file, bytes)))
        .collect();
    let rules: String = rules
        .iter()
        .map(|(file, bytes)| format!("  rules: {},\n", source(file, bytes)))
        .collect();
    format!(
        "// Made by `backstop policy export --javascript`.\n\
         import {{ policy }} from './{host}';\n\
         import {{ instantiate }} from './{module}';\n\n\
         export default policy({{\n  name: {name},\n  version: {version},\n  digest: '{digest}',\n  url: import.meta.url,\n  pure: {pure},\n{node}  instantiate,\n  modules: {{\n{entries}  }},\n{rules}}});\n",
        host = HOST.0,
        module = transpile::MODULE,
        name = json!(name),
        version = json!(version),
        pure = options.pure,
        // What every supported release runs needs no word.
        node = if node > OLDEST_NODE {
            format!("  node: {node},\n")
        } else {
            String::new()
        },
    )
}

fn manifest(
    name: &str,
    version: &str,
    digest: PolicyDigest,
    node: u32,
    options: ExportOptions,
) -> Vec<u8> {
    let manifest = json!({
        "name": name,
        "version": version,
        "description": format!("The retry policy {name}, made by `backstop policy export --javascript`."),
        "type": "module",
        "exports": "./index.js",
        "types": format!("./{}", TYPES.0),
        "sideEffects": false,
        "engines": {"node": format!(">={node}")},
        "backstop": {"digest": digest, "inline": options.inline},
    });
    format!("{manifest:#}\n").into_bytes()
}

/// The nearest name that a package may have: small letters, digits, `-`, `_` and `.`, and none of the last two first.
fn package_name(name: &str) -> String {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let stem = file.strip_suffix(".wasm").or(file.strip_suffix(".wat"));
    let allowed = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c) => c,
        _ => '-',
    };
    let name: String = stem
        .unwrap_or(file)
        .chars()
        .map(allowed)
        .take(214)
        .collect();
    match name.trim_start_matches(['.', '_', '-']) {
        "" => "policy".to_owned(),
        name => name.to_owned(),
    }
}

/// Whether it is a version that npm takes: three numbers, and what follows a `-` or a `+`.
fn is_version(version: &str) -> bool {
    let numbers = version.split(['-', '+']).next().unwrap_or_default();
    let rest = version.get(numbers.len()..).unwrap_or_default();
    let is_number = |part: &str| part.parse::<u64>().is_ok_and(|it| it.to_string() == part);
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && rest
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ['-', '+', '.'].contains(&c))
        && !rest.ends_with(['-', '+', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_engine::{Limits, Sandbox, builtin};

    #[test]
    fn a_package_has_a_name_and_a_version_that_npm_takes() {
        for (name, expected) in [
            ("card-payments", "card-payments"),
            ("./policies/Card Payments.wasm", "card-payments"),
            ("oci://host/team/orders:1.0", "orders-1.0"),
            ("._x", "x"),
            ("é", "policy"),
        ] {
            assert_eq!(package_name(name), expected);
        }
        for (version, is_one) in [
            ("1.2.3", true),
            ("1.2.3-rc.1+7", true),
            ("1.2", false),
            ("01.2.3", false),
            ("1.2.3-", false),
            ("v1.2.3", false),
        ] {
            assert_eq!(is_version(version), is_one, "{version}");
        }
    }

    #[test]
    fn each_built_in_policy_is_a_package_that_needs_no_rules() {
        let sandbox = Sandbox::new(Limits::default()).unwrap();
        for name in builtin::names() {
            let file = builtin::bytes(name).unwrap();
            let component = Component::load(&sandbox, name, file).unwrap();
            let inline = ExportOptions {
                inline: true,
                pure: true,
            };
            let exported = export(&component, file, Some("1.2.3"), inline).unwrap();
            assert_eq!((&*exported.name, &*exported.version), (name, "1.2.3"));
            assert_eq!(exported.node, 20);
            let names: Vec<_> = exported.files.iter().map(|(name, _)| &**name).collect();
            let expected = [
                "package.json",
                "index.js",
                "index.d.ts",
                "host.js",
                "policy.js",
            ];
            assert_eq!(names, expected);
            let index = String::from_utf8(exported.files[1].1.clone()).unwrap();
            assert!(index.contains(&format!("digest: '{}'", component.digest())));
            assert!(
                index.contains("pure: true") && !index.contains("rules"),
                "{name}"
            );
        }
    }
}
