//! The project's documents: where they are, and what is in them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The top of the project.
pub fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The text of a file of the project.
pub fn document(name: &str) -> String {
    std::fs::read_to_string(top().join(name)).unwrap()
}

/// The names of all documents: those of `host/docs` and its folders, and those that lead to them.
pub fn documents() -> Vec<String> {
    let ours = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "examples/lambda/README.md",
    ];
    let mut found: Vec<_> = ours.map(str::to_owned).into();
    let mut folders = vec!["host/docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(top().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{folder}/{}", entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                folders.push(name);
            } else if name.ends_with(".md") {
                found.push(name);
            }
        }
    }
    found
}

/// The fenced blocks of a language.
pub fn blocks(document: &str, language: &str) -> Vec<String> {
    document
        .split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| {
            block
                .strip_prefix(language)?
                .strip_prefix('\n')
                .map(str::to_owned)
        })
        .collect()
}

/// The names in the first column of every table.
pub fn names_in_tables(document: &str) -> BTreeSet<String> {
    document
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .map(|name| name.rsplit('.').next().unwrap_or(name).to_owned())
        .collect()
}

/// The anchors of a document's headings, as GitHub makes them.
pub fn anchors(document: &str) -> BTreeSet<String> {
    let mut code = false;
    let mut anchors = BTreeSet::new();
    for line in document.lines() {
        code ^= line.starts_with("```");
        if let Some(heading) = line.strip_prefix('#').filter(|_| !code) {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            anchors.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
    }
    anchors
}

/// Compares a file with what it is made of; with `RENEW=1` writes it again.
pub fn compare(name: &str, made: &str) {
    let there = document(name);
    if there == made {
        return;
    }
    if std::env::var_os("RENEW").is_some() {
        return std::fs::write(top().join(name), made).unwrap();
    }
    let end = made.lines().count().max(there.lines().count());
    let mut lines = (0..=end).map(|at| [&there, made].map(|text| text.lines().nth(at)));
    let [there, made] = lines.find(|[one, other]| one != other).unwrap_or_default();
    panic!(
        "{name} is outdated: RENEW=1 writes it again\n  it has {there:?}\n  in place of {made:?}"
    );
}

/// Compares the rows of a table, whose lines begin with one of these texts, with what they are made of; with `RENEW=1` writes them again.
pub fn compare_rows(name: &str, begins: &[&str], rows: &[String]) {
    let text = document(name);
    let is_row = |line: &&str| begins.iter().any(|begin| line.starts_with(begin));
    let before: Vec<_> = text.lines().take_while(|line| !is_row(line)).collect();
    let after: Vec<_> = text.lines().skip(before.len()).skip_while(is_row).collect();
    assert!(!after.iter().any(is_row), "{name}: one table has all rows");
    let rows = rows.iter().map(String::as_str);
    let lines: Vec<_> = before.into_iter().chain(rows).chain(after).collect();
    compare(name, &format!("{}\n", lines.join("\n")));
}

/// Compares a block of output in a document with what a command printed, as `same` sees both; with `RENEW=1` writes it again.
pub fn compare_block(name: &str, block: &str, printed: &str, same: impl Fn(&str) -> String) {
    let printed = format!("{}\n", printed.trim_end());
    if same(block) == same(&printed) {
        return;
    }
    if std::env::var_os("RENEW").is_none() {
        panic!(
            "{name} shows\n{block}\nand the command printed\n{printed}\nRENEW=1 writes it again"
        );
    }
    let text = document(name);
    assert!(text.contains(block));
    std::fs::write(top().join(name), text.replace(block, &printed)).unwrap();
}

/// The words of an output, without numbers, ids and bars, which differ between runs. Digests stay.
pub fn lasting(output: &str) -> String {
    let is_digest = |word: &str| {
        let word = word.trim_matches(|c| matches!(c, '(' | ')' | ','));
        word.len() == 12 && word.chars().all(|c| c.is_ascii_hexdigit())
    };
    let words = output.lines().map(|line| {
        let words = line.split_whitespace();
        let words = words.filter(|word| !word.starts_with(|c| ('▀'..='▟').contains(&c)));
        let words = words.map(|word| {
            if word.contains(|c: char| c.is_ascii_digit()) && !is_digest(word) {
                "0"
            } else {
                word
            }
        });
        words.collect::<Vec<_>>().join(" ")
    });
    words.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}
