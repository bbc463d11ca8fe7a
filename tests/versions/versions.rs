//! Versions of a policy that come and go: where they are looked for, which are taken, and the ways back.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::backstop::clock::now;
use ::backstop::decision::Action;
use ::backstop::failure::{Failure, Milliseconds};
use ::backstop::policy::{
    Catalog, Check, Keys, Limits, LivePolicy, NewKeys, Payload, PolicyDigest, PolicySpec, Reload,
    RollBack, Sandbox, SecretKey, Source, Store, Watcher,
};
use ::backstop_workbench::scenario;
use backstop_tests::policies::{AT_WORK, Rule, waits};
use tempfile::TempDir;

mod compiling;
mod going_back;
mod watching;

/// A folder with a policy and a store, and what a host would do with them.
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

    fn spec(&self, name: &str) -> PolicySpec {
        Source::parse(name, self.folder.path()).unwrap().into()
    }

    /// As a host starts with the policy of this name.
    fn start(&self, name: &str) -> Arc<LivePolicy> {
        LivePolicy::load(&self.catalog, self.spec(name)).unwrap()
    }
}

/// How long the version that decides now waits.
fn wait_of(policy: &LivePolicy) -> u32 {
    let asked = policy
        .current()
        .evaluate(&backstop_tests::failure("HTTP 503"), &Arc::default());
    match asked.answer.unwrap().action {
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
fn of_a_folder_the_last_version_by_name_decides() {
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
fn a_pinned_policy_is_never_swapped_and_no_other_bytes_are_taken_for_it() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let digest = PolicyDigest::of(waits(1).as_bytes());
    let pinned = format!("./policy.wat@{digest}");
    let policy = world.start(&pinned);
    assert!(policy.is_settled());
    world.write("policy.wat", &waits(2));
    assert!(matches!(policy.reload(), Reload::Unchanged));
    assert_eq!(wait_of(&policy), 1);
    // With the file changed, a start goes on with the bytes that were pinned, if they were kept.
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
fn a_start_with_the_source_away_or_bad_goes_on_with_what_was_last_good() {
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
    // Back, with something new.
    world.write("policy.wat", &waits(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    drop(policy);
    world.write("policy.wat", &waits(3)[..300]);
    assert_eq!(wait_of(&world.start("./policy.wat")), 2);
    // Under other settings it is another policy, of which nothing was kept.
    let mut other = world.spec("./policy.wat");
    if let PolicySpec::Single(part) = &mut other {
        part.settings = [("base", "2s")].into();
    }
    assert!(LivePolicy::load(&world.catalog, other).is_err());
}

#[test]
fn a_source_that_is_away_is_said_once_and_its_return_too() {
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

/// Breaks on every failure but those of the probe, and waits so long on them.
fn breaks_at_work(wait: u32) -> String {
    Rule {
        delay: Some(&format!(
            "(if {AT_WORK} (then unreachable)) (i32.const {wait})"
        )),
        ..Rule::default()
    }
    .text()
}

/// Decides once on each of this many messages; returns how often the fallback decided.
fn decide(policy: &Arc<LivePolicy>, messages: usize) -> usize {
    let ids: Vec<_> = (0..messages).map(|number| format!("{number:x}")).collect();
    decide_on(policy, &ids, "")
}

/// Decides on messages with these ids and this body, one after the other; how often the fallback did.
fn decide_on(policy: &Arc<LivePolicy>, ids: &[String], body: &str) -> usize {
    use ::backstop::decider::Decider;
    use ::backstop::decision::{Bounds, DecidedBy};
    let decider = Decider::new("orders", Arc::clone(policy), Bounds::default());
    let payload = Arc::new(Payload::new(body));
    ids.iter()
        .filter(|id| {
            let failure = Failure {
                message_id: (*id).clone(),
                ..backstop_tests::failure("HTTP 503")
            };
            let decided = decider.decide_now(&failure, &payload, Milliseconds(u32::MAX));
            matches!(decided.decision.decided_by, DecidedBy::Fallback(_))
        })
        .count()
}

#[test]
fn a_version_that_breaks_at_work_is_taken_back_and_not_tried_again_until_the_source_changes() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    world.write("policy.wat", &breaks_at_work(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    // Broken decisions on five messages are enough; those are the fallback's, and no more are.
    assert_eq!(decide(&policy, 20), 5);
    assert_eq!(wait_of(&policy), 1);
    let status = policy.status();
    let why = status.refused.unwrap();
    assert!(why.contains("broken decisions on 5 messages"), "{why}");
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
    // Put there again on purpose, it has another chance.
    world.write("policy.wat", &breaks_at_work(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(decide(&policy, 20), 5);
    assert_eq!(wait_of(&policy), 3);
}

/// The requirements on a version are read after the source, which may take a while.
#[test]
fn a_version_that_is_taken_back_while_its_source_is_read_does_not_come_again() {
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
fn what_a_policy_discards_is_dead_lettered_where_the_operator_says_so() {
    use ::backstop::decider::Decider;
    use ::backstop::decision::{Bounds, DecidedBy};
    let world = World::new();
    // A dead letter with a reason, made a discard.
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
            .decide_now(&failure, &Arc::default(), Milliseconds(u32::MAX))
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
fn one_message_that_breaks_a_version_again_and_again_takes_nothing_back() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    world.write("policy.wat", &breaks_at_work(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    let ids = vec!["a".to_owned(); 50];
    assert_eq!(decide_on(&policy, &ids, ""), 50);
    let few: Vec<_> = ["b", "c", "d"].map(str::to_owned).into();
    assert_eq!(decide_on(&policy, &few, ""), 3);
    // The fifth message.
    assert_eq!(decide_on(&policy, &["e".to_owned()], ""), 1);
    assert_eq!(decide_on(&policy, &["f".to_owned()], ""), 0);
    assert_eq!(wait_of(&policy), 1);
}

/// Otherwise, any sender could have a good version rolled back.
#[test]
fn what_a_version_breaks_on_for_the_size_of_the_body_alone_takes_nothing_back() {
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
    let ids: Vec<_> = (0..20).map(|number| format!("{number:x}")).collect();
    let long = format!(r#"{{"tenant": "{}"}}"#, "x".repeat(200_000));
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    world.write("policy.wat", &reads(2, "(i32.const 0)"));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(decide_on(&policy, &ids, &long), 20);
    assert_eq!(wait_of(&policy), 2);
    // A version that breaks on any message is rolled back, whatever the length of the messages.
    world.write("policy.wat", &reads(3, AT_WORK));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(decide_on(&policy, &ids, &long), 20);
    assert_eq!(wait_of(&policy), 2);
}

/// What a sender puts into attributes reaches a policy only as far as every version was tried with.
#[test]
fn a_version_is_refused_that_does_not_stand_the_largest_failure() {
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
fn without_a_version_before_the_fallback_goes_on() {
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
fn the_version_before_is_kept_over_a_restart() {
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
    // A version that came while the host was down leaves the last one to go back to.
    drop(policy);
    world.write("policy.wat", &waits(4));
    let policy = world.start("./policy.wat");
    assert_eq!(wait_of(&policy), 4);
    policy.roll_back("to see").unwrap();
    assert_eq!(wait_of(&policy), 1);
}

/// As a bucket does that has the same bytes under another ETag.
#[test]
fn the_same_files_under_another_tag_are_no_other_version_at_a_start() {
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
    // The operator changes what is required: the version that was refused is tried again.
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
        .with_compiled(::backstop::policy::Compiled::default().kept_in(code));
    let sign = |with: &SecretKey, text: &str| {
        let signature = with.sign(text.as_bytes(), "policy.wat", now()).unwrap();
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
    // What is kept is verified again.
    std::fs::remove_file(world.at("policy.wat")).unwrap();
    assert_eq!(wait_of(&world.start("./policy.wat")), 2);
    for entry in world.at("kept/files").read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "minisig") {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert!(LivePolicy::load(&world.catalog, world.spec("./policy.wat")).is_err());
    // What the host carries needs no signature.
    assert!(LivePolicy::load(&world.catalog, world.spec("linear")).is_ok());
}

#[test]
fn keys_may_be_asked_for_and_replaced_with_what_was_kept_before() {
    let mut world = World::new();
    let ((old, old_public), (new, new_public)) = (key(), key());
    let pinned = format!("./policy.wat@{}", PolicyDigest::of(waits(1).as_bytes()));
    world.write("policy.wat", &waits(1));
    drop((world.start("./policy.wat"), world.start(&pinned)));
    // What is kept is not signed; what is there is.
    for (keys, signed_by) in [
        (vec![old_public.clone()], &old),
        (vec![old_public, new_public.clone()], &new),
        (vec![new_public], &new),
    ] {
        let signature = signed_by
            .sign(waits(1).as_bytes(), "policy.wat", now())
            .unwrap();
        world.write("policy.wat.minisig", &signature);
        world.catalog.keys = Some(Keys::read(&keys, Path::new("")).unwrap());
        assert_eq!(wait_of(&world.start("./policy.wat")), 1);
        assert_eq!(wait_of(&world.start(&pinned)), 1);
    }
}

/// Runs out of time on the clock on every failure: its fuel would last longer.
#[test]
fn a_version_that_a_busy_machine_may_be_to_blame_for_is_told_once_and_tried_again() {
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
fn looking_at_a_file_is_no_reason_to_look_again() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    let (tell, told) = std::sync::mpsc::channel();
    let _watcher = Watcher::start(vec![Arc::clone(&policy)], move |_, reload| {
        let _ = tell.send(reload);
    })
    .unwrap();
    world.write("policy.wat", &waits(2));
    assert!(matches!(next(&told), Reload::Swapped { .. }));
    // The check that made the swap is the last one, once the events that it caused have settled.
    std::thread::sleep(Duration::from_secs(1));
    let looked = policy.status().checked;
    std::fs::read(world.at("policy.wat")).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(policy.status().checked, looked);
}

/// Waits for the next event.
fn next(told: &std::sync::mpsc::Receiver<Reload>) -> Reload {
    told.recv_timeout(Duration::from_secs(60)).unwrap()
}

#[test]
fn files_are_polled_where_no_folder_tells_of_changes() {
    let mut world = World::new();
    world.catalog.poll = Some(Duration::from_millis(20));
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    let (tell, told) = std::sync::mpsc::channel();
    let watcher = Watcher::start(vec![Arc::clone(&policy)], move |_, reload| {
        let _ = tell.send(reload);
    })
    .unwrap();
    world.write("new", &waits(2));
    std::fs::rename(world.at("new"), world.at("policy.wat")).unwrap();
    assert!(matches!(next(&told), Reload::Swapped { .. }));
    std::fs::remove_file(world.at("policy.wat")).unwrap();
    assert!(matches!(next(&told), Reload::SourceUnreachable { .. }));
    drop(watcher);
}

#[test]
fn a_folder_that_a_symlink_leads_to_is_followed_wherever_it_leads() {
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
    let (tell, told) = std::sync::mpsc::channel();
    let _watcher = Watcher::start(vec![Arc::clone(&policy)], move |_, reload| {
        let _ = tell.send(reload);
    })
    .unwrap();
    lead_to("2");
    assert!(matches!(next(&told), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 2);
    // A change in a folder that was not watched before.
    world.write("releases/2/policy.wat", &waits(3));
    assert!(matches!(next(&told), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 3);
}
