//! What each settings key can do when a project sets it: one table of all keys of the schema.
//!
//! A project's settings may be untrusted. A key is harmless, compared with the user's bound, or
//! checked by its class; a test fails for a key that is missing here. Not here: the comparison with
//! the bound, and the checks of the other classes (`trust::demands`).

#[cfg(test)]
use super::trust_limits;

/// How a key of a project's settings is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyClass {
    /// It gives no access to anything of the user's. Gate commands are here: they run in the
    /// sandbox, without login and keys.
    Harmless,
    /// It may not exceed the user's bound.
    #[cfg(test)]
    Bounded,
    /// A path that ralph reads; outside of the project it needs trust.
    ProjectPath,
    /// A file that names MCP servers, which start next to the agent.
    McpFile,
    /// The program that runs `scm.tasks`, outside of the sandbox.
    ScmCommand,
    /// The tasks of that program.
    ScmTasks,
    /// The command that runs workers elsewhere, outside of the sandbox.
    WorkerHost,
    /// The program of an agent.
    AgentCommand,
    /// The kind of an agent, which decides which login its program gets.
    AgentKind,
    /// Arguments of an agent.
    AgentFlags,
    /// A variable of an agent.
    AgentVariable,
    /// Whether an agent asks before it uses its tools.
    AgentPermissions,
}

/// The keys outside of agents' sections, except those with a bound. `*` stands for any key of an
/// object, `[]` for any item of a list.
const KEYS: &[(KeyClass, &[&str])] = &[
    (KeyClass::ScmCommand, &["scm.command"]),
    (KeyClass::ScmTasks, &["scm.tasks"]),
    (KeyClass::WorkerHost, &["parallel.workerHost", "parallel.workerHosts.*"]),
    (KeyClass::McpFile, &["mcp.coding", "mcp.memory"]),
    (KeyClass::ProjectPath, &["skillsDir", "promptsDir", "specsDir", "tasks.file"]),
    (
        KeyClass::Harmless,
        &[
            "$schema",
            "workflow",
            "maximumIterations",
            "completionResponse",
            "outputTruncateChars",
            "streamAgentOutput",
            "includeIterationCountInPrompt",
            "finishNote",
            "guardrails[].always",
            "guardrails[].command",
            "guardrails[].failAction",
            "guardrails[].hint",
            "gates[].name",
            "gates[].kind",
            "gates[].command",
            "gates[].hard",
            "gates[].always",
            "gates[].failAction",
            "gates[].hint",
            "gates[].truncate",
            "gates[].softTimeout",
            "gates[].hardTimeout",
            "gates[].when.roles",
            "gates[].when.paths",
            "gates[].cache",
            "gates[].allowEmpty",
            "validationStrategy",
            "commit",
            "commitMessage",
            "commitPrefix",
            "onFailure",
            "runAllGates",
            "tasks.amendments",
            "tasks.branch",
            "tasks.keeper",
            "tasks.maxAttempts",
            "tasks.maxAmendments",
            "parallel.jobs",
            "parallel.overlap",
            "parallel.mergeAttempts",
            "parallel.flakeRetries",
            "parallel.gateSlots",
            "parallel.setupWhen",
            "parallel.copyLimit",
            "parallel.keepFree",
            "review.enabled",
            "review.cap",
            "protect",
            "secrets.allow",
            "baseline",
            "preventSleep",
            "stuck.after",
            "stuck.strategyShifts",
            "timeouts.global",
            "timeouts.global.soft",
            "timeouts.global.hard",
            "timeouts.implement",
            "timeouts.implement.soft",
            "timeouts.implement.hard",
            "timeouts.test",
            "timeouts.test.soft",
            "timeouts.test.hard",
            "timeouts.spec",
            "timeouts.spec.soft",
            "timeouts.spec.hard",
            "timeouts.quality",
            "timeouts.quality.soft",
            "timeouts.quality.hard",
            "timeouts.idle",
            "timeoutMultiplier",
            "retries.max",
            "retries.backoff",
            "delaySeconds",
            "rateLimit.wait",
            "rateLimit.maxWait",
            "budget.maxCostUsd",
            "budget.maxTokens",
            "budget.maxTime",
            "memory.enabled",
            "memory.everyIterations",
            "memory.thresholdBytes",
            "memory.maxTurns",
            "context.budgetTokens",
            "context.sections.task",
            "context.sections.output",
            "context.sections.skills",
            "context.sections.previous",
            "context.sections.memory",
            "context.sections.earlier",
            "context.window",
            "maxTurns",
            "vars.*",
            "notify.on",
            "notify.waitOver",
            "notify.desktop",
            "notify.terminal",
            "notify.commandTimeout",
            "notify.webhook.timeout",
            "notify.webhook.retries",
            "notify.webhook.backoff",
            "notify.patience",
            "otel.serviceName",
            "log.level",
            "ui.emoji",
            "ui.timestamps",
            "ui.maxOutputLines",
            "ui.maxOutputChars",
            "ui.tui",
        ],
    ),
];

/// The sections that describe an agent.
pub(crate) const AGENT_SECTIONS: [&str; 3] = ["agent", "agents.*", "gates[].agent"];

