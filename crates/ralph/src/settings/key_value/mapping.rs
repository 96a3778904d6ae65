//! Maps the names of a `KEY=VALUE` file to settings.
//!
//! Not here: the syntax of the file (the parent) and the `RALPH_*` names (`environment`).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::preset::{self, AgentArgs, AgentPreset, AgentVariables};
use super::{AssignedValue, KeyValueEntry, parse_key_value};
use crate::settings::environment::{
    SettingVariables, UnreadableVariable, VALIDATION_COMMANDS, VariableMeaning,
    build_validation_gates,
};
use crate::settings::layers::{expand_limits, merge_documents};
use crate::settings::locate::{EntryPosition, EntryPositions};
use crate::settings::path::JsonPath;
use crate::settings::problem::{Position, ProblemLocation, SettingOrigin, SettingProblem};
use crate::settings::schema::build_setting_shape;

/// A `KEY=VALUE` file as a settings document.
#[derive(Debug)]
pub(crate) struct MappedFile {
    pub(crate) document: Value,
    /// Positions of the settings in the file.
    pub(crate) located: EntryPositions,
    pub(crate) problems: Vec<SettingProblem>,
    /// Settings that do not do what the user may expect.
    pub(crate) warnings: Vec<String>,
}

/// Returns the settings that a file of `KEY=VALUE` lines means; `None` if it has a mistake.
pub(crate) fn convert_key_value(path: &Path, text: &str) -> Option<Value> {
    let names = SettingVariables::new(build_setting_shape());
    let mapped = read_key_value(path, text, &names);
    mapped.problems.is_empty().then_some(mapped.document)
}

/// Reads a `KEY=VALUE` file.
pub(crate) fn read_key_value(path: &Path, text: &str, names: &SettingVariables) -> MappedFile {
    let (entries, mistakes) = parse_key_value(text);
    let mut mapping = KeyValueMapping {
        file: path,
        names,
        mapped: MappedFile {
            document: Value::Object(Map::new()),
            located: EntryPositions::default(),
            problems: Vec::new(),
            warnings: Vec::new(),
        },
    };
    for mistake in mistakes {
        mapping.add_problem(mistake.position, JsonPath::default(), mistake.message);
    }
    let mut last: BTreeMap<String, KeyValueEntry> = BTreeMap::new();
    for entry in entries {
        if let Some(former) = last.insert(entry.name.clone(), entry.clone()) {
            mapping.mapped.warnings.push(format!(
                "{}:{}: {} is set again on line {}, which counts",
                path.display(),
                former.position.line,
                former.name,
                entry.position.line
            ));
        }
    }
    let mut entries: Vec<KeyValueEntry> = last.into_values().collect();
    entries.sort_by_key(|entry| entry.position);
    for entry in &entries {
        mapping.map_entry(entry);
    }
    mapping.map_agent(&entries);
    mapping.mapped.problems.sort_by_key(|problem| match &problem.place {
        ProblemLocation::Value(SettingOrigin::File { position, .. }) => *position,
        ProblemLocation::Value(
            SettingOrigin::Default | SettingOrigin::Env { .. } | SettingOrigin::Flag { .. },
        )
        | ProblemLocation::WholeFile { .. } => Position::START,
    });
    mapping.mapped
}

struct KeyValueMapping<'a> {
    file: &'a Path,
    names: &'a SettingVariables,
    mapped: MappedFile,
}

