//! The options of `ralph help`, `ralph completions` and `ralph man`.
//!
//! Not here: what they print.

use std::env;
use std::ffi::OsString;
use std::ops::RangeBounds;
use std::path::PathBuf;

use clap::builder::RangedI64ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Command, CommandFactory as _, Parser as _, ValueEnum};

use ralph_core::nearest::find_nearest;

use super::{Cli, CliCommand, RunArgs};
use crate::settings::types::sandbox::SandboxBackendSetting;

/// Returns the complete command line with the options of every command. Otherwise clap builds only
/// those of the called command.
pub(crate) fn build_complete_command() -> Command {
    let mut command = Cli::command();
    build_subcommands(&mut command);
    command.build();
    let groups = format_groups(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
}

/// The commands by what people want to do.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Start", &["demo", "init", "run", "plan", "build"]),
    ("Watch", &["status", "log", "report", "stats", "serve", "context"]),
    ("Steer", &["pause", "resume", "stop", "skip", "note"]),
    ("Tasks, prompts and memory", &["tasks", "archive", "prompt", "memory"]),
    ("Set up and check", &["doctor", "trust", "sandbox", "notify", "plugin", "clones", "clean"]),
    ("More", &["worker", "help", "completions", "man", "otel", "mcp", "hook"]),
];

/// The columns of the names, and of a line.
const NAME_COLUMNS: usize = 15;
const LINE_COLUMNS: usize = 100;

/// Returns the list of commands, by group.
fn format_groups(command: &Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(&format!("{title}:\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let mut line = format!("  {name:<width$}", width = NAME_COLUMNS - 2);
            for word in about.split(' ') {
                if line.len() + word.len() > LINE_COLUMNS {
                    text.push_str(&format!("{}\n", line.trim_end()));
                    line = " ".repeat(NAME_COLUMNS);
                }
                line.push_str(&format!("{word} "));
            }
            text.push_str(&format!("{}\n", line.trim_end()));
        }
        text.push('\n');
    }
    text
}

/// Builds the options of a command and its subcommands. Deferred options bring the doc comment of
/// their own type; this keeps the description of the command instead.
fn build_subcommands(command: &mut Command) {
    // This builds one level only.
    let _ = command.render_usage();
    for inner in command.get_subcommands_mut() {
        let about = inner.get_about().cloned();
        build_subcommands(inner);
        if let Some(about) = about {
            *inner = std::mem::take(inner).about(about);
        }
    }
}

/// Parses the command line. Errors have the complete help or what was probably meant.
pub(crate) fn parse_command_line(arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    let cli = Cli::try_parse_from(arguments)
        .map_err(|error| with_suggestion(with_complete_help(error)))?;
    check_prompt_is_no_value(&cli)?;
    Ok(cli)
}

/// Replaces the help of a request for help by that of the complete command line.
fn with_complete_help(error: clap::Error) -> clap::Error {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_help {
        build_complete_command().try_get_matches_from(env::args_os()).err().unwrap_or(error)
    } else {
        error
    }
}

