//! Policies and the tools of their authors: the sandbox and its limits, every language, scenarios, checks, simulation, charts and replay.

mod chart;
mod checks;
mod languages;
mod preview_1;
mod replay;
mod sandbox;
mod scenarios;
mod simulate;
mod workbench;
