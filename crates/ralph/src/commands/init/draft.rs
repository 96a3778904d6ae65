//! A settings file before it is written, with its values in a readable order.
//!
//! Not here: where the values come from.

use ralph_core::project::detection::ProjectCheck;
use serde_json::{Value, json};

use crate::cli::WorkflowChoice;

/// Settings to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettingsDraft {
    entries: Vec<(&'static str, String)>,
    /// The commands that will check the work.
    pub(super) checked_by: Vec<String>,
    /// Whether they name an agent.
    pub(super) has_agent: bool,
}

impl SettingsDraft {
    pub(super) fn new(workflow: WorkflowChoice) -> Self {
        let schema = ("$schema", json!("./schema.json").to_string());
        let entries = vec![schema, ("workflow", json!(workflow.name()).to_string())];
        Self { entries, checked_by: Vec::new(), has_agent: false }
    }

    /// Adds a value.
    pub(super) fn add_value(&mut self, key: &'static str, value: &Value) {
        // Nested lines are indented by two more spaces.
        self.entries.push((key, format!("{value:#}").replace('\n', "\n  ")));
    }

    /// Names the agent.
    pub(super) fn add_agent(&mut self, command: &str, flags: &[String]) {
        self.has_agent = true;
        let command = json!(command);
        let flags = match flags {
            [] => String::new(),
            flags => format!(", \"flags\": {}", json!(flags)),
        };
        self.entries.push(("agent", format!("{{ \"command\": {command}{flags} }}")));
    }

    /// Adds gates.
    pub(super) fn add_gates(&mut self, gates: &[ProjectCheck]) {
        self.checked_by.extend(gates.iter().map(|it| it.command.clone()));
        let gates: Vec<String> =
            gates.iter().map(|gate| format!("\n    {}", format_gate(gate))).collect();
        if !gates.is_empty() {
            self.entries.push(("gates", format!("[{}\n  ]", gates.join(","))));
        }
    }

    /// Returns the text of the file.
    pub(super) fn to_text(&self) -> String {
        let entries: Vec<String> =
            self.entries.iter().map(|(key, value)| format!("  {}: {value}", json!(key))).collect();
        format!("{{\n{}\n}}\n", entries.join(",\n"))
    }
}

/// Returns a gate as JSON text.
pub(super) fn format_gate(gate: &ProjectCheck) -> String {
    let command = json!(gate.command);
    format!("{{ \"kind\": {}, \"command\": {command} }}", json!(gate.kind))
}

#[cfg(test)]
mod tests {
    use ralph_model::gate::GateKind;

    use super::*;

    #[test]
    fn settings_are_written_in_the_order_of_their_making() {
        let found = |kind, command: &str| ProjectCheck {
            kind,
            command: command.to_owned(),
            place: "Makefile".to_owned(),
        };
        let mut draft = SettingsDraft::new(WorkflowChoice::Specs);
        assert_eq!(
            draft.to_text(),
            "{\n  \"$schema\": \"./schema.json\",\n  \"workflow\": \"specs\"\n}\n"
        );
        draft.add_agent("claude", &["--model opus".to_owned()]);
        draft.add_value("scm", &json!({ "command": "git" }));
        draft.add_gates(&[
            found(GateKind::Test, "make \"test\""),
            found(GateKind::Lint, "make lint"),
        ]);
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
}
