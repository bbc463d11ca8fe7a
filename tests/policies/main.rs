//! Policies and the tools of their authors: the sandbox and its limits, the built-in policies in Rust, codes of the operator, every language, scenarios, checks, simulation and charts.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod card_payments;
mod chart;
mod checks;
mod codes;
mod edges;
mod install;
mod languages;
mod native;
mod node_retry;
mod outage;
mod preview_1;
mod sandbox;
mod scenarios;
mod simulate;
mod strings;
mod workbench;
