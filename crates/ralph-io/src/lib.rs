//! The effects of ralph: everything that touches the world, behind the core's ports.
//!
//! Not here: decisions, which are the core's, and printing, which is `ralph-ui`'s.

pub mod agents;
pub mod sim;
