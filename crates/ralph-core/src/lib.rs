//! The decisions of ralph: plain data and pure functions.
//!
//! The loop is [`engine::Engine::run`]; what it does next is [`choose::next`]; everything it
//! needs of the world is one of the six traits in [`ports`]. This crate never touches files,
//! processes, environment, clock, threads, network or terminal.

pub mod active;
pub mod amend;
pub mod answer;
pub mod asking;
pub mod attempt;
pub mod board;
pub mod briefing;
pub mod budget;
pub mod capability;
pub mod checklist;
pub mod checks;
pub mod child;
pub mod choose;
pub mod claim;
pub mod completion;
pub mod context;
pub mod context_alert;
pub mod control;
pub mod edits;
pub mod engine;
pub mod event;
pub mod failure;
pub mod fingerprint;
pub mod foreign;
pub mod gate;
pub mod given_up;
pub mod glob;
pub mod graph;
pub mod guard;
pub mod handoff;
pub mod ids;
pub mod judge;
pub mod memory;
pub mod nearest;
pub mod notice;
pub mod outcome;
pub mod plan;
pub mod planted;
pub mod ports;
pub mod progress;
pub mod prompt;
pub mod reading;
pub mod recipe;
pub mod report;
pub mod review;
pub mod rules;
pub mod run;
pub mod sandbox;
pub mod scm;
pub mod secret;
pub mod settle;
pub mod shelf;
pub mod skill;
pub mod stopping;
pub mod stuck;
pub mod task;
pub mod telemetry;
pub mod template;
pub mod text;
pub mod units;
pub mod vacuous;
pub mod version;
