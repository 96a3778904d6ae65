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

use super::bound;
use super::check::{Fault, Finding, check};
use super::environment::{Meaning, Names};
use super::key_value::mapping::read_key_value;
use super::locate::{Located, read_json};
use super::loosening::{Loosening, LooseningCause};
use super::path::{JsonPath, Step};
use super::problem::{Origin, Place, Problem, SettingsError};
use super::schema::json_schema;
use super::sense::check_sense;
use super::shape::Shape;
use super::types::Settings;
use ralph_core::secret::masked;

/// Everything that settings are made from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// The user's own file: JSON.
    pub(crate) user: Option<SourceFile>,
    /// The project's file, or the one given instead: JSON or `KEY=VALUE`.
    pub(crate) base: Option<SourceFile>,
    /// The local file next to it: JSON.
    pub(crate) local: Option<SourceFile>,
    /// Environment variables; others than `RALPH_*` are ignored.
    pub(crate) env: Vec<(String, String)>,
    /// Values of flags.
    pub(crate) flags: Vec<FlagValue>,
}

/// The text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceFile {
    /// As messages show it.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) voice: Voice,
}

/// Who wrote a settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    /// The user: its isolation settings are the bound.
    User,
    /// The project, which may be untrusted.
    Project,
}

/// What a flag sets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FlagValue {
    /// The flag, such as `--max-cost`.
    pub(crate) name: String,
    /// The setting, such as `budget.maxCostUsd`.
    pub(crate) path: String,
    /// Its value.
    pub(crate) value: Value,
}

/// Merged settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    /// Where values came from; a missing path has the default.
    pub(crate) origins: BTreeMap<JsonPath, Origin>,
    /// The files that were read, in order.
    pub(crate) files: Vec<PathBuf>,
    /// Settings that do not do what the user may expect.
    pub(crate) warnings: Vec<String>,
    /// The files that are the project's.
    pub(crate) project_files: Vec<PathBuf>,
    /// Settings of the project's files that need the user's trust.
    pub(crate) loosenings: Vec<Loosening>,
}

impl Loaded {
    /// Returns where the value at a path such as `agent.flags` came from.
    pub(crate) fn origin(&self, path: &str) -> &Origin {
        origin_in(&self.origins, &JsonPath::parse(path))
    }

    /// Returns where a file of the project sets the value at a path, if one does.
    pub(crate) fn project_origin(&self, path: &JsonPath) -> Option<&Origin> {
        let origin = origin_in(&self.origins, path);
        match origin {
            Origin::File { path, .. } => self.project_files.contains(path).then_some(origin),
            Origin::Default | Origin::Env { .. } | Origin::Flag { .. } => None,
        }
    }

    /// Returns whether any layer sets the value at a path, or anything below it.
    pub(crate) fn is_set(&self, path: &str) -> bool {
        let path = JsonPath::parse(path);
        self.origins.keys().any(|set| set.0.starts_with(&path.0))
    }

    /// Returns all settings as JSON text, with possible secrets masked.
    pub(crate) fn masked_json(&self) -> String {
        let document = serde_json::to_value(&self.settings).unwrap_or_default();
        format!("{:#}", masked(&document))
    }
}

fn origin_in<'a>(origins: &'a BTreeMap<JsonPath, Origin>, path: &JsonPath) -> &'a Origin {
    path.upwards().find_map(|path| origins.get(&path)).unwrap_or(&Origin::Default)
}

/// Merges all sources, or returns every mistake in them.
pub(crate) fn load(sources: Sources) -> Result<Loaded, SettingsError> {
    static NAMES: LazyLock<Names> =
        LazyLock::new(|| Names::new(Shape::from_schema(&json_schema())));
    let names = &*NAMES;
    let mut reading = Reading::default();
    for (file, kind) in
        [(sources.user, Kind::User), (sources.base, Kind::Base), (sources.local, Kind::Local)]
    {
        if let Some(file) = file {
            reading.file(&file, kind, names);
        }
    }
    reading.environment(sources.env, names);
    for flag in sources.flags {
        let value = JsonPath::parse(&flag.path).wrap(flag.value);
        let source = LayerSource::Flag { name: flag.name };
        reading.layers.push(Layer { value, source });
    }
    reading.check(names.root());
    reading.merge()
}

