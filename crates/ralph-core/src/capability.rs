//! What an agent can do, as plain data, and what follows from it for a run.
//!
//! The engine looks here instead of knowing agents. Not here: which agent can do what; its
//! adapter says so, for the version that is installed.

use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::recipe::{AgentChoice, AgentOutput, Recipe, UsageSelectors};

/// What an agent can do. An agent of which nothing is known can do nothing of all this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    /// Whether it can be held to a JSON Schema.
    pub schema: SchemaOutput,
    /// What it reports of its use.
    pub usage: UsageReport,
    /// Whether it takes a limit of turns.
    pub turn_limit: Support,
    /// Whether it takes a limit of money.
    pub cost_limit: Support,
    /// Whether it takes a second model for when the first is overloaded.
    pub fallback_model: Support,
    /// Whether it takes MCP servers for one call.
    pub mcp: McpServers,
    /// Whether it takes instructions beside the prompt.
    pub system_prompt: Support,
    /// Whether a hook can hold it at the end of its turn.
    pub stop_hook: Support,
    /// Whether it can go on with a session.
    pub resume: Support,
    /// Whether its own output repeats the prompt.
    pub echo: Echo,
    /// What it prints where only its final text is wanted.
    pub text_mode: TextMode,
    /// Whether it says when a usage limit resets.
    pub reset_times: Support,
    /// Whether it takes ralph's plugin for one call, with the hooks in it.
    pub plugin: Support,
}

/// Whether an agent has something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Support {
    /// It does not.
    #[default]
    No,
    /// It does.
    Yes,
}

impl Support {
    /// Returns whether it is there.
    pub fn is_there(self) -> bool {
        match self {
            Self::Yes => true,
            Self::No => false,
        }
    }
}

/// Whether an agent can be held to a JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SchemaOutput {
    /// It cannot: the prompt asks for a JSON block.
    #[default]
    None,
    /// It passes the schema on and does not look at what comes back.
    Unchecked,
    /// It checks the answer, and has it mended.
    Enforced,
}

/// What an agent reports of its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UsageReport {
    /// Nothing.
    #[default]
    Nothing,
    /// Tokens.
    Tokens,
    /// Tokens and money.
    Cost,
}

/// Whether an agent takes MCP servers for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum McpServers {
    /// It does not: it has those of its own configuration.
    #[default]
    None,
    /// It adds them to those of its own configuration.
    Added,
    /// It has those and no others.
    Only,
}

/// Whether an agent's own output repeats the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Echo {
    /// Nobody knows.
    #[default]
    Unknown,
    /// It does not.
    None,
    /// It does, and the adapter tells the two apart.
    Repeats,
}

/// What an agent prints where only its final text is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TextMode {
    /// Its events all the same, because its plain text does not tell whether it succeeded. The
    /// view hides them.
    #[default]
    Events,
    /// Its final text, and nothing of what it used.
    Plain,
}

impl Capabilities {
    /// Returns every capability in words: its name and how the agent stands to it.
    pub fn in_words(&self) -> [(&'static str, &'static str); 13] {
        let has = |support: Support| if support.is_there() { "yes" } else { "no" };
        [
            (
                "schema output",
                match self.schema {
                    SchemaOutput::None => "asked in the prompt",
                    SchemaOutput::Unchecked => "unchecked",
                    SchemaOutput::Enforced => "enforced",
                },
            ),
            (
                "reports",
                match self.usage {
                    UsageReport::Nothing => "nothing",
                    UsageReport::Tokens => "tokens",
                    UsageReport::Cost => "tokens and cost",
                },
            ),
            ("turn limit", has(self.turn_limit)),
            ("cost limit", has(self.cost_limit)),
            ("fallback model", has(self.fallback_model)),
            (
                "MCP servers",
                match self.mcp {
                    McpServers::None => "its own only",
                    McpServers::Added => "added to its own",
                    McpServers::Only => "only those given",
                },
            ),
            ("system prompt", if self.system_prompt.is_there() { "yes" } else { "in the prompt" }),
            ("stop hook", has(self.stop_hook)),
            ("resume", has(self.resume)),
            (
                "echo of the prompt",
                match self.echo {
                    Echo::Unknown => "unknown",
                    Echo::None => "no",
                    Echo::Repeats => "yes",
                },
            ),
            (
                "text mode",
                match self.text_mode {
                    TextMode::Events => "events, hidden",
                    TextMode::Plain => "plain",
                },
            ),
            ("reset times", has(self.reset_times)),
            ("ralph's plugin", has(self.plugin)),
        ]
    }
}

impl UsageSelectors {
    /// Returns what is known of the use of an agent that is read with these filters. One that
    /// selects the cost alone bounds what people set a budget for most.
    pub fn reports(&self) -> UsageReport {
        let tokens = [&self.input, &self.output, &self.cache_read, &self.cache_write];
        if self.cost.is_some() {
            UsageReport::Cost
        } else if tokens.into_iter().any(Option::is_some) {
            UsageReport::Tokens
        } else {
            UsageReport::Nothing
        }
    }
}

impl AgentChoice {
    /// Returns what is known of its use after a call.
    pub fn reports(&self) -> UsageReport {
        match (self.output, self.capabilities.text_mode) {
            (AgentOutput::Text, TextMode::Plain) => UsageReport::Nothing,
            (AgentOutput::Text, TextMode::Events) | (AgentOutput::Events, _) => {
                self.capabilities.usage
            }
        }
    }

    /// Returns its command, with the version where that is known.
    pub fn shown(&self) -> String {
        match self.version {
            Some(version) => format!("`{}` {version}", self.command),
            None => format!("`{}`", self.command),
        }
    }
}

/// Returns what a run asks of its agents and does not get. People rely on a limit that they set;
/// one that does not hold must not be silent.
pub fn concerns(recipe: &Recipe) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for agent in recipe.asked() {
        for concern in concerns_of(agent, &recipe.limits.budget) {
            if !found.contains(&concern) {
                found.push(concern);
            }
        }
    }
    found
}

/// Returns the same for one agent under a budget.
pub fn concerns_of(agent: &AgentChoice, budget: &Budget) -> Vec<String> {
    let can = agent.capabilities;
    let who = agent.shown();
    let mut found = Vec::new();
    let because = match (agent.output, can.usage) {
        // It would, if it were asked for its events.
        (AgentOutput::Text, UsageReport::Tokens | UsageReport::Cost) => " in plain text",
        (AgentOutput::Text, UsageReport::Nothing) | (AgentOutput::Events, _) => "",
    };
    match (agent.reports(), budget.cost) {
        (UsageReport::Nothing | UsageReport::Tokens, Some(limit)) => found.push(format!(
            "{who} does not report what it costs{because}: the budget of {limit} does not bound it"
        )),
        (UsageReport::Cost, _) | (_, None) => {}
    }
    match (agent.reports(), budget.tokens) {
        (UsageReport::Nothing, Some(limit)) => found.push(format!(
            "{who} does not report its tokens{because}: the budget of {limit} tokens does not bound it"
        )),
        (UsageReport::Tokens | UsageReport::Cost, _) | (_, None) => {}
    }
    if agent.max_turns.is_some() && !can.turn_limit.is_there() {
        found.push(format!("{who} has no limit of turns: `maxTurns` does not bound it"));
    }
    if let Some(model) = &agent.fallback_model
        && !can.fallback_model.is_there()
    {
        found.push(format!("{who} takes no second model: `{model}` is not fallen back to"));
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
