//! What ralph's hooks in an agent read: how full the agent's context is, what was already reported
//! in a session, and where paths lead.
//!
//! Everything here runs inside an agent's session, a hundred times an hour: it reads little, waits
//! for nothing, and treats a problem as "nothing to report", never as an error. Not here: what is
//! reported (the core), and the hook itself (a command).

pub mod guard_self_test;
pub mod notes;
pub mod places;
pub mod transcript;
