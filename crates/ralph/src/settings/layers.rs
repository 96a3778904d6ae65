//! The layers of settings and how they merge; the origin of every value is recorded.
//!
//! Later wins: defaults, the user's own file, the project's file (or the one given), the local
//! file, environment, flags. Objects merge by key; everything else replaces. Values of a project's
//! files that are looser than the user's bound are listed. A pure function over what was read. Not
//! here: reading files or the environment (`source`), and what looser means.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::check::{SettingFault, SettingFinding, check_document};
use super::environment::{SettingVariables, VariableMeaning};
use super::key_value::mapping::read_key_value;
use super::locate::{EntryPositions, read_json};
use super::loosening::{Loosening, LooseningCause};
use super::path::{JsonPath, JsonPathStep};
use super::problem::{ProblemLocation, SettingOrigin, SettingProblem, SettingsError};
use super::schema::build_setting_shape;
use super::schema_model::SettingShape;
use super::semantic_check::check_sense;
use super::trust_limits;
use super::types::Settings;

/// Everything that settings are made from.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingsSources {
    /// The user's own file: JSON.
    pub(crate) user: Option<SettingsFile>,
    /// The project's file, or the one given instead: JSON or `KEY=VALUE`.
    pub(crate) base: Option<SettingsFile>,
    /// The local file next to it: JSON.
    pub(crate) local: Option<SettingsFile>,
    /// Environment variables; others than `RALPH_*` are ignored.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) flags: Vec<FlagSetting>,
}

/// The text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingsFile {
    /// As messages show it.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) author: FileAuthor,
}

/// Who wrote a settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileAuthor {
    /// The user: its isolation settings are the bound.
    User,
    /// The project, which may be untrusted.
    Project,
}

/// What a flag sets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FlagSetting {
    /// The flag, such as `--max-cost`.
    pub(crate) name: String,
    /// The setting, such as `budget.maxCostUsd`.
    pub(crate) path: String,
    pub(crate) value: Value,
}

impl FlagSetting {
    pub(crate) fn new(name: &str, path: &str, value: impl Into<Value>) -> Self {
        Self { name: name.to_owned(), path: path.to_owned(), value: value.into() }
    }
}

/// Merged settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoadedSettings {
    pub(crate) settings: Settings,
    /// Where values came from; a missing path has the default.
    pub(crate) origins: BTreeMap<JsonPath, SettingOrigin>,
    /// The files that were read, in order.
    pub(crate) files: Vec<PathBuf>,
    /// Settings that do not do what the user may expect.
    pub(crate) warnings: Vec<String>,
    /// The files that are the project's.
    pub(crate) project_files: Vec<PathBuf>,
    /// Settings of the project's files that need the user's trust.
    pub(crate) loosenings: Vec<Loosening>,
}

impl LoadedSettings {
    /// Returns where the value at a path such as `agent.flags` came from.
    pub(crate) fn find_origin(&self, path: &str) -> &SettingOrigin {
        find_origin_in(&self.origins, &JsonPath::parse(path))
    }

    /// Returns where a file of the project sets the value at a path, if one does.
    pub(crate) fn find_project_origin(&self, path: &JsonPath) -> Option<&SettingOrigin> {
        let origin = find_origin_in(&self.origins, path);
        match origin {
            SettingOrigin::File { path, .. } => self.project_files.contains(path).then_some(origin),
            SettingOrigin::Default | SettingOrigin::Env { .. } | SettingOrigin::Flag { .. } => None,
        }
    }

    /// Returns whether any layer sets the value at a path, or anything below it.
    pub(crate) fn is_set(&self, path: &str) -> bool {
        let path = JsonPath::parse(path);
        self.origins.keys().any(|set| set.0.starts_with(&path.0))
    }
}

fn find_origin_in<'a>(
    origins: &'a BTreeMap<JsonPath, SettingOrigin>,
    path: &JsonPath,
) -> &'a SettingOrigin {
    path.self_and_parents().find_map(|path| origins.get(&path)).unwrap_or(&SettingOrigin::Default)
}

