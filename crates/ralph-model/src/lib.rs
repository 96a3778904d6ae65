//! The data of ralph: the policies of a run, its facts, and its state.
//!
//! Plain values that can be stored and compared, with the questions that a value can answer by
//! itself. Start with [`recipe::Recipe`] (the policies of a run), [`event::Event`] (the facts of
//! its journal) and [`run::RunState`] (the fold of the facts). Not here: any decision, which
//! `ralph-core` makes.

pub mod abandoned_task;
pub mod agent;
pub mod agent_call_state;
pub mod agent_list_diff;
pub mod agent_output;
pub mod amendment;
pub mod attempt;
pub mod attempt_label;
pub mod budget;
pub mod capability;
pub mod child;
pub mod context;
pub mod control;
pub mod event;
pub mod failure;
pub mod fingerprint;
pub mod gate;
pub mod glob;
pub mod guard_policy;
pub mod handoff;
pub mod hook_state;
pub mod ids;
pub mod judgement;
pub mod list_snapshot;
pub mod memory;
pub mod occasion;
pub mod outcome;
pub mod parallel_state;
pub mod phase;
pub mod plan;
pub mod recipe;
pub mod refusal;
pub mod remote_job;
pub mod review;
pub mod run;
pub mod sandbox;
pub mod stuck;
pub mod task;
pub mod task_state;
pub mod text;
pub mod units;
pub mod version;
pub mod work_figures;
pub mod worker;
pub mod worker_protocol;
pub mod worktree;
