//! Roll-backs to a version that must be compiled first: nothing else waits for it.

use std::thread::JoinHandle;

use backstop_host::admin::{AdminQueue, ControlSocket, Host, HostStatus, Interface};
use backstop_tests::compiler::{Held, heavy};
use backstop_versions::{NotRolledBack, RolledBack};
use rustix::process::Signal;

use super::compiling::{MINUTES, alone};
use super::*;

/// A policy whose previous version takes long to compile and has no stored code.
fn before_heavy(world: &World) -> Arc<LivePolicy> {
    world.write("policy.wat", &heavy(1));
    drop(world.start("./policy.wat"));
    world.write("policy.wat", &waits(2));
    let policy = world.start("./policy.wat");
    for entry in world.at("kept/code").read_dir().unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    policy
}

/// Rolls it back, with the compilation of the previous version suspended.
fn held_up(policy: &Arc<LivePolicy>) -> (JoinHandle<Result<RolledBack, NotRolledBack>>, Held) {
    let roll_back = Arc::clone(policy);
    let roll_back = std::thread::spawn(move || roll_back.roll_back("to see"));
    (roll_back, Held::of(std::process::id()))
}

/// The status, and the outcome of an update check, if they come soon.
fn soon<T: Send + 'static>(
    policy: &Arc<LivePolicy>,
    what: impl FnOnce(&LivePolicy) -> T + Send + 'static,
) -> Option<T> {
    let (sender, reloads) = std::sync::mpsc::channel();
    let policy = Arc::clone(policy);
    std::thread::spawn(move || sender.send(what(&policy)));
    reloads.recv_timeout(Duration::from_secs(20)).ok()
}

#[test]
fn a_newer_version_is_not_delayed_by_a_roll_back_and_stays_active() {
    let _alone = alone();
    let world = World::compiling(MINUTES);
    let policy = before_heavy(&world);
    let (roll_back, held) = held_up(&policy);
    let status = soon(&policy, LivePolicy::status);
    world.write("policy.wat", &waits(3));
    let reload = soon(&policy, LivePolicy::reload);
    if status.is_none() || reload.is_none() {
        held.end(Signal::KILL);
        panic!("they wait for the compiler: {status:?} {reload:?}");
    }
    assert!(matches!(reload, Some(Reload::Swapped { .. })));
    // It is no longer wanted.
    held.gone();
    let now = policy.current().title();
    assert_eq!(
        roll_back.join().unwrap(),
        Err(NotRolledBack::Replaced { now })
    );
    assert_eq!((wait_of(&policy), policy.status().refused), (3, None));
}

#[test]
fn a_host_reports_its_status_during_a_roll_back() {
    let _alone = alone();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(status_during_a_roll_back());
}

async fn status_during_a_roll_back() {
    let world = World::compiling(MINUTES);
    let policy = before_heavy(&world);
    let store = world.catalog.store.as_ref().unwrap();
    let interface = Interface::of(vec![AdminQueue::new("orders", Arc::clone(&policy))]);
    let _control = ControlSocket::listen(store, &interface).unwrap();
    let host = Host::on_this_machine(&world.at("kept")).unwrap().remove(0);
    let host = host.unwrap();
    let asking = host.clone();
    let roll_back = tokio::spawn(async move {
        let body = serde_json::json!({});
        let answer: HostStatus = asking.post(&["v1", "rollback"], &body).await.unwrap();
        answer
    });
    let held = tokio::task::spawn_blocking(|| Held::of(std::process::id()));
    let held = held.await.unwrap();
    let status = host.get::<HostStatus>(&["v1", "status"], &[]);
    let status = tokio::time::timeout(Duration::from_secs(20), status).await;
    held.end(Signal::CONT);
    let status = status.expect("an answer before the version is compiled");
    assert_eq!(status.unwrap().queues.remove(0).policy.refused, None);
    let mut answer = roll_back.await.unwrap();
    let RolledBack { to, .. } = answer.queues.remove(0).rolled_back.unwrap();
    assert_eq!((wait_of(&policy), to), (1, policy.current().title()));
    let refused = policy.status().refused.unwrap();
    assert!(refused.contains("by the operator"), "{refused}");
    assert!(matches!(policy.reload(), Reload::Unchanged));
}
