//! What crates.io and docs.rs show of each published crate, and the Rust that it needs.

use std::collections::BTreeMap;

use backstop_tests::documents::{compare_rows, top};
use serde_json::Value;

use crate::crates::cargo;

/// The end of the description of a crate that no program should name.
const INTERNAL: &str = " An internal crate of Backstop, without a stable API.";

/// The first Rust with the workspace's edition.
const OF_EDITION: &str = "1.85";

/// The packages that are published, by name.
fn published() -> BTreeMap<String, Value> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let published = packages.filter(|package| package["publish"].is_null());
    let named = published.map(|package| (text(&package["name"]).to_owned(), package.clone()));
    named.collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_program(package: &Value) -> bool {
    let targets = package["targets"].as_array().unwrap().iter();
    targets
        .flat_map(|it| it["kind"].as_array())
        .flatten()
        .all(|kind| kind != "lib")
}

fn features(package: &Value) -> Vec<&str> {
    let features = package["features"].as_object().unwrap();
    features.keys().map(String::as_str).collect()
}

/// The features that need a later Rust than the crate, with that Rust.
fn later(package: &Value) -> BTreeMap<&str, &str> {
    let versions = package["metadata"]["minimum-rust"].as_object();
    let versions = versions.into_iter().flatten();
    let features = versions.flat_map(|(version, features)| {
        let features = features.as_array().into_iter().flatten();
        features.map(move |feature| (text(feature), version.as_str()))
    });
    features.collect()
}

#[test]
fn each_published_crate_says_where_its_documentation_is_and_how_to_build_it() {
    for (name, package) in published() {
        let expected = format!("https://docs.rs/{name}");
        assert_eq!(text(&package["documentation"]), expected);
        assert_eq!(text(&package["license"]), "Apache-2.0", "{name}");
        let all = &package["metadata"]["docs"]["rs"]["all-features"];
        let has_features = !features(&package).is_empty();
        assert_eq!(
            *all == true,
            has_features,
            "{name}: all-features of docs.rs"
        );
    }
}

#[test]
fn each_published_crate_is_internal_or_has_a_readme_without_relative_links() {
    for (name, package) in published() {
        let is_internal = text(&package["description"]).ends_with(INTERNAL);
        let readme = text(&package["readme"]);
        assert_eq!(readme, if is_internal { "" } else { "README.md" }, "{name}");
        if is_internal {
            continue;
        }
        let manifest = text(&package["manifest_path"]);
        let folder = manifest.strip_suffix("/Cargo.toml").unwrap();
        let readme = std::fs::read_to_string(format!("{folder}/README.md")).unwrap();
        let links = readme.split("](").skip(1);
        for link in links {
            assert!(link.starts_with("https://"), "{name}: {link}");
        }
        let first = if is_program(&package) {
            "cargo install"
        } else {
            "cargo add"
        };
        let command = format!(
            "{first} {}{name}",
            if is_program(&package) {
                "--locked "
            } else {
                ""
            }
        );
        let is_of_lambda = name == "backstop-lambda";
        assert!(
            is_of_lambda || readme.contains(&command),
            "{name}: {command}"
        );
        // So it is tested, and stands once.
        let library = format!("{folder}/src/lib.rs");
        if !is_program(&package) {
            let library = std::fs::read_to_string(library).unwrap();
            assert!(
                library.starts_with("#![doc = include_str!(\"../README.md\")]\n"),
                "{name}"
            );
        }
    }
}

/// Files outside of a package are not in it: the package does not compile.
#[test]
fn no_published_crate_includes_a_file_from_outside_unless_its_examples_are_tested() {
    let mut tested = 0;
    for (name, package) in published() {
        let manifest = text(&package["manifest_path"]);
        let library = manifest.replace("Cargo.toml", "src/lib.rs");
        let library = std::fs::read_to_string(library).unwrap_or_default();
        let lines: Vec<_> = library.lines().collect();
        for pair in lines.windows(2) {
            let [before, line] = pair else { continue };
            if line.contains("include_str!(\"../../") {
                assert!(before.starts_with("#[cfg(all(doctest,"), "{name}: {line}");
                tested += 1;
            }
        }
    }
    assert_eq!(tested, 3);
}

