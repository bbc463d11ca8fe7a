//! Work that is done once for each key: records that the real libraries of Powertools read and write, and owners that are killed, paused and cut off.

mod generated;
mod keys;
mod owners;
mod powertools;
mod processes;
mod records;
