//! Versions that are compiled in a child process: its limits, its crashes, and remembered refusals.

use std::sync::{Mutex, MutexGuard, PoisonError};

use backstop_engine::{CompileLimits, Compiled, Compiler};
use backstop_tests::backstop::program;
use backstop_tests::compiler::{Held, heavy};
use rustix::process::Signal;

use super::*;

/// One test at a time: each searches for its own child process.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// A world whose policies are compiled in a child, within these limits.
    pub(super) fn compiling(compile: CompileLimits) -> Self {
        let mut world = Self::new();
        world.within(compile);
        world
    }

    fn within(&mut self, compile: CompileLimits) {
        let limits = Limits {
            compile,
            ..Limits::default()
        };
        let code = self.catalog.store.as_ref().map(|store| store.code());
        let compiled = Compiled::default().kept_in(code);
        self.catalog.refusals = self.catalog.store.clone();
        self.catalog.sandbox = Sandbox::new(limits)
            .unwrap()
            .with_compiler(Compiler::Child(program("backstop")))
            .with_compiled(compiled);
    }

    /// Starts as a host does. Returns the message if it uses another version.
    fn restart(&self) -> (Arc<LivePolicy>, String) {
        let (policy, refused) =
            LivePolicy::load_or_fall_back(&self.catalog, self.spec("./policy.wat"), None);
        let refused = refused.map_or_else(String::new, |error| error.to_string());
        (policy, refused)
    }

    fn forget_refused(&self) {
        for entry in self.at("kept/refused").read_dir().unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }

    fn remembered(&self) -> usize {
        files_of(&self.at("kept/refused"))
    }
}

pub(super) const MINUTES: CompileLimits = CompileLimits {
    time: Duration::from_secs(600),
    cpu: Duration::from_secs(600),
    memory: 2 << 30,
};

#[test]
fn a_policy_is_compiled_in_a_child_and_invalid_files_are_refused_as_without_one() {
    let _alone = alone();
    let world = World::compiling(MINUTES);
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    assert_eq!(wait_of(&policy), 1);
    for (bad, shown) in [
        ("(module", "its text is not WebAssembly"),
        ("(component)", "it exports nothing"),
        ("", "it is empty"),
        (
            "(module (import \"a\" \"b\" (func)))",
            "core module that imports `a`",
        ),
    ] {
        world.write("policy.wat", bad);
        let refused = refusal(&policy.reload());
        assert!(refused.contains(shown), "{refused}");
    }
    world.write("policy.wat", &waits(2));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 2);
    assert_eq!(
        world.remembered(),
        0,
        "what costs nothing need not be remembered"
    );
}

#[test]
fn each_limit_of_the_child_is_named_in_the_refusal_which_is_remembered_until_the_limit_changes() {
    let _alone = alone();
    let good = waits(1);
    let heavy = heavy(2);
    let limits: [(CompileLimits, &str, bool); 3] = [
        (
            CompileLimits {
                time: Duration::from_millis(1),
                ..MINUTES
            },
            "longer than the 1ms that `limits.compile.time` allows",
            true,
        ),
        (
            CompileLimits {
                cpu: Duration::from_secs(1),
                ..MINUTES
            },
            "more than the 1s of processor time that `limits.compile.cpu` allows",
            false,
        ),
        (
            CompileLimits {
                memory: 8 << 20,
                ..MINUTES
            },
            "more than the 8 MiB of memory that `limits.compile.memory` allows",
            false,
        ),
    ];
    for (limits, shown, is_transient) in limits {
        let mut world = World::compiling(MINUTES);
        world.write("policy.wat", &good);
        let policy = world.start("./policy.wat");
        world.within(limits);
        world.write("policy.wat", &heavy);
        // The code of the good one is stored, so the limits do not affect it.
        let (other, _) = world.restart();
        assert_eq!(wait_of(&other), 1);
        assert_eq!(world.remembered(), 1, "{shown}");
        let (other, _) = world.restart();
        assert_eq!(wait_of(&other), 1);
        let refused = refusal(&other.reload());
        assert!(refused.contains(shown), "{refused}");
        // At the start already, unless another try may succeed.
        assert_eq!(
            refused.contains("is refused, as at"),
            !is_transient,
            "{refused}"
        );
        assert!(other.status().refused.unwrap().contains(shown));
        assert!(matches!(other.reload(), Reload::Unchanged));
        // Without the file, it is compiled again, by a running host and by a start.
        world.forget_refused();
        assert!(!matches!(other.reload(), Reload::Swapped { .. }));
        assert_eq!((wait_of(&other), world.remembered()), (1, 1));
        world.forget_refused();
        let (other, _) = world.restart();
        assert_eq!((wait_of(&other), world.remembered()), (1, 1));
        drop(policy);
    }
}

