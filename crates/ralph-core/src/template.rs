//! Templates: text with `${NAME}` variables, expanded once.
//!
//! Values are never expanded again, so no task, patch or agent's answer can name a variable.

use std::ops::Range;

/// A longer name is an accident.
const LONGEST_NAME: usize = 64;

/// A longer list of unknown names does not help.
const MOST_UNKNOWN: usize = 20;

/// The most bytes that are filled in: a template may name a large variable often.
pub const LARGEST: usize = 4 * 1024 * 1024;

/// An expanded template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpandedTemplate {
    pub text: String,
    /// The unknown variables without duplicates, in the order of the text, where they stay as they
    /// are.
    pub unknown: Vec<String>,
    /// Whether variables were left as they are because the text had become too long.
    pub is_cut: bool,
}

/// Expands a template. `$$` is a dollar; `$NAME`, `$(…)` and everything else stay as they are.
///
/// A line that only consists of empty variables is removed together with the empty lines after it,
/// so that an empty section leaves no trace.
pub fn expand_template<'v>(
    template: &str,
    value: impl Fn(&str) -> Option<&'v str>,
) -> ExpandedTemplate {
    let mut expanded = ExpandedTemplate { text: String::new(), unknown: Vec::new(), is_cut: false };
    let mut is_after_nothing = false;
    for line in template.split_inclusive('\n') {
        if is_after_nothing && line.trim().is_empty() {
            continue;
        }
        let before = expanded.text.len();
        let content = fill_line(line, &value, &mut expanded);
        is_after_nothing =
            content == LineContent::VariablesOnly && expanded.text[before..].trim().is_empty();
        if is_after_nothing {
            expanded.text.truncate(before);
        }
    }
    expanded
}

/// Escapes a text, so that it expands to exactly this text.
pub fn escape_template(text: &str) -> String {
    text.replace('$', "$$")
}

/// Returns the variables that a template names, duplicates included.
pub fn find_names(template: &str) -> impl Iterator<Item = &str> {
    TemplatePieces { rest: template }.filter_map(|piece| match piece {
        TemplatePiece::Variable { name, .. } => Some(name),
        TemplatePiece::Text(_) | TemplatePiece::Dollar => None,
    })
}

/// What a line of a template contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineContent {
    VariablesOnly,
    Text,
}

fn fill_line<'v>(
    line: &str,
    value: &impl Fn(&str) -> Option<&'v str>,
    expanded: &mut ExpandedTemplate,
) -> LineContent {
    let (mut has_variables, mut has_text) = (false, false);
    for piece in (TemplatePieces { rest: line }) {
        match piece {
            TemplatePiece::Text(text) => {
                has_text |= !text.trim().is_empty();
                expanded.text.push_str(text);
            }
            TemplatePiece::Dollar => {
                has_text = true;
                expanded.text.push('$');
            }
            TemplatePiece::Variable { name, whole } => {
                has_variables = true;
                match value(name) {
                    Some(value) if expanded.text.len() + value.len() <= LARGEST => {
                        expanded.text.push_str(value);
                    }
                    Some(_) => {
                        expanded.is_cut = true;
                        expanded.text.push_str(whole);
                    }
                    None => {
                        expanded.text.push_str(whole);
                        let unknown = &mut expanded.unknown;
                        if unknown.len() < MOST_UNKNOWN && unknown.iter().all(|it| it != name) {
                            unknown.push(name.to_owned());
                        }
                    }
                }
            }
        }
    }
    if has_variables && !has_text { LineContent::VariablesOnly } else { LineContent::Text }
}

/// A piece of a template.
enum TemplatePiece<'t> {
    Text(&'t str),
    Dollar,
    Variable { name: &'t str, whole: &'t str },
}

/// Splits a template into pieces.
struct TemplatePieces<'t> {
    rest: &'t str,
}

impl<'t> TemplatePieces<'t> {
    fn take_text(&mut self, length: usize) -> &'t str {
        let (piece, rest) = self.rest.split_at(length);
        self.rest = rest;
        piece
    }
}

impl<'t> Iterator for TemplatePieces<'t> {
    type Item = TemplatePiece<'t>;

    fn next(&mut self) -> Option<TemplatePiece<'t>> {
        if self.rest.is_empty() {
            return None;
        }
        if self.rest.starts_with("$$") {
            self.take_text(2);
            return Some(TemplatePiece::Dollar);
        }
        if let Some(name) = find_variable(self.rest) {
            let whole = self.take_text(name.end + 1);
            return Some(TemplatePiece::Variable { name: &whole[name], whole });
        }
        // A dollar that begins no variable is text.
        let first = usize::from(self.rest.starts_with('$'));
        let length = self.rest[first..].find('$').map_or(self.rest.len(), |at| at + first);
        Some(TemplatePiece::Text(self.take_text(length)))
    }
}

