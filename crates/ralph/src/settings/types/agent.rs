//! Which agent is called: the `agent` section, its overrides per role, and how they merge.
//!
//! Not here: how an agent is called. The adapters of `ralph-io` know that.

use std::collections::BTreeMap;

use ralph_model::agent::AgentKind;
use ralph_model::agent_output::UsageScope;
use ralph_model::ids::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An agent: its command, model, environment and how to read its output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct AgentSettings {
    /// The program to run, such as `claude`.
    #[schemars(length(min = 1))]
    pub(crate) command: Option<String>,
    /// Further arguments of the program. An entry such as `--model opus` is an option and its value.
    pub(crate) flags: Option<Vec<String>>,
    /// How to talk to it. Follows from the command's file name where it is not set.
    pub(crate) kind: Option<AgentKind>,
    /// The model to ask for. Not set: the agent's own default.
    pub(crate) model: Option<String>,
    /// The model to fall back to when the first one is overloaded.
    pub(crate) fallback_model: Option<String>,
    /// Environment variables to add for the agent.
    pub(crate) env: BTreeMap<String, String>,
    /// Environment variables to remove for the agent; globs such as `*_API_KEY`.
    pub(crate) env_deny: Option<Vec<String>>,
    /// Whether the agent may use its tools without asking. Default: true.
    pub(crate) skip_permissions: Option<bool>,
    /// A file with instructions for every prompt, passed as the agent's system prompt if it takes
    /// one.
    #[schemars(length(min = 1))]
    pub(crate) system_prompt_file: Option<String>,
    /// Selects whole messages in the agent's output, for agents of kind `custom`. The last one is
    /// its answer.
    pub(crate) response_filter: Option<String>,
    /// Selects parts of a message while it is streamed, for agents of kind `custom`.
    pub(crate) delta_filter: Option<String>,
    /// Selects what to show of the agent's output, for agents of kind `custom`. Not set: its
    /// messages.
    pub(crate) display_filter: Option<String>,
    /// Selects the id of the session, for agents of kind `custom`.
    pub(crate) session_filter: Option<String>,
    /// Select usage figures, for agents of kind `custom`.
    pub(crate) usage_filters: UsageFilterSettings,
}

/// Filters for usage figures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct UsageFilterSettings {
    /// Selects the input tokens that were not cached.
    pub(crate) input: Option<String>,
    /// Selects the tokens that were written.
    pub(crate) output: Option<String>,
    /// Selects the tokens that were read from the cache.
    pub(crate) cache_read: Option<String>,
    /// Selects the tokens that were written to the cache.
    pub(crate) cache_write: Option<String>,
    /// Selects the cost in dollars.
    pub(crate) cost: Option<String>,
    /// What the figures of one line are for. Default: `total`.
    pub(crate) scope: Option<UsageScope>,
}

impl UsageFilterSettings {
    /// Returns these filters, with unset ones taken from `base`.
    fn with_defaults_from(&self, base: Self) -> Self {
        Self {
            input: self.input.clone().or(base.input),
            output: self.output.clone().or(base.output),
            cache_read: self.cache_read.clone().or(base.cache_read),
            cache_write: self.cache_write.clone().or(base.cache_write),
            cost: self.cost.clone().or(base.cost),
            scope: self.scope.or(base.scope),
        }
    }
}

impl AgentSettings {
    /// Returns this agent, with unset fields taken from `base`.
    ///
    /// Another command or kind is another program: the arguments, models and filters of `base`
    /// mean nothing to it, so only the environment, the permissions and the instructions carry
    /// over.
    #[must_use]
    pub(crate) fn with_defaults_from(&self, base: &Self) -> Self {
        let base = if self.command.is_some() || self.kind.is_some() {
            Self {
                env: base.env.clone(),
                env_deny: base.env_deny.clone(),
                skip_permissions: base.skip_permissions,
                system_prompt_file: base.system_prompt_file.clone(),
                ..Self::default()
            }
        } else {
            base.clone()
        };
        let mut env = base.env;
        env.extend(self.env.clone());
        Self {
            command: self.command.clone().or(base.command),
            flags: self.flags.clone().or(base.flags),
            kind: self.kind.or(base.kind),
            model: self.model.clone().or(base.model),
            fallback_model: self.fallback_model.clone().or(base.fallback_model),
            env,
            env_deny: self.env_deny.clone().or(base.env_deny),
            skip_permissions: self.skip_permissions.or(base.skip_permissions),
            system_prompt_file: self.system_prompt_file.clone().or(base.system_prompt_file),
            response_filter: self.response_filter.clone().or(base.response_filter),
            delta_filter: self.delta_filter.clone().or(base.delta_filter),
            display_filter: self.display_filter.clone().or(base.display_filter),
            session_filter: self.session_filter.clone().or(base.session_filter),
            usage_filters: self.usage_filters.with_defaults_from(base.usage_filters),
        }
    }