/// Merges all sources, or returns every mistake in them.
pub(crate) fn load_settings(sources: SettingsSources) -> Result<LoadedSettings, SettingsError> {
    static NAMES: LazyLock<SettingVariables> =
        LazyLock::new(|| SettingVariables::new(build_setting_shape()));
    let names = &*NAMES;
    let mut reading = LayerReader::default();
    for (file, kind) in [
        (sources.user, SettingsFileKind::User),
        (sources.base, SettingsFileKind::Base),
        (sources.local, SettingsFileKind::Local),
    ] {
        if let Some(file) = file {
            reading.read_file(&file, kind, names);
        }
    }
    reading.read_environment(sources.env, names);
    for flag in sources.flags {
        let value = JsonPath::parse(&flag.path).wrap(flag.value);
        let source = LayerSource::Flag { name: flag.name };
        reading.layers.push(SettingsLayer { value, source });
    }
    reading.check_layers(names.root_shape());
    reading.merge_layers()
}

/// Merges two documents: objects by key, anything else replaces. Fails with the path if one has an
/// object where the other has something else.
pub(crate) fn merge_documents(below: &Value, above: &Value) -> Result<Value, JsonPath> {
    fn walk(below: &mut Value, above: &Value, path: &JsonPath) -> Result<(), JsonPath> {
        match (below, above) {
            (Value::Object(below), Value::Object(above)) => {
                for (key, value) in above {
                    match below.get_mut(key) {
                        Some(inner) => walk(inner, value, &path.join_key(key))?,
                        None => {
                            below.insert(key.clone(), value.clone());
                        }
                    }
                }
                Ok(())
            }
            (Value::Object(_), _) | (_, Value::Object(_)) => Err(path.clone()),
            (below, above) => {
                *below = above.clone();
                Ok(())
            }
        }
    }
    let mut merged = below.clone();
    walk(&mut merged, above, &JsonPath::default())?;
    Ok(merged)
}

/// One layer.
#[derive(Debug)]
struct SettingsLayer {
    value: Value,
    source: LayerSource,
}

#[derive(Debug)]
enum LayerSource {
    File { path: PathBuf, located: EntryPositions, author: FileAuthor },
    Env { name: String },
    Flag { name: String },
}

/// The part of an entry that a message points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryPart {
    Key,
    Value,
}

impl LayerSource {
    /// Returns who wrote the file; `None` for flags and environment.
    fn author(&self) -> Option<FileAuthor> {
        match self {
            Self::File { author, .. } => Some(*author),
            Self::Env { .. } | Self::Flag { .. } => None,
        }
    }

    fn find_origin(&self, path: &JsonPath, part: EntryPart) -> SettingOrigin {
        match self {
            Self::File { path: file, located, .. } => {
                let spot = located.find(path);
                let position = match part {
                    EntryPart::Key => spot.key,
                    EntryPart::Value => spot.value,
                };
                SettingOrigin::File { path: file.clone(), position }
            }
            Self::Env { name } => SettingOrigin::Env { name: name.clone() },
            Self::Flag { name } => SettingOrigin::Flag { name: name.clone() },
        }
    }
}

/// Which file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SettingsFileKind {
    User,
    Base,
    Local,
}

/// What has been read so far.
#[derive(Debug, Default)]
struct LayerReader {
    layers: Vec<SettingsLayer>,
    files: Vec<PathBuf>,
    warnings: Vec<String>,
    problems: Vec<SettingProblem>,
    /// Sections with a mistake: the rest of them may cause follow-up errors.
    damaged: Vec<JsonPathStep>,
    /// How many files could not be read at all.
    unread: usize,
}

impl LayerReader {
    fn read_file(&mut self, file: &SettingsFile, kind: SettingsFileKind, names: &SettingVariables) {
        self.files.push(file.path.clone());
        if kind == SettingsFileKind::Base && is_key_value(&file.path, &file.text) {
            let mapped = read_key_value(&file.path, &file.text, names);
            self.unread += usize::from(!mapped.problems.is_empty());
            self.problems.extend(mapped.problems);
            self.warnings.extend(mapped.warnings);
            let located = mapped.located;
            let source =
                LayerSource::File { path: file.path.clone(), located, author: file.author };
            self.layers.push(SettingsLayer { value: mapped.document, source });
            return;
        }
        match read_json(&file.path, &file.text) {
            Ok((value, located)) => {
                let author = file.author;
                let source = LayerSource::File { path: file.path.clone(), located, author };
                self.layers.push(SettingsLayer { value, source });
            }
            Err(problems) => {
                self.unread += 1;
                self.problems.extend(problems);
            }
        }
    }

