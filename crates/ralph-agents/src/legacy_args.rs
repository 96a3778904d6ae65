//! Arguments of users who called an agent from a shell before: those that the adapter adds by
//! itself are removed, and a request for plain text becomes a flag.
//!
//! Not here: flags that no longer exist (`deprecated_flags`).

use ralph_core::recipe::AgentKind;

use super::call::has_flag;

/// Returns arguments without those that the adapter adds in any case: Codex's subcommand, and the
/// dash for stdin. A second time they would be prompts.
pub fn strip_call_args(kind: AgentKind, mut args: Vec<String>) -> Vec<String> {
    if kind == AgentKind::Codex {
        if args.first().is_some_and(|word| word == "exec" || word == "e") {
            args.remove(0);
        }
        if args.last().is_some_and(|word| word == "-") {
            args.pop();
        }
    }
    args
}

/// Returns arguments that request plain text, for agents with a flag for it.
pub fn request_text_output(kind: AgentKind, mut args: Vec<String>) -> Vec<String> {
    if kind == AgentKind::Claude && !has_flag(&args, &["--output-format"]) {
        args.splice(0..0, ["--output-format", "text"].map(str::to_owned));
    }
    args
}

/// Flags that an adapter adds by itself: without and with a value.
struct AdapterArgs {
    kind: AgentKind,
    switches: &'static [&'static str],
    with_value: &'static [&'static str],
}

const ADAPTER_ARGS: [AdapterArgs; 6] = [
    AdapterArgs {
        kind: AgentKind::Claude,
        switches: &[
            "-p",
            "--print",
            "--verbose",
            "--dangerously-skip-permissions",
            "--include-partial-messages",
        ],
        with_value: &["--output-format", "--input-format", "--permission-mode"],
    },
    AdapterArgs {
        kind: AgentKind::Codex,
        switches: &[
            "exec",
            "e",
            "-",
            "--json",
            "--full-auto",
            "--yolo",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
        ],
        with_value: &["--sandbox", "-s", "--ask-for-approval", "-a"],
    },
    AdapterArgs {
        kind: AgentKind::Amp,
        switches: &["-x", "--execute", "--stream-json", "--dangerously-allow-all"],
        with_value: &[],
    },
    AdapterArgs {
        kind: AgentKind::Gemini,
        switches: &["-p", "--prompt", "-y", "--yolo"],
        with_value: &["--output-format", "-o", "--approval-mode"],
    },
    AdapterArgs {
        kind: AgentKind::Qwen,
        switches: &["-p", "--prompt", "-y", "--yolo"],
        with_value: &["--output-format", "-o", "--approval-mode"],
    },
    AdapterArgs {
        kind: AgentKind::Copilot,
        switches: &["-p", "--prompt", "--allow-all-tools", "--yolo"],
        with_value: &[],
    },
];

/// Splits the arguments of a call in a user's script into those to keep as flags and those that
/// the adapter adds by itself.
pub fn split_adapter_args(kind: AgentKind, args: &[String]) -> (Vec<String>, Vec<String>) {
    let own = ADAPTER_ARGS.iter().find(|own| own.kind == kind);
    let (mut kept, mut removed) = (Vec::new(), Vec::new());
    let mut args = args.iter().peekable();
    while let Some(word) = args.next() {
        let name = word.split('=').next().unwrap_or(word);
        let is_own = |names: &[&str]| names.contains(&name);
        match own {
            Some(own) if is_own(own.switches) => removed.push(word.clone()),
            Some(own) if is_own(own.with_value) => {
                let value = args.next_if(|_| name == word);
                removed.extend([Some(word.clone()), value.cloned()].into_iter().flatten());
            }
            Some(_) | None => kept.push(word.clone()),
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
