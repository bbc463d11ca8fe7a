//! What the documents name exists: commands, flags, exit codes, metrics, keys, fields, variables, types and files.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::process::Command;

use backstop_core::policy::NAMES;
use backstop_host::config::Config;
use backstop_telemetry::{Kind, METRICS};
use backstop_tests::backstop::{program, text};
use backstop_tests::documents::{blocks, document, documents, top};

/// Names that are others': of AWS, Linux, libraries that are compared, programs, and examples.
const OF_OTHERS: [&str; 62] = [
    "clock_gettime",
    "epoll_wait",
    "AWS_DEFAULT_REGION",
    "ErrorEquals",
    "ExecutionAlreadyExists",
    "SqsListener",
    "TestState",
    "TypeError",
    "INSTA_UPDATE",
    "ByteStreamError",
    "CAP_SYS_PTRACE",
    "ConstantBuilder",
    "ExponentialBuilder",
    "GenerateDataKey",
    "MIMALLOC_ALLOW_THP",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "PR_SET_DUMPABLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TOKIO_WORKER_THREADS",
    "a_million",
    "apt-get",
    "backstop-lambda-x86-64",
    "data_attr",
    "destination-arn",
    "docker-registry",
    "error_for_status",
    "expires_after_seconds",
    "expiry_attr",
    "handleMessageBatch",
    "http_host",
    "in_progress_expiry_attr",
    "invalid-orders",
    "key_attr",
    "key_prefix",
    "makeIdempotent",
    "max_user_watches",
    "orders-fn",
    "proxy_set_header",
    "pull-requests",
    "sort_key_attr",
    "sqs-consumer",
    "static_pk_value",
    "status_attr",
    "transparent_hugepage",
    "under_load",
    "validation_key_attr",
    "with_max_times",
    "with_total_delay",
    "list-event-source-mappings",
    "event-source-arn",
    "start-message-move-task",
    "scaleOnInFlight",
    "TimeoutStopSec",
    "backstop-lambda-layer-arm64",
    "systemd-analyze",
    "backstop-sqs-linux-x64",
    "backstop-sqs-linux-x64-gnu",
];

/// The documents that say what is so now. The changelog also says what was.
fn current() -> impl Iterator<Item = (String, String)> {
    let names = documents()
        .into_iter()
        .filter(|name| name != "CHANGELOG.md");
    names.map(|name| (name.clone(), document(&name)))
}

/// The text of a document without its blocks.
fn prose(document: &str) -> String {
    document.split("```").step_by(2).collect()
}

/// What a document names in code, outside of blocks.
fn code(document: &str) -> Vec<String> {
    let prose = prose(document);
    let lines = prose.lines();
    let spans = lines.flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.map(str::to_owned).collect()
}

/// The commands of `backstop`, each with its long flags, as `--help` has them.
fn commands() -> BTreeMap<Vec<String>, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    let mut next = vec![Vec::<String>::new()];
    while let Some(path) = next.pop() {
        let mut command = Command::new(program("backstop"));
        let output = command.args(&path).arg("--help").output().unwrap();
        let help = text(&output.stdout);
        let flags = help.lines().filter_map(|line| {
            let line = line.trim_start();
            // `-v, --verbose`
            let has_short = line.starts_with('-') && !line.starts_with("--");
            let line = line.get(4..).filter(|_| has_short).unwrap_or(line);
            let name = line.strip_prefix("--")?;
            let name = name.split([' ', '=', '[', '<', '.']).next()?;
            Some(format!("--{name}"))
        });
        let flags = flags.collect();
        let listed = help.split("\nCommands:\n").nth(1).unwrap_or_default();
        let listed = listed.split("\n\n").next().unwrap_or_default();
        for line in listed.lines() {
            let name = line.split_whitespace().next();
            let is_name = line.starts_with("  ") && !line.starts_with("   ");
            if let Some(name) = name.filter(|name| is_name && *name != "help") {
                next.push([path.clone(), vec![name.to_owned()]].concat());
            }
        }
        found.insert(path, flags);
    }
    found
}

