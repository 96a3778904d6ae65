//! Task lists: what to do next, which changes are allowed, and mistakes in a list.

pub mod agent_list_edits;
pub mod amend;
pub mod attempt;
pub mod checklist;
pub mod earlier_work;
pub mod expected_paths;
pub mod external_edits;
pub mod job;
pub mod job_result;
pub mod next_work;
pub mod plan;
pub mod progress;
pub mod remote_job;
pub mod rules;
pub mod shares;
pub mod side_by_side;
pub mod skill;
pub mod validation;
