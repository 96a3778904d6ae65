//! Arguments of people who called an agent themselves before, from a shell: what the adapter says
//! by itself is left out, and a wish for plain text is said as a flag.
//!
//! Not here: flags that are gone (`retired`).

use ralph_core::recipe::AgentKind;

use super::call::has_flag;

/// Returns arguments without those that the adapter adds although they are there already: of
/// Codex the subcommand, and the dash for stdin. A second time they would be prompts.
pub fn without_call(kind: AgentKind, mut words: Vec<String>) -> Vec<String> {
    if kind == AgentKind::Codex {
        if words.first().is_some_and(|word| word == "exec" || word == "e") {
            words.remove(0);
        }
        if words.last().is_some_and(|word| word == "-") {
            words.pop();
        }
    }
    words
}

/// Returns arguments that ask for plain text, where flags can do that.
pub fn asking_for_text(kind: AgentKind, mut words: Vec<String>) -> Vec<String> {
    if kind == AgentKind::Claude && !has_flag(&words, &["--output-format"]) {
        words.splice(0..0, ["--output-format", "text"].map(str::to_owned));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_call_of_codex_is_said_once() {
        for (given, expect) in [
            ("exec --json -m o3 -", "--json -m o3"),
            ("e --json", "--json"),
            ("--json exec", "--json exec"),
            ("-", ""),
            ("", ""),
        ] {
            assert_eq!(without_call(AgentKind::Codex, words(given)), words(expect), "{given}");
            assert_eq!(without_call(AgentKind::Amp, words(given)), words(given));
        }
    }

    #[test]
    fn text_is_asked_for_once() {
        for (given, expect) in [
            ("--model opus", "--output-format text --model opus"),
            ("--output-format=text", "--output-format=text"),
        ] {
            assert_eq!(asking_for_text(AgentKind::Claude, words(given)), words(expect));
            assert_eq!(asking_for_text(AgentKind::Codex, words(given)), words(given));
        }
    }
}