/// The child is suspended, so it never ends.
#[test]
fn a_start_with_a_good_version_waits_ten_seconds_at_most_for_another() {
    let _alone = alone();
    let world = World::compiling(MINUTES);
    world.write("policy.wat", &waits(1));
    drop(world.start("./policy.wat"));
    world.write("policy.wat", &heavy(2));
    let began = backstop_core::clock::instant();
    let (policy, _) = std::thread::scope(|scope| {
        let restarting = scope.spawn(|| world.restart());
        let held = Held::of(std::process::id());
        let restarted = restarting.join().unwrap();
        held.gone();
        restarted
    });
    let took = began.elapsed();
    assert_eq!((wait_of(&policy), world.remembered()), (1, 0));
    let expected = Duration::from_secs(10)..Duration::from_secs(30);
    assert!(expected.contains(&took), "{took:?}");
    // The next check has no time limit.
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 2);
}

#[test]
fn without_another_version_a_refused_one_is_tried_again() {
    let _alone = alone();
    let mut world = World::compiling(CompileLimits {
        memory: 8 << 20,
        ..MINUTES
    });
    world.write("policy.wat", &heavy(1));
    for _ in 0..2 {
        let refused = LivePolicy::load(&world.catalog, world.spec("./policy.wat")).unwrap_err();
        let cause = std::error::Error::source(&refused).unwrap().to_string();
        assert!(
            cause.contains("`limits.compile.memory`"),
            "{refused}: {cause}"
        );
    }
    // A function uses the fallback and does not compile at each start.
    let (policy, refused) = world.restart();
    assert!(policy.status().live.is_empty());
    assert!(refused.contains("is refused, as at"), "{refused}");
    // With other limits, it is tried again.
    world.within(MINUTES);
    let (policy, refused) = world.restart();
    assert_eq!((wait_of(&policy), refused.as_str()), (1, ""));
}

#[test]
fn a_crash_of_the_child_is_a_lasting_refusal_and_a_kill_from_outside_is_not() {
    let _alone = alone();
    let world = World::compiling(MINUTES);
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    // Signals that neither Rust nor the engine handles.
    for (number, (signal, shown, remembered)) in [
        (Signal::KILL, "killed from outside: signal: 9", 0),
        (Signal::TERM, "killed from outside: signal: 15", 0),
        (
            Signal::SYS,
            "it crashes the compiler, whose process ended with signal: 31",
            1,
        ),
        (
            Signal::ABORT,
            "it crashes the compiler, whose process ended with signal: 6",
            2,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        world.write("policy.wat", &heavy(10 + u32::try_from(number).unwrap()));
        let reload = std::thread::scope(|scope| {
            let reloading = scope.spawn(|| policy.reload());
            Held::of(std::process::id()).end(signal);
            reloading.join().unwrap()
        });
        let refused = refusal(&reload);
        assert!(refused.contains(shown), "{refused}");
        assert_eq!((world.remembered(), wait_of(&policy)), (remembered, 1));
    }
    // The next start knows it and uses the good version at once.
    let (policy, _) = world.restart();
    assert_eq!(wait_of(&policy), 1);
    let refused = refusal(&policy.reload());
    assert!(
        refused.contains("is refused, as at") && refused.contains("signal: 6"),
        "{refused}"
    );
}

#[test]
fn a_newer_file_ends_the_child_that_compiles_the_previous_one() {
    let _alone = alone();
    let world = World::compiling(MINUTES);
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    let (sender, reloads) = std::sync::mpsc::channel();
    let _watcher = Watcher::start(vec![Arc::clone(&policy)], move |_, reload| {
        let _ = sender.send(reload);
    })
    .unwrap();
    world.replace("policy.wat", &heavy(2));
    let held = Held::of(std::process::id());
    let compiling = policy.status().compiling.unwrap();
    assert_eq!(
        compiling.version,
        PolicyDigest::of(heavy(2).as_bytes()).short()
    );
    // Writing the same bytes does not restart it; other bytes do.
    world.replace("policy.wat", &heavy(2));
    world.write("policy.wat", &waits(3));
    assert!(matches!(next(&reloads), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 3);
    held.gone();
    assert_eq!(policy.status().compiling, None);
    assert_eq!(policy.status().refused, None);
}

/// A hostile file that gets control of the compiler finds nothing to use.
#[test]
#[cfg(target_os = "linux")]
fn the_child_gives_up_descriptors_capabilities_and_calls_of_the_system() {
    use rustix::fs::{Mode, OFlags};
    let _alone = alone();
    let world = World::compiling(MINUTES);
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    // Without CLOEXEC, as a shell may leave it open for its children.
    let secret = rustix::fs::open(world.at("policy.wat"), OFlags::RDONLY, Mode::empty()).unwrap();
    let watcher = Watcher::start(vec![Arc::clone(&policy)], |_, _| {}).unwrap();
    world.write("policy.wat", &heavy(2));
    let held = Held::of(std::process::id());
    let status = held.read("status");
    let open = held.descriptors();
    drop(watcher);
    held.gone();
    drop(secret);
    assert_eq!(open, ["0", "1", "2"]);
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} {status}")).trim()
    };
    assert_eq!(value("NoNewPrivs:"), "1");
    // A filter.
    assert_eq!(value("Seccomp:"), "2");
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(value(set), "0000000000000000", "{set}");
    }
}

