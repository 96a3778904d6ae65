//! Everything ralph shows to people: the only crate that prints.
//!
//! [`view::TerminalView`] turns the events of a run into lines, [`tui`] into a screen, and
//! [`error_report::ErrorReport`] reports why the program failed. All output of agents and gates
//! goes through [`sanitize`] first. A view never stops a run: see [`writer`].
//!
//! This crate reads the core's events and decides nothing. It never imports `ralph-io`; the
//! caller passes in terminal, environment variables and time.

#![cfg_attr(
    test,
    expect(clippy::needless_raw_string_hashes, reason = "expect-test writes its snapshots so")
)]

mod board;
pub mod budget;
pub mod canvas;
pub mod checkup;
mod ending;
pub mod explanation;
#[doc(hidden)]
pub mod fuzzing;
pub mod graph;
pub mod guide;
pub mod html;
mod lines;
mod memory;
mod next;
mod page;
pub mod problem;
pub mod report;
pub mod safe;
pub mod serve;
pub mod session;
pub mod size;
pub mod status;
mod stream;
pub mod style;
pub mod tasks;
pub mod time;
pub mod tui;
mod verbose;
pub mod view;
mod waits;
mod wishes;
pub mod writer;
