//! The user's own configuration of an agent, as an agent in a sandbox gets it: complete, except
//! for entries that start programs which the sandbox does not contain.
//!
//! A file affects more than the agent: the sandbox allows the addresses in it, and passes on the
//! variables that it takes keys from. Each adapter lists its own files. Not here: reading and
//! writing files.

mod jsonc;
mod toml;

use serde_json::Value;

use crate::agent_directory::AgentDirectory;

/// A configuration file of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigFile {
    /// Its directory, if that is not the agent's own.
    pub directory: Option<AgentDirectory>,
    /// Path relative to that directory. A leading `*` matches any name with this suffix.
    pub file: &'static str,
    pub format: ConfigFormat,
    /// Keys that are removed and reported: paths with `/` between the keys.
    pub removed_keys: &'static [&'static str],
    /// Keys that are removed and make no difference without a terminal.
    pub ignored_keys: &'static [&'static str],
    /// A variable that names the file, for an agent that would look elsewhere.
    pub path_variable: Option<&'static str>,
}

/// The format of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigFormat {
    /// JSON, possibly with comments.
    Json,
    Toml,
    /// Lines `NAME=value`.
    Variables,
    /// Text for the model.
    Text,
}

impl ConfigFile {
    /// Returns a file in the agent's own directory that is copied completely.
    pub(crate) const fn for_whole_file(file: &'static str, format: ConfigFormat) -> Self {
        Self {
            directory: None,
            file,
            format,
            removed_keys: &[],
            ignored_keys: &[],
            path_variable: None,
        }
    }
}

/// Returns a JSON file of a project in which an agent finds programs to start under these keys.
pub(crate) const fn build_project_file(
    file: &'static str,
    removed_keys: &'static [&'static str],
) -> ConfigFile {
    ConfigFile { removed_keys, ..ConfigFile::for_whole_file(file, ConfigFormat::Json) }
}

/// Returns a file of a project that an agent loads as code, or all files of a directory (`/*`). With
/// `parts`, only if its text has one of them.
pub(crate) const fn build_project_code(
    file: &'static str,
    parts: &'static [&'static str],
) -> ConfigFile {
    ConfigFile { removed_keys: parts, ..ConfigFile::for_whole_file(file, ConfigFormat::Text) }
}

/// Returns a file of a project with variables that an agent reads, of which those matter that
/// match a name; a `*` is at its beginning or end.
pub(crate) const fn build_project_variables(
    file: &'static str,
    names: &'static [&'static str],
) -> ConfigFile {
    ConfigFile { removed_keys: names, ..ConfigFile::for_whole_file(file, ConfigFormat::Variables) }
}

/// Variables of a project's `.env` that lead an agent elsewhere, or make it run something.
pub(crate) const ENV_WITH_CODE: &[&str] = &[
    "*_BASE_URL",
    "*_API_BASE",
    "*_ENDPOINT",
    "*_PROXY",
    "*_API_KEY",
    "*_TOKEN",
    "NODE_*",
    "PYTHON*",
    "LD_*",
    "DYLD_*",
    "PATH",
    "HOME",
    "SHELL",
    "BASH_ENV",
    "GIT_*",
    "OTEL_*",
    "GOOGLE_*",
    "GEMINI_*",
    "QWEN_*",
    "AIDER_*",
];

/// The copy of a configuration file for the sandbox.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImportedConfig {
    pub content: Vec<u8>,
    /// Removed keys that make a difference.
    pub removed_keys: Vec<&'static str>,
    /// The parsed copy; null for text, and if it cannot be parsed.
    pub document: Value,
    /// Whether it could be parsed. If not, the copy is identical to the original.
    pub is_understood: bool,
}

/// Makes the sandbox copy of a file of the user.
pub fn import_config(file: &ConfigFile, content: &[u8]) -> ImportedConfig {
    let taken = std::str::from_utf8(content).ok().and_then(|text| match file.format {
        ConfigFormat::Json => import_json(file, text),
        ConfigFormat::Toml => import_toml(file, text),
        ConfigFormat::Variables => Some(import_variables(file, text)),
        ConfigFormat::Text => Some(ImportedConfig {
            content: text.into(),
            removed_keys: file
                .removed_keys
                .iter()
                .filter(|it| text.contains(**it))
                .copied()
                .collect(),
            is_understood: true,
            ..ImportedConfig::default()
        }),
    });
    // The agent itself will report what is wrong with it.
    taken.unwrap_or_else(|| ImportedConfig {
        content: content.to_vec(),
        ..ImportedConfig::default()
    })
}

fn import_json(file: &ConfigFile, text: &str) -> Option<ImportedConfig> {
    let mut document = jsonc::parse_jsonc(text)?;
    document.as_object()?;
    for key in file.ignored_keys {
        remove_path(&mut document, key);
    }
    let is_left_out = |key: &&&str| remove_path(&mut document, key);
    let left_out: Vec<&str> = file.removed_keys.iter().filter(is_left_out).copied().collect();
    let content = format!("{document:#}").into_bytes();
    Some(ImportedConfig { content, removed_keys: left_out, document, is_understood: true })
}

/// Returns whether a JSON file differs from its earlier content only by a `$schema` at its top:
/// some agents add it to their configuration by themselves.
pub fn adds_only_schema(before: &[u8], after: &[u8]) -> bool {
    let parse = |text: &[u8]| jsonc::parse_jsonc(std::str::from_utf8(text).ok()?);
    let (Some(before), Some(mut after)) = (parse(before), parse(after)) else { return false };
    remove_path(&mut after, "$schema") && before == after
}

