//! Dead letters of every origin, read, judged, archived and restored, against emulators.

mod listing;
mod world;
