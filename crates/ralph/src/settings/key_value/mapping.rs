//! Maps the names of a `KEY=VALUE` file to settings.
//!
//! Not here: the syntax of the file (the parent) and the `RALPH_*` names (`environment`).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::preset::{self, Args, Given, Preset};
use super::{Assigned, Entry, parse};
use crate::settings::environment::{
    Meaning, Names, Unreadable, VALIDATION_COMMANDS, validation_gates,
};
use crate::settings::layers::{merge, write_out_limits};
use crate::settings::locate::{Located, Spot};
use crate::settings::path::JsonPath;
use crate::settings::problem::{Origin, Place, Position, Problem};

/// A `KEY=VALUE` file as a settings document.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) document: Value,
    /// Positions of the settings in the file.
    pub(crate) located: Located,
    pub(crate) problems: Vec<Problem>,
    /// Settings that do not do what the user may expect.
    pub(crate) warnings: Vec<String>,
}

/// Reads a `KEY=VALUE` file.
pub(crate) fn read_key_value(path: &Path, text: &str, names: &Names) -> Mapped {
    let (entries, mistakes) = parse(text);
    let mut mapping = Mapping {
        file: path,
        names,
        mapped: Mapped {
            document: Value::Object(Map::new()),
            located: Located::default(),
            problems: Vec::new(),
            warnings: Vec::new(),
        },
    };
    for mistake in mistakes {
        mapping.problem(mistake.position, JsonPath::default(), mistake.message);
    }
    let mut last: BTreeMap<String, Entry> = BTreeMap::new();
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
    let mut entries: Vec<Entry> = last.into_values().collect();
    entries.sort_by_key(|entry| entry.position);
    for entry in &entries {
        mapping.entry(entry);
    }
    mapping.agent(&entries);
    mapping.mapped.problems.sort_by_key(|problem| match &problem.place {
        Place::Value(Origin::File { position, .. }) => *position,
        Place::Value(Origin::Default | Origin::Env { .. } | Origin::Flag { .. })
        | Place::WholeFile { .. } => Position::START,
    });
    mapping.mapped
}

struct Mapping<'a> {
    file: &'a Path,
    names: &'a Names,
    mapped: Mapped,
}

