//! `ralph help`: topics that no single command explains, and the commands.
//!
//! The topics are the pages of `docs/help`, rendered from Markdown. Not here: their text.

use ralph_core::nearest::nearest;
use ralph_core::outcome::ExitStatus;
use ralph_ui::guide;

use crate::cli::{self, CommonArgs, HelpArgs};
use crate::complaint::Complaint;
use crate::screen::{self, Screen};
use crate::settings::types::sections::Ui;

/// A help page.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    text: &'static str,
}

/// Every topic.
pub(crate) const TOPICS: [Topic; 10] = [
    Topic { name: "cost", text: include_str!("../../help/cost.md") },
    Topic { name: "exit-codes", text: include_str!("../../help/exit-codes.md") },
    Topic { name: "files", text: include_str!("../../help/files.md") },
    Topic { name: "gates", text: include_str!("../../help/gates.md") },
    Topic { name: "overnight", text: include_str!("../../help/overnight.md") },
    Topic { name: "prompts", text: include_str!("../../help/prompts.md") },
    Topic { name: "sandbox", text: include_str!("../../help/sandbox.md") },
    Topic { name: "settings", text: include_str!("../../help/settings.md") },
    Topic { name: "tasks", text: include_str!("../../help/tasks.md") },
    Topic { name: "variables", text: include_str!("../../help/variables.md") },
];

impl Topic {
    /// Returns its heading.
    pub(crate) fn title(&self) -> &'static str {
        let first = self.text.lines().next().unwrap_or_default();
        first.trim_start_matches('#').trim()
    }
}

/// Shows a topic, a command, or both.
pub(crate) fn main(common: &CommonArgs, args: &HelpArgs) -> Result<ExitStatus, Complaint> {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let topic = match words.as_slice() {
        [name] => TOPICS.iter().find(|topic| topic.name == *name),
        _ => None,
    };
    let text = match topic {
        Some(topic) => {
            let style = Screen::for_stdout(common, &Ui::default()).style;
            let mut text = guide::shown(topic.text, &style);
            if is_command(topic.name) {
                text.push_str(&format!("\n`ralph {0} --help` shows the command.\n", topic.name));
            }
            text
        }
        None => of_command(&words)?,
    };
    screen::print_data(&text);
    Ok(ExitStatus::Complete)
}

fn is_command(name: &str) -> bool {
    cli::whole().find_subcommand(name).is_some_and(|it| !it.is_hide_set())
}

/// Returns the help of a command, or of all.
fn of_command(words: &[&str]) -> Result<String, Complaint> {
    let mut command = cli::whole();
    for word in words {
        let next = command.find_subcommand(word).filter(|it| !it.is_hide_set());
        let Some(next) = next.cloned() else { return Err(unknown(word, words, &command)) };
        command = next;
    }
    Ok(command.render_help().to_string())
}

fn unknown(word: &str, words: &[&str], within: &clap::Command) -> Complaint {
    let commands = within.get_subcommands().filter(|it| !it.is_hide_set());
    let names = commands.map(clap::Command::get_name);
    let topics = TOPICS.iter().map(|topic| topic.name).filter(|_| words.len() == 1);
    let found = nearest(word, names.chain(topics));
    let complaint = Complaint::input(format!("there is no topic and no command `{word}`"));
    let complaint = match found {
        Some(near) => complaint.hint(format!("did you mean `ralph help {near}`?")),
        None => complaint,
    };
    let topics: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
    complaint.hint(format!("topics: {}; `ralph help` lists the commands", topics.join(", ")))
}
