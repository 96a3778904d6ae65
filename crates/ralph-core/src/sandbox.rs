//! The sandbox: which hosts may be reached, and how a blocked access is recognized.
//!
//! Not here: enforcement, and the detection of usable backends.

pub mod addresses;
pub mod allowlist;
pub mod blocked_call;
pub mod gate_signs;
pub mod hosts;
pub mod model_hosts;
pub mod package_hosts;
