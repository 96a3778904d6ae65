//! The row about commands that speak the Agent Client Protocol.

use ralph_model::agent::AgentKind;
use ralph_model::capability::{Capabilities, PromptEcho, UsageReport};

use super::conversation::AcpTranslator;
use super::messages::build_call;
use crate::adapter::AgentAdapter;
use crate::call::StdinMode;

/// Everything about the protocol that ralph looks up.
pub(crate) static ADAPTER: AgentAdapter = AgentAdapter {
    // Its command takes it as a flag.
    takes_model: false,
    stdin_mode: StdinMode::Dialog,
    // The protocol guarantees none of these. Every agent seen so far counts tokens at the end of a
    // turn; few report a cost.
    capabilities: |_| Capabilities {
        usage: UsageReport::Tokens,
        echo: PromptEcho::Repeats,
        ..Capabilities::default()
    },
    ..AgentAdapter::new(
        AgentKind::Acp,
        |request, _| Ok(build_call(request)),
        |request, directory| Box::new(AcpTranslator::new(request, directory)),
    )
};