/// Returns the range of the name in a text that begins with a variable.
fn find_variable(text: &str) -> Option<Range<usize>> {
    let inner = text.strip_prefix("${")?;
    let length = inner.bytes().take(LONGEST_NAME + 1).position(|byte| byte == b'}')?;
    let name = &inner.as_bytes()[..length];
    let is_name = name.first().is_some_and(|first| !first.is_ascii_digit())
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    is_name.then_some(2..2 + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str) -> Option<&'static str> {
        match name {
            "A" => Some("one"),
            "NESTED" => Some("${A} $$ ${B}"),
            "EMPTY" => Some(""),
            "LONG" => Some("l1\nl2"),
            _ => None,
        }
    }

    #[track_caller]
    fn check(template: &str, text: &str, unknown: &[&str]) {
        let expanded = expand_template(template, value);
        assert_eq!(expanded.text, text, "{template:?}");
        assert_eq!(expanded.unknown, unknown, "{template:?}");
        assert!(!expanded.is_cut, "{template:?}");
    }

    #[test]
    fn variables_are_filled_in_once() {
        for (template, text, unknown) in [
            ("", "", [].as_slice()),
            ("no variable", "no variable", &[]),
            ("${A}", "one", &[]),
            ("a ${A}${A} b\n${LONG}\n", "a oneone b\nl1\nl2\n", &[]),
            ("${NESTED}", "${A} $$ ${B}", &[]),
            ("$$", "$", &[]),
            ("$${A} $$$${A}", "${A} $${A}", &[]),
            ("$$${A}", "$one", &[]),
            ("$A $(A) $1 $ ${", "$A $(A) $1 $ ${", &[]),
            ("${} ${1} ${A:-x} ${A B} ${Ä}", "${} ${1} ${A:-x} ${A B} ${Ä}", &[]),
            ("${a} ${B} ${B}", "${a} ${B} ${B}", &["a", "B"]),
            ("${A", "${A", &[]),
            ("${${A}}", "${one}", &[]),
        ] {
            check(template, text, unknown);
        }
        let long = format!("${{{}}}", "N".repeat(65));
        check(&long, &long, &[]);
    }

    #[test]
    fn an_empty_section_leaves_no_trace() {
        check("a\n\n${EMPTY}\n\nb\n", "a\n\nb\n", &[]);
        check("a\n\n${EMPTY}\n\n \n${EMPTY}${EMPTY}\n\nb", "a\n\nb", &[]);
        check("a ${EMPTY}\n\nb", "a \n\nb", &[]);
        check("${EMPTY}$$\n\nb", "$\n\nb", &[]);
        check("a\n\n\nb", "a\n\n\nb", &[]);
    }

    #[test]
    fn the_text_stays_bounded() {
        let large = "x".repeat(LARGEST / 2);
        let expanded = expand_template("${V}${V}${V}", |_| Some(large.as_str()));
        assert_eq!(expanded.text.len(), LARGEST + "${V}".len());
        assert!(expanded.is_cut);
        let many: Vec<String> = (0..100).map(|number| format!("${{N{number}}}")).collect();
        assert_eq!(expand_template(&many.concat(), |_| None).unknown.len(), MOST_UNKNOWN);
    }

    #[test]
    fn names_are_those_that_would_be_filled_in() {
        assert_eq!(find_names("${A} $${B} ${C}${A} $D").collect::<Vec<_>>(), ["A", "C", "A"]);
    }

    proptest::proptest! {
        #[test]
        fn text_without_a_dollar_is_unchanged(text in "[^$]{0,80}") {
            let expanded = expand_template(&text, |_| Some("filled in"));
            proptest::prop_assert_eq!(&expanded.text, &text);
            proptest::prop_assert_eq!(expanded.unknown, Vec::<String>::new());
        }

        #[test]
        fn escaped_text_comes_back(text in "[${}A \n]{0,40}") {
            proptest::prop_assert_eq!(expand_template(&escape_template(&text), |_| Some("filled in")).text, text);
        }

        #[test]
        fn a_value_is_never_filled_in_again(value in "[${}XY \n]{0,40}") {
            let expanded = expand_template("<${X}>", |name| (name == "X").then_some(value.as_str()));
            proptest::prop_assert_eq!(expanded.text, format!("<{value}>"));
            proptest::prop_assert_eq!(expanded.unknown, Vec::<String>::new());
        }

        #[test]
        fn whatever_is_unknown_stays(text in "[${}A1_ \n]{0,40}") {
            let expanded = expand_template(&text, |_| None).text;
            proptest::prop_assert_eq!(expanded, text.replace("$$", "$"));
        }
    }
}
