//! Compaction: the prompt, and the agent with its extra MCP servers.

use ralph_model::agent::AgentChoice;
use ralph_model::ids::Role;
use ralph_model::memory::{CompactionTrigger, Documentation};
use ralph_model::run::PromptSize;

use super::{Engine, StepError};
use crate::asking::prompt::compact::{self, CompactParts, DocsLookup};
use crate::asking::prompt::role::RolePrompt;
use crate::tasks::next_work::compaction_trigger;

impl Engine<'_> {
    /// Returns the agent for a compaction. One that looks up documentation gets further
    /// MCP servers.
    pub(super) fn compaction_agent(&self) -> AgentChoice {
        let agent = self.state.recipe.agent_for(Role::Compact).clone();
        let policy = self.state.recipe.memory.as_ref();
        match (policy.map(|policy| &policy.documentation), compaction_trigger(&self.state)) {
            (Some(Documentation::Servers(file)), CompactionTrigger::Documentation) => {
                AgentChoice { mcp_config: Some(file.clone()), ..agent }
            }
            (
                _,
                CompactionTrigger::Documentation
                | CompactionTrigger::Size
                | CompactionTrigger::Periodic,
            ) => agent,
        }
    }

    /// Returns the prompt of a compaction.
    pub(super) fn build_compaction_prompt(
        &mut self,
        size: PromptSize,
    ) -> Result<String, StepError> {
        let inputs = self.read_prompt_inputs(RolePrompt::Compact)?;
        let parts = CompactParts::from_state(&self.state, size);
        if let (DocsLookup::Unavailable(why), Some(next)) = (parts.lookup, parts.next) {
            let text = format!("the libraries of {} cannot be looked up: {why}", next.id);
            self.warn_once(text)?;
        }
        let parts = CompactParts::from_state(&self.state, size);
        let rendered = compact::render_compact_prompt(&parts, &self.prompt_frame(&inputs));
        Ok(self.record_prompt_warnings(rendered)?)
    }
}
