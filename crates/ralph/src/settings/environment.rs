//! Settings from environment variables: `RALPH_` and the path of a setting in capitals.
//!
//! The names are derived from the schema, so that a new setting has one at once; a few older names
//! are aliases. Not here: reading the process environment (`source`).

#![expect(clippy::wildcard_enum_match_arm, reason = "most shapes are scalars")]

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::check::check_document;
use super::path::JsonPath;
use super::schema_model::SettingShape;
use ralph_core::nearest::find_nearest;

/// Older and shorter names of settings.
const ALIASES: [(&str, &str); 12] = [
    ("RALPH_MAX_ITERATIONS", "maximumIterations"),
    ("RALPH_PLAN_FILE", "tasks.file"),
    ("RALPH_COMPACTION_INTERVAL", "memory.everyIterations"),
    ("RALPH_COMPACTION_THRESHOLD_BYTES", "memory.thresholdBytes"),
    ("RALPH_COMPACTION_MAX_TURNS", "memory.maxTurns"),
    ("RALPH_DEFAULT_MAX_TURNS", "maxTurns"),
    ("RALPH_MIN_DELAY_SECONDS", "delaySeconds"),
    ("RALPH_MODEL", "agent.model"),
    ("RALPH_FALLBACK_MODEL", "agent.fallbackModel"),
    ("RALPH_SKIP_PERMISSIONS", "agent.skipPermissions"),
    ("RALPH_OTEL", "otel.enabled"),
    ("RALPH_JOBS", "parallel.jobs"),
];

/// Becomes `commit`.
const AUTO_COMMIT: &str = "RALPH_AUTO_COMMIT";
/// Becomes `gates`.
pub(crate) const VALIDATION_COMMANDS: &str = "RALPH_VALIDATION_COMMANDS";
/// Was the path of the log, which is fixed now.
const LOG_FILE: &str = "RALPH_LOG_FILE";

/// Variables that ralph sets for its children; a ralph started by an agent sees them.
const OWN_VARIABLES: [&str; 10] = [
    "RALPH_RUN_ID",
    "RALPH_ITERATION",
    "RALPH_ROLE",
    "RALPH_ASK",
    "RALPH_TASK",
    "RALPH_NOTICE",
    "RALPH_JOB",
    "RALPH_WORKER",
    "RALPH_ATTEMPT",
    "RALPH_REMOTE",
];

/// The variable names of all settings.
pub(crate) struct SettingVariables {
    root: SettingShape,
    /// Derived when the first variable is read: most starts read none.
    names: OnceLock<VariableNames>,
}

/// Names that are derived from the schema.
#[derive(Default)]
struct VariableNames {
    exact: BTreeMap<String, JsonPath>,
    /// Prefixes of settings that have any keys.
    free: Vec<(String, JsonPath)>,
}

/// The meaning of a variable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum VariableMeaning {
    Set(JsonPath, Value),
    /// It is not for ralph, or empty.
    Nothing,
    /// It has no effect, which the user may not expect.
    Warning(String),
}

/// A variable whose value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnreadableVariable {
    pub(crate) path: JsonPath,
    pub(crate) message: String,
}

impl VariableNames {
    fn collect_names(&mut self, shape: &SettingShape, path: &JsonPath) {
        let name = build_variable_name(path);
        match shape {
            SettingShape::Object { entries, free, .. } => {
                for (key, entry) in entries.iter().filter(|(key, _)| *key != "$schema") {
                    self.collect_names(entry, &path.join_key(key));
                }
                if free.is_some() {
                    self.free.push((name + "_", path.clone()));
                }
            }
            SettingShape::Either(alternatives) => {
                self.exact.insert(name, path.clone());
                for it in alternatives.iter().filter(|it| matches!(it, SettingShape::Object { .. }))
                {
                    self.collect_names(it, path);
                }
            }
            _ => {
                self.exact.insert(name, path.clone());
            }
        }
    }
}

impl SettingVariables {
    /// Takes the shape of all settings, which the names are derived from.
    pub(crate) fn new(root: SettingShape) -> Self {
        Self { root, names: OnceLock::new() }
    }

