//! Finds all mistakes of a settings document: unknown keys, wrong types, bad values, bad ranges.
//!
//! Findings carry the JSON path; `layers` adds file, line and column. Not here: mistakes that show
//! only across several settings.

use serde_json::Value;

use super::path::JsonPath;
use super::shape::{Bound, Case, NumberKind, Shape};
use super::types::quantity::{Size, Span};
use ralph_core::nearest::nearest;
use ralph_core::secret::is_secret_name;

/// One mistake, not yet located.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: JsonPath,
    pub(crate) fault: Fault,
    pub(crate) hint: Option<String>,
}

/// What is wrong with a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
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
pub(crate) fn check(value: &Value, path: &JsonPath, shape: &Shape, root: &Shape) -> Vec<Finding> {
    let mut checker = Checker { root, findings: Vec::new() };
    checker.walk(value, path, shape);
    checker.findings
}

struct Checker<'a> {
    root: &'a Shape,
    findings: Vec<Finding>,
}

impl Checker<'_> {
    fn walk(&mut self, value: &Value, path: &JsonPath, shape: &Shape) {
        match shape {
            Shape::Object { .. } => self.object(value, path, shape),
            Shape::List(items) => match value {
                Value::Array(values) => {
                    for (index, value) in values.iter().enumerate() {
                        self.walk(value, &path.index(index), items);
                    }
                }
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Object(_) => self.wrong_type(value, path, shape),
            },
            Shape::Either(alternatives) => {
                match alternatives.iter().find(|it| is_same_kind(value, it)) {
                    Some(alternative) => self.walk(value, path, alternative),
                    None => self.wrong_type(value, path, shape),
                }
            }
            Shape::Text { .. }
            | Shape::SpanText
            | Shape::SizeText
            | Shape::Choice { .. }
            | Shape::Number { .. }
            | Shape::Boolean
            | Shape::Null => match leaf(value, shape) {
                _ if !is_same_kind(value, shape) => self.wrong_type(value, path, shape),
                Err((message, hint)) => self.report(path.clone(), Fault::Value(message), hint),
                Ok(()) => {}
            },
        }
    }

    fn object(&mut self, value: &Value, path: &JsonPath, shape: &Shape) {
        let (Value::Object(values), Shape::Object { entries, free, required }) = (value, shape)
        else {
            return self.wrong_type(value, path, shape);
        };
        for (key, value) in values {
            if let Some(entry) = entries.get(key).or(free.as_deref()) {
                self.walk(value, &path.key(key), entry);
            } else {
                let hint = self.meant(path, key, entries.keys().map(String::as_str));
                self.report(path.key(key), Fault::UnknownKey, hint);
            }
        }
        for key in required.iter().filter(|key| !values.contains_key(*key)) {
            let message = format!("`{key}` is missing");
            self.report(path.clone(), Fault::Value(message), None);
        }
    }

    fn meant<'a>(
        &self,
        path: &JsonPath,
        key: &str,
        siblings: impl Iterator<Item = &'a str>,
    ) -> Option<String> {
        if key.contains('.') {
            return Some("write it as an object inside an object".into());
        }
        let meant = match nearest(key, siblings) {
            Some(sibling) => path.key(sibling),
            None => elsewhere(key, &JsonPath::default(), self.root)?,
        };
        Some(format!("did you mean `{meant}`?"))
    }

    fn wrong_type(&mut self, value: &Value, path: &JsonPath, shape: &Shape) {
        let message = format!("expected {}, found {}", describe(shape), found(value, path));
        self.report(path.clone(), Fault::Type(message), None);
    }

    fn report(&mut self, path: JsonPath, fault: Fault, hint: Option<String>) {
        self.findings.push(Finding { path, fault, hint });
    }
}

/// Returns the first setting named exactly `key`, in any section.
fn elsewhere(key: &str, path: &JsonPath, shape: &Shape) -> Option<JsonPath> {
    let Shape::Object { entries, .. } = shape else {
        return None;
    };
    if entries.contains_key(key) {
        return Some(path.key(key));
    }
    entries.iter().find_map(|(name, entry)| elsewhere(key, &path.key(name), entry))
}

/// Returns whether a value has the JSON type of a shape.
fn is_same_kind(value: &Value, shape: &Shape) -> bool {
    match shape {
        Shape::Object { .. } => value.is_object(),
        Shape::List(_) => value.is_array(),
        Shape::Text { .. } | Shape::SpanText | Shape::SizeText | Shape::Choice { .. } => {
            value.is_string()
        }
        Shape::Number { kind: NumberKind::Whole, .. } => value.is_u64() || value.is_i64(),
        Shape::Number { kind: NumberKind::Any, .. } => value.is_number(),
        Shape::Boolean => value.is_boolean(),
        Shape::Null => value.is_null(),
        Shape::Either(alternatives) => alternatives.iter().any(|it| is_same_kind(value, it)),
    }
}

