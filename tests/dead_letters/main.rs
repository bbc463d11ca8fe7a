//! Dead letters of every origin, read, judged, archived and restored, against emulators.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod archive;
mod documents;
mod incident;
mod listing;
mod lives;
mod night;
mod nothing_chosen;
mod origins;
mod redrive;
mod redrive_again;
mod redrive_killed;
mod redrive_limits;
mod redrive_lock;
mod redrive_order;
mod redrive_others;
mod redrive_resumed;
mod redrive_shared;
mod redrive_sources;
mod redrive_targets;
mod restore;
mod triage;
mod world;
