//! Policies and the tools of their authors: the sandbox and its limits, the built-in policies in Rust, codes of the operator, every language, scenarios, checks, simulation, charts and replay.

mod chart;
mod checks;
mod codes;
mod install;
mod languages;
mod native;
mod outage;
mod preview_1;
mod replay;
mod sandbox;
mod scenarios;
mod simulate;
mod strings;
mod workbench;
