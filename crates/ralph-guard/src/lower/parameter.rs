//! Variables, and parameter expansion `${...}`.

use brush_parser::word::{Parameter, ParameterExpr, SpecialParameter, SubstringMatchKind};

use super::simple::MOST_VALUE_CHOICES;
use super::walk::Walker;
use crate::word::{Word, replace_bounded};

/// Values of variables that every shell has, and programs that variables name by convention. The
/// programs have whole paths, so that removing or writing one is outside of the project.
const USUAL_VALUES: [(&str, &str); 26] = [
    ("IFS", " \t\n"),
    ("SHELL", "/bin/bash"),
    ("BASH", "/bin/bash"),
    ("CC", "/usr/bin/cc"),
    ("CXX", "/usr/bin/c++"),
    ("LD", "/usr/bin/ld"),
    ("AR", "/usr/bin/ar"),
    ("PYTHON", "/usr/bin/python3"),
    ("PYTHON3", "/usr/bin/python3"),
    ("NODE", "/usr/bin/node"),
    ("NPM", "/usr/bin/npm"),
    ("MAKE", "/usr/bin/make"),
    ("CARGO", "/usr/bin/cargo"),
    ("GO", "/usr/bin/go"),
    ("JAVA", "/usr/bin/java"),
    ("RUSTC", "/usr/bin/rustc"),
    ("RUBY", "/usr/bin/ruby"),
    ("PHP", "/usr/bin/php"),
    ("EDITOR", "/usr/bin/vi"),
    ("PAGER", "/usr/bin/less"),
    ("BROWSER", "/usr/bin/xdg-open"),
    ("CMAKE", "/usr/bin/cmake"),
    ("PIP", "/usr/bin/pip"),
    ("DOCKER", "/usr/bin/docker"),
    ("KUBECTL", "/usr/bin/kubectl"),
    ("CHROME_BIN", "/usr/bin/chrome"),
];

/// The longest chain of name references that is followed.
const MOST_REFERENCES: usize = 8;

impl Walker {
    /// Returns the value of a parameter expansion.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds change a value")]
    pub(super) fn expand_parameter(&mut self, expression: &ParameterExpr) -> Word {
        match expression {
            ParameterExpr::Parameter { parameter, indirect } => {
                let value = self.find_parameter(parameter, *indirect);
                value.unwrap_or_else(|| self.record_unknown(parameter))
            }
            ParameterExpr::UseDefaultValues { parameter, indirect, default_value, .. } => {
                match self
                    .find_parameter(parameter, *indirect)
                    .filter(|value| !value.raw().is_empty())
                {
                    Some(value) => value,
                    None => self.expand_unsplit(default_value.as_deref().unwrap_or_default()),
                }
            }
            ParameterExpr::AssignDefaultValues { parameter, indirect, default_value, .. } => {
                let known = self.find_parameter(parameter, *indirect);
                if let Some(value) = known.filter(|value| !value.raw().is_empty()) {
                    return value;
                }
                let value = self.expand_unsplit(default_value.as_deref().unwrap_or_default());
                if let Parameter::Named(name) = parameter {
                    self.assign_variable(name, value.clone());
                }
                value
            }
            // A variable without a known value may still be set.
            ParameterExpr::UseAlternativeValue {
                parameter, indirect, alternative_value, ..
            } => match self.find_parameter(parameter, *indirect) {
                Some(value) if value.raw().is_empty() => Word::default(),
                Some(_) | None => {
                    self.expand_unsplit(alternative_value.as_deref().unwrap_or_default())
                }
            },
            ParameterExpr::IndicateErrorIfNullOrUnset { parameter, indirect, .. } => self
                .find_parameter(parameter, *indirect)
                .unwrap_or_else(|| self.record_unknown(parameter)),
            ParameterExpr::ParameterLength { .. }
            | ParameterExpr::VariableNames { .. }
            | ParameterExpr::MemberKeys { .. } => Word::new_unknown(),
            other => self.expand_modified(other),
        }
    }

