//! The decisions of ralph: pure functions over the data of `ralph-model`.
//!
//! The loop is [`run_loop::engine::Engine::run`]; [`run_loop::choose`] picks the next step;
//! everything the engine needs from the outside is one of the seven traits in [`ports`]. This
//! crate never touches files, processes, environment, clock, threads, network or terminal.

pub mod answers;
pub mod asking;
pub mod checking;
pub mod hooks;
pub mod http_head;
pub mod landing;
pub mod memory;
pub mod nearest;
pub mod plain;
pub mod ports;
pub mod project;
pub mod reporting;
pub mod run_loop;
pub mod sandbox;
pub mod tasks;
pub mod template;
