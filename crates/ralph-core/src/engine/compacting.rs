//! Compaction: the prompt, and the agent with its extra MCP servers.

use super::{Engine, Trouble};
use crate::ids::Role;
use crate::memory::{Documentation, Trigger};
use crate::prompt::compact::{self, CompactParts, Lookup};
use crate::prompt::role::RolePrompt;
use crate::recipe::AgentChoice;
use crate::run::PromptSize;

impl Engine<'_> {
    /// Returns the agent for a compaction. One that looks up documentation gets further
    /// MCP servers.
    pub(super) fn compacting_agent(&self) -> AgentChoice {
        let agent = self.state.recipe.agent_for(Role::Compact).clone();
        let policy = self.state.recipe.memory.as_ref();
        match (policy.map(|policy| &policy.documentation), self.state.trigger()) {
            (Some(Documentation::Servers(file)), Trigger::Documentation) => {
                AgentChoice { mcp_config: Some(file.clone()), ..agent }
            }
            (_, Trigger::Documentation | Trigger::Size | Trigger::Periodic) => agent,
        }
    }

    /// Returns the prompt of a compaction.
    pub(super) fn compact_prompt(&mut self, size: PromptSize) -> Result<String, Trouble> {
        let inputs = self.surroundings(RolePrompt::Compact)?;
        let parts = CompactParts::of(&self.state, size);
        if let (Lookup::Nowhere(why), Some(next)) = (parts.lookup, parts.next) {
            let text = format!("the libraries of {} cannot be looked up: {why}", next.id);
            self.warn_once(text)?;
        }
        let parts = CompactParts::of(&self.state, size);
        let rendered = compact::compact(&parts, &self.frame(&inputs));
        Ok(self.said(rendered)?)
    }
}