    /// Returns the value of an expansion that modifies a parameter.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds are done elsewhere")]
    fn expand_modified(&mut self, expression: &ParameterExpr) -> Word {
        let (parameter, indirect) = match expression {
            ParameterExpr::RemoveSmallestSuffixPattern { parameter, indirect, .. }
            | ParameterExpr::RemoveLargestSuffixPattern { parameter, indirect, .. }
            | ParameterExpr::RemoveSmallestPrefixPattern { parameter, indirect, .. }
            | ParameterExpr::RemoveLargestPrefixPattern { parameter, indirect, .. }
            | ParameterExpr::Substring { parameter, indirect, .. }
            | ParameterExpr::Transform { parameter, indirect, .. }
            | ParameterExpr::UppercaseFirstChar { parameter, indirect, .. }
            | ParameterExpr::UppercasePattern { parameter, indirect, .. }
            | ParameterExpr::LowercaseFirstChar { parameter, indirect, .. }
            | ParameterExpr::LowercasePattern { parameter, indirect, .. }
            | ParameterExpr::ReplaceSubstring { parameter, indirect, .. } => (parameter, *indirect),
            _ => return Word::new_unknown(),
        };
        let Some(value) = self.find_parameter(parameter, indirect) else {
            return self.record_unknown(parameter);
        };
        let Some(text) = value.as_known() else { return Word::new_unknown() };
        let changed = match expression {
            ParameterExpr::Substring { offset, length, .. } => {
                let length = length.as_ref().map(|length| length.value.as_str());
                take_substring(text, &offset.value, length)
            }
            ParameterExpr::UppercasePattern { pattern, .. } if matches_any(pattern.as_deref()) => {
                Some(text.to_uppercase())
            }
            ParameterExpr::LowercasePattern { pattern, .. } if matches_any(pattern.as_deref()) => {
                Some(text.to_lowercase())
            }
            ParameterExpr::UppercaseFirstChar { pattern, .. }
                if matches_any(pattern.as_deref()) =>
            {
                let mut rest = text.chars();
                let first = rest.next().map(|it| it.to_uppercase().to_string());
                Some(first.unwrap_or_default() + rest.as_str())
            }
            ParameterExpr::RemoveSmallestSuffixPattern { pattern, .. }
            | ParameterExpr::RemoveLargestSuffixPattern { pattern, .. } => {
                let pattern = pattern.clone().unwrap_or_default();
                self.expand_simple_pattern(&pattern).and_then(|pattern| {
                    match pattern.strip_suffix('*') {
                        None => {
                            Some(text.strip_suffix(pattern.as_str()).unwrap_or(text).to_owned())
                        }
                        Some("/") => {
                            let cut = match expression {
                                ParameterExpr::RemoveLargestSuffixPattern { .. } => text.find('/'),
                                _ => text.rfind('/'),
                            };
                            Some(cut.map_or(text, |cut| &text[..cut]).to_owned())
                        }
                        Some(_) => None,
                    }
                })
            }
            ParameterExpr::RemoveSmallestPrefixPattern { pattern, .. }
            | ParameterExpr::RemoveLargestPrefixPattern { pattern, .. } => {
                let pattern = pattern.clone().unwrap_or_default();
                self.expand_simple_pattern(&pattern).and_then(|pattern| {
                    match pattern.strip_prefix('*') {
                        None => {
                            Some(text.strip_prefix(pattern.as_str()).unwrap_or(text).to_owned())
                        }
                        Some("/") => {
                            let cut = match expression {
                                ParameterExpr::RemoveLargestPrefixPattern { .. } => text.rfind('/'),
                                _ => text.find('/'),
                            };
                            Some(cut.map_or(text, |cut| &text[cut + 1..]).to_owned())
                        }
                        Some(_) => None,
                    }
                })
            }
            ParameterExpr::ReplaceSubstring { pattern, replacement, match_kind, .. } => {
                let replacement = self.expand_unsplit(replacement.as_deref().unwrap_or_default());
                let (text, pattern) = (text.to_owned(), self.expand_simple_pattern(pattern));
                pattern
                    .filter(|pattern| !pattern.is_empty() && !pattern.contains('*'))
                    .zip(replacement.as_known())
                    .and_then(|(pattern, replacement)| match match_kind {
                        SubstringMatchKind::Anywhere => {
                            replace_bounded(&text, &pattern, replacement)
                        }
                        SubstringMatchKind::FirstOccurrence => {
                            Some(text.replacen(&pattern, replacement, 1))
                        }
                        SubstringMatchKind::Prefix => match text.strip_prefix(&pattern) {
                            Some(rest) => Some(format!("{replacement}{rest}")),
                            None => Some(text.clone()),
                        },
                        SubstringMatchKind::Suffix => match text.strip_suffix(&pattern) {
                            Some(rest) => Some(format!("{rest}{replacement}")),
                            None => Some(text.clone()),
                        },
                    })
            }
            _ => None,
        };
        changed.map_or_else(Word::new_unknown, Word::from_marked)
    }

    /// Returns a pattern that has at most one `*`, at an end.
    fn expand_simple_pattern(&mut self, pattern: &str) -> Option<String> {
        let pattern = self.expand_unsplit(pattern);
        let text = pattern.as_known()?.to_owned();
        let inner = text.trim_start_matches('*').trim_end_matches('*');
        (!inner.contains(['*', '?', '['])).then(|| text.replace("**", "*"))
    }

