//! Rules on hidden commands, and on commands that the guard cannot resolve.

use super::{GuardRule, RuleCheck};
use crate::category::GuardCategory;
use crate::interpreter::{self, CodeAction};
use crate::lower::{LoweringError, ShellSource, has_marks, is_shell, parse_shell_source};

const PLAIN: &str = "Write the command out in full.";

const fn new_rule(
    id: &'static str,
    category: GuardCategory,
    refused: &'static str,
    instead: &'static str,
    check: RuleCheck,
) -> GuardRule {
    GuardRule { id, category, refused, instead, check }
}

pub(super) const RULES: &[GuardRule] = &[
    new_rule(
        "obfus.decoded-code",
        GuardCategory::Obfuscation,
        "runs code that it decodes first",
        PLAIN,
        RuleCheck::Command(|it| {
            let decoders = [
                "base64", "base32", "xxd", "openssl", "gpg", "rev", "uudecode", "tr", "gunzip",
                "zcat", "xz", "bzip2",
            ];
            let runs = is_shell(it.name())
                && !matches!(parse_shell_source(it.words()), ShellSource::Script(_, _))
                || it.is_program(&["eval", "source", "."]);
            runs && it.is_fed_by(&decoders)
                || interpreter::find_inline_code(it.name(), it.command)
                    .is_some_and(|code| interpreter::does_action(&code, CodeAction::Decodes))
        }),
    ),
    new_rule(
        "unresolvable.shell",
        GuardCategory::Unresolvable,
        "passes commands to a shell that the guard cannot determine",
        "Run a script by its name, or write the commands out.",
        RuleCheck::Command(|it| {
            let unknown = || it.command.stdin.as_ref().is_some_and(|text| !text.is_known());
            is_shell(it.name())
                && parse_shell_source(it.words()) == ShellSource::Input
                && unknown()
                && (!it.command.fed_by.is_empty() || it.command.redirects.is_empty())
                && !it.is_help_request()
        }),
    ),
    new_rule(
        "unresolvable.program",
        GuardCategory::Unresolvable,
        "runs a program that the guard cannot determine from the command",
        "Name the program, or set the variable in the same command.",
        RuleCheck::Command(|it| {
            let Some(program) = it.command.argv.first() else { return false };
            let is_elsewhere = || {
                let path = std::path::Path::new(program.certain_prefix());
                let project = &it.context.protected.project;
                path.has_root() && !project.iter().any(|project| path.starts_with(project))
                    || path.starts_with("..")
                    || !program.raw().contains('/')
            };
            // `[` alone is a program, not the beginning of a glob.
            let is_glob = has_marks(program.raw()) && program.raw().chars().count() > 1;
            it.name().is_empty() && (!program.is_known() || is_glob && is_elsewhere())
        }),
    ),
    new_rule(
        "unresolvable.syntax",
        GuardCategory::Unresolvable,
        "cannot be read as shell",
        PLAIN,
        RuleCheck::Lowering(LoweringError::Syntax),
    ),
    new_rule(
        "unresolvable.too-deep",
        GuardCategory::Unresolvable,
        "nests commands too deeply for the guard to follow",
        PLAIN,
        RuleCheck::Lowering(LoweringError::TooDeep),
    ),
    new_rule(
        "unresolvable.too-much",
        GuardCategory::Unresolvable,
        "is too long for the guard to follow",
        "Write it to a script of the project, and run that.",
        RuleCheck::Lowering(LoweringError::TooMuch),
    ),
    new_rule(
        "unresolvable.deadline",
        GuardCategory::Unresolvable,
        "took the guard too long to check",
        "Write it shorter.",
        RuleCheck::Hook,
    ),
    new_rule(
        "unresolvable.failure",
        GuardCategory::Unresolvable,
        "made the guard fail",
        PLAIN,
        RuleCheck::Hook,
    ),
    new_rule(
        "unresolvable.input",
        GuardCategory::Unresolvable,
        "cannot be read by the guard",
        "Make the call smaller.",
        RuleCheck::Hook,
    ),
    new_rule(
        "unresolvable.state",
        GuardCategory::Unresolvable,
        "belongs to a run whose state cannot be read",
        "End the session; ralph starts another one.",
        RuleCheck::Hook,
    ),
];