/// The words of a command line, without what is in quotes.
fn words(line: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                plain.push('x');
            }
            None => plain.push(c),
        }
    }
    let words = plain.split_whitespace().map(str::to_owned);
    words.take_while(|word| !word.starts_with('#')).collect()
}

/// The command lines of `backstop` in a document: in its blocks, and in code.
fn lines_of_backstop(document: &str) -> Vec<String> {
    let blocks = blocks(document, "sh").join("\n").replace("\\\n", " ");
    let of_blocks = blocks.lines().flat_map(|line| line.split([';', '|', '&']));
    let of_blocks = of_blocks.map(|line| line.trim().to_owned());
    let all = of_blocks.chain(code(document));
    all.filter(|line| line.starts_with("backstop ")).collect()
}

#[test]
fn every_command_and_flag_in_the_documents_exists() {
    let commands = commands();
    assert!(commands.len() > 30, "{:?}", commands.keys());
    let known: BTreeSet<_> = commands.values().flatten().collect();
    let mut checked = 0;
    for (name, text) in current() {
        for line in lines_of_backstop(&text) {
            let words = words(&line);
            let mut path = Vec::new();
            for word in &words[1..] {
                let longer = [path.clone(), vec![word.clone()]].concat();
                if !commands.contains_key(&longer) {
                    break;
                }
                path = longer;
            }
            let flags = &commands[&path];
            let has_commands = commands
                .keys()
                .any(|it| it.len() > path.len() && it.starts_with(&path));
            let rest = words.get(path.len() + 1);
            let is_unknown =
                rest.is_some_and(|it| it.starts_with(|c: char| c.is_ascii_lowercase()));
            assert!(
                !has_commands || !is_unknown,
                "{name}: `{line}`: no such command"
            );
            for flag in words.iter().filter(|word| word.starts_with("--")) {
                let flag = flag.split('=').next().unwrap();
                assert!(flags.contains(flag), "{name}: `{line}` has no {flag}");
                checked += 1;
            }
        }
        // A flag alone, or of a command in the text.
        let others = ["aws ", "cargo ", "npm ", "--context ", "backstop "];
        for code in code(&text) {
            if others.iter().any(|other| code.starts_with(other)) {
                continue;
            }
            for flag in words(&code).iter().filter(|word| word.starts_with("--")) {
                let flag = flag.split('=').next().unwrap().to_owned();
                assert!(
                    known.contains(&flag),
                    "{name}: `{code}`: no command has {flag}"
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 300, "{checked}");
}

/// A name as it is everywhere: `out-of-fuel` is `OutOfFuel` and `OUT_OF_FUEL`.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '-' | '_'));
    letters.collect::<String>().to_lowercase()
}

/// Every word of the sources and the examples.
fn words_of_sources() -> HashSet<String> {
    const LEFT_OUT: [&str; 6] = [
        ".venv",
        "bindings",
        "build",
        "builtin",
        "node_modules",
        "target",
    ];
    const ENDINGS: [&str; 13] = [
        "rs", "toml", "wit", "json", "py", "js", "mjs", "ts", "yaml", "sh", "go", "c", "wat",
    ];
    let mut all = HashSet::new();
    let mut paths: Vec<_> = [
        "host",
        "policies",
        "wit",
        "examples",
        // The names of the fuzzing targets.
        "tests/fuzz/lib.rs",
        "tests/fuzz/main.rs",
        "Makefile",
        "Cargo.toml",
        // What the page about moving names.
        ".services/node_modules/sqs-consumer/dist/esm/types.d.ts",
        ".services/node_modules/sqs-consumer/dist/esm/consumer.d.ts",
    ]
    .map(|name| top().join(name))
    .into();
    while let Some(path) = paths.pop() {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !LEFT_OUT.contains(&name) {
            let entries = path.read_dir().unwrap();
            paths.extend(entries.map(|entry| entry.unwrap().path()));
        }
        let ending = path.extension().and_then(|it| it.to_str());
        if !path.is_file() || ending.is_some_and(|it| !ENDINGS.contains(&it)) {
            continue;
        }
        if let Some(name) = path.file_stem().and_then(|it| it.to_str()) {
            all.insert(name.as_bytes().to_vec());
        }
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let words: HashSet<&[u8]> = text.as_bytes().split(|byte| !is_of_word(byte)).collect();
        all.extend(words.into_iter().map(<[u8]>::to_vec));
    }
    let words = all.into_iter().map(|word| String::from_utf8(word).unwrap());
    words.map(|word| plain(&word)).collect()
}

/// The words of a piece of code that are made of several, which nobody writes by accident: `max-attempts`, `retry_if`, `maxReceiveCount`, `ReportBatchItemFailures`.
fn compound(code: &str) -> impl Iterator<Item = &str> {
    let words = code.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')));
    let words = words.map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()));
    words.filter(|word| {
        let bytes = word.as_bytes();
        let is_name = word.starts_with(|c: char| c.is_ascii_alphabetic());
        let is_compound = bytes.windows(3).any(|it| {
            it[0].is_ascii_lowercase() && it[1] == b'-' && it[2].is_ascii_lowercase()
                || it[0].is_ascii_lowercase() && it[1].is_ascii_uppercase()
        });
        is_name && (is_compound || word.contains('_'))
    })
}

