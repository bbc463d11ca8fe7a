//! Versions of a policy that change: sources, acceptance and roll-backs.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::backstop_workbench::scenario;
use backstop_core::clock::now;
use backstop_core::decision::Action;
use backstop_core::failure::{Failure, Milliseconds};
use backstop_engine::{Limits, Payload, PolicyDigest, Sandbox};
use backstop_tests::policies::{AT_WORK, Rule, waits};
use backstop_versions::{
    Catalog, Check, Keys, LivePolicy, NewKeys, PolicySpec, Reload, RollBack, SecretKey, Source,
    Store, Watcher,
};
use tempfile::TempDir;

mod compiling;
mod replayed;
mod rolling_back;
mod watching;

/// A folder with a policy and a store, and the actions of a host.
struct World {
    folder: TempDir,
    catalog: Catalog,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::new(Limits::default()).unwrap();
        let mut catalog = Catalog::from(&sandbox);
        catalog.store = Some(Store::open(&folder.path().join("kept")).unwrap());
        Self { folder, catalog }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.at(name), text).unwrap();
    }

    /// Replaces a file at once: of a large one that is written, a slow machine shows a part.
    fn replace(&self, name: &str, text: &str) {
        let other = format!("{name}.new");
        self.write(&other, text);
        std::fs::rename(self.at(&other), self.at(name)).unwrap();
    }

    fn spec(&self, name: &str) -> PolicySpec {
        Source::parse(name, self.folder.path()).unwrap().into()
    }

    /// Starts like a host, with the policy of this name.
    fn start(&self, name: &str) -> Arc<LivePolicy> {
        LivePolicy::load(&self.catalog, self.spec(name)).unwrap()
    }
}

/// The delay of the active version.
fn wait_of(policy: &LivePolicy) -> u32 {
    let evaluation = policy
        .current()
        .evaluate(&backstop_tests::failure("HTTP 503"), &Arc::default());
    match evaluation.answer.unwrap().action {
        Action::Retry {
            delay: Milliseconds(delay),
        } => delay,
        action @ (Action::DeadLetter { .. } | Action::Discard { .. }) => panic!("{action:?}"),
    }
}

fn refusal(reload: &Reload) -> String {
    match reload {
        Reload::Refused { cause, .. } | Reload::SourceUnreachable { cause, .. } => {
            let mut text = cause.to_string();
            let mut causes = std::error::Error::source(cause);
            while let Some(cause) = causes {
                text.push_str(&format!(": {cause}"));
                causes = cause.source();
            }
            text
        }
        reload @ (Reload::Unchanged | Reload::Swapped { .. } | Reload::SourceRecovered { .. }) => {
            panic!("{reload:?}")
        }
    }
}

#[test]
fn the_last_version_by_name_in_a_folder_is_active() {
    let world = World::new();
    std::fs::create_dir(world.at("orders")).unwrap();
    world.write("orders/orders-9.wat", &waits(9));
    let policy = world.start("orders/");
    assert_eq!(wait_of(&policy), 9);
    world.write("orders/orders-10.wat", &waits(10));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 10);
    world.write("orders/orders-8.wat", &waits(8));
    assert!(matches!(policy.reload(), Reload::Unchanged));
    // An invalid version leaves the previous one active, and removing a version from the folder rolls back.
    world.write("orders/orders-11.wat", "(module");
    assert!(matches!(policy.reload(), Reload::Refused { .. }));
    std::fs::remove_file(world.at("orders/orders-11.wat")).unwrap();
    std::fs::remove_file(world.at("orders/orders-10.wat")).unwrap();
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 9);
    for version in ["orders-9.wat", "orders-8.wat"] {
        std::fs::remove_file(world.at("orders").join(version)).unwrap();
    }
    assert!(refusal(&policy.reload()).contains("expected a file that ends in .wasm or .wat"));
    assert_eq!(wait_of(&policy), 9);
}

