//! Which receive of a message counts: a host that was frozen, or whose requests were late, receives a message again that it has in hand.
//!
//! By the receipt handle of the earlier receive nothing can be changed any more. So the last receive counts: one that waits for its turn takes the place of the earlier one, and while an attempt is under way, what follows from it is done by the last receipt handle. No message is attempted twice at once by one host.
//!
//! A message that is visible again at once may also be received before its host knows that it is: the later receive [follows](Receipts::follows) then.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};

use backstop_core::lock::lock;
use tokio::sync::Notify;

use super::recent::Key;
use crate::queue::Message;

/// The messages in hand, each with its last receive.
#[derive(Debug, Default)]
pub(super) struct Receipts {
    in_hand: Mutex<HashMap<Key, InHand>>,
    hashes: RandomState,
    /// Something has ended that a later receive may wait for.
    changed: Notify,
}

#[derive(Debug)]
struct InHand {
    last: Arc<Message>,
    /// The receives in hand.
    receives: usize,
    stage: Stage,
    /// It is made visible again at once, so that the receive after that is one of its own.
    returns: bool,
}

impl InHand {
    fn is_next(&self, message: &Arc<Message>) -> bool {
        self.stage == Stage::Waits && Arc::ptr_eq(&self.last, message)
    }

    /// See [`Receipts::follows`]; `None` as long as it is not known.
    fn follows(&mut self, message: &Arc<Message>) -> Option<bool> {
        if !self.returns || !Arc::ptr_eq(&self.last, message) {
            return Some(false);
        }
        let is_over = self.stage == Stage::Settled || self.receives == 1;
        is_over.then(|| {
            self.returns = false;
            self.stage = Stage::UnderWay;
            true
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waits,
    UnderWay,
    /// The last change of its visibility is made, which no renewal may overwrite.
    Settling,
    /// What follows from its attempt is done.
    Settled,
}

impl Receipts {
    /// These messages are in hand from now on, each until its receive [has ended](Self::ended). Calls `again` for each that was in hand already: of its receives, one is attempted.
    pub(super) fn received<'a>(
        &self,
        messages: impl Iterator<Item = &'a Arc<Message>>,
        again: impl Fn(&Message),
    ) {
        let mut all = self.lock();
        for message in messages {
            match all.entry(self.key(message)) {
                Entry::Vacant(entry) => {
                    entry.insert(InHand {
                        last: Arc::clone(message),
                        receives: 1,
                        stage: Stage::Waits,
                        returns: false,
                    });
                }
                Entry::Occupied(entry) => {
                    let in_hand = entry.into_mut();
                    in_hand.last = Arc::clone(message);
                    in_hand.receives += 1;
                    if in_hand.stage == Stage::Settled {
                        in_hand.stage = Stage::Waits;
                    } else {
                        again(message);
                    }
                }
            }
        }
    }

    /// Whether this receive is the one that counts, and no attempt of its message is under way or over.
    pub(super) fn is_next(&self, message: &Arc<Message>) -> bool {
        let all = self.lock();
        let in_hand = all.get(&self.key(message));
        in_hand.is_none_or(|it| it.is_next(message))
    }

    /// As [`is_next`](Self::is_next); an attempt is under way from then on.
    pub(super) fn begins(&self, message: &Arc<Message>) -> bool {
        let mut all = self.lock();
        let Some(in_hand) = all.get_mut(&self.key(message)) else {
            return true;
        };
        let begins = in_hand.is_next(message);
        if begins {
            in_hand.stage = Stage::UnderWay;
        }
        begins
    }

    /// Whether this receive is the one after a [return](Self::returns) of the message, and is attempted once the earlier receive is over: waits for that. An attempt is under way from then on.
    pub(super) async fn follows(&self, message: &Arc<Message>) -> bool {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(follows) = self
                .lock()
                .get_mut(&self.key(message))
                .map_or(Some(false), |it| it.follows(message))
            {
                return follows;
            }
            changed.await;
        }
    }

    /// The last receive of a message that is attempted, if it has another receipt handle: what follows is done by that.
    pub(super) fn later(&self, message: &Message) -> Option<Arc<Message>> {
        let all = self.lock();
        let in_hand = all.get(&self.key(message))?;
        let is_other = in_hand.last.receipt_handle != message.receipt_handle;
        let is_later = matches!(in_hand.stage, Stage::UnderWay | Stage::Settling) && is_other;
        is_later.then(|| Arc::clone(&in_hand.last))
    }

    /// By which receive a message is kept invisible: the last one, until what follows from its attempt is done.
    pub(super) fn kept(&self, message: &Arc<Message>) -> Option<Arc<Message>> {
        let all = self.lock();
        let Some(in_hand) = all.get(&self.key(message)) else {
            return Some(Arc::clone(message));
        };
        match in_hand.stage {
            Stage::Waits | Stage::UnderWay => Some(Arc::clone(&in_hand.last)),
            Stage::Settling | Stage::Settled => None,
        }
    }

    /// The last change of the visibility of this message is made.
    pub(super) fn settling(&self, message: &Message) {
        if let Some(in_hand) = self.lock().get_mut(&self.key(message)) {
            in_hand.stage = Stage::Settling;
        }
    }

    /// This message is made visible again at once, as the last thing that is done about it. It may be received before that is known.
    pub(super) fn returns(&self, message: &Message) {
        if let Some(in_hand) = self.lock().get_mut(&self.key(message)) {
            in_hand.stage = Stage::Settling;
            in_hand.returns = true;
        }
    }

    /// What follows from the attempt of this message is done.
    pub(super) fn settled(&self, message: &Message) {
        if let Some(in_hand) = self.lock().get_mut(&self.key(message)) {
            in_hand.stage = Stage::Settled;
        }
        self.changed.notify_waiters();
    }

    /// This receive is no longer in hand.
    pub(super) fn ended(&self, message: &Message) {
        let mut all = self.lock();
        if let Entry::Occupied(mut entry) = all.entry(self.key(message)) {
            let in_hand = entry.get_mut();
            in_hand.receives -= 1;
            if in_hand.receives == 0 {
                entry.remove();
            } else {
                self.changed.notify_waiters();
            }
        }
    }

    /// Copies of a message have its id, and came at other times.
    fn key(&self, message: &Message) -> Key {
        self.hashes.hash_one((&message.id, message.kept_since.0))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, InHand>> {
        lock(&self.in_hand)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::queue::{ReceiptHandle, ordinary_message};

    fn receive(receipts: &Receipts, handle: &str) -> Arc<Message> {
        let message = Arc::new(Message {
            receipt_handle: ReceiptHandle(handle.into()),
            ..ordinary_message()
        });
        receipts.received([&message].into_iter(), |_| ());
        message
    }

    #[test]
    fn of_two_receives_that_wait_for_their_turn_the_last_one_begins() {
        let receipts = Receipts::default();
        let (older, later) = (receive(&receipts, "a"), receive(&receipts, "b"));
        assert!(!receipts.begins(&older) && receipts.begins(&later));
        assert_eq!(receipts.later(&later), None);
        receipts.settled(&later);
        receipts.ended(&later);
        // It is over before the older one has its turn.
        assert!(!receipts.begins(&older));
        receipts.ended(&older);
        assert!(receipts.lock().is_empty());
    }

    #[test]
    fn what_follows_from_an_attempt_is_done_by_the_last_receive() {
        let receipts = Receipts::default();
        let older = receive(&receipts, "a");
        assert!(receipts.begins(&older));
        assert_eq!(receipts.later(&older), None);
        let later = receive(&receipts, "b");
        assert!(!receipts.begins(&later));
        assert_eq!(receipts.later(&older), Some(Arc::clone(&later)));
        assert_eq!(receipts.kept(&older), Some(Arc::clone(&later)));
        receipts.settled(&older);
        // Its last visibility stays as it is.
        assert_eq!(receipts.kept(&later), None);
        receipts.ended(&older);
        receipts.ended(&later);
        let next = receive(&receipts, "c");
        assert!(receipts.begins(&next));
        assert_eq!(receipts.kept(&next), Some(next));
    }

    #[test]
    fn a_later_receive_that_is_over_is_still_the_one_that_counts() {
        let receipts = Receipts::default();
        let older = receive(&receipts, "a");
        assert!(receipts.begins(&older));
        let later = receive(&receipts, "b");
        assert!(!receipts.begins(&later) && !receipts.is_next(&later));
        receipts.ended(&later);
        assert_eq!(receipts.kept(&older), Some(Arc::clone(&later)));
        assert_eq!(receipts.later(&older), Some(later));
    }

    #[test]
    fn a_receive_that_waits_changes_nothing_of_what_was_done_about_its_message() {
        let receipts = Receipts::default();
        let older = receive(&receipts, "a");
        assert!(receipts.begins(&older));
        let later = receive(&receipts, "b");
        receipts.settling(&older);
        assert_eq!(receipts.later(&older), Some(Arc::clone(&later)));
        assert_eq!(receipts.kept(&later), None);
        receipts.settled(&older);
        receipts.ended(&older);
        assert_eq!(receipts.kept(&later), None);
        assert!(!receipts.is_next(&later));
    }

    #[test]
    fn a_message_that_comes_again_while_an_old_receive_waits_begins() {
        let receipts = Receipts::default();
        let (older, later) = (receive(&receipts, "a"), receive(&receipts, "b"));
        assert!(receipts.begins(&later));
        receipts.settled(&later);
        receipts.ended(&later);
        let next = receive(&receipts, "c");
        assert!(receipts.begins(&next) && !receipts.begins(&older));
    }

    /// Whether a receive follows, if that is known yet.
    fn follows(receipts: &Receipts, message: &Arc<Message>) -> Option<bool> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(receipts.follows(message)).poll(&mut context) {
            Poll::Ready(follows) => Some(follows),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_message_that_returns_at_once_is_attempted_after_the_attempt_before() {
        let receipts = Receipts::default();
        let older = receive(&receipts, "a");
        assert!(receipts.begins(&older));
        receipts.returns(&older);
        let later = receive(&receipts, "b");
        assert!(!receipts.begins(&later));
        assert_eq!(follows(&receipts, &later), None);
        receipts.settled(&older);
        assert_eq!(follows(&receipts, &later), Some(true));
        // Once.
        assert!(!receipts.begins(&later));
        let last = receive(&receipts, "c");
        assert_eq!(follows(&receipts, &last), Some(false));
        receipts.ended(&older);
        receipts.settled(&later);
        receipts.ended(&later);
        receipts.ended(&last);
        assert!(receipts.lock().is_empty());
    }

    #[test]
    fn of_two_receives_after_a_return_the_last_one_follows_also_if_the_attempt_was_dropped() {
        let receipts = Receipts::default();
        let older = receive(&receipts, "a");
        assert!(receipts.begins(&older));
        receipts.returns(&older);
        let (later, last) = (receive(&receipts, "b"), receive(&receipts, "c"));
        assert_eq!(follows(&receipts, &later), Some(false));
        receipts.ended(&later);
        assert_eq!(follows(&receipts, &last), None);
        receipts.ended(&older);
        assert_eq!(follows(&receipts, &last), Some(true));
    }

    #[test]
    fn nothing_follows_on_an_attempt_whose_message_does_not_return() {
        let receipts = Receipts::default();
        let older = receive(&receipts, "a");
        assert!(receipts.begins(&older));
        let later = receive(&receipts, "b");
        assert_eq!(follows(&receipts, &later), Some(false));
    }

    #[test]
    fn a_copy_is_another_message() {
        let receipts = Receipts::default();
        let first = receive(&receipts, "a");
        let copy = Arc::new(Message {
            kept_since: first.kept_since.plus(std::time::Duration::from_millis(1)),
            ..(*first).clone()
        });
        receipts.received([&copy].into_iter(), |_| panic!("it is another message"));
        assert!(receipts.begins(&first) && receipts.begins(&copy));
    }
}
