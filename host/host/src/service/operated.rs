//! What operators reach of a service: its queues, their dead letters, and the control socket.

use std::sync::Arc;

use crate::admin::{AdminQueue, ControlSocket, Interface};
use crate::assembly::Assembly;
use crate::consumer::Consumer;
use crate::letters::{Desk, DeskQueue};
use crate::queue::Connections;

/// A queue as the admin interface reaches it.
pub(super) fn admin_queue((name, consumer): &(String, Consumer)) -> AdminQueue {
    AdminQueue::of(name, consumer)
}

/// What the host does about the dead letters of its queues.
pub(super) fn desk(consumers: &[(String, Consumer)], connections: &Connections) -> Desk {
    let queues = consumers.iter().map(|(name, consumer)| {
        let ready = consumer.ready();
        let dead = ready.dead_letter_queues();
        DeskQueue {
            name: name.clone(),
            arn: ready.description.arn.clone(),
            queue: Arc::clone(&ready.queue),
            dead_letters: dead.map(|(queue, _)| Arc::clone(queue)).collect(),
            policy: Arc::clone(consumer.decider().policy()),
            bounds: consumer.decider().bounds(),
        }
    });
    Desk::new(queues.collect(), Arc::new(connections.clone()))
}

/// Says that the queue is served from now on.
pub(super) fn log_ready((name, consumer): &(String, Consumer)) {
    let ready = consumer.ready();
    let dead_letters = ready.dead_letters.as_ref();
    let by_class = ready.class_dead_letters.iter();
    let by_class: Vec<_> = by_class
        .map(|(class, (queue, _))| format!("{class}={}", queue.url()))
        .collect();
    let by_class = by_class.join(",");
    tracing::info!(
        queue = name,
        url = ready.queue.url(),
        policy = consumer.decider().policy().current().title(),
        dead_letters = dead_letters.map_or("none", |(queue, _)| queue.url()),
        "dead-letters-by-class" = (!by_class.is_empty()).then_some(by_class),
        "ready"
    );
}

/// Opens the control socket. A host without one works as well.
pub(super) fn control(assembly: &Assembly, interface: &Arc<Interface>) -> Option<ControlSocket> {
    let store = assembly.store()?;
    ControlSocket::listen(store, interface)
        .map_err(|error| {
            tracing::warn!(folder = %store.folder().display(), %error, "no control socket: the commands on this machine do not find this host");
        })
        .ok()
}
