//! Finds all mistakes of a settings document: unknown keys, wrong types, bad values, bad ranges.
//!
//! Findings carry the JSON path; `layers` adds file, line and column. Not here: mistakes that show
//! only across several settings.

#![expect(clippy::wildcard_enum_match_arm, reason = "most shapes are scalars")]

use ralph_core::checking::secret::is_secret_name;
use ralph_core::nearest::find_nearest;
use serde_json::Value;

use super::path::JsonPath;
use super::schema_model::{LowerBound, SettingShape};
use super::types::quantity::{DurationSetting, SizeSetting};

/// One mistake, not yet located.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingFinding {
    pub(crate) path: JsonPath,
    pub(crate) fault: SettingFault,
    pub(crate) hint: Option<String>,
}

/// What is wrong with a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingFault {
    /// There is no such setting.
    UnknownKey,
    /// Its value is of the wrong type.
    Type(String),
    /// Its value is of the right type, but not allowed.
    Value(String),
}

/// Returns every mistake of `value`, in the order of the document.
///
/// `path` is the place of `value` in the settings and `shape` its expected shape; `root` is the
/// shape of all settings, to find keys that are at the wrong level.
pub(crate) fn check_document(
    value: &Value,
    path: &JsonPath,
    shape: &SettingShape,
    root: &SettingShape,
) -> Vec<SettingFinding> {
    let mut checker = Checker { root, findings: Vec::new() };
    checker.check_value(value, path, shape);
    checker.findings
}

struct Checker<'a> {
    root: &'a SettingShape,
    findings: Vec<SettingFinding>,
}

impl Checker<'_> {
    fn check_value(&mut self, value: &Value, path: &JsonPath, shape: &SettingShape) {
        match shape {
            SettingShape::Object { .. } => self.check_object(value, path, shape),
            SettingShape::List(items) => match value {
                Value::Array(values) => {
                    for (index, value) in values.iter().enumerate() {
                        self.check_value(value, &path.join_index(index), items);
                    }
                }
                _ => self.report_wrong_type(value, path, shape),
            },
            SettingShape::Either(alternatives) => {
                match alternatives.iter().find(|it| is_same_kind(value, it)) {
                    Some(alternative) => self.check_value(value, path, alternative),
                    None => self.report_wrong_type(value, path, shape),
                }
            }
            _ => match check_scalar(value, shape) {
                _ if !is_same_kind(value, shape) => self.report_wrong_type(value, path, shape),
                Err((message, hint)) => {
                    self.add_finding(path.clone(), SettingFault::Value(message), hint);
                }
                Ok(()) => {}
            },
        }
    }

    fn check_object(&mut self, value: &Value, path: &JsonPath, shape: &SettingShape) {
        let (Value::Object(values), SettingShape::Object { entries, free, required }) =
            (value, shape)
        else {
            return self.report_wrong_type(value, path, shape);
        };
        for (key, value) in values {
            if let Some(entry) = entries.get(key).or(free.as_deref()) {
                self.check_value(value, &path.join_key(key), entry);
            } else {
                let hint = self.suggest_key(path, key, entries.keys().map(String::as_str));
                self.add_finding(path.join_key(key), SettingFault::UnknownKey, hint);
            }
        }
        for key in required.iter().filter(|key| !values.contains_key(*key)) {
            let message = format!("`{key}` is missing");
            self.add_finding(path.clone(), SettingFault::Value(message), None);
        }
    }

    fn suggest_key<'a>(
        &self,
        path: &JsonPath,
        key: &str,
        siblings: impl Iterator<Item = &'a str>,
    ) -> Option<String> {
        if key.contains('.') {
            return Some("write it as an object inside an object".into());
        }
        let meant = match find_nearest(key, siblings) {
            Some(sibling) => path.join_key(sibling),
            None => find_in_other_section(key, &JsonPath::default(), self.root)?,
        };
        Some(format!("did you mean `{meant}`?"))
    }

    fn report_wrong_type(&mut self, value: &Value, path: &JsonPath, shape: &SettingShape) {
        let message =
            format!("expected {}, found {}", describe_shape(shape), describe_value(value, path));
        self.add_finding(path.clone(), SettingFault::Type(message), None);
    }

    fn add_finding(&mut self, path: JsonPath, fault: SettingFault, hint: Option<String>) {
        self.findings.push(SettingFinding { path, fault, hint });
    }
}

/// Returns the first setting named exactly `key`, in any section.
fn find_in_other_section(key: &str, path: &JsonPath, shape: &SettingShape) -> Option<JsonPath> {
    let SettingShape::Object { entries, .. } = shape else {
        return None;
    };
    if entries.contains_key(key) {
        return Some(path.join_key(key));
    }
    entries.iter().find_map(|(name, entry)| find_in_other_section(key, &path.join_key(name), entry))
}

/// Returns whether a value has the JSON type of a shape.
fn is_same_kind(value: &Value, shape: &SettingShape) -> bool {
    match shape {
        SettingShape::Object { .. } => value.is_object(),
        SettingShape::List(_) => value.is_array(),
        SettingShape::Text { .. }
        | SettingShape::SpanText
        | SettingShape::SizeText
        | SettingShape::Choice { .. } => value.is_string(),
        SettingShape::Number { is_whole: true, .. } => value.is_u64() || value.is_i64(),
        SettingShape::Number { is_whole: false, .. } => value.is_number(),
        SettingShape::Boolean => value.is_boolean(),
        SettingShape::Null => value.is_null(),
        SettingShape::Either(alternatives) => alternatives.iter().any(|it| is_same_kind(value, it)),
    }
}

