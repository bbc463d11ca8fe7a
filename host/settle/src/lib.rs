//! What becomes of a message after its attempt. [`hold`] keeps it until the next one, [`dead_letter`] says where it goes if there is none, and [`waiting`] remembers what waits and brings it back sooner.

pub mod dead_letter;
pub mod hold;
pub mod waiting;

use backstop_core::{decision, failure, text};
use backstop_queue as queue;
use backstop_telemetry as telemetry;
