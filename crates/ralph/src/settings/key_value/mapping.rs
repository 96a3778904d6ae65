//! What the names of a `KEY=VALUE` file mean as settings.
//!
//! Not here: the syntax of the file (the parent) and the `RALPH_*` names (`environment`).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::{Assigned, Entry, parse};
use crate::settings::environment::{
    Meaning, Names, Unreadable, VALIDATION_COMMANDS, validation_gates,
};
use crate::settings::layers::{merge, write_out_limits};
use crate::settings::locate::{Located, Spot};
use crate::settings::path::JsonPath;
use crate::settings::problem::{Origin, Place, Position, Problem};
use crate::settings::words::split_words;

/// A `KEY=VALUE` file as a settings document.
#[derive(Debug)]
pub(crate) struct Mapped {
    /// The settings.
    pub(crate) document: Value,
    /// Where they stand in the file.
    pub(crate) located: Located,
    /// What is wrong in the file.
    pub(crate) problems: Vec<Problem>,
    /// What somebody may have expected otherwise.
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
            // These depend on each other; `agent` reads them together.
            "AGENT_TYPE" | "AGENT_CLI" | "AGENT_ARGS" => {}
            "AGENT_OUTPUT_FORMAT" => match text.to_ascii_lowercase().as_str() {
                "json" => self.set(JsonPath::parse("streamAgentOutput"), true.into(), spot),
                "text" => self.set(JsonPath::parse("streamAgentOutput"), false.into(), spot),
                "" => {}
                _ => {
                    let message =
                        format!("AGENT_OUTPUT_FORMAT: expected json or text, found {text:?}");
                    self.problem(at, JsonPath::parse("streamAgentOutput"), message);
                }
            },
            "AGENT_RESPONSE_FILTER" => {
                self.setting("agent.responseFilter", &bare_filter(text), spot);
            }
            "AGENT_DISPLAY_FILTER" => {
                self.setting("agent.displayFilter", &bare_filter(text), spot);
            }
            "SPECS_DIR" => self.setting("specsDir", text, spot),
            "MAX_RETRIES" => self.setting("retries.max", text, spot),
            name if name.starts_with("RALPH_") => match self.names.read(name, text) {
                Ok(Meaning::Warning(message)) if !name.ends_with("_LOG_FILE") => {
                    self.warn(entry, &format!("{message}; it becomes a template variable"));
                    self.set(JsonPath::parse("vars").key(name), text.into(), spot);
                }
                Ok(Meaning::Warning(message)) => self.warn(entry, &message),
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
        } else if name == "AGENT_ARGS" {
            (JsonPath::parse("agent.flags"), texts.collect())
        } else if let Some(path) = self.names.path_of(name) {
            // If the setting is no list, the checker says so.
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

    /// Reads kind, program and arguments together: the program may carry arguments of its own,
    /// and follows from the kind where it is not given.
    fn agent(&mut self, entries: &[Entry]) {
        let given = |name: &str| {
            entries.iter().find(|entry| entry.name == name).and_then(|entry| match &entry.value {
                Assigned::Text(text, at) if !text.trim().is_empty() => {
                    Some((text.as_str(), Spot { key: entry.position, value: *at }))
                }
                Assigned::Text(..) | Assigned::List(_) => None,
            })
        };
        if let Some((kind, spot)) = given("AGENT_TYPE") {
            // Text was the type of every program without one of its own, and its output could
            // still be JSON.
            let is_json =
                given("AGENT_OUTPUT_FORMAT").is_some_and(|(it, _)| it.eq_ignore_ascii_case("json"));
            let is_filtered = is_json && given("AGENT_RESPONSE_FILTER").is_some();
            let is_text = kind.trim().eq_ignore_ascii_case("text");
            let named = if is_text && is_filtered { "custom" } else { kind };
            self.setting("agent.kind", named, spot);
            if given("AGENT_CLI").is_none()
                && self.mapped.document.pointer("/agent/command").is_none()
                && let Some(command) = program_of(kind)
            {
                self.set(JsonPath::parse("agent.command"), command.into(), spot);
            }
        }
        let mut flags = Vec::new();
        let mut flags_spot = None;
        if let Some((text, spot)) = given("AGENT_CLI") {
            let words = self.words(text, spot);
            if let Some((command, more)) = words.split_first() {
                self.set(JsonPath::parse("agent.command"), command.as_str().into(), spot);
                flags.extend(more.iter().cloned());
                flags_spot = (!more.is_empty()).then_some(spot);
            }
        }
        if let Some((text, spot)) = given("AGENT_ARGS") {
            flags.extend(self.words(text, spot));
            flags_spot = Some(spot);
        } else if let Some(Value::Array(listed)) = self.mapped.document.pointer("/agent/flags") {
            flags.extend(listed.iter().filter_map(Value::as_str).map(Into::into));
        }
        if let Some(spot) = flags_spot {
            self.set(JsonPath::parse("agent.flags"), flags.into(), spot);
        }
    }

    fn words(&mut self, text: &str, spot: Spot) -> Vec<String> {
        split_words(text).unwrap_or_else(|message| {
            self.problem(spot.value, JsonPath::parse("agent.flags"), message);
            Vec::new()
        })
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

    fn warn(&mut self, entry: &Entry, message: &str) {
        let line = entry.position.line;
        self.mapped.warnings.push(format!("{}:{line}: {message}", self.file.display()));
    }

    fn problem(&mut self, position: Position, path: JsonPath, message: String) {
        let place = Place::Value(Origin::File { path: self.file.into(), position });
        self.mapped.problems.push(Problem { place, path, message, hint: None });
    }
}

/// Returns a filter without the command that applied it, as in `jq -r --unbuffered '.text'`.
fn bare_filter(text: &str) -> String {
    let words = split_words(text).unwrap_or_default();
    let mut further = words.iter().skip(1).filter(|word| !word.starts_with('-'));
    match (words.first().map(String::as_str), further.next(), further.next()) {
        (Some("jq"), Some(filter), None) => filter.clone(),
        _ => text.to_owned(),
    }
}

/// Returns the program of a kind of agent, where there is a usual one.
fn program_of(kind: &str) -> Option<&'static str> {
    const PROGRAMS: [(&str, &str); 10] = [
        ("claude", "claude"),
        ("codex", "codex"),
        ("amp", "amp"),
        ("cline", "cline"),
        ("gemini", "gemini"),
        ("opencode", "opencode"),
        ("copilot", "copilot"),
        ("qwen", "qwen"),
        ("pi", "pi"),
        // Plain text was first read from this one.
        ("text", "cline"),
    ];
    let found = PROGRAMS.iter().find(|(name, _)| name.eq_ignore_ascii_case(kind.trim()));
    found.map(|(_, program)| *program)
}

#[cfg(test)]
mod tests;