/// Merges two documents: objects by key, anything else replaces. Fails with the path if one has an
/// object where the other has something else.
pub(crate) fn merge(below: &Value, above: &Value) -> Result<Value, JsonPath> {
    fn walk(below: &mut Value, above: &Value, path: &JsonPath) -> Result<(), JsonPath> {
        match (below, above) {
            (Value::Object(below), Value::Object(above)) => {
                for (key, value) in above {
                    match below.get_mut(key) {
                        Some(inner) => walk(inner, value, &path.key(key))?,
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
struct Layer {
    value: Value,
    source: LayerSource,
}

#[derive(Debug)]
enum LayerSource {
    File { path: PathBuf, located: Located, voice: Voice },
    Env { name: String },
    Flag { name: String },
}

/// The part of an entry that a message points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Key,
    Value,
}

impl LayerSource {
    /// Returns who wrote the file; `None` for flags and environment.
    fn voice(&self) -> Option<Voice> {
        match self {
            Self::File { voice, .. } => Some(*voice),
            Self::Env { .. } | Self::Flag { .. } => None,
        }
    }

    fn origin(&self, path: &JsonPath, part: Part) -> Origin {
        match self {
            Self::File { path: file, located, .. } => {
                let spot = located.spot(path);
                let position = match part {
                    Part::Key => spot.key,
                    Part::Value => spot.value,
                };
                Origin::File { path: file.clone(), position }
            }
            Self::Env { name } => Origin::Env { name: name.clone() },
            Self::Flag { name } => Origin::Flag { name: name.clone() },
        }
    }
}

/// Which file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    User,
    Base,
    Local,
}

/// What has been read so far.
#[derive(Debug, Default)]
struct Reading {
    layers: Vec<Layer>,
    files: Vec<PathBuf>,
    warnings: Vec<String>,
    problems: Vec<Problem>,
    /// Sections with a mistake: the rest of them may cause follow-up errors.
    damaged: Vec<Step>,
    /// How many files could not be read at all.
    unread: usize,
}

impl Reading {
    fn file(&mut self, file: &SourceFile, kind: Kind, names: &Names) {
        self.files.push(file.path.clone());
        if kind == Kind::Base && is_key_value(&file.path, &file.text) {
            let mapped = read_key_value(&file.path, &file.text, names);
            self.unread += usize::from(!mapped.problems.is_empty());
            self.problems.extend(mapped.problems);
            self.warnings.extend(mapped.warnings);
            let located = mapped.located;
            let source = LayerSource::File { path: file.path.clone(), located, voice: file.voice };
            self.layers.push(Layer { value: mapped.document, source });
            return;
        }
        match read_json(&file.path, &file.text) {
            Ok((value, located)) => {
                let voice = file.voice;
                let source = LayerSource::File { path: file.path.clone(), located, voice };
                self.layers.push(Layer { value, source });
            }
            Err(problems) => {
                self.unread += 1;
                self.problems.extend(problems);
            }
        }
    }

    fn environment(&mut self, mut env: Vec<(String, String)>, names: &Names) {
        // The order of an environment is arbitrary. Of two names for one setting the newer one wins.
        env.sort_by_key(|(name, _)| (!Names::is_alias(name), name.clone()));
        let mut set: BTreeMap<JsonPath, (String, Value)> = BTreeMap::new();
        for (name, text) in env {
            match names.read(&name, &text) {
                Ok(Meaning::Set(path, value)) => {
                    let entry = (name.clone(), value.clone());
                    if let Some((other, former)) = set.insert(path.clone(), entry)
                        && former != value
                    {
                        self.warnings.push(format!("{name} counts, {other} does not"));
                    }
                }
                Ok(Meaning::Nothing) => {}
                Ok(Meaning::Warning(message)) => self.warnings.push(message),
                Err(unreadable) => {
                    self.damaged.extend(unreadable.path.0.first().cloned());
                    self.problems.push(Problem {
                        place: Place::Value(Origin::Env { name }),
                        path: unreadable.path,
                        message: unreadable.message,
                        hint: None,
                    });
                }
            }
        }
        for (path, (name, value)) in set {
            let value = path.wrap(value);
            self.layers.push(Layer { value, source: LayerSource::Env { name } });
        }
    }

    /// Checks every layer by itself, and removes the wrong values from it.
    fn check(&mut self, root: &Shape) {
        for index in 0..self.layers.len() {
            let findings = check(&self.layers[index].value, &JsonPath::default(), root, root);
            for finding in findings {
                self.problems.push(self.locate(index, &finding));
                self.damaged.extend(finding.path.0.first().cloned());
                finding.path.prune(&mut self.layers[index].value);
            }
            write_out_limits(&mut self.layers[index].value);
        }
    }

    fn locate(&self, index: usize, finding: &Finding) -> Problem {
        let source = &self.layers[index].source;
        let path = &finding.path;
        let (message, part) = match (&finding.fault, source) {
            (Fault::UnknownKey, _) => (format!("unknown key `{path}`"), Part::Key),
            (Fault::Type(message) | Fault::Value(message), LayerSource::File { .. })
                if !path.0.is_empty() =>
            {
                (format!("`{path}`: {message}"), Part::Value)
            }
            (Fault::Type(message) | Fault::Value(message), _) => (message.clone(), Part::Value),
        };
        let hint = match &finding.fault {
            Fault::Type(_) => self.other_place(index, path).or(finding.hint.clone()),
            Fault::UnknownKey | Fault::Value(_) => finding.hint.clone(),
        };
        let place = Place::Value(source.origin(path, part));
        Problem { place, path: path.clone(), message, hint }
    }

    /// Returns a hint where an earlier layer sets the same key as an object.
    fn other_place(&self, index: usize, path: &JsonPath) -> Option<String> {
        let object = self.layers[..index].iter().rev().find(|layer| {
            let found = path.keys().try_fold(&layer.value, |value, key| value.get(key));
            found.is_some_and(Value::is_object) && !path.0.is_empty()
        })?;
        Some(format!("it is an object at {}", object.source.origin(path, Part::Value)))
    }

    fn merge(mut self) -> Result<Loaded, SettingsError> {
        let mut merged = serde_json::to_value(Settings::default()).unwrap_or_default();
        remove_nulls(&mut merged);
        let user = UserBound::of(&merged, &self.layers);
        let mut origins = BTreeMap::new();
        for layer in &mut self.layers {
            if layer.source.voice() == Some(Voice::Project) {
                bound::keep_closed(&user.document, &mut layer.value);
            }
            match merge(&merged, &layer.value) {
                Ok(next) => {
                    merged = next;
                    record(&layer.value, &JsonPath::default(), &layer.source, &mut origins);
                }
                Err(path) => self.problems.push(Problem {
                    place: Place::Value(layer.source.origin(&path, Part::Value)),
                    message: format!(
                        "`{path}` conflicts with the value at {}",
                        origin_in(&origins, &path)
                    ),
                    path,
                    hint: None,
                }),
            }
        }
        let loosenings = user.loosened(&merged, &origins, &self.layers);
        let settings = match serde_json::from_value::<Settings>(merged) {
            Ok(settings) => settings,
            Err(error) => {
                self.problems.push(Problem {
                    place: Place::Value(Origin::Default),
                    path: JsonPath::default(),
                    message: format!("the merged settings cannot be read: {error}"),
                    hint: None,
                });
                return Err(SettingsError { problems: self.problems });
            }
        };
        self.finish(settings, origins, loosenings)
    }

    fn finish(
        mut self,
        mut settings: Settings,
        origins: BTreeMap<JsonPath, Origin>,
        loosenings: Vec<Loosening>,
    ) -> Result<Loaded, SettingsError> {
        shorten_default_soft_limits(&mut settings, &origins);
        if self.unread == 0 {
            let findings = check_sense(&settings).into_iter();
            let whole = findings
                .filter(|it| !it.path.0.first().is_some_and(|top| self.damaged.contains(top)));
            let problems: Vec<Problem> = whole.map(|it| from_sense(it, &origins)).collect();
            self.problems.extend(problems);
        }
        if !self.problems.is_empty() {
            return Err(SettingsError { problems: self.problems });
        }
        let Self { files, warnings, layers, .. } = self;
        let project_files = layers
            .into_iter()
            .filter_map(|layer| match layer.source {
                LayerSource::File { path, voice: Voice::Project, .. } => Some(path),
                LayerSource::File { .. } | LayerSource::Env { .. } | LayerSource::Flag { .. } => {
                    None
                }
            })
            .collect();
        Ok(Loaded { settings, origins, files, warnings, project_files, loosenings })
    }
}

/// The user's bound: defaults and the user's own files, without any project.
struct UserBound {
    document: Value,
    origins: BTreeMap<JsonPath, Origin>,
}

impl UserBound {
    fn of(defaults: &Value, layers: &[Layer]) -> Self {
        let mut bound = Self { document: defaults.clone(), origins: BTreeMap::new() };
        for layer in layers.iter().filter(|it| it.source.voice() == Some(Voice::User)) {
            // A conflict is reported when everything is merged.
            if let Ok(document) = merge(&bound.document, &layer.value) {
                bound.document = document;
                record(&layer.value, &JsonPath::default(), &layer.source, &mut bound.origins);
            }
        }
        bound
    }

    /// Returns where a project exceeds the bound. Values from variables and flags are the user's own.
    fn loosened(
        &self,
        merged: &Value,
        origins: &BTreeMap<JsonPath, Origin>,
        layers: &[Layer],
    ) -> Vec<Loosening> {
        let is_the_projects = |origin: &Origin| match origin {
            Origin::File { path: from, .. } => layers.iter().any(|layer| match &layer.source {
                LayerSource::File { path, voice, .. } => path == from && *voice == Voice::Project,
                LayerSource::Env { .. } | LayerSource::Flag { .. } => false,
            }),
            Origin::Default | Origin::Env { .. } | Origin::Flag { .. } => false,
        };
        let backend = origin_in(origins, &JsonPath::parse("sandbox.backend"));
        let is_none = |document: &Value| bound::at(document, "sandbox.backend") == "none";
        // Without any sandbox its settings limit nothing.
        let is_off = is_none(merged) && (is_none(&self.document) || !is_the_projects(backend));
        bound::looser(&self.document, merged)
            .into_iter()
            .filter(|it| !(is_off && it.key.starts_with("sandbox.")))
            .filter_map(|bound::Looser { key, asks, bound }| {
                let path = JsonPath::parse(key);
                let origin = origin_in(origins, &path).clone();
                let bound_origin = origin_in(&self.origins, &path).clone();
                let cause = LooseningCause::BeyondBound { bound, origin: bound_origin };
                let key = key.to_owned();
                is_the_projects(&origin).then_some(Loosening { key, asks, origin, cause })
            })
            .collect()
    }
}

fn from_sense(finding: Finding, origins: &BTreeMap<JsonPath, Origin>) -> Problem {
    let origin = origin_in(origins, &finding.path).clone();
    let message = match finding.fault {
        Fault::UnknownKey => "unknown key".into(),
        Fault::Type(message) | Fault::Value(message) => message,
    };
    Problem {
        message: format!("`{}`: {message}", finding.path),
        place: Place::Value(origin),
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
pub(crate) fn write_out_limits(document: &mut Value) {
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
fn shorten_default_soft_limits(settings: &mut Settings, origins: &BTreeMap<JsonPath, Origin>) {
    let timeouts = JsonPath::parse("timeouts");
    for (key, limits) in settings.timeouts.sections() {
        let is_default = *origin_in(origins, &timeouts.key(key).key("soft")) == Origin::Default;
        if is_default
            && limits.soft > limits.hard
            && let Some(limits) = settings.timeouts.section_mut(key)
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
fn record(
    value: &Value,
    path: &JsonPath,
    source: &LayerSource,
    origins: &mut BTreeMap<JsonPath, Origin>,
) {
    if let Value::Object(entries) = value {
        for (key, value) in entries {
            record(value, &path.key(key), source, origins);
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
    record_parts(value, path, source, origins);
}

fn record_parts(
    value: &Value,
    path: &JsonPath,
    source: &LayerSource,
    origins: &mut BTreeMap<JsonPath, Origin>,
) {
    origins.insert(path.clone(), source.origin(path, Part::Value));
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                record_parts(item, &path.index(index), source, origins);
            }
        }
        Value::Object(entries) => {
            for (key, entry) in entries {
                record_parts(entry, &path.key(key), source, origins);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