    fn names(&self) -> &VariableNames {
        self.names.get_or_init(|| {
            let mut names = VariableNames::default();
            names.collect_names(&self.root, &JsonPath::default());
            names
        })
    }

    /// Returns the shape of all settings.
    pub(crate) fn root_shape(&self) -> &SettingShape {
        &self.root
    }

    /// Returns the setting for a variable.
    pub(crate) fn find_path(&self, name: &str) -> Option<JsonPath> {
        let names = self.names();
        if let Some(path) = names.exact.get(name) {
            return Some(path.clone());
        }
        if let Some((_, path)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
            return Some(JsonPath::parse(path));
        }
        names.free.iter().find_map(|(prefix, path)| {
            let key = name.strip_prefix(prefix.as_str())?;
            (!key.is_empty()).then(|| path.join_key(key))
        })
    }

    /// Returns the shape of a setting.
    pub(crate) fn find_shape(&self, path: &JsonPath) -> Option<&SettingShape> {
        path.keys().try_fold(&self.root, |shape, key| shape.find_entry(key))
    }

    /// Returns whether a variable is an older name of a setting.
    pub(crate) fn is_alias(name: &str) -> bool {
        name == AUTO_COMMIT || ALIASES.iter().any(|(alias, _)| *alias == name)
    }

    /// Reads one variable.
    pub(crate) fn read_variable(
        &self,
        name: &str,
        text: &str,
    ) -> Result<VariableMeaning, UnreadableVariable> {
        if !name.starts_with("RALPH_") || OWN_VARIABLES.contains(&name) {
            return Ok(VariableMeaning::Nothing);
        }
        if name == AUTO_COMMIT {
            return read_auto_commit(text);
        }
        if name == VALIDATION_COMMANDS {
            return read_validation_commands(text);
        }
        if name == LOG_FILE {
            let message = format!("{LOG_FILE} has no effect: the log is in .ralph/logs/ralph.log");
            return Ok(VariableMeaning::Warning(message));
        }
        let Some(path) = self.find_path(name) else {
            return Ok(VariableMeaning::Warning(self.describe_unknown_variable(name)));
        };
        self.read_setting(path, text)
    }

    /// Reads the text of a known setting. An empty text leaves an optional setting unset.
    pub(crate) fn read_setting(
        &self,
        path: JsonPath,
        text: &str,
    ) -> Result<VariableMeaning, UnreadableVariable> {
        let Some(shape) = self.find_shape(&path) else {
            return Ok(VariableMeaning::Nothing);
        };
        let is_optional =
            matches!(shape, SettingShape::Either(any) if any.contains(&SettingShape::Null));
        if text.is_empty() && is_optional {
            return Ok(VariableMeaning::Nothing);
        }
        match to_value(text, shape) {
            Ok(value) => Ok(VariableMeaning::Set(path, value)),
            Err(message) => Err(UnreadableVariable { path, message }),
        }
    }

    fn describe_unknown_variable(&self, name: &str) -> String {
        let others = [AUTO_COMMIT, VALIDATION_COMMANDS];
        let aliases = ALIASES.iter().map(|(alias, _)| *alias);
        let known = self.names().exact.keys().map(String::as_str).chain(aliases).chain(others);
        // `RALPH_` is common to all of them and would make anything look close.
        let bare = name.trim_start_matches("RALPH_");
        match find_nearest(bare, known.map(|name| name.trim_start_matches("RALPH_"))) {
            Some(meant) => format!("{name} is not a setting (did you mean RALPH_{meant}?)"),
            None => format!("{name} is not a setting"),
        }
    }
}

/// Returns gates for commands that must all succeed.
pub(crate) fn build_validation_gates<'a>(commands: impl IntoIterator<Item = &'a str>) -> Value {
    commands
        .into_iter()
        .map(|command| json!({"kind": "test", "hard": true, "command": command}))
        .collect()
}

