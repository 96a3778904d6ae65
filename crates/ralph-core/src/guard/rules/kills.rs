//! Ending processes: by number, by name, and by what lists them.
//!
//! A process that the agent started may be ended, by its id, its job, its port, or a pattern that
//! only fits it. A name that half of the machine runs under fits the agent as well. Not here: what
//! would end the run itself, which is a matter of loop integrity.

use super::{Act, Rule, command};
use crate::guard::arguments::Arguments;
use crate::guard::category::Category;
use crate::guard::lower::{Command, Word};

const OWN: &str = "End only processes that you started, by their id.";

const fn rule(id: &'static str, refused: &'static str, check: fn(&Act<'_>) -> bool) -> Rule {
    command(id, Category::Process, refused, OWN, check)
}

pub(super) const RULES: &[Rule] = &[
    rule("proc.kill-all", "ends processes of others", |it| match it.name() {
        "kill" => targets(it.words()).iter().any(|word| matches!(*word, "1" | "-1" | "0")),
        "killall" | "pkill" | "skill" => {
            let names_none = patterns(it.words()).is_empty();
            let flags = ["--user", "--euid", "--uid", "--group", "--terminal"];
            names_none && (letters(it.words(), &['u', 'U', 'G', 't']) || it.has(&flags))
                || it.is(&["pkill"]) && (letters(it.words(), &['v']) || it.has(&["--inverse"]))
        }
        "slay" => !it.only_asks(),
        "killall5" | "xkill" => true,
        // What holds a port is mostly a server that was left behind.
        "fuser" => {
            it.arguments().short('k')
                && !it.operands().iter().all(|at| at.ends_with("/tcp") || at.ends_with("/udp"))
        }
        _ => false,
    }),
    rule("proc.kill-by-name", "ends every process of a common name", |it| match it.name() {
        "pkill" => {
            !it.has(&["-P", "--parent", "-F", "--pidfile", "-s", "-g"])
                && patterns(it.words()).iter().any(|pattern| is_common(pattern))
        }
        "killall" => patterns(it.words()).iter().any(|name| is_common(name)),
        "kill" => lists_common(&it.sources()),
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

/// Returns whether one of some letters is among the flags. A signal such as `-USR1` is none.
fn letters(words: &[Word], wanted: &[char]) -> bool {
    words.iter().filter_map(|word| word.raw().strip_prefix('-')).any(|flags| {
        let is_signal = flags.len() > 2 && !flags.contains(|it: char| it.is_ascii_lowercase());
        !is_signal && !flags.starts_with('-') && flags.contains(wanted)
    })
}

/// Returns whom `kill` is aimed at.
fn targets(words: &[Word]) -> Vec<&str> {
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

/// Returns the patterns that a program is given.
fn patterns(words: &[Word]) -> Vec<&str> {
    Arguments::new(words, VALUES).operands().into_iter().map(Word::raw).collect()
}

/// Returns whether process ids come from a list of all processes, or from a search for a name
/// that many of them have.
fn lists_common(sources: &[&Command]) -> bool {
    let searched: Vec<&str> = sources
        .iter()
        .filter(|source| matches!(source.name(), "pgrep" | "pidof" | "grep" | "egrep" | "rg"))
        .flat_map(|source| patterns(source.arguments()).into_iter().take(1))
        // The search for the search itself is left out.
        .filter(|pattern| !matches!(*pattern, "grep" | "[g]rep"))
        .collect();
    let lists = |names: &[&str]| sources.iter().any(|source| names.contains(&source.name()));
    let narrowed = sources.iter().any(|source| {
        matches!(source.name(), "pgrep" | "ps")
            && Arguments::new(source.arguments(), VALUES).has(&["-P", "--ppid", "-p", "--pid"])
    });
    let filtered = sources.iter().any(|source| {
        source.name() == "awk" && source.arguments().iter().any(|word| names_many(word.raw()))
    });
    let of_a_user = sources.iter().any(|source| {
        source.name() == "pgrep"
            && patterns(source.arguments()).is_empty()
            && letters(source.arguments(), &['u', 'U', 'G'])
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

/// Returns whether a program of `awk` or `sed` takes only lines that fit something.
fn has_pattern(word: &Word) -> bool {
    word.raw().starts_with('/') || word.raw().contains("~ /") || word.raw().contains("~/")
}

/// Returns whether a program of `awk` looks for a common name.
fn names_many(code: &str) -> bool {
    let parts: Vec<&str> = code.split('/').collect();
    parts.len() > 2 && is_common(parts[1])
}

/// Programs that half of the machine runs under, the agent among them.
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

/// A pattern with fewer letters fits nearly everything.
const FEWEST_LETTERS: usize = 3;

/// Returns whether a pattern fits many processes: one of its branches is a common name, or next
/// to nothing.
fn is_common(pattern: &str) -> bool {
    pattern.split('|').any(|branch| {
        // `[n]ode` is `node`, written so that the search does not find itself.
        let plain: String = branch.chars().filter(|it| !"[]()^$\\\"".contains(*it)).collect();
        let plain = plain.replace(".*", "").trim().to_ascii_lowercase();
        let name = plain.rsplit('/').next().unwrap_or_default();
        let letters = plain.chars().filter(|it| it.is_alphanumeric()).count();
        let is_name = !plain.contains([' ', '-']) || COMMON.contains(&plain.as_str());
        letters < FEWEST_LETTERS && !plain.contains(crate::guard::lower::UNKNOWN)
            || is_name && COMMON.contains(&name)
    })
}
