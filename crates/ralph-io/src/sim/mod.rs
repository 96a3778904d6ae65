//! The scripted agent: plays a scenario file as its own process, so that loops, gates and prompts
//! can be tried without paying for a model.
//!
//! It runs on the agent's side of the pipe: nothing here supervises, and where the scenario says
//! so, it leaves processes behind on purpose. Not here: reading its output, which the adapters do.

mod acp_peer;
mod acp_writer;
mod actions;
mod amp_writer;
mod claude_writer;
mod cline_writer;
mod codex_writer;
mod matching;
mod play;
mod provider_errors;
mod scenario;
mod writer;

pub(crate) use matching::find_written_state_file;
pub use play::{STATUS_NO_MATCH, STATUS_SCENARIO, play_scenario};
pub use scenario::{Scenario, ScenarioError};
