//! What becomes of a message after its attempt. A [`Settler`] applies what was decided. [`hold`] keeps it until the next one, [`dead_letter`] says where it goes if there is none, and [`waiting`] remembers what waits and brings it back sooner.

pub mod dead_letter;
pub mod hold;
mod in_hand;
pub mod lookup;
mod settler;
mod spans;
pub mod waiting;

pub use dead_letter::{DeadLetterQueue, Find, known};
pub use in_hand::InHand;
pub use settler::{DEAD_LETTER_RETRY_DELAY, REQUEST_TIMEOUT, Settled, Settler};
pub use spans::decided;

use backstop_core::{decision, failure, text};
use backstop_queue as queue;
use backstop_telemetry as telemetry;