/// Removes the value at a path, and returns whether there was one.
fn remove_path(document: &mut Value, path: &str) -> bool {
    let (above, last) = path.rsplit_once('/').map_or((None, path), |(it, last)| (Some(it), last));
    let mut keys = above.into_iter().flat_map(|above| above.split('/'));
    let table = keys.try_fold(document, |value, key| value.get_mut(key));
    table.and_then(Value::as_object_mut).is_some_and(|table| table.remove(last).is_some())
}

fn import_toml(file: &ConfigFile, text: &str) -> Option<ImportedConfig> {
    let statements = toml::parse_statements(text)?;
    let is_below = |statement: &toml::TomlStatement<'_>, key: &str| {
        let mut path = statement.path.iter();
        key.split('/').all(|step| path.next().is_some_and(|it| it == step))
    };
    let mut left_out = Vec::new();
    let mut kept = Vec::new();
    for statement in statements {
        let dropped = file.removed_keys.iter().find(|key| is_below(&statement, key));
        match dropped {
            Some(key) if !left_out.contains(key) => left_out.push(*key),
            Some(_) => {}
            None if file.ignored_keys.iter().any(|key| is_below(&statement, key)) => {}
            None => kept.push(statement),
        }
    }
    let document = toml::build_document(&kept);
    let content = kept.iter().map(|statement| statement.text).collect::<String>().into_bytes();
    Some(ImportedConfig { content, removed_keys: left_out, document, is_understood: true })
}

fn import_variables(file: &ConfigFile, text: &str) -> ImportedConfig {
    let entries = text.lines().filter_map(|line| {
        let line = line.trim().strip_prefix("export ").unwrap_or(line.trim());
        let (name, value) = line.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        (!name.starts_with('#')).then(|| (name.trim().to_owned(), Value::from(value)))
    });
    let entries: serde_json::Map<String, Value> = entries.collect();
    let is_matched = |pattern: &&&str| entries.keys().any(|name| matches_name(pattern, name));
    let removed_keys = file.removed_keys.iter().filter(is_matched).copied().collect();
    let document = Value::Object(entries);
    ImportedConfig { content: text.into(), removed_keys, document, is_understood: true }
}

/// Returns whether a variable has a name with a `*` at its beginning or end.
fn matches_name(pattern: &str, name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

/// Returns the addresses that a document sends an agent to: URLs under keys such as `base_url`,
/// `baseURL`, `endpoint` or `OPENAI_BASE_URL`. `variable` returns the value of a variable that a
/// value refers to.
pub fn collect_addresses(
    document: &Value,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut found = Vec::new();
    visit_strings(document, "", &mut |key, text| {
        let key = key.to_ascii_lowercase();
        if !["url", "uri", "endpoint"].iter().any(|word| key.contains(word)) {
            return;
        }
        let mut named = Vec::new();
        collect_references(text, &mut named);
        let value = match named.as_slice() {
            [name] if !text.contains("://") => variable(name).unwrap_or_default(),
            _ => text.to_owned(),
        };
        if value.starts_with("http://") || value.starts_with("https://") {
            found.push(value);
        }
    });
    found
}

/// Returns the variables that a document takes values from: `env_key = "NAME"`,
/// `"apiKey": "NAME"`, `"env": ["NAME"]`, and `{env:NAME}`, `${NAME}` or `$NAME` in any text.
pub fn collect_variables(document: &Value) -> Vec<String> {
    /// Keys whose value may be the name of a variable.
    const NAMING: [&str; 7] =
        ["envkey", "apikey", "apikeyenv", "env", "envhttpheaders", "bearertokenenvvar", "tokenenv"];
    let mut found = Vec::new();
    visit_strings(document, "", &mut |key, text| {
        let key: String = key.chars().filter(|it| *it != '_' && *it != '-').collect();
        if NAMING.contains(&key.to_ascii_lowercase().as_str()) && is_variable_name(text) {
            found.push(text.to_owned());
        }
        collect_references(text, &mut found);
    });
    // The values of this table are variable names, whatever the keys are.
    if let Some(providers) = document.get("model_providers").and_then(Value::as_object) {
        for headers in providers.values().filter_map(|it| it.get("env_http_headers")?.as_object()) {
            found.extend(headers.values().filter_map(|it| it.as_str().map(str::to_owned)));
        }
    }
    found.sort();
    found.dedup();
    found
}

fn is_variable_name(text: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_';
    text.starts_with(|it: char| it.is_ascii_uppercase() || it == '_') && text.chars().all(is_plain)
}

/// Adds the variables that a text refers to.
fn collect_references(text: &str, found: &mut Vec<String>) {
    for (mark, end) in [("{env:", Some('}')), ("${", Some('}')), ("$", None)] {
        for rest in text.split(mark).skip(1) {
            let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_';
            let name = &rest[..rest.len() - rest.trim_start_matches(is_plain).len()];
            let is_closed = end.is_none_or(|end| rest[name.len()..].starts_with([end, ':']));
            let is_name = name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
            if is_closed && is_name && !found.iter().any(|it| it == name) {
                found.push(name.to_owned());
            }
        }
    }
}

/// Calls a function with every string in a document and its key.
fn visit_strings(value: &Value, key: &str, see: &mut impl FnMut(&str, &str)) {
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(key, entry)| visit_strings(entry, key, see));
        }
        Value::Array(items) => items.iter().for_each(|item| visit_strings(item, key, see)),
        Value::String(text) => see(key, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
