//! The modules of a crate use each other in one direction, and those of `host` in the order of the map of the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use backstop_tests::documents::top;

use crate::arrows::table;

/// The names that lead to a module or an item, without the crate's.
type Names = Vec<String>;

/// The circles of two files that there are.
const CIRCLES: [(&str, [&str; 2]); 2] = [
    // A function evaluates an expression, which calls functions.
    (
        "idempotency",
        ["jmespath::functions", "jmespath::interpreter"],
    ),
    // An error of HTTP may have one of the network as its cause, and the other way round.
    ("retry", ["describe::http", "describe::network"]),
];

/// The code of each module, without comments and tests.
fn modules(folder: &Path, names: &Names, found: &mut BTreeMap<Names, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut names = names.clone();
        if !["lib", "main", "mod"].contains(&stem.as_str()) {
            names.push(stem.clone());
        }
        if path.is_dir() {
            modules(&path, &names, found);
        } else if path.extension().is_some_and(|it| it == "rs") && !stem.ends_with("tests") {
            let text = fs::read_to_string(path).unwrap();
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            let lines = code
                .lines()
                .map(|line| line.split("//").next().unwrap_or_default());
            found
                .entry(names)
                .or_default()
                .extend(lines.flat_map(|line| [line, "\n"]));
        }
    }
}

/// The paths at the start of a text, one or a group in braces, and what follows them.
fn paths(text: &str) -> (Vec<Names>, &str) {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if !name.is_empty() {
        let (mut paths, rest) = match rest.strip_prefix("::") {
            Some(rest) => paths(rest),
            None => (vec![Names::new()], rest),
        };
        paths
            .iter_mut()
            .for_each(|path| path.insert(0, name.to_owned()));
        return (paths, rest);
    }
    let Some(mut rest) = rest.strip_prefix('{') else {
        return (vec![Names::new()], rest);
    };
    let mut all = Vec::new();
    while !rest.trim_start().starts_with('}') && !rest.is_empty() {
        let (some, after) = paths(rest.trim_start());
        all.extend(some);
        let end = after.find([',', '}']).unwrap_or(after.len());
        rest = after[end..].trim_start_matches(',');
    }
    (all, rest.trim_start().strip_prefix('}').unwrap_or_default())
}

/// Each path in the code of a module that starts with `crate` or `super`.
fn used(module: &Names, code: &str) -> Vec<Names> {
    let mut all = Vec::new();
    for (at, _) in code
        .match_indices("crate::")
        .chain(code.match_indices("super::"))
    {
        if code[..at].ends_with("::") {
            continue;
        }
        let mut rest = &code[at..];
        let mut start: &[String] = &[];
        if let Some(after) = rest.strip_prefix("crate::") {
            rest = after;
        } else {
            start = module;
            while let Some(after) = rest.strip_prefix("super::") {
                rest = after;
                start = start.split_last().map_or(start, |(_, parent)| parent);
            }
        }
        all.extend(
            paths(rest)
                .0
                .into_iter()
                .map(|path| [start, &path].concat()),
        );
    }
    all
}

/// The module that a path leads to: that of the item itself, if another one hands it on.
fn target(path: &[String], modules: &BTreeMap<Names, String>) -> Names {
    let length = (0..=path.len())
        .rev()
        .find(|length| modules.contains_key(&path[..*length]));
    let (module, item) = path.split_at(length.unwrap_or(0));
    let handed_on = modules[module]
        .split("use ")
        .skip(1)
        .flat_map(|text| paths(text).0);
    let mut handed_on = handed_on.map(|path| [module, &path].concat());
    let of_child =
        |path: &Names| path.last() == item.first() && modules.contains_key(&path[..=module.len()]);
    match handed_on.find(|path| path.len() > module.len() + 1 && of_child(path)) {
        Some(path) => target(&path, modules),
        None => module.to_vec(),
    }
}

/// The modules that each module uses, without those that it is a part of.
fn uses(name: &str) -> BTreeMap<Names, BTreeSet<Names>> {
    let mut found = BTreeMap::new();
    modules(
        &top().join("host").join(name).join("src"),
        &Names::new(),
        &mut found,
    );
    let uses = found.iter().map(|(module, code)| {
        let targets = used(module, code)
            .into_iter()
            .map(|path| target(&path, &found));
        let others = targets.filter(|other| !module.starts_with(other));
        (module.clone(), others.collect())
    });
    uses.collect()
}

/// The words in code type of a cell.
fn listed(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn no_module_of_host_uses_one_of_a_line_above() {
    let mut lines = BTreeMap::new();
    for (number, (_, cell)) in table("| modules of | in this line |").iter().enumerate() {
        lines.extend(listed(cell).map(|name| (name.to_owned(), number)));
    }
    for (module, others) in uses("host") {
        let Some(name) = module.first() else { continue };
        let line = lines
            .get(name)
            .unwrap_or_else(|| panic!("the map has no line for `{name}`"));
        for other in &others {
            let below = lines[&other[0]];
            assert!(
                *line <= below,
                "{} uses {}",
                module.join("::"),
                other.join("::")
            );
        }
    }
}

#[test]
fn no_stage_of_a_message_uses_an_earlier_one() {
    let uses = uses("host");
    for (folder, cell) in table("| stages of | in their order |") {
        let folder = listed(&folder).next().unwrap();
        let stages: Vec<_> = listed(&cell)
            .map(|stage| vec![folder.to_owned(), stage.to_owned()])
            .collect();
        for (number, stage) in stages.iter().enumerate() {
            let mut earlier = stages[..number].iter();
            let back = earlier.find(|it| uses[stage].contains(*it));
            assert_eq!(back, None, "{stage:?}");
        }
    }
}

#[test]
fn no_file_uses_itself_through_others() {
    let mut circles = BTreeSet::new();
    for entry in fs::read_dir(top().join("host")).unwrap() {
        let entry = entry.unwrap();
        if !entry.path().join("src").is_dir() {
            continue;
        }
        let name = entry.file_name().into_string().unwrap();
        let uses = uses(&name);
        for module in uses.keys() {
            let mut reached = BTreeSet::new();
            let mut next = vec![module];
            while let Some(used) = next.pop() {
                next.extend(uses[used].iter().filter(|it| reached.insert((*it).clone())));
            }
            // An entry of a key makes a method of the builder.
            if reached.contains(module) && !["builder", "config"].contains(&module[0].as_str()) {
                circles.insert(format!("{name}: {}", module.join("::")));
            }
        }
    }
    let known = CIRCLES.iter();
    let known = known.flat_map(|(name, files)| files.map(|file| format!("{name}: {file}")));
    assert_eq!(circles, known.collect());
}
