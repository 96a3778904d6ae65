//! Simulation: runs the real engine in a world drawn from a seed, with agents that lie, crash and
//! cheat, ports that fail, users that interfere and a process that dies; thousands of complete
//! runs a second. An observer checks the invariants after every event.
//!
//! A seed yields a [`plan`] (by [`draw_plan`]), a plan yields the engine's recipe and its
//! world; [`run_plan`] plays it and [`check_plan`] reports violations. A plan that fails is
//! reduced ([`shrink_plan`]) and kept ([`kept_plans`]). Runs with workers are in [`parallel`]. Not
//! here: any decision of ralph's own.

pub mod agent_action;
pub mod agent_list;
pub mod dice;
pub mod draw;
pub mod drive;
pub mod git_dir;
pub mod kept_plans;
pub mod observer;
pub mod parallel;
pub mod plan;
pub mod ports;
pub mod recipe;
pub mod repository;
pub mod shrink;
pub mod tally;
pub mod user_edits;
pub mod world;

pub use draw::draw_plan;
pub use drive::{EndState, SimulationReport, check_plan, run_plan, sweep_deaths};
pub use observer::{Invariant, InvariantViolation};
pub use plan::SimulationPlan;
pub use shrink::shrink_plan;
pub use tally::Tally;
