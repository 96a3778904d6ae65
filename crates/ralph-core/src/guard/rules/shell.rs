//! Rules on hidden commands, and on commands that the guard cannot resolve.

use super::{Check, Rule};
use crate::guard::category::Category;
use crate::guard::interpreter::{self, Deed};
use crate::guard::lower::{ShellWords, Trouble, is_shell, shell_code};

const PLAIN: &str = "Write the command out in full.";

const fn rule(
    id: &'static str,
    category: Category,
    refused: &'static str,
    instead: &'static str,
    check: Check,
) -> Rule {
    Rule { id, category, refused, instead, check }
}

/// Variables that conventionally name programs.
const PROGRAMS: [&str; 24] = [
    "CC",
    "CXX",
    "LD",
    "AR",
    "PYTHON",
    "PYTHON3",
    "NODE",
    "NPM",
    "MAKE",
    "CARGO",
    "GO",
    "JAVA",
    "RUSTC",
    "RUBY",
    "PHP",
    "SHELL",
    "EDITOR",
    "PAGER",
    "BROWSER",
    "CMAKE",
    "PIP",
    "DOCKER",
    "KUBECTL",
    "CHROME_BIN",
];

pub(super) const RULES: &[Rule] = &[
    rule(
        "obfus.decoded-code",
        Category::Obfuscation,
        "runs code that it decodes first",
        PLAIN,
        Check::Command(|it| {
            let decoders = [
                "base64", "base32", "xxd", "openssl", "gpg", "rev", "uudecode", "tr", "gunzip",
                "zcat", "xz", "bzip2",
            ];
            let runs = is_shell(it.name())
                && !matches!(shell_code(it.words()), ShellWords::Script(_, _))
                || it.is(&["eval", "source", "."]);
            runs && it.is_fed_by(&decoders)
                || interpreter::code(it.name(), it.command)
                    .is_some_and(|code| interpreter::does(&code, Deed::Decodes))
        }),
    ),
    rule(
        "unresolvable.shell",
        Category::Unresolvable,
        "passes commands to a shell that the guard cannot determine",
        "Run a script by its name, or write the commands out.",
        Check::Command(|it| {
            let unknown = || it.command.stdin.as_ref().is_some_and(|text| !text.is_known());
            is_shell(it.name())
                && shell_code(it.words()) == ShellWords::Input
                && unknown()
                && (!it.command.fed_by.is_empty() || it.command.redirects.is_empty())
                && !it.only_asks()
        }),
    ),
    rule(
        "unresolvable.program",
        Category::Unresolvable,
        "runs a program that the guard cannot determine from the command",
        "Name the program, or set the variable in the same command.",
        Check::Command(|it| {
            let unnamed = it.command.argv.first().is_some_and(|word| !word.is_known())
                && it.name().is_empty();
            let by_custom =
                it.command.variables.iter().any(|name| PROGRAMS.contains(&name.as_str()));
            unnamed && !by_custom
        }),
    ),
    rule(
        "unresolvable.syntax",
        Category::Unresolvable,
        "cannot be read as shell",
        PLAIN,
        Check::Trouble(Trouble::Syntax),
    ),
    rule(
        "unresolvable.too-deep",
        Category::Unresolvable,
        "nests commands too deeply for the guard to follow",
        PLAIN,
        Check::Trouble(Trouble::TooDeep),
    ),
    rule(
        "unresolvable.too-much",
        Category::Unresolvable,
        "is too long for the guard to follow",
        "Write it to a script of the project, and run that.",
        Check::Trouble(Trouble::TooMuch),
    ),
    rule(
        "unresolvable.deadline",
        Category::Unresolvable,
        "took the guard too long to check",
        "Write it shorter.",
        Check::Hook,
    ),
    rule("unresolvable.failure", Category::Unresolvable, "made the guard fail", PLAIN, Check::Hook),
    rule(
        "unresolvable.input",
        Category::Unresolvable,
        "cannot be read by the guard",
        "Make the call smaller.",
        Check::Hook,
    ),
    rule(
        "unresolvable.state",
        Category::Unresolvable,
        "belongs to a run whose state cannot be read",
        "End the session; ralph starts another one.",
        Check::Hook,
    ),
];
