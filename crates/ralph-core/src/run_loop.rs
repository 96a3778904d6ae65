//! The loop: the engine, the choice of the next step, the judgement of an iteration, and the
//! fold of events into the state.
//!
//! Start with [`engine::Engine::run`].

pub mod choose;
pub mod control;
pub mod engine;
pub mod fold;
pub mod foresee;
pub mod giving_up;
pub mod judge;
pub mod landing_plan;
pub mod repeated_failure;
pub mod settle;
