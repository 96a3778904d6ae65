//! Landing work: source-control commands, messages and failure branches.

pub mod failure_branch;
pub mod scm;
