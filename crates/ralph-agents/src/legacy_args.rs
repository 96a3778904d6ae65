//! Arguments of users who called an agent from a shell before: those that the adapter adds by
//! itself are removed, and a request for plain text becomes a flag.
//!
//! Not here: flags that no longer exist (`deprecated_flags`).

use ralph_model::agent::AgentKind;

use super::adapter::TextRequest;
use super::call::has_flag;
use super::registry::find_adapter;

/// Returns arguments without those that the adapter adds in any case. A second time they would be
/// prompts.
pub fn strip_call_args(kind: AgentKind, args: Vec<String>) -> Vec<String> {
    (find_adapter(kind).strip_call_args)(args)
}

/// Returns arguments that request plain text, for agents with a flag for it.
pub fn request_text_output(kind: AgentKind, mut args: Vec<String>) -> Vec<String> {
    if let TextRequest::Flag(flag, value) = find_adapter(kind).text_request
        && !has_flag(&args, &[flag])
    {
        args.splice(0..0, [flag, value].map(str::to_owned));
    }
    args
}

/// Splits the arguments of a call in a user's script into those to keep as flags and those that
/// the adapter adds by itself.
pub fn split_adapter_args(kind: AgentKind, args: &[String]) -> (Vec<String>, Vec<String>) {
    let own = &find_adapter(kind).legacy_args;
    let (mut kept, mut removed) = (Vec::new(), Vec::new());
    let mut args = args.iter().peekable();
    while let Some(word) = args.next() {
        let name = word.split('=').next().unwrap_or(word);
        let is_own = |names: &[&str]| names.contains(&name);
        if is_own(own.switches) {
            removed.push(word.clone());
        } else if is_own(own.with_value) {
            let value = args.next_if(|_| name == word);
            removed.extend([Some(word.clone()), value.cloned()].into_iter().flatten());
        } else {
            kept.push(word.clone());
        }
    }
    (kept, removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn codex_subcommand_and_dash_are_removed() {
        for (given, expect) in [
            ("exec --json -m o3 -", "--json -m o3"),
            ("e --json", "--json"),
            ("--json exec", "--json exec"),
            ("-", ""),
            ("", ""),
        ] {
            assert_eq!(strip_call_args(AgentKind::Codex, words(given)), words(expect), "{given}");
            assert_eq!(strip_call_args(AgentKind::Amp, words(given)), words(given));
        }
    }

    #[test]
    fn script_args_are_split_from_adapter_args() {
        for (kind, given, kept, left) in [
            (
                AgentKind::Claude,
                "-p --model opus --dangerously-skip-permissions --output-format json --max-turns 5",
                "--model opus --max-turns 5",
                "-p --dangerously-skip-permissions --output-format json",
            ),
            (AgentKind::Claude, "--output-format=json x", "x", "--output-format=json"),
            (AgentKind::Codex, "exec --full-auto -m o3 -", "-m o3", "exec --full-auto -"),
            (AgentKind::Text, "-p --yes", "-p --yes", ""),
        ] {
            assert_eq!(
                split_adapter_args(kind, &words(given)),
                (words(kept), words(left)),
                "{given}"
            );
        }
    }

    #[test]
    fn text_output_is_requested_once() {
        for (given, expect) in [
            ("--model opus", "--output-format text --model opus"),
            ("--output-format=text", "--output-format=text"),
        ] {
            assert_eq!(request_text_output(AgentKind::Claude, words(given)), words(expect));
            assert_eq!(request_text_output(AgentKind::Codex, words(given)), words(given));
        }
    }
}
