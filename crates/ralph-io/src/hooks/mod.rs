//! What the hooks in an agent need of the world: how full the agent's context is, what was told
//! in a session before, and where paths lead.
//!
//! Everything here runs inside somebody's session, a hundred times an hour: it reads little,
//! waits for nothing, and an obstacle means "nothing to say", never an error. Not here: what is
//! said, which is the core's, and the hook itself, which is a command.

pub mod canary;
pub mod notes;
pub mod places;
pub mod transcript;