/// Adds what was probably meant to an error about an unknown command or option.
fn with_suggestion(mut error: clap::Error) -> clap::Error {
    let read_word = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(word)) => word.clone(),
        _ => String::new(),
    };
    let mut tip = None;
    if error.kind() == ErrorKind::InvalidSubcommand {
        tip = find_command_tip(&read_word(&error, ContextKind::InvalidSubcommand));
    }
    if tip.is_some() {
        error.remove(ContextKind::SuggestedSubcommand);
    } else if error.kind() == ErrorKind::InvalidSubcommand {
        let command = Cli::command();
        let similar = match error.get(ContextKind::SuggestedSubcommand) {
            Some(ContextValue::Strings(similar)) => similar.clone(),
            _ => Vec::new(),
        };
        let mut known: Vec<&str> = similar.iter().map(String::as_str).collect();
        if known.is_empty() {
            known.extend(command.get_subcommands().map(Command::get_name));
        }
        if let Some(meant) = find_nearest(&read_word(&error, ContextKind::InvalidSubcommand), known)
        {
            let meant = ContextValue::Strings(vec![meant.to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, meant);
        }
    }
    if error.kind() == ErrorKind::UnknownArgument {
        let is_init = error.get(ContextKind::Usage).is_some_and(|usage| {
            matches!(usage, ContextValue::StyledStr(text) if text.to_string().contains("ralph init"))
        });
        tip = match read_word(&error, ContextKind::InvalidArg).as_str() {
            "--resume" | "--continue" | "-r" => Some("`ralph resume` continues a run"),
            "-p" | "--prompt" => Some("`ralph run -p TEXT` loops a prompt"),
            "-f" | "--prompt-file" => Some("`ralph run -f FILE` loops a prompt from a file"),
            "--jobs" | "-j" => Some(
                "there is no list of independent tasks here; `ralph build --jobs` works on one",
            ),
            "prompt" | "specs" | "tasks" if is_init => {
                Some("`ralph init --workflow WORKFLOW` chooses the workflow")
            }
            _ => None,
        };
    }
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    if error.kind() == ErrorKind::ValueValidation {
        let value = read_word(&error, ContextKind::InvalidValue);
        if let Some(meant) = find_missing_equals(&read_words(), &value) {
            let tip = format!("write {meant}, without a space");
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
    }
    error
}

/// Fails if the prompt is what was meant as the value of `--sandbox`.
fn check_prompt_is_no_value(cli: &Cli) -> Result<(), clap::Error> {
    let Some(CliCommand::Run(RunArgs { words: Some(prompt), .. })) = &cli.command else {
        return Ok(());
    };
    let meant = find_missing_equals(&read_words(), prompt).filter(|_| is_backend(prompt));
    meant.map_or(Ok(()), |meant| {
        let message = format!("'{prompt}' would be the prompt; write {meant}, without a space");
        Err(Cli::command().error(ErrorKind::InvalidValue, message))
    })
}

/// Returns whether a word is a value of `--sandbox`.
fn is_backend(word: &str) -> bool {
    SandboxBackendSetting::from_str(word, false).is_ok()
}

/// Returns the words of the command line as text.
fn read_words() -> Vec<String> {
    env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Returns how to write a flag whose value is optional, if the word after it was meant as its value.
fn find_missing_equals(words: &[String], value: &str) -> Option<String> {
    let is_meant = |flag: &str| match flag {
        "--sandbox" => is_backend(value),
        "--branch" => !value.is_empty(),
        _ => false,
    };
    let words = words.split(|word| word == "--").next().unwrap_or_default();
    let mut pairs = words.windows(2);
    let pair = pairs.find(|pair| pair[1] == value && is_meant(&pair[0]))?;
    Some(format!("{}={value}", pair[0]))
}

/// Returns how to do what a word that is no command probably stands for.
fn find_command_tip(word: &str) -> Option<&'static str> {
    Some(match word {
        "spec" | "specs" => "`ralph init --workflow specs` begins with specifications",
        "config" | "configure" | "settings" => "`ralph help settings` explains the settings",
        "start" | "loop" => "`ralph run TEXT` loops a prompt, `ralph build` does a task list",
        "continue" => "`ralph resume` continues a run",
        "abort" | "cancel" | "kill" | "quit" => "`ralph stop` stops the run, `--now` at once",
        "list" | "runs" => "`ralph tasks` lists tasks, `ralph resume --list` runs",
        "undo" | "revert" | "rollback" => {
            "`ralph report` names the refs; see docs/trouble.md, Undoing a run"
        }
        "version" => "`ralph --version` prints the version",
        _ => return None,
    })
}

/// Returns what reads a number in a range.
pub(super) fn read_count(range: impl RangeBounds<i64>) -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(range)
}

/// Reads an amount of money.
pub(super) fn parse_amount(text: &str) -> Result<f64, String> {
    let amount =
        text.strip_prefix('$').unwrap_or(text).parse().ok().filter(|it: &f64| it.is_finite());
    amount.ok_or_else(|| "write an amount in US dollars, such as 20 or 2.50".to_owned())
}

/// Options of `help`.
#[derive(Debug, Args)]
pub(crate) struct HelpArgs {
    /// A topic, or a command with its subcommand.
    #[arg(value_name = "TOPIC|COMMAND")]
    pub(crate) words: Vec<String>,
}

/// Options of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: Shell,
}

/// A shell that can ask for completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl Shell {
    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Elvish => "elvish",
            Self::Fish => "fish",
            Self::Powershell => "powershell",
            Self::Zsh => "zsh",
        }
    }
}

/// Options of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write ralph.1 and one page for each command here, such as ~/.local/share/man/man1.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_instead_of_an_equals_sign_is_found() {
        let find = |line: &str, value: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            find_missing_equals(&words, value)
        };
        let sandbox = Some("--sandbox=native".to_owned());
        assert_eq!(find("ralph run --sandbox native", "native"), sandbox);
        assert_eq!(find("ralph build --sandbox native 5", "native"), sandbox);
        assert_eq!(find("ralph build --branch foo", "foo"), Some("--branch=foo".to_owned()));
        assert_eq!(find("ralph run --sandbox Fix", "Fix"), None);
        assert_eq!(find("ralph run native", "native"), None);
        assert_eq!(find("ralph run -- --sandbox native", "native"), None);
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
        let mut known: Vec<&str> = shown.map(Command::get_name).collect();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        known.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, known);
    }
}
