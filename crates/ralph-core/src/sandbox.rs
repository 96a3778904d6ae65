//! The isolation settings: what agents and gates may reach, and what enforces it.
//!
//! Plain data: the engine ignores it, and a launcher starts child processes with it. Neither
//! enforcement nor the detection of usable backends is here.

pub mod addresses;
pub mod allowlist;
pub mod blocked_call;
pub mod gate_signs;
pub mod hosts;
pub mod model_hosts;