#[test]
fn a_pinned_policy_is_never_swapped_and_accepts_no_other_bytes() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let digest = PolicyDigest::of(waits(1).as_bytes());
    let pinned = format!("./policy.wat@{digest}");
    let policy = world.start(&pinned);
    assert!(policy.is_settled());
    world.write("policy.wat", &waits(2));
    assert!(matches!(policy.reload(), Reload::Unchanged));
    assert_eq!(wait_of(&policy), 1);
    // If the file has changed, a start uses the pinned bytes, if they were stored.
    assert_eq!(wait_of(&world.start(&pinned)), 1);
    let elsewhere = World::new();
    elsewhere.write("policy.wat", &waits(2));
    let refused = LivePolicy::load(&elsewhere.catalog, elsewhere.spec(&pinned)).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("does not have the digest that it is pinned to")
    );
    assert!(
        refused
            .to_string()
            .contains(&PolicyDigest::of(waits(2).as_bytes()).to_string())
    );
}

#[test]
fn a_start_with_an_unreachable_or_bad_source_uses_the_last_good_version() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    drop(world.start("./policy.wat"));
    std::fs::remove_file(world.at("policy.wat")).unwrap();
    let policy = world.start("./policy.wat");
    assert_eq!(wait_of(&policy), 1);
    assert!(
        policy
            .status()
            .unreachable
            .unwrap()
            .contains("can't read the policy")
    );
    // Reachable again, with a new version.
    world.write("policy.wat", &waits(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    drop(policy);
    world.write("policy.wat", &waits(3)[..300]);
    assert_eq!(wait_of(&world.start("./policy.wat")), 2);
    // With other settings it is another policy, which has no stored version.
    let mut other = world.spec("./policy.wat");
    if let PolicySpec::Single(part) = &mut other {
        part.settings = [("base", "2s")].into();
    }
    assert!(LivePolicy::load(&world.catalog, other).is_err());
}

#[test]
fn an_unreachable_source_is_reported_once_and_its_recovery_too() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    std::fs::rename(world.at("policy.wat"), world.at("away")).unwrap();
    assert!(matches!(policy.reload(), Reload::SourceUnreachable { .. }));
    assert!(matches!(policy.reload(), Reload::Unchanged));
    assert!(policy.status().unreachable.is_some());
    std::fs::rename(world.at("away"), world.at("policy.wat")).unwrap();
    assert!(matches!(policy.reload(), Reload::SourceRecovered { .. }));
    assert!(matches!(policy.reload(), Reload::Unchanged));
    assert!(policy.status().unreachable.is_none());
}

/// Breaks on every failure except those of the probe, for which it has this delay.
fn breaks_at_work(wait: u32) -> String {
    Rule {
        delay: Some(&format!(
            "(if {AT_WORK} (then unreachable)) (i32.const {wait})"
        )),
        ..Rule::default()
    }
    .text()
}

/// Decides once for each of this many messages. Returns the number of fallback decisions.
fn decide(policy: &Arc<LivePolicy>, messages: usize) -> usize {
    let ids: Vec<_> = (0..messages).map(|number| format!("{number:x}")).collect();
    decide_on(policy, &ids, "")
}

/// Decides for messages with these ids and this body. Returns the number of fallback decisions.
fn decide_on(policy: &Arc<LivePolicy>, ids: &[String], body: &str) -> usize {
    use ::backstop_decider::Decider;
    use backstop_core::decision::{Bounds, DecidedBy};
    let decider = Decider::new("orders", Arc::clone(policy), Bounds::default());
    let payload = Arc::new(Payload::new(body));
    ids.iter()
        .filter(|id| {
            let failure = Failure {
                message_id: (*id).clone(),
                ..backstop_tests::failure("HTTP 503")
            };
            let decided = decider.decide_now(&failure, &payload, backstop_tests_host::any_delay());
            matches!(decided.decision.decided_by, DecidedBy::Fallback(_))
        })
        .count()
}