#[test]
fn the_end_of_a_watcher_ends_the_child() {
    let _alone = alone();
    let world = World::compiling(MINUTES);
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    let watcher = Watcher::start(vec![Arc::clone(&policy)], |_, _| {}).unwrap();
    world.write("policy.wat", &heavy(2));
    let held = Held::of(std::process::id());
    drop(watcher);
    held.gone();
}

/// The second version makes the host panic during validation, and the third during the update check.
#[test]
fn a_panic_in_a_watcher_is_caught_and_it_continues() {
    let _alone = alone();
    let world = World::compiling(MINUTES);
    world.write("policy.wat", &waits(1));
    let armed = Arc::<AtomicBool>::default();
    let is_armed = Arc::clone(&armed);
    let check = Check {
        name: "panics".to_owned(),
        passes: Arc::new(|policy| {
            let bad = PolicyDigest::of(waits(2).as_bytes());
            assert!(policy.digests() != [bad], "no such\nluck");
            Ok(())
        }),
        digest: Arc::new(move || {
            assert!(!is_armed.swap(false, Ordering::Relaxed), "not now");
            None
        }),
    };
    let policy =
        LivePolicy::checked(&world.catalog, world.spec("./policy.wat"), Some(check)).unwrap();
    let (sender, reloads) = std::sync::mpsc::channel();
    let _watcher = Watcher::start(vec![Arc::clone(&policy)], move |_, reload| {
        let _ = sender.send(reload);
    })
    .unwrap();
    world.write("policy.wat", &waits(2));
    let refused = refusal(&next(&reloads));
    assert!(
        refused.contains("the host failed while it loaded it: no such\\nluck"),
        "{refused}"
    );
    armed.store(true, Ordering::Relaxed);
    world.write("policy.wat", &waits(3));
    assert!(matches!(next(&reloads), Reload::Swapped { .. }));
    assert!(!armed.load(Ordering::Relaxed));
    assert_eq!(wait_of(&policy), 3);
    assert_eq!(files_of(&world.at("kept/loading")), 0);
}

/// A process that ends while it loads a version leaves its mark, which is copied here.
#[test]
fn a_version_that_ended_a_host_during_loading_is_not_loaded_by_the_next_start() {
    let _alone = alone();
    let world = World::compiling(MINUTES);
    let loading = world.at("kept/loading");
    let copied = world.at("mark");
    let check = {
        let (loading, copied) = (loading.clone(), copied.clone());
        Check {
            name: "none".to_owned(),
            passes: Arc::new(move |_| {
                for entry in loading.read_dir().unwrap() {
                    let name = entry.unwrap().file_name();
                    std::fs::write(&copied, name.to_str().unwrap()).unwrap();
                }
                Ok(())
            }),
            digest: Arc::new(|| None),
        }
    };
    let start = || {
        LivePolicy::checked(
            &world.catalog,
            world.spec("./policy.wat"),
            Some(check.clone()),
        )
        .unwrap()
    };
    world.write("policy.wat", &waits(2));
    assert_eq!((wait_of(&start()), files_of(&loading)), (2, 0));
    // As if the host had ended while it loaded the third version.
    world.write("policy.wat", &waits(3));
    drop(start());
    let mark = loading.join(std::fs::read_to_string(&copied).unwrap());
    world.write("policy.wat", &waits(4));
    drop(start());
    world.write("policy.wat", &waits(3));
    std::fs::write(&mark, "loading\n").unwrap();
    for _ in 0..2 {
        let policy = start();
        assert_eq!(wait_of(&policy), 4);
        let refused = refusal(&policy.reload());
        assert!(
            refused.contains("the host ended while it loaded this version"),
            "{refused}"
        );
    }
    // Another file is another version.
    world.write("policy.wat", &waits(5));
    assert_eq!(wait_of(&start()), 5);
}
