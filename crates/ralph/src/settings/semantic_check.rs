//! Finds mistakes across several settings, or that need more than the type of a value.
//!
//! Ranges of single values are in the types and checked by `check`. Not here: whether programs,
//! files or hosts exist.

mod notify_check;

use std::collections::BTreeMap;

use ralph_core::landing::scm::MESSAGE_VARIABLES;
use ralph_core::sandbox::allowlist::NetworkAllowlist;
use ralph_core::template;
use ralph_guard::{GuardCategory, find_rule};
use ralph_model::glob::Pattern;
use ralph_model::sandbox::{NetworkMode, NetworkPolicy};

use super::check::{SettingFault, SettingFinding};
use super::path::JsonPath;
use super::types::Settings;
use super::types::agent::AgentSettings;
use super::types::gate::GateSetting;
use super::types::quantity::DurationSetting;

/// Returns every mistake of merged settings.
pub(crate) fn check_sense(settings: &Settings) -> Vec<SettingFinding> {
    let mut findings = Vec::new();
    check_agents(settings, &mut findings);
    check_guardrails(settings, &mut findings);
    check_gates(&settings.gates, &mut findings);
    check_timeouts(settings, &mut findings);
    check_scm(settings, &mut findings);
    findings.extend(notify_check::check_notify_and_otel(settings));
    check_guard(settings, &mut findings);
    check_sandbox(settings, &mut findings);
    check_globs("protect", &settings.protect, &mut findings);
    check_globs("secrets.allow", &settings.secrets.allow, &mut findings);
    findings
}

fn check_globs(key: &str, globs: &[String], findings: &mut Vec<SettingFinding>) {
    for (place, glob) in globs.iter().enumerate() {
        if let Err(error) = Pattern::new(glob.strip_prefix('!').unwrap_or(glob)) {
            let path = JsonPath::parse(key).join_index(place);
            findings.push(build_finding(path, error.to_string()));
        }
    }
}

/// Finds invalid hosts and ranges, and options that the sandbox does not support.
fn check_sandbox(settings: &Settings, findings: &mut Vec<SettingFinding>) {
    let network = &settings.sandbox.network;
    let policy = NetworkPolicy {
        allow: network.allow.clone(),
        deny: network.deny.clone(),
        allow_private: network.allow_private.clone(),
        packages: None,
        mode: NetworkMode::Proxy,
    };
    for misread in NetworkAllowlist::from_policy(&policy, &[]).err().into_iter().flatten() {
        findings.push(build_finding(JsonPath::parse(&misread.place), misread.what));
    }
    let (deny, allow_private) = (Vec::new(), Vec::new());
    let gates = NetworkPolicy {
        allow: settings.sandbox.gates.allow.clone(),
        deny,
        allow_private,
        ..policy
    };
    for misread in NetworkAllowlist::from_policy(&gates, &[]).err().into_iter().flatten() {
        let place = misread.place.replace("network", "gates");
        findings.push(build_finding(JsonPath::parse(&place), misread.what));
    }
}

/// Finds ids of rules that do not exist, and rules that no setting can lift.
fn check_guard(settings: &Settings, findings: &mut Vec<SettingFinding>) {
    let guard = JsonPath::parse("guard");
    let lists = [("allow", &settings.guard.allow), ("deny", &settings.guard.deny)];
    for (key, list) in lists {
        for (index, entry) in list.iter().enumerate() {
            let message = match find_rule(entry) {
                _ if entry.trim().is_empty() => "must not be blank".to_owned(),
                Some(rule) if key == "allow" && rule.category == GuardCategory::LoopIntegrity => {
                    format!("`{entry}` keeps the loop itself safe and cannot be allowed")
                }
                None if is_like_an_id(entry) => format!("there is no rule `{entry}`"),
                Some(_) | None => continue,
            };
            findings.push(build_finding(guard.join_key(key).join_index(index), message));
        }
    }
}

/// Returns whether an entry can only be meant as the id of a rule.
fn is_like_an_id(entry: &str) -> bool {
    let prefix = entry.split_once('.').map(|(prefix, _)| prefix);
    !entry.contains(' ')
        && GuardCategory::ALL.iter().any(|category| Some(category.prefix()) == prefix)
}

fn build_finding(path: JsonPath, message: impl Into<String>) -> SettingFinding {
    SettingFinding { path, fault: SettingFault::Value(message.into()), hint: None }
}

fn is_blank(text: Option<&String>) -> bool {
    text.is_some_and(|text| text.trim().is_empty())
}

