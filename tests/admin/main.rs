//! The admin interface of running hosts: what it answers, to whom, and what it withstands.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod access;
mod actions;
mod browser;
mod commands;
mod documents;
mod fleet;
mod groups;
mod hostile;
mod incident;
mod letters;
mod night;
mod page;
mod probes;
mod proxy;
mod schema;
mod tls;
mod validator;
mod waiting;
mod what_if;
mod world;
