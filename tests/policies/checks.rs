//! The checks that every policy must pass: they detect hostile policies and show the smallest failure that triggers the fault.

use backstop_engine::builtin;
use backstop_tests::backstop::text;
use backstop_tests::documents::top;
use backstop_tests::policies::{Rule, waits};
use backstop_tests::preview_1::component;
use backstop_tests::testing::{ATTEMPT, delays, failed, folder, of, test};
use backstop_tests::toolchain::Author;
use backstop_workbench::scenario::Suite;

#[tokio::test]
async fn the_built_in_policies_pass_their_scenarios_and_the_checks() {
    for name in builtin::names() {
        let scenarios = top().join("policies").join(name).join("scenarios.toml");
        let count = Suite::read(&scenarios).unwrap().scenarios.len();
        let arguments = [
            name,
            "--scenarios",
            scenarios.to_str().unwrap(),
            "--cases",
            "500",
        ];
        let (code, outcomes) = test(&arguments).await;
        assert_eq!(
            (code, failed(&outcomes)),
            (0, Vec::new()),
            "{name}: {outcomes:#?}"
        );
        assert_eq!(outcomes.len(), count + 7 + 1, "{name}");
        assert_eq!(outcomes.last().unwrap()["summary"]["passed"], count + 7);
        let warnings = outcomes.iter().map(|test| &test["warnings"]);
        let warnings: Vec<_> = warnings.filter(|warnings| !warnings.is_null()).collect();
        if name.starts_with("aws-sdk-") {
            // The SDKs do not retry these two.
            let expected = "HTTP 429 (HTTP 429), OverLimit (HTTP 400), OverLimit;";
            assert!(warnings.len() == 1 && warnings[0].to_string().contains(expected));
        } else {
            assert!(warnings.is_empty(), "{name}: {warnings:?}");
        }
    }
}

/// Each fault is found with generated failures and minimised.
#[tokio::test]
async fn faults_of_a_policy_are_found_and_minimised() {
    let trap_at_seven =
        format!("(if (i32.eq {ATTEMPT} (i32.const 7)) (then (unreachable))) (i32.const 1)");
    let trap_from_37 =
        format!("(if (i32.ge_u {ATTEMPT} (i32.const 37)) (then (unreachable))) (i32.const 1)");
    // The age follows the attempt.
    let loop_when_old = "(if (i32.ge_u (i32.load offset=20 (local.get 0)) (i32.const 100000)) (then (loop $l (br $l)))) (i32.const 1)";
    let nonsense_from_20 = format!(
        "(if (result i32) (i32.ge_u {ATTEMPT} (i32.const 20)) (then (i32.const -1)) (else (i32.const 1)))"
    );
    let days = format!(
        "(if (result i32) (i32.ge_u {ATTEMPT} (i32.const 3)) (then (i32.const 86400000)) (else (i32.const 1)))"
    );
    for (body, check, fragment, failure) in [
        (
            trap_at_seven.as_str(),
            "no failure makes it trap",
            "unreachable",
            "failure = { attempt = 7 }",
        ),
        (
            &trap_from_37,
            "no failure makes it trap",
            "unreachable",
            "failure = { attempt = 37 }",
        ),
        (
            loop_when_old,
            "it ends within its limits",
            "ran out of fuel",
            "failure = { age = \"1m40s\" }",
        ),
        (
            &nonsense_from_20,
            "every answer is valid",
            "49d17h2m47s295ms",
            "failure = { attempt = 20 }",
        ),
        (
            &days,
            "no delay is longer than 12h",
            "retry in 1d",
            "failure = { attempt = 3 }",
        ),
    ] {
        let (folder, policy) = folder(&delays(body), "");
        let (code, outcomes) = test(&[&policy, "--cases", "60"]).await;
        assert_eq!(code, 7);
        let found = of(&outcomes, check);
        assert_eq!(found["passed"], false, "{check}: {found:#}");
        let got = found["rows"][0]["got"].as_str().unwrap();
        assert!(got.contains(fragment), "{fragment:?} is not in {got:?}");
        let scenario = found["found"]["scenario"].as_str().unwrap();
        assert!(scenario.contains(&format!("\n{failure}\n")), "{scenario}");

        // The suggested scenario fails for the same reason, and so does the case with its number.
        std::fs::write(folder.path().join("scenarios.toml"), scenario).unwrap();
        let (code, again) = test(&[&policy, "--no-checks"]).await;
        assert_eq!((code, again.len()), (7, 2), "{again:#?}");
        let same = again[0]["rows"][0]["got"].as_str().unwrap();
        assert!(got.ends_with(same), "{same:?} is not the end of {got:?}");
        std::fs::remove_file(folder.path().join("scenarios.toml")).unwrap();
        let case = found["found"]["case"].to_string();
        let (_, again) = test(&[&policy, "--filter", check, "--seed", "0", "--cases", &case]).await;
        assert_eq!(again[0]["found"], found["found"]);
    }
}

