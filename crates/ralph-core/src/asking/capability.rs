//! Warns about limits and settings of a run that its agents do not support.

use ralph_model::agent::{AgentChoice, AgentOutput};
use ralph_model::budget::Budget;
use ralph_model::capability::{McpServers, UsageReport};
use ralph_model::recipe::Recipe;

/// Returns warnings about limits and settings of a run that its agents do not support. Users rely
/// on their limits, so one without effect must be reported.
pub fn find_unsupported(recipe: &Recipe) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for agent in recipe.callable_agents() {
        for warning in find_unsupported_by(agent, &recipe.limits.budget) {
            if !found.contains(&warning) {
                found.push(warning);
            }
        }
    }
    found
}

/// Returns the warnings for one agent under a budget.
pub fn find_unsupported_by(agent: &AgentChoice, budget: &Budget) -> Vec<String> {
    let can = agent.capabilities;
    let who = agent.display_name();
    let mut found = Vec::new();
    let because = match (agent.output, can.usage) {
        // It would report usage if it were asked for events.
        (AgentOutput::Text, UsageReport::Tokens | UsageReport::Cost) => " in plain text",
        (AgentOutput::Text, UsageReport::Nothing) | (AgentOutput::Events, _) => "",
    };
    match (agent.reported_usage(), budget.cost) {
        (UsageReport::Nothing | UsageReport::Tokens, Some(limit)) => found.push(format!(
            "{who} does not report what it costs{because}: the budget of {limit} does not limit it"
        )),
        (UsageReport::Cost, _) | (_, None) => {}
    }
    match (agent.reported_usage(), budget.tokens) {
        (UsageReport::Nothing, Some(limit)) => found.push(format!(
            "{who} does not report its tokens{because}: the budget of {limit} tokens does not limit it"
        )),
        (UsageReport::Tokens | UsageReport::Cost, _) | (_, None) => {}
    }
    if agent.max_turns.is_some() && !can.turn_limit.is_supported() {
        found.push(format!("{who} has no turn limit: `maxTurns` does not apply to it"));
    }
    if let Some(model) = &agent.fallback_model
        && !can.fallback_model.is_supported()
    {
        found.push(format!("{who} supports no fallback model: `{model}` is not used"));
    }
    if let Some(file) = &agent.mcp_config
        && can.mcp == McpServers::None
    {
        let file = file.display();
        found.push(format!("{who} takes no MCP servers for one call: `{file}` has no effect"));
    }
    found
}

#[cfg(test)]
mod tests;
