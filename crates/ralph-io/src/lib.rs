//! The effects of ralph: processes, agents, gates, git, files, clock.
//!
//! Each room implements a port of `ralph-core` or serves one that does. Not here: decisions,
//! which are the core's, and printing, which is `ralph-ui`'s.

pub mod agent_state;
pub mod awake;
pub mod bounded;
pub mod caller;
pub mod clock;
pub mod confined;
pub mod control;
pub mod environment;
pub mod formats;
#[doc(hidden)]
pub mod fuzzing;
pub mod gates;
pub mod git;
pub mod hooks;
pub mod http;
pub mod mask;
pub mod notify;
pub mod process;
pub mod sandbox;
pub mod sim;
pub mod specs;
pub mod store;
pub mod telemetry;
pub mod terminal;
pub mod versions;