/// The keys of such a section.
const AGENT_KEYS: &[(KeyClass, &[&str])] = &[
    (KeyClass::AgentCommand, &["command"]),
    (KeyClass::AgentKind, &["kind"]),
    (KeyClass::AgentFlags, &["flags"]),
    (KeyClass::AgentVariable, &["env.*"]),
    (KeyClass::AgentPermissions, &["skipPermissions"]),
    (KeyClass::ProjectPath, &["systemPromptFile"]),
    (
        KeyClass::Harmless,
        &[
            "model",
            "fallbackModel",
            // Removes variables from the agent, never adds one.
            "envDeny",
            "responseFilter",
            "deltaFilter",
            "displayFilter",
            "sessionFilter",
            "usageFilters.input",
            "usageFilters.output",
            "usageFilters.cacheRead",
            "usageFilters.cacheWrite",
            "usageFilters.cost",
            "usageFilters.scope",
        ],
    ),
];

/// Returns the pattern of every key of the table with its class.
pub(crate) fn list_key_classes() -> impl Iterator<Item = (String, KeyClass)> {
    let plain =
        KEYS.iter().flat_map(|(class, keys)| keys.iter().map(|key| ((*key).to_owned(), *class)));
    let of_agents = AGENT_SECTIONS.into_iter().flat_map(|section| {
        AGENT_KEYS.iter().flat_map(move |(class, keys)| {
            keys.iter().map(move |key| (format!("{section}.{key}"), *class))
        })
    });
    plain.chain(of_agents)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::super::schema::build_json_schema;
    use super::super::schema_model::SettingShape;
    use super::*;

    /// Collects every key of the schema that holds a value.
    fn collect_keys(shape: &SettingShape, path: &str, found: &mut BTreeSet<String>) {
        match shape {
            SettingShape::Object { entries, free, .. } => {
                for (key, entry) in entries {
                    let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    collect_keys(entry, &inner, found);
                }
                if let Some(free) = free {
                    collect_keys(free, &format!("{path}.*"), found);
                }
            }
            SettingShape::List(item) if matches!(**item, SettingShape::Object { .. }) => {
                collect_keys(item, &format!("{path}[]"), found);
            }
            SettingShape::Either(alternatives) => {
                for alternative in alternatives.iter().filter(|it| **it != SettingShape::Null) {
                    collect_keys(alternative, path, found);
                }
            }
            SettingShape::List(_)
            | SettingShape::Text { .. }
            | SettingShape::SpanText
            | SettingShape::SizeText
            | SettingShape::Choice { .. }
            | SettingShape::Number { .. }
            | SettingShape::Boolean
            | SettingShape::Null => {
                found.insert(path.to_owned());
            }
        }
    }

    fn fits(pattern: &str, key: &str) -> bool {
        let (pattern, key): (Vec<&str>, Vec<&str>) =
            (pattern.split('.').collect(), key.split('.').collect());
        pattern.len() == key.len()
            && pattern.iter().zip(&key).all(|(pattern, key)| *pattern == "*" || pattern == key)
    }

    #[test]
    fn every_key_of_the_schema_has_one_class() {
        let mut keys = BTreeSet::new();
        collect_keys(&SettingShape::from_schema(&build_json_schema()), "", &mut keys);
        assert!(keys.len() > 200, "{}", keys.len());
        let bounded =
            trust_limits::list_bounded_keys().map(|key| (key.to_owned(), KeyClass::Bounded));
        let table: Vec<(String, KeyClass)> = list_key_classes().chain(bounded).collect();
        for key in &keys {
            let found: Vec<_> = table.iter().filter(|(pattern, _)| fits(pattern, key)).collect();
            let is_bounded_agent_key = key == "agent.skipPermissions" && found.len() == 2;
            assert!(
                found.len() == 1 || is_bounded_agent_key,
                "`{key}` needs one class in KEYS, AGENT_KEYS or bound::RULES: {found:?}"
            );
        }
        for (pattern, _) in &table {
            assert!(keys.iter().any(|key| fits(pattern, key)), "`{pattern}` is no settings key");
        }
    }

    /// Returns the first column of the table of the documentation, and the row's text.
    fn read_documented_keys() -> Vec<(String, String)> {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/trust.md");
        let page = std::fs::read_to_string(page).expect("a page");
        let (_, table) = page.split_once("## What runs or reads something").expect("a table");
        let (table, _) = table.split_once("\n### ").expect("its end");
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
        let keys = rows.flat_map(|(keys, text)| {
            let keys = keys.split(", ").map(|it| it.trim_matches('`').to_owned());
            keys.map(move |key| (key, text.to_owned()))
        });
        keys.collect()
    }

    #[test]
    fn documentation_lists_the_keys_that_need_trust() {
        let documented = read_documented_keys();
        let shown: BTreeSet<String> = documented.iter().map(|(key, _)| key.clone()).collect();
        let keys = list_key_classes().filter(|(_, class)| *class != KeyClass::Harmless);
        let keys = keys.map(|(key, _)| key.trim_end_matches(".*").to_owned());
        // What holds for `agent` holds for the other sections, as the page says.
        let of_others = |key: &String| key.starts_with("agents.") || key.starts_with("gates[]");
        let keys: BTreeSet<String> = keys.filter(|key| !of_others(key)).collect();
        assert_eq!(shown, keys);
        for (key, text) in documented {
            let wanted: &[&str] = match key.as_str() {
                "scm.command" => &["`git`"],
                "scm.tasks" => &["`commit`", "`push`", "`push origin`"],
                "parallel.workerHost" | "parallel.workerHosts" => &["`local`"],
                "agent.env" => &["`CI`", "`TERM`", "`TZ`", "`LANG`", "`LC_*`", "`NO_COLOR`"],
                "agent.skipPermissions" => &["`true`", "`false`"],
                _ => &[],
            };
            for word in wanted {
                assert!(text.contains(word), "docs/trust.md: `{key}`: no {word} in {text}");
            }
        }
    }
}