impl KeyValueMapping<'_> {
    fn map_entry(&mut self, entry: &KeyValueEntry) {
        match &entry.value {
            AssignedValue::Text(text, at) => self.map_text(entry, text, *at),
            AssignedValue::List(items) => self.map_list(entry, items),
        }
    }

    fn map_text(&mut self, entry: &KeyValueEntry, text: &str, at: Position) {
        let spot = EntryPosition { key: entry.position, value: at };
        match entry.name.as_str() {
            // These depend on each other and are read together below.
            name if preset::NAMES.contains(&name) => {}
            // Empty ones keep the default.
            "SPECS_DIR" | "MAX_RETRIES" if text.trim().is_empty() => {}
            "SPECS_DIR" => self.map_setting("specsDir", text, spot),
            "MAX_RETRIES" => self.map_setting("retries.max", text, spot),
            name if name.starts_with("RALPH_") => match self.names.read_variable(name, text) {
                Ok(VariableMeaning::Warning(message)) if !name.ends_with("_LOG_FILE") => {
                    self.add_warning(
                        entry.position,
                        &format!("{message}; it becomes a template variable"),
                    );
                    self.set_value(JsonPath::parse("vars").join_key(name), text.into(), spot);
                }
                Ok(VariableMeaning::Warning(message)) => self.add_warning(entry.position, &message),
                meaning => self.apply_meaning(meaning, spot),
            },
            name => self.set_value(JsonPath::parse("vars").join_key(name), text.into(), spot),
        }
    }

    fn map_list(&mut self, entry: &KeyValueEntry, items: &[(String, Position)]) {
        let texts = items.iter().map(|(text, _)| text.as_str());
        let name = entry.name.as_str();
        let (path, value) = if name == VALIDATION_COMMANDS {
            (JsonPath::parse("gates"), build_validation_gates(texts))
        } else if name == preset::ARGS {
            return;
        } else if let Some(path) = self.names.find_path(name) {
            // If the setting is not a list, the checker reports it.
            (path, texts.collect())
        } else {
            let message = format!("{name}: a template variable cannot be a list");
            return self.add_problem(entry.position, JsonPath::default(), message);
        };
        let opening = items.first().map_or(entry.position, |(_, at)| *at);
        self.set_value(path.clone(), value, EntryPosition { key: entry.position, value: opening });
        for (index, (_, at)) in items.iter().enumerate() {
            self.mapped
                .located
                .insert(path.join_index(index), EntryPosition { key: *at, value: *at });
        }
    }

    /// Reads the names that describe the agent.
    fn map_agent(&mut self, entries: &[KeyValueEntry]) {
        let find = |name: &str| entries.iter().find(|entry| entry.name == name);
        let text = |name: &str| match &find(name)?.value {
            AssignedValue::Text(text, _) => {
                Some(text.as_str()).filter(|text| !text.trim().is_empty())
            }
            AssignedValue::List(_) => None,
        };
        let args = match find(preset::ARGS).map(|entry| &entry.value) {
            Some(AssignedValue::List(items)) => {
                Some(AgentArgs::Words(items.iter().map(|(word, _)| word.clone()).collect()))
            }
            Some(AssignedValue::Text(..)) | None => text(preset::ARGS).map(AgentArgs::Text),
        };
        let preset = preset::read_preset(&AgentVariables {
            kind: text(preset::TYPE),
            cli: text(preset::CLI),
            args,
            format: text(preset::FORMAT),
            response: text(preset::RESPONSE),
            display: text(preset::DISPLAY),
            has_delta_filter: self.mapped.document.pointer("/agent/deltaFilter").is_some(),
        });
        self.apply_preset(preset, |name| {
            find(name).map_or(
                EntryPosition { key: Position::START, value: Position::START },
                find_entry_position,
            )
        });
    }

    /// Applies the settings of an agent preset.
    fn apply_preset(&mut self, preset: AgentPreset, spot: impl Fn(&str) -> EntryPosition) {
        let command = preset.command.filter(|(name, _)| {
            *name == preset::CLI || self.mapped.document.pointer("/agent/command").is_none()
        });
        let texts = [
            ("agent.kind", preset.kind),
            ("agent.responseFilter", preset.response),
            ("agent.displayFilter", preset.display),
        ];
        for (path, text) in texts {
            if let Some((name, text)) = text {
                self.map_setting(path, &text, spot(name));
            }
        }
        let values = [
            ("agent.command", command.map(|(name, text)| (name, Value::from(text)))),
            ("agent.flags", preset.flags.map(|(name, flags)| (name, Value::from(flags)))),
            ("streamAgentOutput", preset.streams.map(|(name, it)| (name, Value::from(it)))),
        ];
        for (path, value) in values {
            if let Some((name, value)) = value {
                self.set_value(JsonPath::parse(path), value, spot(name));
            }
        }
        for (name, message) in preset.problems {
            let message = format!("{name}: {message}");
            self.add_problem(spot(name).value, JsonPath::default(), message);
        }
        for (name, message) in preset.warnings {
            self.add_warning(spot(name).key, &message);
        }
    }

    fn map_setting(&mut self, path: &str, text: &str, spot: EntryPosition) {
        let meaning = self.names.read_setting(JsonPath::parse(path), text);
        self.apply_meaning(meaning, spot);
    }

    fn apply_meaning(
        &mut self,
        meaning: Result<VariableMeaning, UnreadableVariable>,
        spot: EntryPosition,
    ) {
        match meaning {
            Ok(VariableMeaning::Set(path, value)) => self.set_value(path, value, spot),
            Ok(VariableMeaning::Nothing | VariableMeaning::Warning(_)) => {}
            Err(UnreadableVariable { path, message }) => {
                self.add_problem(spot.value, path.clone(), format!("`{path}`: {message}"));
            }
        }
    }

    fn set_value(&mut self, path: JsonPath, value: Value, spot: EntryPosition) {
        let mut addition = path.wrap(value);
        expand_limits(&mut addition);
        if let Ok(merged) = merge_documents(&self.mapped.document, &addition) {
            self.mapped.document = merged;
            self.mapped.located.insert(path, spot);
        } else {
            let message = format!("`{path}` is set both as a whole and in parts");
            self.add_problem(spot.key, path, message);
        }
    }

    fn add_warning(&mut self, position: Position, message: &str) {
        let line = position.line;
        self.mapped.warnings.push(format!("{}:{line}: {message}", self.file.display()));
    }

    fn add_problem(&mut self, position: Position, path: JsonPath, message: String) {
        let place =
            ProblemLocation::Value(SettingOrigin::File { path: self.file.into(), position });
        self.mapped.problems.push(SettingProblem { place, path, message, hint: None });
    }
}

fn find_entry_position(entry: &KeyValueEntry) -> EntryPosition {
    let value = match &entry.value {
        AssignedValue::Text(_, at) => *at,
        AssignedValue::List(items) => items.first().map_or(entry.position, |(_, at)| *at),
    };
    EntryPosition { key: entry.position, value }
}

#[cfg(test)]
mod tests;
