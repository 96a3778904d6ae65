//! Simulation: runs the real engine in a world drawn from a seed, with agents that lie, crash and
//! cheat, ports that fail, users that interfere and a process that dies; thousands of complete
//! runs a second. An observer checks the invariants after every event.
//!
//! A seed yields a [`plan`] (by [`draw_plan`]), a plan yields the engine's recipe and its
//! world; [`run_plan`] plays it and [`check_plan`] reports violations. A plan that fails is
//! reduced ([`shrink_plan`]) and kept ([`kept_plans`]). Not here: any decision of ralph's own.

pub mod deed;
pub mod dice;
pub mod draw;
pub mod drive;
pub mod kept;
pub mod observer;
pub mod person;
pub mod plan;
pub mod ports;
pub mod recipe;
pub mod repository;
pub mod shrink;
pub mod tally;
pub mod world;

pub use draw::draw;
pub use drive::{Ended, Report, check, run, sweep};
pub use observer::{Invariant, Violation};
pub use plan::Plan;
pub use shrink::shrink;
pub use tally::Tally;