fn read_auto_commit(text: &str) -> Result<VariableMeaning, UnreadableVariable> {
    let path = JsonPath::parse("commit");
    match to_value(text, &SettingShape::Boolean) {
        Ok(Value::Bool(true)) => Ok(VariableMeaning::Set(path, "ralph".into())),
        Ok(Value::Bool(false)) => Ok(VariableMeaning::Set(path, "none".into())),
        _ => Err(UnreadableVariable {
            path,
            message: format!("expected true or false, found {text:?}"),
        }),
    }
}

fn read_validation_commands(text: &str) -> Result<VariableMeaning, UnreadableVariable> {
    let path = JsonPath::parse("gates");
    if !text.trim_start().starts_with('[') {
        let commands = Some(text).filter(|text| !text.trim().is_empty());
        return Ok(VariableMeaning::Set(path, build_validation_gates(commands)));
    }
    match serde_json::from_str::<Vec<String>>(text) {
        Ok(commands) => {
            let gates = build_validation_gates(commands.iter().map(String::as_str));
            Ok(VariableMeaning::Set(path, gates))
        }
        Err(error) => {
            Err(UnreadableVariable { path, message: format!("not a JSON list: {error}") })
        }
    }
}

/// Returns `RALPH_AGENT_SKIP_PERMISSIONS` for `agent.skipPermissions`.
fn build_variable_name(path: &JsonPath) -> String {
    let mut name = String::from("RALPH");
    for key in path.keys() {
        name.push('_');
        for c in key.chars() {
            if c.is_uppercase() {
                name.push('_');
            }
            name.extend(c.to_uppercase());
        }
    }
    name
}

/// Converts text to the type of a shape. Text that does not fit stays text, so that the checker
/// reports it with the expected type.
fn to_value(text: &str, shape: &SettingShape) -> Result<Value, String> {
    let trimmed = text.trim();
    let converted = match shape {
        SettingShape::Text { .. } => return Ok(text.into()),
        SettingShape::SpanText | SettingShape::SizeText | SettingShape::Null => None,
        SettingShape::Choice { words, .. } => {
            words.iter().find(|word| word.eq_ignore_ascii_case(trimmed)).map(|it| json!(it))
        }
        SettingShape::Number { is_whole: true, .. } => trimmed
            .parse::<i64>()
            .map(Value::from)
            .ok()
            .or(trimmed.parse::<u64>().map(Value::from).ok()),
        SettingShape::Number { is_whole: false, .. } => {
            trimmed.parse::<f64>().ok().filter(|it| it.is_finite()).map(Value::from)
        }
        SettingShape::Boolean => match trimmed.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Some(true.into()),
            "false" | "0" | "no" | "off" => Some(false.into()),
            _ => None,
        },
        SettingShape::List(items) => return convert_list(trimmed, items),
        SettingShape::Object { .. } => return from_json(trimmed, "an object"),
        SettingShape::Either(alternatives) => return convert_alternatives(text, alternatives),
    };
    Ok(converted.unwrap_or_else(|| trimmed.into()))
}

fn convert_alternatives(text: &str, alternatives: &[SettingShape]) -> Result<Value, String> {
    let is_fitting = |value: &Value, shape: &SettingShape| {
        check_document(value, &JsonPath::default(), shape, shape).is_empty()
    };
    let named = || alternatives.iter().filter(|it| **it != SettingShape::Null);
    let fitting = named()
        .find_map(|shape| to_value(text, shape).ok().filter(|value| is_fitting(value, shape)));
    match (fitting, named().next()) {
        (Some(value), _) => Ok(value),
        (None, Some(first)) => to_value(text, first),
        (None, None) => Ok(text.into()),
    }
}

fn convert_list(text: &str, items: &SettingShape) -> Result<Value, String> {
    if text.starts_with('[') || matches!(items, SettingShape::Object { .. }) {
        return from_json(text, "a list");
    }
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(|item| to_value(item, items))
        .collect()
}

fn from_json(text: &str, what: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("expected {what} as JSON: {error}"))
}

#[cfg(test)]
mod tests;