    /// Returns every filter that is set, with its key.
    pub(crate) fn set_filters(&self) -> Vec<(&'static str, &str)> {
        let usage = &self.usage_filters;
        let all = [
            ("responseFilter", &self.response_filter),
            ("deltaFilter", &self.delta_filter),
            ("displayFilter", &self.display_filter),
            ("sessionFilter", &self.session_filter),
            ("usageFilters.input", &usage.input),
            ("usageFilters.output", &usage.output),
            ("usageFilters.cacheRead", &usage.cache_read),
            ("usageFilters.cacheWrite", &usage.cache_write),
            ("usageFilters.cost", &usage.cost),
        ];
        all.into_iter().filter_map(|(key, filter)| Some((key, filter.as_deref()?))).collect()
    }
}

/// Other agents, models or flags for single roles. Unset fields of a role come from `agent`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RoleAgentSettings {
    /// For iterations on a prompt.
    pub(crate) prompt: AgentSettings,
    /// For making the plan.
    pub(crate) plan: AgentSettings,
    /// For working by an implementation plan.
    pub(crate) build: AgentSettings,
    /// For the first attempt on a task.
    pub(crate) implement: AgentSettings,
    /// For reviewing.
    pub(crate) review: AgentSettings,
    /// For fixing what a review asked for.
    pub(crate) fix: AgentSettings,
    /// For compacting memory.
    pub(crate) compact: AgentSettings,
    /// For writing commit messages.
    pub(crate) message: AgentSettings,
    /// For the attempts after a strategy shift: a stronger or different agent.
    pub(crate) escalate: AgentSettings,
}

impl RoleAgentSettings {
    /// Returns every section with its key, in the order of the documentation.
    pub(crate) fn sections(&self) -> [(&'static str, &AgentSettings); 9] {
        [
            ("prompt", &self.prompt),
            ("plan", &self.plan),
            ("build", &self.build),
            ("implement", &self.implement),
            ("review", &self.review),
            ("fix", &self.fix),
            ("compact", &self.compact),
            ("message", &self.message),
            ("escalate", &self.escalate),
        ]
    }

    /// Returns the section of a role.
    pub(crate) fn find_section(&self, role: Role) -> &AgentSettings {
        match role {
            Role::Prompt => &self.prompt,
            Role::Plan => &self.plan,
            Role::Build => &self.build,
            // A merge asks no agent of its own.
            Role::Implement | Role::Merge => &self.implement,
            Role::Review => &self.review,
            Role::Fix => &self.fix,
            Role::Compact => &self.compact,
            Role::Message => &self.message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(command: Option<&str>, model: Option<&str>) -> AgentSettings {
        AgentSettings {
            command: command.map(Into::into),
            model: model.map(Into::into),
            ..AgentSettings::default()
        }
    }

    #[test]
    fn a_role_keeps_the_command_and_changes_the_model() {
        let base =
            AgentSettings { flags: Some(vec!["--verbose".into()]), ..agent(Some("claude"), None) };
        let expected = AgentSettings { model: Some("haiku".into()), ..base.clone() };
        assert_eq!(agent(None, Some("haiku")).with_defaults_from(&base), expected);
    }

    #[test]
    fn another_program_does_not_inherit_arguments_or_models() {
        let base = AgentSettings {
            flags: Some(vec!["--verbose".into()]),
            env: BTreeMap::from([("CI".into(), "1".into())]),
            skip_permissions: Some(false),
            ..agent(Some("claude"), Some("opus"))
        };
        let expected = AgentSettings {
            env: base.env.clone(),
            skip_permissions: Some(false),
            ..agent(Some("codex"), None)
        };
        assert_eq!(agent(Some("codex"), None).with_defaults_from(&base), expected);
    }
}
