//! Simulation: the real engine over a world that is drawn from a seed, with agents that lie, crash
//! and cheat, ports that fail, people that interfere and a process that dies, thousands of whole
//! runs a second; and one who looks on after every event and knows what must hold.
//!
//! From a seed comes a [`plan`] (by [`draw`](draw())), from a plan the recipe that the engine gets
//! and the world that it acts in; [`run`](run()) plays it and [`check`](check()) says what was
//! wrong. A plan that fails is made smaller ([`shrink`](shrink())) and kept ([`kept`]). Not here:
//! any decision of ralph's own.

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
