//! The host's rules that an exported policy may need: the default classification, the defaults of the questions that it does not answer, and the random bytes of its runtime.

use std::num::NonZeroU32;

use backstop_backoff::Class;
use backstop_core::decision::{ErrorClass, fallback};
use backstop_core::failure::{Error, Failure, Milliseconds, Timestamp};
use sha2::{Digest, Sha256};

use crate::wire::{answer, given_text};

/// The numbers of the classes, in the order in which JavaScript has their names; the last is a class of the policy's own.
const CLASSES: [Class; 3] = [Class::Transient, Class::Throttled, Class::Permanent];

/// The number of the default class of an error, whose code is passed; a status of -1 is none.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn classify(status: i32) -> i32 {
    let class = fallback::class_of(&given_text(), u16::try_from(status).ok());
    let known = CLASSES.iter().position(|it| ErrorClass::from(*it) == class);
    known.and_then(|it| i32::try_from(it).ok()).unwrap_or(3)
}

/// Why a failure of this class is given up by default: the length of the reason, or -1 if it is retried. The code of the error is passed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn reason(class: i32) -> i32 {
    let known = usize::try_from(class).ok().and_then(|it| CLASSES.get(it));
    let class = match known {
        Some(class) => ErrorClass::from(*class),
        None => ErrorClass::Other(String::new()),
    };
    let failure = failure(Error::new(given_text(), ""), 1, 0.0);
    match fallback::reason_to_dead_letter(&failure, &class) {
        Some(reason) => answer(reason.into_bytes()),
        None => -1,
    }
}

/// The default delay, in milliseconds; a `Retry-After` below zero is none.
#[unsafe(no_mangle)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "JavaScript passes whole numbers of this size"
)]
pub(crate) extern "C" fn delay(attempt: f64, random: f64, retry_after: f64) -> u32 {
    let asked = (retry_after >= 0.0).then_some(Milliseconds(retry_after as u32));
    let error = Error::new("", "").retry_after(asked);
    fallback::delay(&failure(error, attempt as u32, random)).0
}

/// One block of the bytes that derive from a failure's random number.
#[unsafe(no_mangle)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number of a block is small"
)]
pub(crate) extern "C" fn random_block(random: f64, block: f64) -> i32 {
    let digest = Sha256::new()
        .chain_update(random.to_be_bytes())
        .chain_update((block as u64).to_be_bytes())
        .finalize();
    answer(digest.to_vec())
}

fn failure(error: Error, attempt: u32, random: f64) -> Failure {
    Failure {
        message_id: String::new(),
        source: String::new(),
        attempt: NonZeroU32::new(attempt).unwrap_or(NonZeroU32::MIN),
        age: Milliseconds(0),
        failed_at: Timestamp(0),
        previous_delay: None,
        error,
        attributes: Vec::new(),
        random,
    }
}