    fn read_environment(&mut self, mut env: Vec<(String, String)>, names: &SettingVariables) {
        // The order of an environment is arbitrary. Of two names for one setting the newer one wins.
        env.sort_by_key(|(name, _)| (!SettingVariables::is_alias(name), name.clone()));
        let mut set: BTreeMap<JsonPath, (String, Value)> = BTreeMap::new();
        for (name, text) in env {
            match names.read_variable(&name, &text) {
                Ok(VariableMeaning::Set(path, value)) => {
                    let entry = (name.clone(), value.clone());
                    if let Some((other, former)) = set.insert(path.clone(), entry)
                        && former != value
                    {
                        self.warnings.push(format!("{name} counts, {other} does not"));
                    }
                }
                Ok(VariableMeaning::Nothing) => {}
                Ok(VariableMeaning::Warning(message)) => self.warnings.push(message),
                Err(unreadable) => {
                    self.damaged.extend(unreadable.path.0.first().cloned());
                    self.problems.push(SettingProblem {
                        place: ProblemLocation::Value(SettingOrigin::Env { name }),
                        path: unreadable.path,
                        message: unreadable.message,
                        hint: None,
                    });
                }
            }
        }
        for (path, (name, value)) in set {
            let value = path.wrap(value);
            self.layers.push(SettingsLayer { value, source: LayerSource::Env { name } });
        }
    }

    /// Checks every layer by itself, and removes the wrong values from it.
    fn check_layers(&mut self, root: &SettingShape) {
        for index in 0..self.layers.len() {
            let findings =
                check_document(&self.layers[index].value, &JsonPath::default(), root, root);
            for finding in findings {
                self.problems.push(self.locate_finding(index, &finding));
                self.damaged.extend(finding.path.0.first().cloned());
                finding.path.prune(&mut self.layers[index].value);
            }
            expand_limits(&mut self.layers[index].value);
        }
    }

    fn locate_finding(&self, index: usize, finding: &SettingFinding) -> SettingProblem {
        let source = &self.layers[index].source;
        let path = &finding.path;
        let (message, part) = match (&finding.fault, source) {
            (SettingFault::UnknownKey, _) => (format!("unknown key `{path}`"), EntryPart::Key),
            (
                SettingFault::Type(message) | SettingFault::Value(message),
                LayerSource::File { .. },
            ) if !path.0.is_empty() => (format!("`{path}`: {message}"), EntryPart::Value),
            (SettingFault::Type(message) | SettingFault::Value(message), _) => {
                (message.clone(), EntryPart::Value)
            }
        };
        let hint = match &finding.fault {
            SettingFault::Type(_) => {
                self.find_conflicting_layer(index, path).or(finding.hint.clone())
            }
            SettingFault::UnknownKey | SettingFault::Value(_) => finding.hint.clone(),
        };
        let place = ProblemLocation::Value(source.find_origin(path, part));
        SettingProblem { place, path: path.clone(), message, hint }
    }

    /// Returns a hint where an earlier layer sets the same key as an object.
    fn find_conflicting_layer(&self, index: usize, path: &JsonPath) -> Option<String> {
        let object = self.layers[..index].iter().rev().find(|layer| {
            let found = path.keys().try_fold(&layer.value, |value, key| value.get(key));
            found.is_some_and(Value::is_object) && !path.0.is_empty()
        })?;
        Some(format!("it is an object at {}", object.source.find_origin(path, EntryPart::Value)))
    }

