//! Rules on ending processes by id, by name, and through programs that list them.
//!
//! The agent may end a process that it started, by its id, its job, its port, or a pattern that
//! only matches it. A common process name may match the agent as well. Commands that would end the
//! run itself are covered by loop integrity.

use super::{CheckedCommand, GuardRule, new_command_rule};
use crate::arguments::Arguments;
use crate::category::GuardCategory;
use crate::lower::{ShellCommand, Word};

const OWN: &str = "End only processes that you started, by their id.";

const fn new_rule(
    id: &'static str,
    refused: &'static str,
    check: fn(&CheckedCommand<'_>) -> bool,
) -> GuardRule {
    new_command_rule(id, GuardCategory::Process, refused, OWN, check)
}

pub(super) const RULES: &[GuardRule] = &[
    new_rule("proc.kill-all", "ends processes of others", |it| match it.name() {
        "kill" => find_targets(it.words()).iter().any(|word| matches!(*word, "1" | "-1" | "0")),
        "killall" | "pkill" | "skill" => {
            let names_none = find_patterns(it.words()).is_empty();
            let flags = ["--user", "--euid", "--uid", "--group", "--terminal"];
            names_none && (has_letter(it.words(), &['u', 'U', 'G', 't']) || it.has_word(&flags))
                || it.is_program(&["pkill"])
                    && (has_letter(it.words(), &['v']) || it.has_word(&["--inverse"]))
        }
        "slay" => !it.is_help_request(),
        "killall5" | "xkill" => true,
        // A process that holds a port is usually a leftover server.
        "fuser" => {
            it.arguments().has_short_flag('k')
                && !it.list_operands().iter().all(|at| at.ends_with("/tcp") || at.ends_with("/udp"))
        }
        _ => false,
    }),
    new_rule("proc.kill-by-name", "ends every process of a common name", |it| match it.name() {
        "pkill" => {
            !it.has_word(&["-P", "--parent", "-F", "--pidfile", "-s", "-g"])
                && find_patterns(it.words()).iter().any(|pattern| is_common(pattern))
        }
        "killall" => find_patterns(it.words()).iter().any(|name| is_common(name)),
        "kill" => lists_common(&it.find_sources()),
        _ => false,
    }),
];

/// Flags of `pkill`, `pgrep` and `killall` that take the next word.
const VALUES: &[&str] = &[
    "-P",
    "-g",
    "-s",
    "-F",
    "-t",
    "-d",
    "-u",
    "-U",
    "-G",
    "-o",
    "-y",
    "--parent",
    "--signal",
    "--pidfile",
    "--user",
    "--older-than",
    "--younger-than",
];

/// Returns whether one of the given letters is among the short flags. A signal such as `-USR1` does
/// not count.
fn has_letter(words: &[Word], wanted: &[char]) -> bool {
    words.iter().filter_map(|word| word.raw().strip_prefix('-')).any(|flags| {
        let is_signal = flags.len() > 2 && !flags.contains(|it: char| it.is_ascii_lowercase());
        !is_signal && !flags.starts_with('-') && flags.contains(wanted)
    })
}

/// Returns the targets of `kill`.
fn find_targets(words: &[Word]) -> Vec<&str> {
    let mut words: Vec<&str> = words.iter().map(Word::raw).collect();
    let first = words.first().copied().unwrap_or_default();
    if matches!(first, "-l" | "-L" | "--list") {
        return Vec::new();
    }
    if first.starts_with('-') && first.len() > 1 && first != "--" && words.len() > 1 {
        let takes_value = matches!(first, "-s" | "-n" | "--signal");
        words.drain(..if takes_value { 2.min(words.len()) } else { 1 });
    }
    words.retain(|word| *word != "--");
    words
}

/// Returns the patterns in the arguments.
fn find_patterns(words: &[Word]) -> Vec<&str> {
    Arguments::new(words, VALUES).find_operands().into_iter().map(Word::raw).collect()
}

/// Returns whether process ids come from a list of all processes, or from a search for a common
/// name.
fn lists_common(sources: &[&ShellCommand]) -> bool {
    let searched: Vec<&str> = sources
        .iter()
        .filter(|source| matches!(source.name(), "pgrep" | "pidof" | "grep" | "egrep" | "rg"))
        .flat_map(|source| find_patterns(source.arguments()).into_iter().take(1))
        // `grep -v grep` only removes the search itself.
        .filter(|pattern| !matches!(*pattern, "grep" | "[g]rep"))
        .collect();
    let lists = |names: &[&str]| sources.iter().any(|source| names.contains(&source.name()));
    let narrowed = sources.iter().any(|source| {
        matches!(source.name(), "pgrep" | "ps")
            && Arguments::new(source.arguments(), VALUES).has_any(&["-P", "--ppid", "-p", "--pid"])
    });
    let filtered = sources.iter().any(|source| {
        source.name() == "awk" && source.arguments().iter().any(|word| names_common(word.raw()))
    });
    let of_a_user = sources.iter().any(|source| {
        source.name() == "pgrep"
            && find_patterns(source.arguments()).is_empty()
            && has_letter(source.arguments(), &['u', 'U', 'G'])
    });
    let everything = lists(&["ps"])
        && searched.is_empty()
        && !sources.iter().any(|source| {
            matches!(source.name(), "awk" | "sed") && source.arguments().iter().any(has_pattern)
        });
    !narrowed
        && (everything
            || of_a_user
            || filtered
            || searched.iter().any(|pattern| is_common(pattern)))
}

/// Returns whether a program of `awk` or `sed` selects lines by a pattern.
fn has_pattern(word: &Word) -> bool {
    word.raw().starts_with('/') || word.raw().contains("~ /") || word.raw().contains("~/")
}

/// Returns whether a program of `awk` searches for a common name.
fn names_common(code: &str) -> bool {
    let parts: Vec<&str> = code.split('/').collect();
    parts.len() > 2 && is_common(parts[1])
}

/// Common process names, the agent's among them.
const COMMON: [&str; 47] = [
    "node",
    "nodejs",
    "npm",
    "npx",
    "bun",
    "deno",
    "python",
    "python2",
    "python3",
    "ruby",
    "perl",
    "php",
    "java",
    "dotnet",
    "go",
    "cargo",
    "rustc",
    "git",
    "bash",
    "sh",
    "zsh",
    "fish",
    "dash",
    "login",
    "ssh",
    "sshd",
    "tmux",
    "screen",
    "init",
    "systemd",
    "dbus-daemon",
    "dockerd",
    "docker",
    "containerd",
    "podman",
    "postgres",
    "mysqld",
    "redis-server",
    "mongod",
    "nginx",
    "code",
    "vim",
    "nvim",
    "codex",
    "gemini",
    "chrome",
    "firefox",
];

/// The fewest letters of a pattern that does not match nearly everything.
const FEWEST_LETTERS: usize = 3;

/// Returns whether a pattern matches many processes: one of its alternatives is a common name or
/// too short.
fn is_common(pattern: &str) -> bool {
    pattern.split('|').any(|branch| {
        // `[n]ode` means `node`; the brackets keep the search from finding itself.
        let plain: String = branch.chars().filter(|it| !"[]()^$\\\"".contains(*it)).collect();
        let plain = plain.replace(".*", "").trim().to_ascii_lowercase();
        let name = plain.rsplit('/').next().unwrap_or_default();
        let letters = plain.chars().filter(|it| it.is_alphanumeric()).count();
        let is_name = !plain.contains([' ', '-']) || COMMON.contains(&plain.as_str());
        letters < FEWEST_LETTERS && !plain.contains(crate::lower::UNKNOWN)
            || is_name && COMMON.contains(&name)
    })
}
