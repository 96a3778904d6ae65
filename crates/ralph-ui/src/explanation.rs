//! Explains how the command guard judges a command, for `ralph hook explain`.
//!
//! Not here: analyzing the command.

use ralph_guard::{
    AccessMode, GuardDecision, GuardFindings, GuardRefusal, LocatedPath, LoweringError,
    PathLocation, ShellCommand, find_rule, format_command,
};

use crate::sanitize;
use crate::style::{Paint, Style};

/// The width that lines are wrapped at.
const WIDTH: usize = 80;

/// Returns what a command runs, which paths that touches, and the verdict.
pub fn explain_command(
    findings: &GuardFindings,
    decision: &GuardDecision,
    style: &Style,
) -> String {
    let mut text = String::new();
    let nothing = Vec::new();
    for (at, command) in findings.lowered.commands.iter().enumerate() {
        let placed = findings.placed.get(at).unwrap_or(&nothing);
        text.push_str(&format_numbered_command(at + 1, command, placed));
    }
    if let Some(trouble) = findings.lowered.error {
        let why = match trouble {
            LoweringError::Syntax => "it cannot be read as shell",
            LoweringError::TooDeep => "commands within commands go too deep",
            LoweringError::TooMuch => "it is too long",
        };
        text.push_str(&format!("Not all of it is known: {why}.\n"));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    match decision {
        GuardDecision::Pass => text.push_str(&format!("{}\n", style.paint(Paint::Good, "ALLOWED"))),
        GuardDecision::Warn(refusal) => {
            text.push_str(&format_verdict(&style.paint(Paint::Warn, "WARNED OF"), refusal));
        }
        GuardDecision::Deny(refusal) => {
            text.push_str(&format_verdict(&style.paint(Paint::Bad, "DENIED"), refusal));
        }
    }
    let shown = match decision {
        GuardDecision::Pass => None,
        GuardDecision::Warn(refusal) | GuardDecision::Deny(refusal) => Some(refusal.rule),
    };
    let others: Vec<&str> =
        findings.refusals.iter().map(|it| it.rule).filter(|it| Some(*it) != shown).collect();
    if !others.is_empty() {
        let what = if shown.is_some() { "Also refused by" } else { "Allowed in spite of" };
        text.push_str(&wrap_line(&format!("{what} {}.", others.join(", ")), 0));
    }
    text
}

fn format_numbered_command(
    number: usize,
    command: &ShellCommand,
    placed: &[LocatedPath],
) -> String {
    let mut text = String::new();
    let line = format_command(command);
    let line = if line.is_empty() { "(redirections)".to_owned() } else { line };
    let label = format!("{number:>3}  ");
    text.push_str(&wrap_line(&format!("{label}{}", sanitize::sanitize_line(&line, 400, "…")), 5));
    let mut note = |name: &str, value: &str| {
        text.push_str(&wrap_line(
            &format!("     {name:<8} {}", sanitize::sanitize_line(value, 200, "…")),
            14,
        ));
    };
    if !command.wrappers.is_empty() {
        note("run by", &command.wrappers.join(" "));
    }
    if command.cwd.is_none() {
        note("in", "a directory that is not known");
    }
    if let Some(stdin) = &command.stdin {
        note("input", stdin.to_string().trim_end());
    }
    if let Some(reader) = &command.feeds {
        let reader = if reader.chars().all(char::is_alphanumeric) { reader } else { "another" };
        note("read by", reader);
    }
    let unknown: Vec<&str> = command.variables.iter().map(String::as_str).collect();
    if !unknown.is_empty() {
        note(
            "unknown",
            &unknown.iter().map(|name| format!("${name}")).collect::<Vec<_>>().join(" "),
        );
    }
    for placed in placed.iter().filter(|placed| placed.mode != AccessMode::Use) {
        note(placed.mode.name(), &format_place(placed));
    }
    text
}

fn format_place(placed: &LocatedPath) -> String {
    let first = placed.places().first().map(|it| it.display().to_string()).unwrap_or_default();
    let led = placed.places().get(1).map(|it| format!(" -> {}", it.display())).unwrap_or_default();
    match &placed.location {
        PathLocation::At(_) => format!("{first}{led}"),
        PathLocation::In { prefix, .. } => {
            let slash = if first == "/" { "" } else { "/" };
            format!("{first}{slash}{prefix}…{led}")
        }
        PathLocation::Unknown => format!("{} (path unknown)", placed.path),
    }
}

fn format_verdict(word: &str, refusal: &GuardRefusal) -> String {
    let mut text = format!("{word} by {} ({})\n", refusal.rule, refusal.category.name());
    let command = sanitize::sanitize_line(&refusal.subject, 160, "…");
    if let Some(rule) = find_rule(refusal.rule) {
        text.push_str(&wrap_line(&format!("`{command}` {}. {}", rule.refused, rule.instead), 0));
    }
    text
}

/// Breaks a line at spaces, with later lines indented.
fn wrap_line(line: &str, indent: usize) -> String {
    let lead = line.len() - line.trim_start().len();
    let mut text = " ".repeat(lead);
    let mut used = lead;
    for (at, word) in line.trim_start().split(' ').enumerate() {
        let width = sanitize::count_columns(word);
        if at > 0 && used + 1 + width > WIDTH {
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            used = indent;
        } else if at > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += width;
    }
    text.push('\n');
    text
}