fn check_agents(settings: &Settings, findings: &mut Vec<SettingFinding>) {
    let agents = JsonPath::parse("agents");
    check_agent(&settings.agent, &JsonPath::parse("agent"), findings);
    for (key, agent) in settings.agents.sections() {
        check_agent(agent, &agents.join_key(key), findings);
    }
}

fn check_agent(agent: &AgentSettings, path: &JsonPath, findings: &mut Vec<SettingFinding>) {
    if is_blank(agent.command.as_ref()) {
        findings.push(build_finding(path.join_key("command"), "must not be blank"));
    }
    for name in agent.env.keys().filter(|name| name.is_empty() || name.contains(['=', '\0'])) {
        let message = "is not a name for an environment variable";
        findings.push(build_finding(path.join_key("env").join_key(name), message));
    }
    for (key, filter) in agent.set_filters() {
        if let Err(error) = ralph_agents::check_filter(filter) {
            let path = key.split('.').fold(path.clone(), |path, key| path.join_key(key));
            findings.push(build_finding(path, error.to_string()));
        }
    }
}

fn check_guardrails(settings: &Settings, findings: &mut Vec<SettingFinding>) {
    let guardrails = JsonPath::parse("guardrails");
    for (index, guardrail) in settings.guardrails.iter().enumerate() {
        if guardrail.command.trim().is_empty() {
            findings.push(build_finding(
                guardrails.join_index(index).join_key("command"),
                "must not be blank",
            ));
        }
    }
}

fn check_gates(gates: &[GateSetting], findings: &mut Vec<SettingFinding>) {
    let path = JsonPath::parse("gates");
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, gate) in gates.iter().enumerate() {
        let path = path.join_index(index);
        match (&gate.command, &gate.agent) {
            (None, None) => findings.push(SettingFinding {
                hint: Some("add a command, or `\"agent\": {}` to ask the reviewing agent".into()),
                ..build_finding(path.clone(), "a gate needs a `command` or an `agent`")
            }),
            (Some(_), Some(_)) => {
                findings.push(build_finding(
                    path.clone(),
                    "a gate has a `command` or an `agent`, not both",
                ));
            }
            (Some(command), None) if command.trim().is_empty() => {
                findings.push(build_finding(path.join_key("command"), "must not be blank"));
            }
            (None, Some(agent)) => check_agent(agent, &path.join_key("agent"), findings),
            (Some(_), None) => {}
        }
        if let Some(name) = &gate.name {
            if name.trim().is_empty() {
                findings.push(build_finding(path.join_key("name"), "must not be blank"));
            } else if let Some(first) = named.insert(name, index) {
                let message = format!("`gates[{first}]` is called \"{name}\" as well");
                findings.push(build_finding(path.join_key("name"), message));
            }
        }
        for (place, glob) in gate.when.paths.iter().enumerate() {
            if let Err(error) = Pattern::new(glob) {
                let path = path.join_key("when").join_key("paths").join_index(place);
                findings.push(build_finding(path, error.to_string()));
            }
        }
        check_positive(gate.soft_timeout, path.join_key("softTimeout"), findings);
        check_positive(gate.hard_timeout, path.join_key("hardTimeout"), findings);
        if let (Some(soft), Some(hard)) = (gate.soft_timeout, gate.hard_timeout)
            && soft > hard
        {
            findings.push(build_finding(
                path.join_key("softTimeout"),
                describe_soft_over_hard(soft, hard),
            ));
        }
    }
}

fn check_timeouts(settings: &Settings, findings: &mut Vec<SettingFinding>) {
    let timeouts = JsonPath::parse("timeouts");
    for (key, limits) in settings.timeouts.sections() {
        let path = timeouts.join_key(key);
        check_positive(Some(limits.hard), path.join_key("hard"), findings);
        // A default soft limit is lowered to the hard one; only the hard one is reported then.
        if limits.soft != limits.hard {
            check_positive(Some(limits.soft), path.join_key("soft"), findings);
        }
        if limits.soft > limits.hard {
            findings.push(build_finding(
                path.join_key("soft"),
                describe_soft_over_hard(limits.soft, limits.hard),
            ));
        }
    }
    check_positive(Some(settings.timeouts.idle), timeouts.join_key("idle"), findings);
    check_positive(settings.budget.max_time, JsonPath::parse("budget.maxTime"), findings);
}

fn describe_soft_over_hard(soft: DurationSetting, hard: DurationSetting) -> String {
    format!("the soft limit {soft} is longer than the hard limit {hard}")
}

fn check_positive(
    span: Option<DurationSetting>,
    path: JsonPath,
    findings: &mut Vec<SettingFinding>,
) {
    if span.is_some_and(|span| span.0.0 == 0) {
        findings.push(build_finding(path, "must be longer than 0"));
    }
}