#[test]
fn an_active_version_that_breaks_is_rolled_back_and_not_tried_again_until_the_source_changes() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    world.write("policy.wat", &breaks_at_work(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    // Broken decisions on two messages are enough, since it breaks on any. The fallback decides for these and for no others.
    assert_eq!(decide(&policy, 20), 2);
    assert_eq!(wait_of(&policy), 1);
    let status = policy.status();
    let why = status.refused.unwrap();
    assert!(why.contains("broken decisions on 2 messages"), "{why}");
    assert_eq!(status.before, None);
    assert!(matches!(policy.reload(), Reload::Unchanged));
    drop(policy);

    // Not by the next start either.
    let policy = world.start("./policy.wat");
    assert_eq!(wait_of(&policy), 1);
    assert!(matches!(policy.reload(), Reload::Unchanged));
    world.write("policy.wat", &waits(3));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 3);
    // If it is put there again on purpose, it is tried again.
    world.write("policy.wat", &breaks_at_work(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(decide(&policy, 20), 2);
    assert_eq!(wait_of(&policy), 3);
}

/// The scenarios are read after the source, which may take a while.
#[test]
fn a_version_that_is_rolled_back_while_its_source_is_read_is_not_activated_again() {
    let world = World::new();
    let (live, armed) = (
        Arc::<OnceLock<Arc<LivePolicy>>>::default(),
        Arc::<AtomicBool>::default(),
    );
    let (at_work, is_armed) = (Arc::clone(&live), Arc::clone(&armed));
    let check = Check {
        name: "none".to_owned(),
        passes: Arc::new(|_| Ok(())),
        digest: Arc::new(move || {
            if is_armed.swap(false, Ordering::Relaxed) {
                at_work.get().unwrap().roll_back("just now").unwrap();
            }
            None
        }),
    };
    world.write("policy.wat", &waits(1));
    let policy =
        LivePolicy::checked(&world.catalog, world.spec("./policy.wat"), Some(check)).unwrap();
    live.set(Arc::clone(&policy)).unwrap();
    world.write("policy.wat", &waits(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    armed.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        assert!(matches!(policy.reload(), Reload::Unchanged));
        assert_eq!(wait_of(&policy), 1);
    }
}

#[test]
fn discards_are_dead_lettered_if_the_operator_forbids_them() {
    use ::backstop_decider::Decider;
    use backstop_core::decision::{Bounds, DecidedBy};
    let world = World::new();
    // A dead letter with a reason, changed to a discard.
    let discards = Rule {
        judge: Some("(i32.store8 (i32.const 128) (i32.const 2)) (i32.const 128)"),
        ..Rule::default()
    };
    world.write("policy.wat", &discards.text());
    let policy = world.start("./policy.wat");
    let decide = |allow_discard| {
        let bounds = Bounds {
            allow_discard,
            ..Bounds::default()
        };
        let decider = Decider::new("orders", Arc::clone(&policy), bounds);
        let failure = backstop_tests::failure("HTTP 503");
        decider
            .decide_now(&failure, &Arc::default(), backstop_tests_host::any_delay())
            .decision
    };
    let reason = "because".to_owned();
    assert_eq!(decide(true).action, Action::Discard { reason });
    let bound = "the queue's allow-discard is false";
    let kept = decide(false);
    let reason = format!("{bound}: because");
    assert_eq!(kept.action, Action::DeadLetter { reason });
    assert_eq!(kept.decided_by, DecidedBy::Bound(bound.to_owned()));
}

#[test]
fn one_message_that_breaks_a_version_repeatedly_does_not_roll_it_back() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    world.write("policy.wat", &breaks_at_work(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    let ids = vec!["a".to_owned(); 50];
    assert_eq!(decide_on(&policy, &ids, ""), 50);
    // The second message.
    assert_eq!(decide_on(&policy, &["b".to_owned()], ""), 1);
    assert_eq!(decide_on(&policy, &["c".to_owned()], ""), 0);
    assert_eq!(wait_of(&policy), 1);
}

/// Otherwise, any sender could have a good version rolled back.
#[test]
fn a_version_that_breaks_only_on_large_bodies_is_not_rolled_back() {
    // Reads `/tenant` and traps if it has more than 100,000 bytes, or on a short one that requests it.
    let reads = |wait: u32, breaks: &str| {
        let read = "(call $get (i32.const 2060) (i32.const 7) (i32.const 3000))";
        let long = "(i32.gt_u (i32.load (i32.const 3008)) (i32.const 100000))";
        let trap = format!("(if (i32.or {long} {breaks}) (then unreachable))");
        Rule {
            delay: Some(&format!("{read} {trap} (i32.const {wait})")),
            ..Rule::default()
        }
        .text()
    };
    let ids: Vec<_> = (0..19).map(|number| format!("{number:x}")).collect();
    let long = format!(r#"{{"tenant": "{}"}}"#, "x".repeat(200_000));
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    world.write("policy.wat", &reads(2, "(i32.const 0)"));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(decide_on(&policy, &ids, &long), 19);
    assert_eq!(wait_of(&policy), 2);
    // Nor by some contents among many messages that it answers.
    let others: Vec<_> = (100..200).map(|number| format!("{number}")).collect();
    assert_eq!(decide_on(&policy, &others, ""), 0);
    for number in 0..60 {
        let long = format!(r#"{{"tenant": "{number}{}"}}"#, "x".repeat(200_000));
        assert_eq!(decide_on(&policy, &[format!("l-{number}")], &long), 1);
    }
    assert_eq!(wait_of(&policy), 2);
}

/// Senders leave out parts, too: an empty message proves nothing about a version that reads it.
#[test]
fn a_version_that_breaks_on_a_missing_part_is_rolled_back_only_if_nearly_all_messages_break_it() {
    let reads = |wait: u32| {
        let read = "(call $get (i32.const 2060) (i32.const 7) (i32.const 3000))";
        let missing = "(i32.eqz (i32.load8_u (i32.const 3000)))";
        let trap = format!("(if (i32.and {missing} {AT_WORK}) (then unreachable))");
        Rule {
            delay: Some(&format!("{read} {trap} (i32.const {wait})")),
            ..Rule::default()
        }
        .text()
    };
    let ids = |from: usize, to: usize| (from..to).map(|it| it.to_string()).collect::<Vec<_>>();
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    world.write("policy.wat", &reads(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    // Not by some of one sender.
    assert_eq!(decide_on(&policy, &ids(0, 19), "{}"), 19);
    assert_eq!(decide_on(&policy, &ids(100, 200), r#"{"tenant": "a"}"#), 0);
    assert_eq!(decide_on(&policy, &ids(200, 260), "{}"), 60);
    assert_eq!(policy.status().refused, None);
    // One that breaks on each of many messages is, though they all contain the same.
    world.write("policy.wat", &reads(3));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(decide_on(&policy, &ids(0, 20), "{}"), 20);
    let why = policy.status().refused.unwrap();
    assert!(
        why.contains("broken decisions on 20 of 20 messages"),
        "{why}"
    );
}

/// Failures are truncated to the size that every version was validated with.
#[test]
fn a_version_that_breaks_on_the_largest_failure_is_refused() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    // Gives up on an error of more than 4,000 bytes of text.
    let trap = "(if (i32.gt_u (i32.load offset=52 (local.get 0)) (i32.const 4000)) (then unreachable)) (i32.const 2)";
    let gives_up = Rule {
        delay: Some(trap),
        ..Rule::default()
    };
    world.write("policy.wat", &gives_up.text());
    let Reload::Refused { cause, .. } = policy.reload() else {
        panic!("it was taken");
    };
    let why = format!("{:#}", anyhow::Error::from(cause));
    assert!(
        why.contains("the largest failure that is possible"),
        "{why}"
    );
}

#[test]
fn without_a_previous_version_the_fallback_continues() {
    let world = World::new();
    world.write("policy.wat", &breaks_at_work(2));
    let policy = world.start("./policy.wat");
    assert_eq!(decide(&policy, 20), 20);
    assert!(policy.roll_back("to see").is_err());
}

#[test]
fn roll_back_can_be_turned_off() {
    let mut world = World::new();
    world.catalog.roll_back = RollBack {
        broken: 0,
        ..RollBack::default()
    };
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    world.write("policy.wat", &breaks_at_work(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(decide(&policy, 20), 20);
}

#[test]
fn the_previous_version_is_stored_across_restarts() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    world.write("policy.wat", &waits(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    drop(policy);
    let policy = world.start("./policy.wat");
    assert!(policy.status().before.is_some());
    let back = policy.roll_back("to see").unwrap();
    assert!(
        back.from
            .contains(&PolicyDigest::of(waits(2).as_bytes()).short())
    );
    assert_eq!(wait_of(&policy), 1);
    assert!(matches!(policy.reload(), Reload::Unchanged));
    // If a version arrives while the host is down, the last active one is the previous version.
    drop(policy);
    world.write("policy.wat", &waits(4));
    let policy = world.start("./policy.wat");
    assert_eq!(wait_of(&policy), 4);
    policy.roll_back("to see").unwrap();
    assert_eq!(wait_of(&policy), 1);
}

/// A bucket may have the same bytes with another ETag.
#[test]
fn the_same_files_with_another_tag_are_the_same_version_at_a_start() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    world.write("policy.wat", &waits(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    drop(policy);
    for entry in world.at("kept/known").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let tagged = text.replace("\"tag\": null", "\"tag\": \"other\"");
        assert_ne!(text, tagged);
        std::fs::write(&path, tagged).unwrap();
    }
    let policy = world.start("./policy.wat");
    assert_eq!(wait_of(&policy), 2);
    policy.roll_back("to see").unwrap();
    assert_eq!(wait_of(&policy), 1);
}

#[test]
fn a_version_that_fails_the_operators_scenarios_is_refused() {
    let world = World::new();
    world.write(
        "required.toml",
        r#"
        [[scenario]]
        name = "an outage is waited out for ten seconds at least"
        failure = { code = "HTTP 503", attempt = 3 }
        expect = { verdict = "retry", delay = { min = "10s" } }
        "#,
    );
    let load = || {
        let check = scenario::required(&world.at("required.toml")).unwrap();
        LivePolicy::checked(&world.catalog, world.spec("./policy.wat"), Some(check))
    };
    world.write("policy.wat", &waits(1_000));
    let refused = load().unwrap_err().to_string();
    assert!(
        refused.contains("fails the scenario `an outage is waited out for ten seconds at least`")
            && refused.contains("required.toml:2")
            && refused.contains("got 1s"),
        "{refused}"
    );
    world.write("policy.wat", &waits(10_000));
    let policy = load().unwrap();
    world.write("policy.wat", &waits(9_999));
    assert!(refusal(&policy.reload()).contains("fails the scenario"));
    assert_eq!(wait_of(&policy), 10_000);
    assert!(matches!(policy.reload(), Reload::Unchanged));
    // When the operator changes the scenarios, the refused version is tried again.
    let text = std::fs::read_to_string(world.at("required.toml")).unwrap();
    world.write("required.toml", "[[scenario]]\nname = 3");
    assert!(refusal(&policy.reload()).contains("can't be used"));
    assert!(matches!(policy.reload(), Reload::Unchanged));
    world.write("required.toml", &text.replace("10s", "9s"));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 9_999);
    assert!(scenario::required(&world.at("nowhere.toml")).is_err());
}

/// A new key without a password, and its public half.
fn key() -> (SecretKey, String) {
    let folder = tempfile::tempdir().unwrap();
    let keys = NewKeys::generate(None).unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, keys.secret.as_bytes()).unwrap();
    let secret = SecretKey::read(&path, || unreachable!()).unwrap();
    (secret, keys.line)
}

fn files_of(folder: &Path) -> usize {
    folder.read_dir().unwrap().count()
}

#[test]
fn a_version_is_verified_before_it_is_compiled() {
    let mut world = World::new();
    let (key, public) = key();
    let (stranger, _) = self::key();
    world.catalog.keys = Some(Keys::read(&[public], Path::new("")).unwrap());
    world.catalog.refusals = world.catalog.store.clone();
    let code = world.catalog.store.as_ref().map(|store| store.code());
    world.catalog.sandbox = world
        .catalog
        .sandbox
        .with_compiled(backstop_engine::Compiled::default().kept_in(code));
    let sign = |with: &SecretKey, text: &str| {
        let signature = with
            .sign(text.as_bytes(), "policy.wat", "policy", now())
            .unwrap();
        world.write("policy.wat.minisig", &signature);
    };
    world.write("policy.wat", &waits(1));
    let refused = LivePolicy::load(&world.catalog, world.spec("./policy.wat")).unwrap_err();
    assert!(
        std::error::Error::source(&refused)
            .unwrap()
            .to_string()
            .contains("sign")
    );
    sign(&stranger, &waits(1));
    assert!(LivePolicy::load(&world.catalog, world.spec("./policy.wat")).is_err());
    let code = world.at("kept/code");
    assert_eq!(files_of(&code), 0, "something was compiled");
    sign(&key, &waits(1));
    let policy = world.start("./policy.wat");
    assert!(files_of(&code) > 0);

    // The file first, its signature a moment later.
    world.write("policy.wat", &waits(2));
    assert!(matches!(policy.reload(), Reload::Refused { .. }));
    assert!(matches!(policy.reload(), Reload::Unchanged));
    sign(&stranger, &waits(2));
    assert!(matches!(policy.reload(), Reload::Refused { .. }));
    sign(&key, &waits(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 2);
    drop(policy);
    // Stored files are verified again.
    std::fs::remove_file(world.at("policy.wat")).unwrap();
    assert_eq!(wait_of(&world.start("./policy.wat")), 2);
    for entry in world.at("kept/files").read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "minisig") {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert!(LivePolicy::load(&world.catalog, world.spec("./policy.wat")).is_err());
    // Built-in policies need no signature.
    assert!(LivePolicy::load(&world.catalog, world.spec("linear")).is_ok());
}

#[test]
fn signatures_can_be_required_and_keys_replaced_with_a_stored_version() {
    let mut world = World::new();
    let ((old, old_public), (new, new_public)) = (key(), key());
    let pinned = format!("./policy.wat@{}", PolicyDigest::of(waits(1).as_bytes()));
    world.write("policy.wat", &waits(1));
    drop((world.start("./policy.wat"), world.start(&pinned)));
    // The stored file is not signed; the current one is.
    for (keys, signed_by) in [
        (vec![old_public.clone()], &old),
        (vec![old_public, new_public.clone()], &new),
        (vec![new_public], &new),
    ] {
        let signature = signed_by
            .sign(waits(1).as_bytes(), "policy.wat", "policy", now())
            .unwrap();
        world.write("policy.wat.minisig", &signature);
        world.catalog.keys = Some(Keys::read(&keys, Path::new("")).unwrap());
        assert_eq!(wait_of(&world.start("./policy.wat")), 1);
        assert_eq!(wait_of(&world.start(&pinned)), 1);
    }
}

/// Exceeds the time limit on every failure, before its fuel runs out.
#[test]
fn a_version_that_may_fail_because_of_a_busy_machine_is_reported_once_and_tried_again() {
    let limits = Limits {
        fuel: u64::MAX / 2,
        time: Duration::from_millis(50),
        ..Limits::default()
    };
    let sandbox = Sandbox::new(limits).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.wat");
    std::fs::write(&path, waits(1)).unwrap();
    let policy = LivePolicy::load(&sandbox, Source::path(&path).into()).unwrap();
    let slow = Rule {
        delay: Some(Rule::LOOP),
        ..Rule::default()
    };
    std::fs::write(&path, slow.text()).unwrap();
    let refused = refusal(&policy.reload());
    assert!(refused.contains("stopped after 50ms"), "{refused}");
    for _ in 0..3 {
        assert!(matches!(policy.reload(), Reload::Unchanged));
        assert!(policy.status().refused.unwrap().contains("stopped after"));
    }
}

#[test]
fn reading_a_file_does_not_cause_another_update_check() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    let (sender, reloads) = std::sync::mpsc::channel();
    let _watcher = Watcher::start(vec![Arc::clone(&policy)], move |_, reload| {
        let _ = sender.send(reload);
    })
    .unwrap();
    world.write("policy.wat", &waits(2));
    assert!(matches!(next(&reloads), Reload::Swapped { .. }));
    // After the swap there is no further check, once its events have settled.
    std::thread::sleep(Duration::from_secs(1));
    let looked = policy.status().checked;
    std::fs::read(world.at("policy.wat")).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(policy.status().checked, looked);
}

/// Waits for the next event.
fn next(reloads: &std::sync::mpsc::Receiver<Reload>) -> Reload {
    reloads.recv_timeout(Duration::from_secs(60)).unwrap()
}

#[test]
fn a_pipe_or_a_file_that_is_too_large_is_rejected_and_does_not_count_as_unreachable() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    let path = world.at("policy.wat");
    let rejected = |expected: &str| {
        let Reload::Refused { cause, .. } = policy.reload() else {
            panic!("{expected}: not refused");
        };
        let cause = backstop_core::text::chain(&cause);
        assert!(cause.contains(expected), "{cause}");
        assert!(matches!(policy.reload(), Reload::Unchanged));
        let status = policy.status();
        assert_eq!(status.unreachable, None);
        assert_eq!(status.refused.as_deref(), Some(cause.as_str()));
        assert_eq!(wait_of(&policy), 1);
    };
    std::fs::remove_file(&path).unwrap();
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    rejected("policy.wat: it is a pipe; expected a regular file");
    std::fs::remove_file(&path).unwrap();
    std::fs::File::create(&path)
        .unwrap()
        .set_len(65 << 20)
        .unwrap();
    rejected("more than the 67108864 bytes that `limits.component` allows");
    world.write("policy.wat", &waits(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 2);
}

#[test]
fn files_are_polled_if_folders_do_not_report_changes() {
    let mut world = World::new();
    world.catalog.poll = Some(Duration::from_millis(20));
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    let (sender, reloads) = std::sync::mpsc::channel();
    let watcher = Watcher::start(vec![Arc::clone(&policy)], move |_, reload| {
        let _ = sender.send(reload);
    })
    .unwrap();
    world.write("new", &waits(2));
    std::fs::rename(world.at("new"), world.at("policy.wat")).unwrap();
    assert!(matches!(next(&reloads), Reload::Swapped { .. }));
    std::fs::remove_file(world.at("policy.wat")).unwrap();
    assert!(matches!(next(&reloads), Reload::SourceUnreachable { .. }));
    drop(watcher);
}

#[test]
fn a_symlink_to_a_folder_is_followed() {
    let world = World::new();
    for (release, wait) in [("1", 1), ("2", 2)] {
        std::fs::create_dir_all(world.at("releases").join(release)).unwrap();
        world.write(&format!("releases/{release}/policy.wat"), &waits(wait));
    }
    let lead_to = |release: &str| {
        let (link, current) = (world.at("next"), world.at("current"));
        std::os::unix::fs::symlink(Path::new("releases").join(release), &link).unwrap();
        std::fs::rename(link, current).unwrap();
    };
    lead_to("1");
    let policy = world.start("./current/policy.wat");
    let (sender, reloads) = std::sync::mpsc::channel();
    let _watcher = Watcher::start(vec![Arc::clone(&policy)], move |_, reload| {
        let _ = sender.send(reload);
    })
    .unwrap();
    lead_to("2");
    assert!(matches!(next(&reloads), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 2);
    // A change in a folder that was not watched before.
    world.write("releases/2/policy.wat", &waits(3));
    assert!(matches!(next(&reloads), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 3);
}
