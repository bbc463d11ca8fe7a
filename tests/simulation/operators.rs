//! Operators, who ask running hosts for something, and put new versions of the policy where hosts find them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::history::Event;
use super::host::{Host, Operated, Setting};
use super::planted::{Planted, spoilt_version};

/// The place of a host.
pub(crate) type Slot = Arc<tokio::sync::Mutex<Option<Host>>>;

pub(crate) async fn operated(slot: &Slot) -> Option<Operated> {
    let slot = slot.lock().await;
    slot.as_ref().map(Host::operated)
}

/// Puts the next version where hosts find it. Each looks at once.
pub(crate) async fn swap(setting: &Setting, hosts: &[Slot]) {
    let world = &setting.world;
    let Some(next) = world.next_version() else {
        return;
    };
    let version = &world.plan.versions[next];
    setting
        .policy
        .write(&spoilt_version(world.planted, version));
    look(setting, hosts, false).await;
}

/// All hosts look for a new version. There is none if this is only a `check`.
pub(crate) async fn look(setting: &Setting, hosts: &[Slot], check: bool) {
    if check && setting.world.planted == Some(Planted::TakesVersionsAgain) {
        setting.policy.touch();
    }
    for slot in hosts {
        let Some(host) = operated(slot).await else {
            continue;
        };
        // One that is frozen looks later.
        spawn_local(async move {
            let world = host.identity.world();
            if host.reload().await {
                let version = world.found_version(host.digest());
                let host = host.identity.id;
                world.happened(Event::Swapped { host, version });
            }
            if check {
                let host = host.identity.id;
                world.happened(Event::Checked { host });
            }
        });
    }
}

/// An operator rolls the policy of all hosts back.
pub(crate) async fn roll_back(hosts: &[Slot]) {
    for slot in hosts {
        let Some(operated) = operated(slot).await else {
            continue;
        };
        spawn_local(async move {
            let is_done = operated.roll_back().await;
            let host = operated.identity.id;
            let world = operated.identity.world();
            world.happened(Event::RolledBack { host, is_done });
        });
    }
}

/// What a host has to do for a wake lasts as long as its requests do.
pub(crate) fn wake(host: &Operated) {
    let operated = host.clone();
    spawn_local(async move {
        let (identity, body) = (&operated.identity, json!({"queue": "orders", "all": true}));
        identity.lives().await;
        let (world, host) = (identity.world(), identity.id);
        world.happened(Event::Woken { host });
        if world.planted != Some(Planted::WakesNothing) {
            operated.answer("/v1/wake", body).await;
        }
    });
}

/// Asks a host for something, unless it is dead by then. Returns its answer.
async fn ask(operated: &Operated, path: &str, body: serde_json::Value, event: Event) {
    let (identity, longest) = (&operated.identity, Duration::from_secs(130));
    let asked = timeout(longest, async {
        identity.lives().await;
        if identity.world().planted != Some(Planted::IgnoresOperators) {
            operated.answer(path, body).await;
        }
        identity.world().happened(event);
    });
    let _ = asked.await;
}

pub(crate) async fn pause(operated: &Operated) {
    let host = operated.identity.id;
    let body = json!({"queue": "orders"});
    ask(operated, "/v1/pause", body, Event::Paused { host }).await;
}

pub(crate) async fn resume(operated: &Operated) {
    let host = operated.identity.id;
    let body = json!({"queue": "orders"});
    ask(operated, "/v1/resume", body, Event::Resumed { host }).await;
}

pub(crate) async fn set_rate(operated: &Operated, rate: Option<u32>) {
    let host = operated.identity.id;
    let text = rate.map_or_else(|| "none".to_owned(), |rate| format!("{rate}/s"));
    let body = json!({"queue": "orders", "rate": text});
    ask(operated, "/v1/set", body, Event::Rated { host, rate }).await;
}

pub(crate) async fn narrow(operated: &Operated, most: usize) {
    let host = operated.identity.id;
    let body = json!({"queue": "orders", "max-in-flight": most});
    ask(operated, "/v1/set", body, Event::Narrowed { host, most }).await;
}