/// Checks a scalar value of the right JSON type.
fn check_scalar(value: &Value, shape: &SettingShape) -> Result<(), (String, Option<String>)> {
    let text = value.as_str().unwrap_or_default();
    let plain = |message: String| (message, None);
    match shape {
        SettingShape::Text { minimum } => {
            if (text.chars().count() as u64) < *minimum {
                return Err(plain("must not be empty".into()));
            }
            Ok(())
        }
        SettingShape::SpanText => DurationSetting::parse(text).map(|_| ()).map_err(plain),
        SettingShape::SizeText => SizeSetting::parse(text).map(|_| ()).map_err(plain),
        SettingShape::Choice { words, any_case } => {
            let is_word =
                |word: &String| word == text || *any_case && word.eq_ignore_ascii_case(text);
            if words.iter().any(is_word) {
                return Ok(());
            }
            let meant = find_nearest(text, words.iter().map(String::as_str));
            let hint = meant.map(|word| format!("did you mean \"{word}\"?"));
            Err((
                format!("expected {}, found {}", list_choices(words, meant), show_short(value)),
                hint,
            ))
        }
        SettingShape::Number { minimum, maximum, .. } => {
            let number = value.as_f64().unwrap_or_default();
            let too_small = match minimum {
                Some(LowerBound::AtLeast(least)) => number < *least,
                Some(LowerBound::MoreThan(least)) => number <= *least,
                None => false,
            };
            if too_small {
                return Err(plain(format!("expected {}, found {value}", describe_shape(shape))));
            }
            match maximum {
                Some(most) if number > *most => {
                    Err(plain(format!("expected at most {most}, found {value}")))
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Describes the expected value of a shape.
pub(crate) fn describe_shape(shape: &SettingShape) -> String {
    match shape {
        SettingShape::Object { .. } => "an object".into(),
        SettingShape::List(items) => match **items {
            SettingShape::Text { .. } => "a list of strings".into(),
            SettingShape::Object { .. } => "a list of objects".into(),
            _ => "a list".into(),
        },
        SettingShape::Text { .. } => "a string".into(),
        SettingShape::SpanText => "a duration such as \"12m\"".into(),
        SettingShape::SizeText => "a size such as \"8G\"".into(),
        SettingShape::Choice { words, .. } => list_choices(words, None),
        SettingShape::Number { is_whole, minimum, maximum } => {
            let noun = if *is_whole { "a whole number" } else { "a number" };
            match (minimum, maximum) {
                (Some(LowerBound::AtLeast(least)), Some(most)) if *most < f64::from(u32::MAX) => {
                    format!("{noun} from {least} to {most}")
                }
                (_, Some(most)) if *most < f64::from(u32::MAX) => format!("{noun} up to {most}"),
                (Some(LowerBound::AtLeast(least)), _) => format!("{noun} of at least {least}"),
                (Some(LowerBound::MoreThan(least)), _) => format!("{noun} above {least}"),
                (None, _) => noun.into(),
            }
        }
        SettingShape::Boolean => "true or false".into(),
        SettingShape::Null => "null".into(),
        SettingShape::Either(alternatives) => {
            // A user who set the value does not need to know that `null` unsets it.
            let named = alternatives.iter().filter(|it| **it != SettingShape::Null);
            let described: Vec<String> = match alternatives.as_slice() {
                [SettingShape::SpanText, SettingShape::Number { .. }, rest @ ..] => {
                    let span = "a duration such as \"12m\" or a number of seconds".into();
                    let rest =
                        rest.iter().filter(|it| **it != SettingShape::Null).map(describe_shape);
                    std::iter::once(span).chain(rest).collect()
                }
                [SettingShape::SizeText, SettingShape::Number { .. }, ..] => {
                    vec!["a size such as \"8G\" or a number of bytes".into()]
                }
                _ => named.map(describe_shape).collect(),
            };
            described.join(", or ")
        }
    }
}

/// Lists choices, the likeliest first.
fn list_choices(words: &[String], first: Option<&str>) -> String {
    let others = words.iter().map(String::as_str).filter(|word| Some(*word) != first);
    let quoted: Vec<String> =
        first.into_iter().chain(others).map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, front)) if !front.is_empty() => format!("{} or {last}", front.join(", ")),
        _ => quoted.concat(),
    }
}

/// Shows the value found; one that may be secret only by its type.
fn describe_value(value: &Value, path: &JsonPath) -> String {
    let may_be_secret = path.keys().any(|key| is_secret_name(key) || key == "env" || key == "vars");
    match value {
        Value::Null => "null".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        Value::Bool(_) if may_be_secret => "true or false".into(),
        Value::Number(_) if may_be_secret => "a number".into(),
        Value::String(_) if may_be_secret => "a string".into(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => show_short(value),
    }
}

/// Shows a value as JSON, cut to fit in a line.
fn show_short(value: &Value) -> String {
    const LONGEST: usize = 40;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain("...".chars()).collect()
}

#[cfg(test)]
pub(super) mod tests;