    fn merge_layers(mut self) -> Result<LoadedSettings, SettingsError> {
        let mut merged = serde_json::to_value(Settings::default()).unwrap_or_default();
        remove_nulls(&mut merged);
        let user = UserBound::from_layers(&merged, &self.layers);
        let mut origins = BTreeMap::new();
        for layer in &mut self.layers {
            if layer.source.author() == Some(FileAuthor::Project) {
                trust_limits::keep_forbidden(&user.document, &mut layer.value);
            }
            match merge_documents(&merged, &layer.value) {
                Ok(next) => {
                    merged = next;
                    record_origins(&layer.value, &JsonPath::default(), &layer.source, &mut origins);
                }
                Err(path) => self.problems.push(SettingProblem {
                    place: ProblemLocation::Value(
                        layer.source.find_origin(&path, EntryPart::Value),
                    ),
                    message: format!(
                        "`{path}` conflicts with the value at {}",
                        find_origin_in(&origins, &path)
                    ),
                    path,
                    hint: None,
                }),
            }
        }
        let loosenings = user.find_loosenings(&merged, &origins, &self.layers);
        let settings = match serde_json::from_value::<Settings>(merged) {
            Ok(settings) => settings,
            Err(error) => {
                self.problems.push(SettingProblem {
                    place: ProblemLocation::Value(SettingOrigin::Default),
                    path: JsonPath::default(),
                    message: format!("the merged settings cannot be read: {error}"),
                    hint: None,
                });
                return Err(SettingsError { problems: self.problems });
            }
        };
        self.finish_loading(settings, origins, loosenings)
    }

    fn finish_loading(
        mut self,
        mut settings: Settings,
        origins: BTreeMap<JsonPath, SettingOrigin>,
        loosenings: Vec<Loosening>,
    ) -> Result<LoadedSettings, SettingsError> {
        shorten_default_soft_limits(&mut settings, &origins);
        if self.unread == 0 {
            let findings = check_sense(&settings).into_iter();
            let whole = findings
                .filter(|it| !it.path.0.first().is_some_and(|top| self.damaged.contains(top)));
            let problems: Vec<SettingProblem> = whole.map(|it| to_problem(it, &origins)).collect();
            self.problems.extend(problems);
        }
        if !self.problems.is_empty() {
            return Err(SettingsError { problems: self.problems });
        }
        let Self { files, warnings, layers, .. } = self;
        let project_files = layers
            .into_iter()
            .filter_map(|layer| match layer.source {
                LayerSource::File { path, author: FileAuthor::Project, .. } => Some(path),
                LayerSource::File { .. } | LayerSource::Env { .. } | LayerSource::Flag { .. } => {
                    None
                }
            })
            .collect();
        Ok(LoadedSettings { settings, origins, files, warnings, project_files, loosenings })
    }
}

/// The user's bound: defaults and the user's own files, without any project.
struct UserBound {
    document: Value,
    origins: BTreeMap<JsonPath, SettingOrigin>,
}

impl UserBound {
    fn from_layers(defaults: &Value, layers: &[SettingsLayer]) -> Self {
        let mut bound = Self { document: defaults.clone(), origins: BTreeMap::new() };
        for layer in layers.iter().filter(|it| it.source.author() == Some(FileAuthor::User)) {
            // A conflict is reported when everything is merged.
            if let Ok(document) = merge_documents(&bound.document, &layer.value) {
                bound.document = document;
                record_origins(
                    &layer.value,
                    &JsonPath::default(),
                    &layer.source,
                    &mut bound.origins,
                );
            }
        }
        bound
    }

    /// Returns where a project exceeds the bound. Values from variables and flags are the user's own.
    fn find_loosenings(
        &self,
        merged: &Value,
        origins: &BTreeMap<JsonPath, SettingOrigin>,
        layers: &[SettingsLayer],
    ) -> Vec<Loosening> {
        let is_the_projects = |origin: &SettingOrigin| match origin {
            SettingOrigin::File { path: from, .. } => {
                layers.iter().any(|layer| match &layer.source {
                    LayerSource::File { path, author, .. } => {
                        path == from && *author == FileAuthor::Project
                    }
                    LayerSource::Env { .. } | LayerSource::Flag { .. } => false,
                })
            }
            SettingOrigin::Default | SettingOrigin::Env { .. } | SettingOrigin::Flag { .. } => {
                false
            }
        };
        let backend = find_origin_in(origins, &JsonPath::parse("sandbox.backend"));
        let is_none =
            |document: &Value| trust_limits::find_value(document, "sandbox.backend") == "none";
        // Without any sandbox its settings limit nothing.
        let is_off = is_none(merged) && (is_none(&self.document) || !is_the_projects(backend));
        trust_limits::find_looser(&self.document, merged)
            .into_iter()
            .filter(|it| !(is_off && it.key.starts_with("sandbox.")))
            .filter_map(|trust_limits::LooserKey { key, asks, bound }| {
                let path = JsonPath::parse(key);
                let origin = find_origin_in(origins, &path).clone();
                let bound_origin = find_origin_in(&self.origins, &path).clone();
                let cause = LooseningCause::BeyondBound { bound, origin: bound_origin };
                let key = key.to_owned();
                is_the_projects(&origin).then_some(Loosening { key, asks, origin, cause })
            })
            .collect()
    }
}