#[test]
fn the_page_of_what_is_stable_has_each_published_crate_with_its_minimum_rust() {
    let published = published();
    let stable = |package: &Value| match text(&package["description"]).ends_with(INTERNAL) {
        _ if is_program(package) => "as a program",
        true => "no",
        false => "yes",
    };
    let mut rows: Vec<_> = published
        .values()
        .map(|package| {
            let about = text(&package["description"])
                .trim_end_matches(INTERNAL)
                .trim_end_matches('.');
            let mut versions = text(&package["rust_version"]).to_owned();
            let mut with = BTreeMap::<&str, Vec<String>>::new();
            for (feature, version) in later(package) {
                with.entry(version)
                    .or_default()
                    .push(format!("`{feature}`"));
            }
            for (version, features) in with {
                versions.push_str(&format!("; {version} with {}", features.join(", ")));
            }
            let stable = stable(package);
            let row = format!(
                "| `{}` | {about} | {stable} | {versions} |",
                text(&package["name"])
            );
            (stable == "no", row)
        })
        .collect();
    rows.sort_by_key(|(is_internal, _)| *is_internal);
    let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    compare_rows("host/docs/stability.md", &["| `backstop"], &rows);
}

fn number(version: &str) -> Vec<u32> {
    let mut number: Vec<_> = version
        .split('.')
        .map(|part| part.parse().unwrap())
        .collect();
    number.resize(3, 0);
    number
}

/// The Rust that each package in the lock file asks for, by `name version`.
fn asked_for() -> BTreeMap<String, Vec<u32>> {
    let metadata = cargo(&["metadata", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let asking = packages.filter_map(|package| {
        let version = number(package["rust_version"].as_str()?);
        let named = format!("{} v{}", text(&package["name"]), text(&package["version"]));
        Some((named, version))
    });
    asking.collect()
}

#[test]
fn the_small_crates_ask_for_no_later_rust_than_what_they_depend_on() {
    let asked_for = asked_for();
    let needed = |name: &str, feature: &str| {
        let tree = [
            "tree", "--edges", "normal", "--prefix", "none", "--format", "{p}",
        ];
        let tree = cargo(&[&tree[..], &["--package", name, "--features", feature]].concat());
        let packages = tree.lines().map(|line| {
            let mut words = line.split_whitespace();
            let package = words.next().unwrap_or_default();
            format!("{package} {}", words.next().unwrap_or_default())
        });
        let others = packages.filter(|package| !package.starts_with(&format!("{name} v")));
        let asked = others.filter_map(|package| asked_for.get(&package).cloned());
        asked.max().unwrap_or_default().max(number(OF_EDITION))
    };
    let workspace = std::fs::read_to_string(top().join("Cargo.toml")).unwrap();
    let workspace: toml::Table = workspace.parse().unwrap();
    let latest = workspace["workspace"]["package"]["rust-version"]
        .as_str()
        .unwrap();
    let published = published();
    let small = published.iter();
    let small =
        small.filter(|(_, package)| number(text(&package["rust_version"])) < number(latest));
    let mut names = Vec::new();
    for (name, package) in small {
        let own = number(text(&package["rust_version"]));
        assert_eq!(own, needed(name, ""), "{name}");
        let later = later(package);
        for feature in features(package) {
            let said = later
                .get(feature)
                .map_or_else(|| own.clone(), |it| number(it));
            let needed = needed(name, feature);
            assert!(said >= needed, "{name}, {feature}: {said:?} < {needed:?}");
        }
        names.push(name.trim_start_matches("backstop-"));
    }
    let expected = [
        "backoff",
        "core",
        "deliver",
        "envelope",
        "idempotency",
        "json",
        "policy",
        "records",
        "retry",
        "time",
    ];
    assert_eq!(names, expected);
}