impl Mapping<'_> {
    fn entry(&mut self, entry: &Entry) {
        match &entry.value {
            Assigned::Text(text, at) => self.text(entry, text, *at),
            Assigned::List(items) => self.list(entry, items),
        }
    }

    fn text(&mut self, entry: &Entry, text: &str, at: Position) {
        let spot = Spot { key: entry.position, value: at };
        match entry.name.as_str() {
            // These depend on each other and are read together below.
            name if preset::NAMES.contains(&name) => {}
            // Empty ones keep the default.
            "SPECS_DIR" | "MAX_RETRIES" if text.trim().is_empty() => {}
            "SPECS_DIR" => self.setting("specsDir", text, spot),
            "MAX_RETRIES" => self.setting("retries.max", text, spot),
            name if name.starts_with("RALPH_") => match self.names.read(name, text) {
                Ok(Meaning::Warning(message)) if !name.ends_with("_LOG_FILE") => {
                    self.warn(
                        entry.position,
                        &format!("{message}; it becomes a template variable"),
                    );
                    self.set(JsonPath::parse("vars").key(name), text.into(), spot);
                }
                Ok(Meaning::Warning(message)) => self.warn(entry.position, &message),
                meaning => self.apply(meaning, spot),
            },
            name => self.set(JsonPath::parse("vars").key(name), text.into(), spot),
        }
    }

    fn list(&mut self, entry: &Entry, items: &[(String, Position)]) {
        let texts = items.iter().map(|(text, _)| text.as_str());
        let name = entry.name.as_str();
        let (path, value) = if name == VALIDATION_COMMANDS {
            (JsonPath::parse("gates"), validation_gates(texts))
        } else if name == preset::ARGS {
            return;
        } else if let Some(path) = self.names.path_of(name) {
            // If the setting is not a list, the checker reports it.
            (path, texts.collect())
        } else {
            let message = format!("{name}: a template variable cannot be a list");
            return self.problem(entry.position, JsonPath::default(), message);
        };
        let opening = items.first().map_or(entry.position, |(_, at)| *at);
        self.set(path.clone(), value, Spot { key: entry.position, value: opening });
        for (index, (_, at)) in items.iter().enumerate() {
            self.mapped.located.insert(path.index(index), Spot { key: *at, value: *at });
        }
    }

    /// Reads the names that describe the agent.
    fn agent(&mut self, entries: &[Entry]) {
        let find = |name: &str| entries.iter().find(|entry| entry.name == name);
        let text = |name: &str| match &find(name)?.value {
            Assigned::Text(text, _) => Some(text.as_str()).filter(|text| !text.trim().is_empty()),
            Assigned::List(_) => None,
        };
        let args = match find(preset::ARGS).map(|entry| &entry.value) {
            Some(Assigned::List(items)) => {
                Some(Args::Words(items.iter().map(|(word, _)| word.clone()).collect()))
            }
            Some(Assigned::Text(..)) | None => text(preset::ARGS).map(Args::Text),
        };
        let preset = preset::read(&Given {
            kind: text(preset::TYPE),
            cli: text(preset::CLI),
            args,
            format: text(preset::FORMAT),
            response: text(preset::RESPONSE),
            display: text(preset::DISPLAY),
            has_delta_filter: self.mapped.document.pointer("/agent/deltaFilter").is_some(),
        });
        self.take(preset, |name| {
            find(name).map_or(Spot { key: Position::START, value: Position::START }, spot_of)
        });
    }

    /// Applies the settings of an agent preset.
    fn take(&mut self, preset: Preset, spot: impl Fn(&str) -> Spot) {
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
                self.setting(path, &text, spot(name));
            }
        }
        let values = [
            ("agent.command", command.map(|(name, text)| (name, Value::from(text)))),
            ("agent.flags", preset.flags.map(|(name, flags)| (name, Value::from(flags)))),
            ("streamAgentOutput", preset.streams.map(|(name, it)| (name, Value::from(it)))),
        ];
        for (path, value) in values {
            if let Some((name, value)) = value {
                self.set(JsonPath::parse(path), value, spot(name));
            }
        }
        for (name, message) in preset.problems {
            let message = format!("{name}: {message}");
            self.problem(spot(name).value, JsonPath::default(), message);
        }
        for (name, message) in preset.warnings {
            self.warn(spot(name).key, &message);
        }
    }

    fn setting(&mut self, path: &str, text: &str, spot: Spot) {
        let meaning = self.names.read_setting(JsonPath::parse(path), text);
        self.apply(meaning, spot);
    }

    fn apply(&mut self, meaning: Result<Meaning, Unreadable>, spot: Spot) {
        match meaning {
            Ok(Meaning::Set(path, value)) => self.set(path, value, spot),
            Ok(Meaning::Nothing | Meaning::Warning(_)) => {}
            Err(Unreadable { path, message }) => {
                self.problem(spot.value, path.clone(), format!("`{path}`: {message}"));
            }
        }
    }

    fn set(&mut self, path: JsonPath, value: Value, spot: Spot) {
        let mut addition = path.wrap(value);
        write_out_limits(&mut addition);
        if let Ok(merged) = merge(&self.mapped.document, &addition) {
            self.mapped.document = merged;
            self.mapped.located.insert(path, spot);
        } else {
            let message = format!("`{path}` is set both as a whole and in parts");
            self.problem(spot.key, path, message);
        }
    }

    fn warn(&mut self, position: Position, message: &str) {
        let line = position.line;
        self.mapped.warnings.push(format!("{}:{line}: {message}", self.file.display()));
    }

    fn problem(&mut self, position: Position, path: JsonPath, message: String) {
        let place = Place::Value(Origin::File { path: self.file.into(), position });
        self.mapped.problems.push(Problem { place, path, message, hint: None });
    }
}

fn spot_of(entry: &Entry) -> Spot {
    let value = match &entry.value {
        Assigned::Text(_, at) => *at,
        Assigned::List(items) => items.first().map_or(entry.position, |(_, at)| *at),
    };
    Spot { key: entry.position, value }
}

#[cfg(test)]
mod tests;