fn check_scm(settings: &Settings, findings: &mut Vec<SettingFinding>) {
    let tasks = JsonPath::parse("scm.tasks");
    if is_blank(settings.scm.command.as_ref()) {
        findings.push(build_finding(JsonPath::parse("scm.command"), "must not be blank"));
    }
    if settings.scm.command.is_none() && !settings.scm.tasks.is_empty() {
        findings.push(build_finding(tasks.clone(), "needs `scm.command`, such as \"git\""));
    }
    for (index, task) in settings.scm.tasks.iter().enumerate() {
        if task.trim().is_empty() {
            findings.push(build_finding(tasks.join_index(index), "must not be blank"));
        }
    }
    check_commit_message(settings.commit_message.as_deref(), findings);
}

fn check_commit_message(template: Option<&str>, findings: &mut Vec<SettingFinding>) {
    let Some(template) = template else { return };
    let path = || JsonPath::parse("commitMessage");
    if template.trim().is_empty() {
        findings.push(build_finding(path(), "must not be blank"));
    }
    for name in template::find_names(template).filter(|name| !MESSAGE_VARIABLES.contains(name)) {
        let known = MESSAGE_VARIABLES.map(|name| format!("${{{name}}}")).join(", ");
        findings.push(SettingFinding {
            hint: Some(format!("there are {known}")),
            ..build_finding(path(), format!("there is no variable `${{{name}}}`"))
        });
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn mistakes_between_settings_are_found_together() {
        let settings: Settings = serde_json::from_value(json!({
            "agent": {"command": " ", "env": {"A=B": "1"}, "responseFilter": ".a |"},
            "agents": {"review": {"command": "", "usageFilters": {"cost": "$x"}}},
            "guardrails": [{"command": "make"}, {"command": " "}],
            "gates": [
                {"name": "one", "command": "make"},
                {"name": "one", "agent": {}},
                {"name": "both", "command": "make", "agent": {}},
                {"kind": "spec"},
                {"command": "\t", "softTimeout": "2m", "hardTimeout": "1m"},
                {"command": "make", "when": {"paths": ["src/**", "docs/[a"]}},
            ],
            "timeouts": {"test": {"soft": "5m", "hard": "4m"}, "idle": 0},
            "budget": {"maxTime": "0s"},
            "scm": {"tasks": ["commit", ""]},
            "sandbox": {
                "network": {
                    "allow": ["ok.example", "https://api.example.com/v1", "*"],
                    "deny": ["a b"],
                    "allowPrivate": ["10.0.0.0/8", "10.0.0.1/8"],
                },
            },
        }))
        .expect("well typed");
        let shown: Vec<String> = check_sense(&settings)
            .into_iter()
            .map(|finding| format!("{}: {:?}", finding.path, finding.fault))
            .collect();
        expect![[r#"
            agent.command: Value("must not be blank")
            agent.env["A=B"]: Value("is not a name for an environment variable")
            agent.responseFilter: Value("at character 5: expected a filter such as `.text`, found the end")
            agents.review.command: Value("must not be blank")
            agents.review.usageFilters.cost: Value("at character 1: there is no variable `$x`")
            guardrails[1].command: Value("must not be blank")
            gates[1].name: Value("`gates[0]` is called \"one\" as well")
            gates[2]: Value("a gate has a `command` or an `agent`, not both")
            gates[3]: Value("a gate needs a `command` or an `agent`")
            gates[4].command: Value("must not be blank")
            gates[4].softTimeout: Value("the soft limit 2m is longer than the hard limit 1m")
            gates[5].when.paths[1]: Value("unclosed character class; missing ']' in the glob `docs/[a`")
            timeouts.test.soft: Value("the soft limit 5m is longer than the hard limit 4m")
            timeouts.idle: Value("must be longer than 0")
            budget.maxTime: Value("must be longer than 0")
            scm.tasks: Value("needs `scm.command`, such as \"git\"")
            scm.tasks[1]: Value("must not be blank")
            sandbox.network.allow[1]: Value("`https://api.example.com/v1`: write the host alone, without `https://`")
            sandbox.network.allow[2]: Value("`*`: it would allow every host; `sandbox.network.mode` \"host\" switches the proxy off")
            sandbox.network.deny[0]: Value("`a b`: names have letters, digits, `-`, `_` and `.` (international ones in their xn-- form)")
            sandbox.network.allowPrivate[1]: Value("`10.0.0.1/8`: the address has bits beyond those that the range fixes")"#]]
        .assert_eq(&shown.join("\n"));
    }

    #[test]
    fn the_defaults_make_sense() {
        assert_eq!(check_sense(&Settings::default()), Vec::new());
    }
}
