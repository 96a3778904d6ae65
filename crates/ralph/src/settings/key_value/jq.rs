//! Filters as they stand in shell files: in the `jq` command that applied them.
//!
//! Only what changes nothing about the filter may stand around it; everything else is a mistake,
//! because nothing here is ever run. Not here: the language of filters, which the agent's translator runs.

use crate::settings::shell_words::split_words;

/// Flags of jq that say how to print, which is up to the view now.
const PRINTING: [&str; 11] = [
    "--unbuffered",
    "--raw-output",
    "--join-output",
    "--compact-output",
    "--ascii-output",
    "--color-output",
    "--monochrome-output",
    "--sort-keys",
    "--tab",
    "--exit-status",
    "--raw-input",
];

/// The same as single letters.
const PRINTING_LETTERS: &str = "rjcaCMSeR";

/// Returns the filter in a text: the text itself, or the one that its `jq` command applies.
pub(super) fn filter_in(text: &str) -> Result<String, String> {
    if !is_command(text) {
        return Ok(text.to_owned());
    }
    let words = split_words(text)?;
    // `|| true` at the end means nothing to the filter.
    let words = match words.as_slice() {
        [words @ .., or, last] if or == "||" && (last == "true" || last == ":") => words,
        words => words,
    };
    let mut filters = Vec::new();
    for words in words.split(|word| word == "|").filter(|words| !is_grep_filter(words)) {
        let Some(arguments) = find_jq_arguments(words) else {
            let name = words.first().map_or("", String::as_str);
            return Err(format!("`{name}` is not run; only the filter of a `jq` command is read"));
        };
        filters.push(extract_filter(arguments)?);
    }
    Ok(filters.join(" | "))
}

/// Returns the arguments of a `jq` command, also where `stdbuf` starts it.
fn find_jq_arguments(words: &[String]) -> Option<&[String]> {
    let at = words.iter().position(|word| is_jq(word))?;
    let is_started = at == 0 || words[0] == "stdbuf";
    is_started.then_some(&words[at + 1..])
}

/// Returns whether a text is a command line with `jq` in it. No filter has a word of this name.
fn is_command(text: &str) -> bool {
    text.split_whitespace().take_while(|word| !word.contains(['(', '"'])).any(is_jq)
}

fn is_jq(word: &str) -> bool {
    word == "jq" || word.ends_with("/jq")
}

/// Returns whether a command only passes lines of JSON on, as `grep '^{'` does.
fn is_grep_filter(words: &[String]) -> bool {
    let is_grep = words.first().is_some_and(|word| word == "grep");
    let patterns: Vec<&String> =
        words.iter().skip(1).filter(|word| !word.starts_with('-')).collect();
    is_grep
        && matches!(patterns.as_slice(), [only] if ["^{", "^\\{", "^[{]"].contains(&only.as_str()))
}

fn extract_filter(words: &[String]) -> Result<String, String> {
    let mut filters = Vec::new();
    let mut is_raw = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        match letters {
            Some(letters) if letters.chars().all(|it| PRINTING_LETTERS.contains(it)) => {
                is_raw |= letters.contains('R');
            }
            None if PRINTING.contains(&word.as_str()) => is_raw |= word == "--raw-input",
            // Where errors go.
            None if word == "2>/dev/null" || word == "2>&1" => {}
            None if word == "2>" && words.next().is_some_and(|file| file == "/dev/null") => {}
            None if word.starts_with([';', '&', '<', '>', '|']) || word.ends_with([';', '&']) => {
                return Err(format!("`{word}` is shell syntax, and nothing is run"));
            }
            None if !word.starts_with('-') => filters.push(word),
            Some(_) | None => {
                return Err(format!("`jq {word}` cannot be followed; write the filter without it"));
            }
        }
    }
    let [filter] = filters.as_slice() else {
        return Err(format!("the `jq` command has {} filters, not one", filters.len()));
    };
    // With `-R` a filter gets its line as text.
    Ok(if is_raw { format!("tojson | {filter}") } else { (*filter).clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_filter_of_a_command_is_found() {
        let filter = r#"select(.type == "a") | .text"#;
        for (text, expect) in [
            (filter.to_owned(), filter),
            (".jq | .a".to_owned(), ".jq | .a"),
            (format!("jq '{filter}'"), filter),
            (format!("jq -rj --unbuffered '{filter}'"), filter),
            (format!("jq --unbuffered '{filter}' -r"), filter),
            (format!("/usr/bin/jq -r '{filter}' 2>/dev/null"), filter),
            (format!("jq -r '{filter}' 2> /dev/null || true"), filter),
            (format!("jq 2>/dev/null -r '{filter}'"), filter),
            (format!("stdbuf -oL jq -r '{filter}'"), filter),
            (format!("grep --line-buffered '^{{' | jq -rj '{filter}'"), filter),
            (
                r#"jq -r "if .a == \"b|c\" then .d else empty end""#.to_owned(),
                r#"if .a == "b|c" then .d else empty end"#,
            ),
            ("jq -R 'fromjson? | .a'".to_owned(), "tojson | fromjson? | .a"),
            ("jq --raw-input .".to_owned(), "tojson | ."),
            ("jq -c '.a' | jq -r '.b, .c'".to_owned(), ".a | .b, .c"),
        ] {
            assert_eq!(filter_in(&text).as_deref(), Ok(expect), "{text}");
        }
    }

    #[test]
    fn what_would_have_to_be_run_is_a_mistake() {
        for (text, expect) in [
            ("jq --arg x y '.text'", "`jq --arg` cannot be followed; write the filter without it"),
            ("jq -f filter.jq", "`jq -f` cannot be followed; write the filter without it"),
            ("jq -n '.'", "`jq -n` cannot be followed; write the filter without it"),
            ("jq '.a' '.b'", "the `jq` command has 2 filters, not one"),
            ("jq -r", "the `jq` command has 0 filters, not one"),
            ("sed s/x/y/ | jq .a", "`sed` is not run; only the filter of a `jq` command is read"),
            ("grep x | jq .a", "`grep` is not run; only the filter of a `jq` command is read"),
            ("jq .a | sed s/x/y/", "`sed` is not run; only the filter of a `jq` command is read"),
            ("jq .a; rm x", "`.a;` is shell syntax, and nothing is run"),
            ("jq .a && x", "`&&` is shell syntax, and nothing is run"),
            ("jq .a > file", "`>` is shell syntax, and nothing is run"),
            ("jq .a || x", "`||` is shell syntax, and nothing is run"),
            ("jq 'open", "a closing ' is missing in `jq 'open`"),
        ] {
            assert_eq!(filter_in(text), Err(expect.to_owned()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(jq|grep| |'|\"|\\||>|2|[^ ]){0,20}") {
            let _ = filter_in(&text);
        }
    }
}
