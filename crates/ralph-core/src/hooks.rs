//! The hooks that run inside an agent: what they answer.

pub mod call_state;
pub mod context_alert;
pub mod session_start_hook;
pub mod stop_hook;
