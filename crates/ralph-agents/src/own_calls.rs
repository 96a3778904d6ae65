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

/// Flags that an adapter says by itself: alone, and with a value behind them.
struct Own {
    kind: AgentKind,
    words: &'static [&'static str],
    with_value: &'static [&'static str],
}

const OWN: [Own; 6] = [
    Own {
        kind: AgentKind::Claude,
        words: &[
            "-p",
            "--print",
            "--verbose",
            "--dangerously-skip-permissions",
            "--include-partial-messages",
        ],
        with_value: &["--output-format", "--input-format", "--permission-mode"],
    },
    Own {
        kind: AgentKind::Codex,
        words: &[
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
    Own {
        kind: AgentKind::Amp,
        words: &["-x", "--execute", "--stream-json", "--dangerously-allow-all"],
        with_value: &[],
    },
    Own {
        kind: AgentKind::Gemini,
        words: &["-p", "--prompt", "-y", "--yolo"],
        with_value: &["--output-format", "-o", "--approval-mode"],
    },
    Own {
        kind: AgentKind::Qwen,
        words: &["-p", "--prompt", "-y", "--yolo"],
        with_value: &["--output-format", "-o", "--approval-mode"],
    },
    Own {
        kind: AgentKind::Copilot,
        words: &["-p", "--prompt", "--allow-all-tools", "--yolo"],
        with_value: &[],
    },
];

/// Takes apart the arguments of a call in somebody's script: those to keep as flags, and those
/// that the adapter says by itself.
pub fn told_apart(kind: AgentKind, words: &[String]) -> (Vec<String>, Vec<String>) {
    let own = OWN.iter().find(|own| own.kind == kind);
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or(word);
        let is_own = |names: &[&str]| names.contains(&name);
        match own {
            Some(own) if is_own(own.words) => left.push(word.clone()),
            Some(own) if is_own(own.with_value) => {
                let value = words.next_if(|_| name == word);
                left.extend([Some(word.clone()), value.cloned()].into_iter().flatten());
            }
            Some(_) | None => kept.push(word.clone()),
        }
    }
    (kept, left)
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
    fn scripts_say_what_the_adapter_says_and_more() {
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
            assert_eq!(told_apart(kind, &words(given)), (words(kept), words(left)), "{given}");
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
