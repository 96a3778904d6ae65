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
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a view shows what it knows; a new event needs no line in every view"
)]

mod action_line;
mod answer_text;
pub mod budget;
mod compaction_line;
mod control_lines;
pub mod doctor_report;
pub mod error_report;
pub mod explanation;
mod gate_lines;
pub mod graph;
pub mod help_pages;
pub mod html;
mod line_text;
mod line_writer;
mod lines;
pub mod live_region;
mod next_steps;
pub mod report;
mod run_summary;
pub mod sanitize;
pub mod serve;
pub mod session;
pub mod size;
pub mod stats;
pub mod status;
mod stream;
pub mod stream_tail;
pub mod style;
mod task_lines;
pub mod tasks;
pub mod time;
pub mod tui;
mod verbose;
pub mod view;
mod wait_lines;
mod worker_lines;
pub mod writer;
