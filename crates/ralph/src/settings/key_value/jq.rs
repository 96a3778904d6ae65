//! Filters as they stand in shell files: in the `jq` command that applied them.
//!
//! Only what changes nothing about the filter may stand around it; everything else is a mistake,
//! because nothing here is ever run. Not here: the language of filters, which its adapter reads.

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

/// What filters begin with that read lines as text and pass over those that are no JSON. Lines
/// are read so anyway.
const PARSING: [&str; 5] = [
    "fromjson? // empty",
    "(fromjson? // empty)",
    "try fromjson catch empty",
    "try fromjson",
    "fromjson?",
];

/// Returns the filter in a text: the text itself, or the one that its `jq` command applies.
pub(super) fn filter_in(text: &str) -> Result<String, String> {
    if !is_command(text) {
        return Ok(text.to_owned());
    }
    let mut filters = Vec::new();
    for words in commands(text)?.iter().filter(|words| !is_sieve(words)) {
        let Some(arguments) = arguments_of_jq(words) else {
            let name = words.first().map_or("", String::as_str);
            return Err(format!("`{name}` is not run; only the filter of a `jq` command is read"));
        };
        filters.push(filter_of(arguments)?);
    }
    Ok(filters.join(" | "))
}

/// Returns the arguments of a `jq` command, also where `stdbuf` starts it.
fn arguments_of_jq(words: &[String]) -> Option<&[String]> {
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
fn is_sieve(words: &[String]) -> bool {
    let is_grep = words.first().is_some_and(|word| word == "grep");
    let patterns: Vec<&String> =
        words.iter().skip(1).filter(|word| !word.starts_with('-')).collect();
    is_grep
        && matches!(patterns.as_slice(), [only] if ["^{", "^\\{", "^[{]"].contains(&only.as_str()))
}

fn filter_of(words: &[String]) -> Result<String, String> {
    let mut filters = Vec::new();
    let mut is_raw = false;
    for word in words {
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        match letters {
            Some(letters) if letters.chars().all(|it| PRINTING_LETTERS.contains(it)) => {
                is_raw |= letters.contains('R');
            }
            None if PRINTING.contains(&word.as_str()) => is_raw |= word == "--raw-input",
            None if !word.starts_with('-') => filters.push(word),
            Some(_) | None => {
                return Err(format!("`jq {word}` cannot be followed; write the filter without it"));
            }
        }
    }
    let [filter] = filters.as_slice() else {
        return Err(format!("the `jq` command has {} filters, not one", filters.len()));
    };
    Ok(if is_raw { parsed(filter) } else { (*filter).clone() })
}

/// Returns a filter without its own parsing of lines.
fn parsed(filter: &str) -> String {
    let trimmed = filter.trim_start();
    let rest = PARSING.iter().find_map(|lead| trimmed.strip_prefix(lead));
    match rest.map(str::trim_start) {
        Some("") => ".".to_owned(),
        Some(rest) => rest.strip_prefix('|').unwrap_or(trimmed).trim_start().to_owned(),
        None => filter.to_owned(),
    }
}

/// Splits a command line at its pipes. Where errors go, and `|| true` at the end, mean nothing
/// to the filter.
fn commands(text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut commands = vec![Vec::new()];
    let mut tokens = tokens(text)?.into_iter();
    while let Some(token) = tokens.next() {
        let Some(command) = commands.last_mut() else { break };
        match token {
            Token::Word(word) => command.push(word),
            Token::Sign("|") => commands.push(Vec::new()),
            Token::Sign(sign @ (">" | ">&")) if command.last().is_some_and(|it| it == "2") => {
                command.pop();
                match tokens.next() {
                    Some(Token::Word(word)) if word == "/dev/null" || sign == ">&" => {}
                    Some(_) | None => return Err(not_run(sign)),
                }
            }
            Token::Sign("||") => match (tokens.next(), tokens.next()) {
                (Some(Token::Word(word)), None) if word == "true" || word == ":" => {}
                (_, _) => return Err(not_run("||")),
            },
            Token::Sign(sign) => return Err(not_run(sign)),
        }
    }
    Ok(commands)
}

fn not_run(sign: &str) -> String {
    format!("`{sign}` is shell syntax, and nothing is run")
}

enum Token {
    Word(String),
    Sign(&'static str),
}

/// The operators of a shell, the longer ones first.
const SIGNS: [&str; 14] =
    ["||", "&&", "|&", "&>", ">>", ">&", "|", "&", ";", "<", ">", "(", ")", "`"];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        let (words, tail) = rest.split_at(end_of_words(rest));
        tokens.extend(split_words(words)?.into_iter().map(Token::Word));
        let Some(sign) = SIGNS.into_iter().find(|sign| tail.starts_with(sign)) else {
            return Ok(tokens);
        };
        tokens.push(Token::Sign(sign));
        rest = &tail[sign.len()..];
    }
}

/// Returns where the first operator outside of quotes is, or the end.
fn end_of_words(text: &str) -> usize {
    let mut quote = None;
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some('"') | None, '\\') => drop(letters.next()),
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            (None, '|' | '&' | ';' | '<' | '>' | '(' | ')' | '`') => return at,
            (_, _) => {}
        }
    }
    text.len()
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
            (format!("jq -Rr 'fromjson? | {filter}'"), filter),
            (format!("jq -R -r 'fromjson? // empty | {filter}'"), filter),
            (format!("jq --raw-input 'try fromjson catch empty | {filter}'"), filter),
            (
                r#"jq -r "if .a == \"b|c\" then .d else empty end""#.to_owned(),
                r#"if .a == "b|c" then .d else empty end"#,
            ),
            ("jq -R 'fromjson?'".to_owned(), "."),
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
            ("jq .a; rm x", "`;` is shell syntax, and nothing is run"),
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