    /// Returns the value of a parameter, if known.
    fn find_parameter(&mut self, parameter: &Parameter, indirect: bool) -> Option<Word> {
        let value = match parameter {
            Parameter::Named(name) => self.find_variable(name),
            Parameter::Positional(number) => {
                let at = usize::try_from(*number).ok()?.checked_sub(1)?;
                match self.positional.get(at) {
                    Some(value) => Some(value.clone()),
                    None => Some(Word::default()),
                }
            }
            Parameter::Special(SpecialParameter::AllPositionalParameters { .. }) => {
                Some(join_words(&self.positional))
            }
            // Within a script that the text has written, `$0` is its name.
            Parameter::Special(SpecialParameter::ShellName) => {
                let given = self.find_variable("0");
                let script = self.calls.iter().rev().find(|name| name.starts_with('/'));
                given.or_else(|| Some(Word::new(script.map_or("bash", String::as_str))))
            }
            Parameter::Special(_) => None,
            Parameter::NamedWithIndex { name, index } => {
                let name = self.follow_reference(name).to_owned();
                let index = self.expand_unsplit(index).as_known()?.trim().to_owned();
                let at: Option<usize> = index.parse().ok();
                let member = at.and_then(|at| self.arrays.get(&name)?.get(at).cloned());
                return member.or_else(|| self.find_variable(&format!("{name}[{index}]")));
            }
            Parameter::NamedWithAllIndices { name, .. } => {
                self.arrays.get(self.follow_reference(name)).map(|members| join_words(members))
            }
        };
        if !indirect {
            return value;
        }
        let name = value?.as_known()?.to_owned();
        self.find_variable(&name)
    }

    /// Returns the value of a variable in the current combination of possible values.
    pub(super) fn find_variable(&mut self, name: &str) -> Option<Word> {
        let name = self.follow_reference(name).to_owned();
        match name.as_str() {
            "PWD" => return self.cwd.as_deref().map(Word::new),
            "HOME" if !self.variables.contains_key("HOME") => {
                return self.home.as_deref().map(Word::new);
            }
            _ => {}
        }
        let values = self.variables.get(&name);
        let Some(values) = values else {
            return self.arrays.get(&name).and_then(|members| members.first().cloned());
        };
        self.value_choices = self.value_choices.max(values.len());
        values.get(self.value_choice % values.len().max(1)).cloned()
    }

    /// Sets a variable. Under a condition the previous value remains possible as well.
    pub(super) fn assign_variable(&mut self, name: &str, value: Word) {
        let name = self.follow_reference(name).to_owned();
        let values = self.variables.entry(name.clone()).or_default();
        if self.conditions == 0 {
            values.clear();
        }
        if !values.contains(&value) {
            values.push(value);
            if values.len() > MOST_VALUE_CHOICES {
                *values = vec![Word::new_unknown()];
            }
        }
        if self.conditions > 0 && name == "IFS" {
            values.drain(..values.len() - 1);
        }
    }

    /// Returns the variable that a name stands for.
    pub(super) fn follow_reference<'a>(&'a self, name: &'a str) -> &'a str {
        let mut name = name;
        for _ in 0..MOST_REFERENCES {
            match self.references.get(name) {
                Some(target) => name = target,
                None => break,
            }
        }
        name
    }

    fn record_unknown(&mut self, parameter: &Parameter) -> Word {
        if let Parameter::Named(name) | Parameter::NamedWithIndex { name, .. } = parameter {
            let target = self.follow_reference(name);
            if let Some((_, value)) = USUAL_VALUES.iter().find(|(usual, _)| *usual == target) {
                return Word::new(value);
            }
            self.unknown_variables.push(name.clone());
        }
        if let Parameter::Special(SpecialParameter::ProcessId) = parameter {
            self.unknown_variables.push("$".to_owned());
        }
        Word::new_unknown()
    }
}

/// Returns whether a pattern matches any text.
fn matches_any(pattern: Option<&str>) -> bool {
    pattern.is_none_or(|pattern| matches!(pattern, "" | "?"))
}

fn join_words(words: &[Word]) -> Word {
    Word::from_marked(words.iter().map(Word::raw).collect::<Vec<_>>().join(" "))
}

/// Returns the value of `${x:OFFSET:LENGTH}`, for plain numbers.
fn take_substring(text: &str, offset: &str, length: Option<&str>) -> Option<String> {
    let characters: Vec<char> = text.chars().collect();
    let count = i64::try_from(characters.len()).ok()?;
    let place = |at: i64| usize::try_from(if at < 0 { count + at } else { at }.clamp(0, count));
    let offset = offset.trim().parse::<i64>().ok()?;
    let begin = place(offset).ok()?;
    let end = match length.map(|length| length.trim().parse::<i64>()) {
        None => characters.len(),
        Some(Ok(length)) if length < 0 => place(length).ok()?,
        Some(Ok(length)) => begin.saturating_add(usize::try_from(length).ok()?),
        Some(Err(_)) => return None,
    };
    Some(characters.get(begin..end.min(characters.len())).unwrap_or_default().iter().collect())
}
