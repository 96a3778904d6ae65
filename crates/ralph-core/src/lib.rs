//! The decisions of ralph: plain data and pure functions.
//!
//! The loop is [`engine::Engine::run`]; what it does next is [`choose::next`]; everything it
//! needs of the world is one of the six traits in [`ports`]. This crate never touches files,
//! processes, environment, clock, threads, network or terminal.

pub mod budget;
pub mod child;
pub mod completion;
pub mod event;
pub mod failure;
pub mod gate;
pub mod ids;
pub mod judge;
pub mod outcome;
pub mod ports;
pub mod reading;
pub mod recipe;
pub mod run;
pub mod text;
pub mod units;
