//! A settings file before it is written, with its values in a readable order.
//!
//! Not here: where the values come from.

use ralph_core::project::detection::ProjectCheck;
use ralph_model::gate::GateKind;
use serde_json::{Value, json};

use crate::cli::ReviewGateChoice;
use crate::settings::types::sections::WorkflowSetting;

/// Settings to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettingsDraft {
    entries: Vec<(String, String)>,
    /// Settings of the sandbox; null without any.
    sandbox: Value,
    /// The commands that will check the work.
    pub(super) checked_by: Vec<String>,
    /// Whether they name an agent.
    pub(super) has_agent: bool,
}

impl SettingsDraft {
    pub(super) fn new(workflow: WorkflowSetting) -> Self {
        let schema = ("$schema".to_owned(), json!("./schema.json").to_string());
        let workflow = ("workflow".to_owned(), json!(workflow.name()).to_string());
        let entries = vec![schema, workflow];
        Self { entries, sandbox: Value::Null, checked_by: Vec::new(), has_agent: false }
    }

    /// Adds a value.
    pub(super) fn add_value(&mut self, key: &str, value: &Value) {
        // Nested lines are indented by two more spaces.
        self.entries.push((key.to_owned(), format!("{value:#}").replace('\n', "\n  ")));
    }

    /// Names the agent.
    pub(super) fn add_agent(&mut self, command: &str, flags: &[String]) {
        self.has_agent = true;
        let command = json!(command);
        let flags = match flags {
            [] => String::new(),
            flags => format!(", \"flags\": {}", json!(flags)),
        };
        self.entries.push(("agent".to_owned(), format!("{{ \"command\": {command}{flags} }}")));
    }

    /// Adds gates.
    pub(super) fn add_gates(&mut self, gates: &[ProjectCheck], reviews: &[ReviewGateChoice]) {
        self.checked_by.extend(gates.iter().map(|it| it.command.clone()));
        let gates = gates.iter().map(|it| format_gate(it.kind, &it.command, "APPEND", ""));
        self.add_formatted_gates(gates.collect(), reviews);
    }

    /// Adds gates that are JSON text, and those that ask an agent.
    pub(super) fn add_formatted_gates(&mut self, gates: Vec<String>, reviews: &[ReviewGateChoice]) {
        let reviews = reviews.iter().map(|it| format_review_gate(*it));
        let gates: Vec<String> =
            gates.into_iter().chain(reviews).map(|it| format!("\n    {it}")).collect();
        if !gates.is_empty() {
            self.entries.push(("gates".to_owned(), format!("[{}\n  ]", gates.join(","))));
        }
    }

    /// Adds settings of the sandbox to those that are there.
    pub(super) fn add_sandbox(&mut self, settings: &Value) {
        merge_settings(&mut self.sandbox, settings);
    }

    pub(super) fn has_sandbox(&self) -> bool {
        !self.sandbox.is_null()
    }

    /// Returns the text of the file.
    pub(super) fn to_text(&self) -> String {
        let mut draft = self.clone();
        if self.has_sandbox() {
            draft.add_value("sandbox", &self.sandbox);
        }
        let entries: Vec<String> =
            draft.entries.iter().map(|(key, value)| format!("  {}: {value}", json!(key))).collect();
        format!("{{\n{}\n}}\n", entries.join(",\n"))
    }
}

/// Merges settings: objects by key, lists by adding what is new.
fn merge_settings(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge_settings(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) => {
            for value in from {
                if !into.contains(value) {
                    into.push(value.clone());
                }
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// Returns a gate that asks an agent, as in the settings.
pub(super) fn format_review_gate(gate: ReviewGateChoice) -> String {
    format!("{{ \"kind\": {}, \"agent\": {{}} }}", json!(gate.name()))
}

/// Returns a gate as JSON text, without what is the default.
pub(super) fn format_gate(kind: GateKind, command: &str, fail_action: &str, hint: &str) -> String {
    let mut text = format!("{{ \"kind\": {}, \"command\": {}", json!(kind), json!(command));
    if fail_action != "APPEND" {
        text.push_str(&format!(", \"failAction\": {}", json!(fail_action)));
    }
    if !hint.is_empty() {
        text.push_str(&format!(", \"hint\": {}", json!(hint)));
    }
    text + " }"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_in_the_order_of_their_making() {
        let found = |kind, command: &str| ProjectCheck {
            kind,
            command: command.to_owned(),
            place: "Makefile".to_owned(),
        };
        let mut draft = SettingsDraft::new(WorkflowSetting::Specs);
        assert_eq!(
            draft.to_text(),
            "{\n  \"$schema\": \"./schema.json\",\n  \"workflow\": \"specs\"\n}\n"
        );
        draft.add_agent("claude", &["--model opus".to_owned()]);
        draft.add_value("scm", &json!({ "command": "git" }));
        let gates = [found(GateKind::Test, "make \"test\""), found(GateKind::Lint, "make lint")];
        draft.add_gates(&gates, &[]);
        assert_eq!(
            draft.to_text(),
            r#"{
  "$schema": "./schema.json",
  "workflow": "specs",
  "agent": { "command": "claude", "flags": ["--model opus"] },
  "scm": {
    "command": "git"
  },
  "gates": [
    { "kind": "test", "command": "make \"test\"" },
    { "kind": "lint", "command": "make lint" }
  ]
}
"#
        );
        assert_eq!(draft.checked_by, ["make \"test\"", "make lint"]);
    }

    #[test]
    fn settings_of_the_sandbox_are_merged() {
        let mut draft = SettingsDraft::new(WorkflowSetting::Prompt);
        assert!(!draft.has_sandbox());
        for settings in [
            json!({ "home": [".a"], "network": { "packages": true } }),
            json!({ "home": [".b", ".a"] }),
            json!({ "network": { "allow": ["localhost:5432"] } }),
        ] {
            draft.add_sandbox(&settings);
        }
        let text: Value = serde_json::from_str(&draft.to_text()).expect("JSON");
        let network = json!({ "packages": true, "allow": ["localhost:5432"] });
        assert_eq!(text["sandbox"], json!({ "home": [".a", ".b"], "network": network }));
    }
}