fn to_problem(
    finding: SettingFinding,
    origins: &BTreeMap<JsonPath, SettingOrigin>,
) -> SettingProblem {
    let origin = find_origin_in(origins, &finding.path).clone();
    let message = match finding.fault {
        SettingFault::UnknownKey => "unknown key".into(),
        SettingFault::Type(message) | SettingFault::Value(message) => message,
    };
    SettingProblem {
        message: format!("`{}`: {message}", finding.path),
        place: ProblemLocation::Value(origin),
        path: finding.path,
        hint: finding.hint,
    }
}

/// Returns whether a file is `KEY=VALUE`; a text that begins like JSON is meant to be JSON.
fn is_key_value(path: &Path, text: &str) -> bool {
    let is_json_name = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("json"));
    let begins_like_json = text.trim_start().starts_with(['{', '[', '"', '/']);
    !is_json_name && !begins_like_json
}

/// Expands `"test": "5m"` to `"test": {"hard": "5m"}`, so that layers can merge.
pub(crate) fn expand_limits(document: &mut Value) {
    let Some(Value::Object(timeouts)) = document.get_mut("timeouts") else {
        return;
    };
    for (key, limits) in timeouts.iter_mut() {
        if key != "idle" && !limits.is_object() {
            *limits = Value::Object(Map::from_iter([("hard".to_owned(), limits.take())]));
        }
    }
}

/// Lowers a default soft limit to a hard limit that is set below it.
fn shorten_default_soft_limits(
    settings: &mut Settings,
    origins: &BTreeMap<JsonPath, SettingOrigin>,
) {
    let timeouts = JsonPath::parse("timeouts");
    for (key, limits) in settings.timeouts.sections() {
        let is_default = *find_origin_in(origins, &timeouts.join_key(key).join_key("soft"))
            == SettingOrigin::Default;
        if is_default
            && limits.soft > limits.hard
            && let Some(limits) = settings.timeouts.find_section_mut(key)
        {
            limits.soft = limits.hard;
        }
    }
}

fn remove_nulls(value: &mut Value) {
    if let Value::Object(entries) = value {
        entries.retain(|_, value| !value.is_null());
        entries.values_mut().for_each(remove_nulls);
    }
}

/// Records the origin of every value of a layer except objects, and removes the replaced ones.
fn record_origins(
    value: &Value,
    path: &JsonPath,
    source: &LayerSource,
    origins: &mut BTreeMap<JsonPath, SettingOrigin>,
) {
    if let Value::Object(entries) = value {
        for (key, value) in entries {
            record_origins(value, &path.join_key(key), source, origins);
        }
        return;
    }
    // Replaced paths are adjacent in the map. Scanning the whole map per value would be quadratic.
    let replaced =
        origins.range(path.clone()..).take_while(|(known, _)| known.0.starts_with(&path.0));
    let replaced: Vec<JsonPath> = replaced.map(|(known, _)| known.clone()).collect();
    for known in replaced {
        origins.remove(&known);
    }
    record_part_origins(value, path, source, origins);
}

fn record_part_origins(
    value: &Value,
    path: &JsonPath,
    source: &LayerSource,
    origins: &mut BTreeMap<JsonPath, SettingOrigin>,
) {
    origins.insert(path.clone(), source.find_origin(path, EntryPart::Value));
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                record_part_origins(item, &path.join_index(index), source, origins);
            }
        }
        Value::Object(entries) => {
            for (key, entry) in entries {
                record_part_origins(entry, &path.join_key(key), source, origins);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