/// Checks a scalar value of the right JSON type.
fn leaf(value: &Value, shape: &Shape) -> Result<(), (String, Option<String>)> {
    let text = value.as_str().unwrap_or_default();
    let plain = |message: String| (message, None);
    match shape {
        Shape::Text { minimum } => {
            if (text.chars().count() as u64) < *minimum {
                return Err(plain("must not be empty".into()));
            }
            Ok(())
        }
        Shape::SpanText => Span::parse(text).map(|_| ()).map_err(plain),
        Shape::SizeText => Size::parse(text).map(|_| ()).map_err(plain),
        Shape::Choice { words, case } => {
            let is_word = |word: &String| match case {
                Case::Exact => word == text,
                Case::Any => word.eq_ignore_ascii_case(text),
            };
            if words.iter().any(is_word) {
                return Ok(());
            }
            let meant = nearest(text, words.iter().map(String::as_str));
            let hint = meant.map(|word| format!("did you mean \"{word}\"?"));
            Err((format!("expected {}, found {}", one_of(words, meant), short(value)), hint))
        }
        Shape::Number { minimum, maximum, .. } => {
            let number = value.as_f64().unwrap_or_default();
            let too_small = match minimum {
                Some(Bound::AtLeast(least)) => number < *least,
                Some(Bound::MoreThan(least)) => number <= *least,
                None => false,
            };
            if too_small {
                return Err(plain(format!("expected {}, found {value}", describe(shape))));
            }
            match maximum {
                Some(most) if number > *most => {
                    Err(plain(format!("expected at most {most}, found {value}")))
                }
                _ => Ok(()),
            }
        }
        Shape::Object { .. } | Shape::List(_) | Shape::Boolean | Shape::Null | Shape::Either(_) => {
            Ok(())
        }
    }
}

/// Describes the expected value of a shape.
pub(crate) fn describe(shape: &Shape) -> String {
    match shape {
        Shape::Object { .. } => "an object".into(),
        Shape::List(items) => match **items {
            Shape::Text { .. } => "a list of strings".into(),
            Shape::Object { .. } => "a list of objects".into(),
            Shape::List(_)
            | Shape::SpanText
            | Shape::SizeText
            | Shape::Choice { .. }
            | Shape::Number { .. }
            | Shape::Boolean
            | Shape::Null
            | Shape::Either(_) => "a list".into(),
        },
        Shape::Text { .. } => "a string".into(),
        Shape::SpanText => "a duration such as \"12m\"".into(),
        Shape::SizeText => "a size such as \"8G\"".into(),
        Shape::Choice { words, .. } => one_of(words, None),
        Shape::Number { kind, minimum, maximum } => {
            let noun = match kind {
                NumberKind::Whole => "a whole number",
                NumberKind::Any => "a number",
            };
            match (minimum, maximum) {
                (Some(Bound::AtLeast(least)), Some(most)) if *most < f64::from(u32::MAX) => {
                    format!("{noun} from {least} to {most}")
                }
                (_, Some(most)) if *most < f64::from(u32::MAX) => format!("{noun} up to {most}"),
                (Some(Bound::AtLeast(least)), _) => format!("{noun} of at least {least}"),
                (Some(Bound::MoreThan(least)), _) => format!("{noun} above {least}"),
                (None, _) => noun.into(),
            }
        }
        Shape::Boolean => "true or false".into(),
        Shape::Null => "null".into(),
        Shape::Either(alternatives) => {
            // A user who set the value does not need to know that `null` unsets it.
            let named = alternatives.iter().filter(|it| **it != Shape::Null);
            let described: Vec<String> = match alternatives.as_slice() {
                [Shape::SpanText, Shape::Number { .. }, rest @ ..] => {
                    let span = "a duration such as \"12m\" or a number of seconds".into();
                    let rest = rest.iter().filter(|it| **it != Shape::Null).map(describe);
                    std::iter::once(span).chain(rest).collect()
                }
                [Shape::SizeText, Shape::Number { .. }, ..] => {
                    vec!["a size such as \"8G\" or a number of bytes".into()]
                }
                _ => named.map(describe).collect(),
            };
            described.join(", or ")
        }
    }
}

/// Lists choices, the likeliest first.
fn one_of(words: &[String], first: Option<&str>) -> String {
    let others = words.iter().map(String::as_str).filter(|word| Some(*word) != first);
    let quoted: Vec<String> =
        first.into_iter().chain(others).map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, front)) if !front.is_empty() => format!("{} or {last}", front.join(", ")),
        _ => quoted.concat(),
    }
}

/// Shows the value found; one that may be secret only by its type.
fn found(value: &Value, path: &JsonPath) -> String {
    let may_be_secret = path.keys().any(|key| is_secret_name(key) || key == "env" || key == "vars");
    match value {
        Value::Null => "null".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        Value::Bool(_) if may_be_secret => "true or false".into(),
        Value::Number(_) if may_be_secret => "a number".into(),
        Value::String(_) if may_be_secret => "a string".into(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => short(value),
    }
}

/// Shows a value as JSON, cut to fit in a line.
fn short(value: &Value) -> String {
    const LONGEST: usize = 40;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests;