#[tokio::test]
async fn a_trap_on_values_of_the_scenarios_is_found() {
    // Traps if the payload has a value at /tenant other than the expected text.
    let classify = format!(
        "(call $get (i32.const 2060) (i32.const 7) (i32.const 3000)) (if (i32.eq (i32.load8_u (i32.const 3000)) (i32.const 1)) (then (if (i32.ne (i32.load offset=8 (i32.const 3000)) (i32.const 5)) (then (unreachable))))) {}",
        Rule::FIRST
    );
    let policy = Rule {
        classify: Some(&classify),
        ..Rule::default()
    };
    let scenarios = "[[scenario]]\nname = 'known'\npayload = { tenant = 't-1' }\nexpect = {}\n";
    let (folder, path) = folder(&policy.text(), scenarios);
    let (code, outcomes) = test(&[&path, "--cases", "300"]).await;
    assert_eq!(
        (code, failed(&outcomes)),
        (7, vec!["no failure makes it trap"])
    );
    let kept = of(&outcomes, "no failure makes it trap")["found"]["scenario"]
        .as_str()
        .unwrap();
    // A single member with the shortest value: a digit.
    let value = kept.split(r#"payload = "{\"tenant\":"#).nth(1).unwrap();
    assert_eq!(value.find(r#"}""#), Some(1), "{kept}");
    // Without the author's words, the pointer that the policy itself has leads to it.
    std::fs::remove_file(folder.path().join("scenarios.toml")).unwrap();
    let (code, outcomes) = test(&[&path, "--cases", "300"]).await;
    assert_eq!(
        (code, failed(&outcomes)),
        (7, vec!["no failure makes it trap"])
    );
}

/// Breaks a policy of this language for one value of one attribute, which only its source names.
async fn a_value_that_only_the_policy_knows_is_found(
    language: &str,
    source: &str,
    at: &str,
    breaks: &str,
) {
    let author = Author::new(language).await;
    author.change(source, at, &format!("{breaks}{at}"));
    let arguments = [
        "policy", "test", ".", "--json", "--filter", "trap", "--cases", "1000",
    ];
    let ended = author.backstop(&arguments).await;
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    assert_eq!(ended.status.code(), Some(7), "{language}: {out}{err}");
    let expected = r#"failure = { attributes = { plan = \"enterprise-plus\" } }"#;
    assert!(out.contains(expected), "{language}: {out}");
}

#[tokio::test]
async fn a_value_that_only_a_policy_in_rust_knows_is_found() {
    let breaks = r#"let plan = failure.attributes.iter().find(|(name, _)| name == "plan");
        assert!(plan.is_none_or(|(_, value)| value != "enterprise-plus"));
        "#;
    let at = "match default_verdict(failure, class) {";
    a_value_that_only_the_policy_knows_is_found("rust", "src/lib.rs", at, breaks).await;
}

#[tokio::test]
async fn a_value_that_only_a_policy_in_javascript_knows_is_found() {
    let breaks = "for (const [name, value] of failure.attributes) if (name === 'plan' && value === 'enterprise-plus') throw 'no such plan';\n    ";
    let at = "if (errorClass.tag === 'permanent')";
    a_value_that_only_the_policy_knows_is_found("javascript", "policy.js", at, breaks).await;
}

#[tokio::test]
async fn state_between_answers_gives_a_warning() {
    // The delay grows by a second each time; the first page of its memory is its own.
    let counts = "(i32.store (i32.const 32) (i32.add (i32.load (i32.const 32)) (i32.const 1000))) (i32.load (i32.const 32))";
    let (_folder, path) = folder(&delays(counts), "");
    let (code, outcomes) = test(&[&path, "--filter", "same answer"]).await;
    assert_eq!(
        code, 0,
        "each decision has a fresh instance: the answers are the same"
    );
    let warning = outcomes[0]["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("it keeps state between answers"),
        "{warning}"
    );
    assert!(
        outcomes[0]["about"]
            .as_str()
            .unwrap()
            .ends_with("and once without")
    );
}

#[tokio::test]
async fn using_more_than_half_of_a_limit_gives_a_warning() {
    // 640 pages of 64 KiB are 40 of 64 MiB. 200 of them are allocated at the start.
    let greedy = "(drop (memory.grow (i32.const 440))) (i32.const 1)";
    let (_folder, path) = folder(&delays(greedy), "");
    let (code, outcomes) = test(&[&path, "--filter", "limits", "--cases", "100"]).await;
    assert_eq!(code, 0);
    assert!(
        outcomes[0]["about"]
            .as_str()
            .unwrap()
            .contains("62.5 % of its memory"),
        "{outcomes:#?}"
    );
    assert!(
        outcomes[0]["warnings"][0]
            .as_str()
            .unwrap()
            .contains("more than half")
    );
}

#[tokio::test]
async fn rejected_settings_are_reported_once() {
    for filter in ["", "trap"] {
        let (code, outcomes) = test(&["linear", "--set", "bass=1s", "--filter", filter]).await;
        assert_eq!((code, outcomes.len()), (7, 2), "{outcomes:#?}");
        let rows = &of(&outcomes, "a host accepts it")["rows"];
        let got = rows[0]["got"].as_str().unwrap();
        assert!(got.contains("unknown setting `bass`"), "{got}");
    }
}

#[tokio::test]
async fn a_longer_delay_is_allowed_by_longest_delay() {
    let (_folder, path) = folder(&waits(3 * 86_400_000), "longest-delay = '3d'");
    let (code, outcomes) = test(&[&path, "--cases", "50"]).await;
    assert_eq!(code, 0, "{outcomes:#?}");
    assert_eq!(of(&outcomes, "no delay is longer than 3d")["passed"], true);
}

/// The order of attributes has no meaning and may differ between hosts.
#[tokio::test]
async fn a_policy_that_depends_on_the_order_of_attributes_is_found() {
    // A second plus a millisecond for each byte of the first of two names.
    let first_name = "(if (result i32) (i32.ge_u (i32.load offset=80 (local.get 0)) (i32.const 2)) (then (i32.add (i32.const 1000) (i32.load offset=4 (i32.load offset=76 (local.get 0))))) (else (i32.const 1000)))";
    let (_folder, path) = folder(&delays(first_name), "");
    let (code, outcomes) = test(&[&path, "--cases", "100"]).await;
    let check = "the order of attributes changes nothing";
    assert_eq!((code, failed(&outcomes)), (7, vec![check]));
    let found = of(&outcomes, check);
    assert!(found["found"]["scenario"].is_null(), "{found:#}");
    let attributes = found["tried"]["failure"]["attributes"].to_string();
    assert!(
        ["[[\"a\",\"\"],[\"\",\"\"]]", "[[\"\",\"\"],[\"a\",\"\"]]"].contains(&attributes.as_str()),
        "{attributes}"
    );
    let row = &found["rows"][0];
    assert_eq!(row["what"], "the reverse order");
    assert_ne!(row["expected"], row["got"]);
}

/// Decisions that are rarely intended give warnings; with `--strict`, they fail the test.
#[tokio::test]
async fn giving_up_on_throttles_and_immediate_late_retries_give_warnings() {
    let by_status = format!(
        "(if (result i32) (i32.eq (local.get 5) (i32.const 400)) (then {}) (else {}))",
        Rule::PERMANENT,
        Rule::FIRST
    );
    let by_status = Rule {
        classify: Some(&by_status),
        delay: Some("(i32.const 1000)"),
        ..Rule::default()
    };
    let from_31 = format!(
        "(if (result i32) (i32.ge_u {ATTEMPT} (i32.const 31)) (then (i32.const 0)) (else (i32.const 5000)))"
    );
    for (policy, warning) in [
        (
            by_status.text(),
            "it gives up on throttled calls at the first attempt: Throttling (HTTP 400), ThrottlingException (HTTP 400), ThrottledException (HTTP 400) and 17 more",
        ),
        (waits(0), "it retries 0s after attempt 10 fails"),
        (delays(&from_31), "it retries 0s after attempt 31 fails"),
    ] {
        let (_folder, path) = folder(&policy, "");
        let arguments = [path.as_str(), "--filter", "is valid", "--cases", "20"];
        let (code, outcomes) = test(&arguments).await;
        let warnings = outcomes[0]["warnings"].as_array().unwrap();
        assert_eq!((code, warnings.len()), (0, 1), "{outcomes:#?}");
        let found = warnings[0].as_str().unwrap();
        assert!(found.starts_with(warning), "{found}");
        let (code, outcomes) = test(&[&arguments[..], &["--strict"]].concat()).await;
        assert_eq!((code, outcomes[0]["passed"].clone()), (7, false.into()));
    }
}

/// Reads the clock of WASI preview 1, in seconds, into a memory.
const CLOCK: &str = r#"(import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
    (memory (export "memory") 4)
    (global $next (mut i32) (i32.const 8192))
    (global $started (mut i32) (i32.const 0))
    (func (export "cabi_realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
        (local $at i32)
        (local.set $at (i32.and (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1))) (i32.sub (i32.const 0) (local.get $align))))
        (global.set $next (i32.add (local.get $at) (local.get $size)))
        (local.get $at))
    (func $now (param $which i32) (result i32)
        (drop (call $clock (local.get $which) (i64.const 1) (i32.const 320)))
        (i32.wrap_i64 (i64.div_u (i64.load (i32.const 320)) (i64.const 1000000000))))"#;

/// Reading the clock is no fault, because the runtimes of Go and Python do it. An answer must not depend on it.
#[tokio::test]
async fn answers_that_depend_on_the_clock_give_a_warning_and_reading_it_does_not() {
    let by_hour = "(select (i32.const 1000) (i32.const 60000) (i32.lt_u (i32.rem_u (call $now (i32.const 0)) (i32.const 86400)) (i32.const 32400)))";
    for (delay, start, warned) in [
        (
            "(drop (call $now (i32.const 0))) (drop (call $now (i32.const 1))) (i32.const 1000)",
            "",
            false,
        ),
        (by_hour, "", true),
        (
            "(i32.add (i32.const 1000) (i32.and (call $now (i32.const 1)) (i32.const 255)))",
            "",
            true,
        ),
        // Read once, before the first call.
        (
            "(i32.add (i32.const 1000) (i32.and (global.get $started) (i32.const 255)))",
            "(func (export \"_initialize\") (global.set $started (call $now (i32.const 0))))",
            true,
        ),
    ] {
        let module = format!(
            "(module {CLOCK} (func (export \"backstop:policy/backoff@0.1.0#delay\") (param i32) (result i32) {delay}) {start})"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.wasm");
        std::fs::write(&path, component(wat::parse_str(module).unwrap())).unwrap();
        let arguments = [path.to_str().unwrap(), "--cases", "60", "--strict"];
        let (code, outcomes) = test(&arguments).await;
        let name = "the same failure gets the same answer";
        let expected = if warned {
            (7, vec![name])
        } else {
            (0, Vec::new())
        };
        assert_eq!(
            (code, failed(&outcomes)),
            expected,
            "{delay}: {outcomes:#?}"
        );
        let warning = &of(&outcomes, name)["warnings"];
        assert_eq!(
            warning
                .to_string()
                .contains("its answers depend on the clock"),
            warned,
            "{warning}"
        );
    }
}

/// Delays until a fixed point in time are allowed: the age of a failure follows from its attempt.
#[tokio::test]
async fn waiting_for_a_point_in_time_gives_no_warning_and_catching_up_does() {
    const AGE: &str = "(i64.extend_i32_u (i32.load offset=20 (local.get 0)))";
    let attempt = format!("(i64.extend_i32_u {ATTEMPT})");
    // A slot for each attempt, five minutes apart; immediately if it has passed.
    let slots = format!(
        "(local $wait i64) (local.set $wait (i64.sub (i64.mul {attempt} (i64.const 300000)) {AGE}))
         (if (i64.lt_s (local.get $wait) (i64.const 0)) (then (local.set $wait (i64.const 0))))
         (if (i64.gt_s (local.get $wait) (i64.const 43200000)) (then (local.set $wait (i64.const 43200000))))
         (i32.wrap_i64 (local.get $wait))"
    );
    // The next full hour of the message's age, or of the day: immediately at its end.
    let rest = |time: &str| {
        format!(
            "(i32.wrap_i64 (i64.rem_u (i64.sub (i64.const 3600000) (i64.rem_u {time} (i64.const 3600000))) (i64.const 3600000)))"
        )
    };
    let of_the_day = "(i64.load offset=24 (local.get 0))";
    // Every ten minutes; from the second hour on, immediately.
    let old =
        format!("(select (i32.const 0) (i32.const 600000) (i64.gt_u {AGE} (i64.const 7200000)))");
    // Slots up to the fifteenth.
    let ends = slots.replace(
        &attempt,
        &format!("(select {attempt} (i64.const 15) (i64.lt_u {attempt} (i64.const 15)))"),
    );
    for (delay, expected) in [
        (slots, None),
        (rest(AGE), None),
        (rest(of_the_day), None),
        (old, Some("it retries 0s after attempt 13 fails")),
        (ends, Some("it retries 0s after attempt 16 fails")),
    ] {
        let (_folder, path) = folder(&delays(&delay), "");
        let (code, outcomes) = test(&[&path, "--filter", "is valid", "--cases", "20"]).await;
        assert_eq!(code, 0, "{outcomes:#?}");
        let warning = outcomes[0]["warnings"][0].as_str();
        match expected {
            None => assert_eq!(warning, None, "{delay}"),
            Some(expected) => assert!(
                warning.is_some_and(|it| it.starts_with(expected)),
                "{delay}: {warning:?}"
            ),
        }
    }
}