#[test]
fn every_name_in_the_documents_is_one_of_the_code() {
    let known = words_of_sources();
    let mut unknown = BTreeMap::<_, Vec<_>>::new();
    let mut checked = 0;
    // It names tests, which have a test of their own.
    let all = current().filter(|(name, _)| name != "host/docs/deploy/threat-model.md");
    for (name, text) in all {
        for code in code(&text) {
            for word in compound(&code).filter(|word| !OF_OTHERS.contains(word)) {
                checked += 1;
                if !known.contains(&plain(word)) {
                    let places = unknown.entry(word.to_owned()).or_default();
                    places.push(format!("{name}: `{code}`"));
                }
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "neither the code nor OF_OTHERS has {unknown:#?}"
    );
    assert!(checked > 1000, "{checked}");
}

#[test]
fn every_file_of_the_project_in_the_documents_exists() {
    let folders = ["host/", "tests/", "examples/", "policies/", "wit/"];
    let mut checked = 0;
    for (name, text) in current() {
        for code in code(&text) {
            let is_path = folders.iter().any(|folder| code.starts_with(folder));
            if is_path
                && !code.contains([' ', '*', '<'])
                && name != "host/docs/contributing/architecture.md"
            {
                let is_there = top().join(&code).exists() || Path::new(&code).extension().is_none();
                // `policies/orders/` and the like are folders of readers.
                assert!(is_there, "{name}: {code}");
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "{checked}");
}

/// Where some of the built-in policies are listed with commas, all are, in their order.
#[test]
fn every_list_of_the_built_in_policies_is_complete() {
    let complete = NAMES.join(", ");
    for name in ["examples/lambda/template.yaml", "host/docs/glossary.md"] {
        let text = document(name)
            .replace(['`'], "")
            .replace(" or aws", ", aws");
        let lists = text.matches("full-jitter, ").count();
        assert!(lists > 0, "{name} lists no policies");
        assert_eq!(text.matches(&complete).count(), lists, "{name}");
    }
    let table = document("host/docs/policies/policies.md");
    for name in NAMES {
        assert!(table.contains(&format!("`{name}`")), "policies.md: {name}");
        let folder = top().join("policies").join(name);
        assert!(folder.join("scenarios.toml").exists(), "{name}");
    }
}

/// The names of all metrics, and of the series of those that are histograms.
fn series() -> BTreeSet<String> {
    let histograms = METRICS
        .iter()
        .filter(|metric| matches!(metric.kind, Kind::Histogram(_)));
    let parts = histograms
        .flat_map(|it| ["bucket", "count", "sum"].map(|part| format!("{}_{part}", it.name)));
    let of_host = METRICS.iter().map(|metric| metric.name);
    let of_retrier = backstop_retry::telemetry::METRICS.iter().map(|it| it.name);
    let names = of_host.chain(of_retrier).map(str::to_owned);
    names.chain(parts).collect()
}

#[test]
fn every_metric_in_the_documents_the_alerts_and_the_dashboard_exists() {
    let known = series();
    for file in [
        "alerts.yaml",
        "alerts_test.yaml",
        "monitoring/dashboard.json",
    ] {
        let text = document(&format!("examples/operate/{file}"));
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut words = text.split(|c| !is_of_name(c));
        let unknown = words.find(|it| it.starts_with("backstop_") && !known.contains(*it));
        assert_eq!(unknown, None, "{file}");
    }
    for (name, text) in current() {
        for code in code(&text) {
            for word in compound(&code).filter(|word| word.starts_with("backstop_")) {
                let is_metric = known.contains(word);
                // Crates, an attribute of idempotency records, and the wheel.
                let of_others = ["deliver", "retry", "core", "owner", "sqs"];
                let is_other = word
                    .strip_prefix("backstop_")
                    .is_some_and(|rest| of_others.contains(&rest));
                assert!(
                    is_metric || is_other,
                    "{name}: `{code}`: {word} is no metric"
                );
            }
        }
    }
}

#[test]
fn every_exit_code_in_the_documents_is_one_of_the_help() {
    let output = Command::new(program("backstop"))
        .arg("--help")
        .output()
        .unwrap();
    let help = text(&output.stdout);
    let (_, listed) = help.split_once("Exit codes:\n").unwrap();
    let listed: BTreeSet<_> = listed
        .lines()
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    assert!(listed.len() > 10, "{listed:?}");
    let mut checked = 0;
    for (name, text) in current() {
        let prose = prose(&text);
        let mentioned = [
            "exit code ",
            "exit code is ",
            "exits with ",
            "exits with code ",
        ]
        .into_iter()
        .flat_map(|before| prose.split(before).skip(1));
        let in_tables = prose
            .split("| exit code | meaning |\n|---|---|\n| ")
            .skip(1);
        let in_tables = in_tables.flat_map(|table| {
            let rows = table.lines().take_while(|line| line.contains('|'));
            rows.map(|row| row.trim_start_matches("| "))
        });
        for after in mentioned.chain(in_tables) {
            let code: String = after.chars().take_while(char::is_ascii_digit).collect();
            if !code.is_empty() {
                assert!(listed.contains(&code), "{name}: exit code {code}");
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "{checked}");
}

/// Those of scenarios, manifests of policies and programs have tests of their own.
#[test]
fn every_configuration_in_a_document_is_valid() {
    let queue = "[queues.q]\nurl = \"local:q\"\nhandler = { exec = [\"true\"] }\n";
    let mut checked = 0;
    for (name, text) in current() {
        for block in blocks(&text, "toml") {
            let is_other = ["[dependencies]", "[[scenario]]", "failure =", "language ="]
                .iter()
                .any(|other| block.contains(other));
            if is_other {
                continue;
            }
            let file = top().join("backstop.toml");
            // By itself, with keys of a queue alone, or with those of the top level alone.
            let forms = [
                block.clone(),
                format!("{queue}{block}"),
                format!("{block}\n{queue}"),
            ];
            let mut parsed = forms.iter().map(|form| Config::parse(form, &file));
            let first = parsed.next().unwrap();
            let parsed = first.or_else(|error| parsed.find_map(Result::ok).ok_or(error));
            parsed.unwrap_or_else(|error| panic!("{name}: {error}\n{block}"));
            checked += 1;
        }
    }
    assert!(checked >= 8, "{checked}");
}

/// A number of the first page that the page of measurements does not have is nobody's.
#[test]
fn every_figure_of_the_readme_is_in_the_measurements() {
    let measured = document("host/docs/contributing/measurements.md");
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    let numbers = |text: &str| -> BTreeSet<String> {
        text.split(|c| !is_of_number(c))
            .map(|number| number.trim_matches('.').to_owned())
            .filter(|number| !number.is_empty())
            .collect()
    };
    let known = numbers(&measured);
    let readme = document("README.md");
    let line = readme
        .lines()
        .find(|line| line.starts_with("A decision takes"));
    // A sentence rounds what a table has with a digit more.
    let rounded: BTreeSet<String> = known
        .iter()
        .filter_map(|number| number.parse::<f64>().ok())
        .map(|number| format!("{number:.0}"))
        .collect();
    for number in numbers(line.unwrap()) {
        assert!(
            known.contains(&number) || rounded.contains(&number),
            "{number} is not in host/docs/contributing/measurements.md"
        );
    }
}
