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
        let (queue, description) = consumer.queue();
        let dead = consumer.dead_letter_queues();
        DeskQueue {
            name: name.clone(),
            arn: description.arn.clone(),
            queue: Arc::clone(queue),
            dead_letters: dead.map(|(queue, _)| Arc::clone(queue)).collect(),
            policy: Arc::clone(consumer.decider().policy()),
            bounds: consumer.decider().bounds(),
        }
    });
    Desk::new(queues.collect(), Arc::new(connections.clone()))
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
