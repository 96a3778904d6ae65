//! `ralph help`: topics that no single command explains, and the commands.
//!
//! The topics are the pages of `docs/help`, rendered from Markdown. Not here: their text.

use ralph_core::nearest::find_nearest;
use ralph_model::outcome::ExitStatus;
use ralph_ui::help_pages;

use crate::cli::{self, CommonArgs, HelpArgs};
use crate::cli_error::CliError;
use crate::screen::{self, OutputStyle};
use crate::settings::types::sections::UiSettings;

/// A help page.
#[derive(Debug)]
pub(crate) struct HelpTopic {
    pub(crate) name: &'static str,
    text: &'static str,
}

/// Every topic.
pub(crate) const TOPICS: [HelpTopic; 12] = [
    HelpTopic { name: "agents", text: include_str!("../../help/agents.md") },
    HelpTopic { name: "cost", text: include_str!("../../help/cost.md") },
    HelpTopic { name: "exit-codes", text: include_str!("../../help/exit-codes.md") },
    HelpTopic { name: "files", text: include_str!("../../help/files.md") },
    HelpTopic { name: "gates", text: include_str!("../../help/gates.md") },
    HelpTopic { name: "overnight", text: include_str!("../../help/overnight.md") },
    HelpTopic { name: "parallel", text: include_str!("../../help/parallel.md") },
    HelpTopic { name: "prompts", text: include_str!("../../help/prompts.md") },
    HelpTopic { name: "sandbox", text: include_str!("../../help/sandbox.md") },
    HelpTopic { name: "settings", text: include_str!("../../help/settings.md") },
    HelpTopic { name: "tasks", text: include_str!("../../help/tasks.md") },
    HelpTopic { name: "variables", text: include_str!("../../help/variables.md") },
];

impl HelpTopic {
    /// Returns its heading.
    pub(crate) fn title(&self) -> &'static str {
        let first = self.text.lines().next().unwrap_or_default();
        first.trim_start_matches('#').trim()
    }
}

/// Shows a topic, a command, or both.
pub(crate) fn main(common: &CommonArgs, args: &HelpArgs) -> Result<ExitStatus, CliError> {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let topic = match words.as_slice() {
        // Other words for it.
        ["jobs" | "fleet" | "workers"] => find_topic("parallel"),
        [name] => find_topic(name),
        _ => None,
    };
    let text = match topic {
        Some(topic) => {
            let style = OutputStyle::for_stdout(common, &UiSettings::default()).style;
            let mut text = help_pages::format_page(topic.text, &style);
            if is_command(topic.name) {
                text.push_str(&format!("\n`ralph {0} --help` shows the command.\n", topic.name));
            }
            text
        }
        None => render_command_help(&words)?,
    };
    screen::print_data(&text);
    Ok(ExitStatus::Complete)
}

fn find_topic(name: &str) -> Option<&'static HelpTopic> {
    TOPICS.iter().find(|topic| topic.name == name)
}

fn is_command(name: &str) -> bool {
    cli::build_complete_command().find_subcommand(name).is_some_and(|it| !it.is_hide_set())
}

/// Returns the help of a command, or of all.
fn render_command_help(words: &[&str]) -> Result<String, CliError> {
    let mut command = cli::build_complete_command();
    for word in words {
        let next = command.find_subcommand(word).filter(|it| !it.is_hide_set());
        let Some(next) = next.cloned() else {
            return Err(build_unknown_topic_error(word, words, &command));
        };
        command = next;
    }
    Ok(command.render_help().to_string())
}

fn build_unknown_topic_error(word: &str, words: &[&str], within: &clap::Command) -> CliError {
    let commands = within.get_subcommands().filter(|it| !it.is_hide_set());
    let names = commands.map(clap::Command::get_name);
    let topics = TOPICS.iter().map(|topic| topic.name).filter(|_| words.len() == 1);
    let found = find_nearest(word, names.chain(topics));
    let complaint = CliError::for_input(format!("there is no topic and no command `{word}`"));
    let complaint = match found {
        Some(near) => complaint.with_hint(format!("did you mean `ralph help {near}`?")),
        None => complaint,
    };
    let topics: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
    complaint.with_hint(format!("topics: {}; `ralph help` lists the commands", topics.join(", ")))
}
