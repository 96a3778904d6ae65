//! The questions of the wizard, in order, with the checks of the answers.
//!
//! Works by lines, so any terminal is enough. Not here: the terminal, and writing the files.

use ralph_core::project::detection::ProjectCheck;
use ralph_model::gate::GateKind;
use serde_json::json;

use super::draft::{SettingsDraft, format_gate};
use super::gate_trial::GateProblem;
use crate::cli::ReviewGateChoice;
use crate::recipe::{PROMPT_ITERATIONS, SPECS_ITERATIONS, TASK_ITERATIONS};
use crate::settings::types::sections::WorkflowSetting;
use crate::templates::Feature;

/// The input ended before the last answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InputEnded;

/// Shows a question and returns the typed line.
pub(super) type AnswerReader<'a> = &'a mut dyn FnMut(&str) -> Option<String>;

/// Tries a command as a gate. Returns why it cannot run.
pub(super) type GateTester<'a> = &'a mut dyn FnMut(&str) -> Option<GateProblem>;

/// What is known before the user is asked.
#[derive(Debug, Clone)]
pub(super) struct WizardDefaults<'a> {
    /// The workflow that the project seems to have.
    pub(super) workflow: WorkflowSetting,
    /// Default name of the feature.
    pub(super) name: &'a str,
    /// The agents that are installed, with their versions.
    pub(super) agents: &'a [String],
    /// Commands that the project's files name.
    pub(super) found: &'a [ProjectCheck],
    /// Whether it has packages to fetch.
    pub(super) has_packages: bool,
}

/// The answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WizardAnswers {
    pub(super) workflow: WorkflowSetting,
    /// Name of the feature, for workflows with documents.
    pub(super) name: Option<String>,
    pub(super) draft: SettingsDraft,
}

/// Asks all questions.
pub(super) fn ask_all(
    known: &WizardDefaults<'_>,
    answer: AnswerReader<'_>,
    try_gate: GateTester<'_>,
) -> Result<WizardAnswers, InputEnded> {
    let mut asker = Asker { answer, try_gate, note: String::new() };
    let workflow = asker.ask_workflow(known.workflow)?;
    let mut draft = SettingsDraft::new(workflow);
    let name = match workflow {
        WorkflowSetting::Prompt => None,
        WorkflowSetting::Specs | WorkflowSetting::Tasks => {
            let question = format!("Name of what is to be built [{}]: ", known.name);
            Some(asker.ask_until_valid(&question, |it| {
                let name = if it.is_empty() { known.name } else { it };
                let feature = Feature::parse(name, "--name");
                feature
                    .map(|it| it.name)
                    .map_err(|_| "Enter one short line with a letter or a digit.")
            })?)
        }
    };
    let command = asker.ask_agent(known.agents)?;
    let flags = split_commas(&asker.ask_line("Agent flags (comma-separated, optional): ")?);
    asker.ask_iterations(workflow, &mut draft)?;
    asker.ask_completion(workflow, &mut draft)?;
    if workflow == WorkflowSetting::Prompt {
        draft.add_value("outputTruncateChars", &json!(5000));
        draft.add_value("streamAgentOutput", &json!(true));
    }
    draft.add_agent(&command, &flags);
    let gates = asker.ask_gates(known.found, &mut draft)?;
    let reviews =
        if draft.checked_by.is_empty() { Vec::new() } else { asker.ask_review_gates()? };
    draft.add_formatted_gates(gates, &reviews);
    if known.has_packages && asker.ask_yes_no(PACKAGES)? {
        draft.add_sandbox(&json!({ "network": { "packages": true } }));
    }
    match workflow {
        WorkflowSetting::Prompt => asker.ask_scm(&mut draft)?,
        // Their workflows commit by themselves.
        WorkflowSetting::Specs | WorkflowSetting::Tasks => {}
    }
    Ok(WizardAnswers { workflow, name, draft })
}

const AGENT: &str = "Agent command (e.g., claude, codex, amp, or other LLM CLI)";
const GATE: &str = "Add gate command (leave blank to finish): ";
const FOUND_GATES: &str = "Gate: a number, `none`, another command, or Enter for all: ";
const FAIL_ACTION: &str = "  Fail action (APPEND|PREPEND|REPLACE): ";
const HINT: &str = "  Hint (optional, guidance for agent on failure): ";

const REVIEWS: &str = "Reviews by another agent after the checks (spec, quality; optional): ";
const PACKAGES: &str = "May agents and checks download packages, from where your tools get them? You \
                        confirm it once with `ralph trust` (y/N): ";

const WORKFLOWS: &str = "\
Where does the work come from?
  prompt  one prompt, repeated
  specs   specifications, and a plan that the agent keeps
  tasks   requirements and a task list
";

/// Asks until an answer is valid.
struct Asker<'a> {
    answer: AnswerReader<'a>,
    try_gate: GateTester<'a>,
    /// What is shown before the next question.
    note: String,
}

impl Asker<'_> {
    /// Shows a text before the next question.
    fn add_note(&mut self, text: &str) {
        self.note.push_str(text);
    }

    /// Returns a trimmed answer. Asks again if it contains control characters, such as an arrow
    /// key.
    fn ask_line(&mut self, question: &str) -> Result<String, InputEnded> {
        self.ask_until_valid(question, |it| Ok(it.to_owned()))
    }

    /// Asks until `read` accepts the answer; its error says what is wrong.
    fn ask_until_valid<T>(
        &mut self,
        question: &str,
        read: impl Fn(&str) -> Result<T, &'static str>,
    ) -> Result<T, InputEnded> {
        let mut above = std::mem::take(&mut self.note);
        loop {
            let line = (self.answer)(&format!("{above}{question}")).ok_or(InputEnded)?;
            let line = line.trim();
            let read = if line.chars().any(char::is_control) {
                Err("The input contains a control character.")
            } else {
                read(line)
            };
            match read {
                Ok(value) => return Ok(value),
                Err(wrong) => above = format!("{wrong}\n"),
            }
        }
    }

    fn ask_or_default(&mut self, question: &str, default: &str) -> Result<String, InputEnded> {
        let line = self.ask_line(&format!("{question} [{default}]: "))?;
        Ok(if line.is_empty() { default.to_owned() } else { line })
    }

    fn ask_yes_no(&mut self, question: &str) -> Result<bool, InputEnded> {
        let line = self.ask_line(question)?.to_lowercase();
        Ok(line == "y" || line == "yes")
    }

    fn ask_workflow(&mut self, usual: WorkflowSetting) -> Result<WorkflowSetting, InputEnded> {
        self.add_note(WORKFLOWS);
        let question = format!("Workflow (prompt|specs|tasks) [{}]: ", usual.name());
        self.ask_until_valid(&question, |line| {
            let line = line.to_lowercase();
            let mut fitting =
                WorkflowSetting::ALL.into_iter().filter(|it| it.name().starts_with(&line));
            match fitting.next() {
                _ if line.is_empty() => Ok(usual),
                Some(workflow) => Ok(workflow),
                None => Err("Enter prompt, specs or tasks."),
            }
        })
    }

    /// Returns the agent's command. Enter takes the first one that is installed.
    fn ask_agent(&mut self, installed: &[String]) -> Result<String, InputEnded> {
        if !installed.is_empty() {
            self.add_note(&format!(
                "Installed agents; type a number, or another command:\n{}",
                list_numbered(installed)
            ));
        }
        // Each has its version behind its command.
        let command = |it: &String| it.split(' ').next().unwrap_or_default().to_owned();
        let default = installed.first().map(command);
        let shown = default.as_ref().map(|it| format!(" [{it}]")).unwrap_or_default();
        self.ask_until_valid(&format!("{AGENT}{shown}: "), |line| match line.parse::<usize>() {
            _ if line.is_empty() => default.clone().ok_or("An agent is needed."),
            Ok(number) => {
                let chosen = number.checked_sub(1).and_then(|at| installed.get(at)).map(command);
                chosen.ok_or("Enter the command of an agent, or a number of the list.")
            }
            Err(_) => Ok(line.to_owned()),
        })
    }

    /// The default depends on the workflow. It is always written for a prompt; for the others only
    /// if it differs, because planning has its own default.
    fn ask_iterations(
        &mut self,
        workflow: WorkflowSetting,
        draft: &mut SettingsDraft,
    ) -> Result<(), InputEnded> {
        let usual = match workflow {
            WorkflowSetting::Prompt => PROMPT_ITERATIONS,
            WorkflowSetting::Specs => SPECS_ITERATIONS,
            WorkflowSetting::Tasks => TASK_ITERATIONS,
        };
        let iterations =
            self.ask_until_valid(&format!("Maximum iterations [{usual}]: "), |line| {
                let number = if line.is_empty() { Ok(usual) } else { line.parse::<u32>() };
                number.ok().filter(|it| *it > 0).ok_or("Enter a whole number, 1 or more.")
            })?;
        if workflow == WorkflowSetting::Prompt || iterations != usual {
            draft.add_value("maximumIterations", &json!(iterations));
        }
        Ok(())
    }

    fn ask_completion(
        &mut self,
        workflow: WorkflowSetting,
        draft: &mut SettingsDraft,
    ) -> Result<(), InputEnded> {
        let usual = match workflow {
            WorkflowSetting::Prompt => "DONE",
            WorkflowSetting::Specs => "COMPLETE",
            // With a task list ralph knows itself when everything is done.
            WorkflowSetting::Tasks => return Ok(()),
        };
        let response = self.ask_or_default("Completion response", usual)?;
        if workflow == WorkflowSetting::Prompt || response != usual {
            draft.add_value("completionResponse", &json!(response));
        }
        Ok(())
    }

    /// Offers gates that ask an agent.
    fn ask_review_gates(&mut self) -> Result<Vec<ReviewGateChoice>, InputEnded> {
        self.ask_until_valid(REVIEWS, |line| {
            let kind = |it: String| match it.as_str() {
                "spec" => Ok(ReviewGateChoice::Spec),
                "quality" => Ok(ReviewGateChoice::Quality),
                _ => Err("Enter spec, quality, or both."),
            };
            split_commas(line).into_iter().map(kind).collect()
        })
    }

    /// Returns the gates to write.
    fn ask_gates(
        &mut self,
        found: &[ProjectCheck],
        draft: &mut SettingsDraft,
    ) -> Result<Vec<String>, InputEnded> {
        if !found.is_empty() {
            let lines: Vec<String> =
                found.iter().map(|it| format!("{} ({})", it.command, it.place)).collect();
            self.add_note(&format!("Checks that this project defines:\n{}", list_numbered(&lines)));
        }
        let mut gates: Vec<String> = Vec::new();
        loop {
            let offers_all = gates.is_empty() && !found.is_empty();
            let question = if offers_all { FOUND_GATES } else { GATE };
            let command = self.ask_until_valid(question, |line| match line.parse::<usize>() {
                Ok(number) => {
                    let chosen = number.checked_sub(1).and_then(|at| found.get(at));
                    chosen.map(|it| it.command.clone()).ok_or("There is no such number.")
                }
                Err(_) => Ok(line.to_owned()),
            })?;
            if command.is_empty() && offers_all {
                for it in found {
                    if self.accepts_gate(&it.command, draft)? {
                        draft.checked_by.push(it.command.clone());
                        gates.push(format_gate(it.kind, &it.command, "APPEND", ""));
                    }
                }
            }
            if command.is_empty() || (gates.is_empty() && command == "none") {
                return Ok(gates);
            }
            if !self.accepts_gate(&command, draft)? {
                continue;
            }
            let action = self.ask_until_valid(FAIL_ACTION, |it| {
                let action = it.to_uppercase();
                match action.as_str() {
                    "" => Ok("APPEND".to_owned()),
                    "APPEND" | "PREPEND" | "REPLACE" => Ok(action),
                    _ => Err("  Enter APPEND, PREPEND or REPLACE."),
                }
            })?;
            let hint = self.ask_line(HINT)?;
            let known = found.iter().find(|it| it.command == command);
            // Its empty test runs fail, and its output is cut, as those of tests.
            let kind = known.map_or(GateKind::Test, |it| it.kind);
            gates.push(format_gate(kind, &command, &action, &hint));
            draft.checked_by.push(command);
        }
    }

    /// Tries a gate. If it cannot run, the user decides whether it is written.
    fn accepts_gate(
        &mut self,
        command: &str,
        draft: &mut SettingsDraft,
    ) -> Result<bool, InputEnded> {
        let Some(GateProblem { reason, setting, .. }) = (self.try_gate)(command) else {
            return Ok(true);
        };
        let question = match &setting {
            Some(setting) => format!(
                "  `{command}` cannot run in the sandbox: {reason}\n  \
                 Add it with {setting}? That needs `ralph trust` once (y/N): "
            ),
            None => format!("  `{command}` cannot run: {reason}\n  Add it all the same? (y/N): "),
        };
        let is_wanted = self.ask_yes_no(&question)?;
        if let Some(setting) = setting.filter(|_| is_wanted) {
            draft.add_sandbox(&setting["sandbox"]);
        }
        Ok(is_wanted)
    }

    fn ask_scm(&mut self, draft: &mut SettingsDraft) -> Result<(), InputEnded> {
        self.add_note("SCM: commit, or commit and push, after each iteration that passes.\n");
        if !self.ask_yes_no("Configure SCM? (y/N): ")? {
            return Ok(());
        }
        let command = self.ask_until_valid("  SCM command (e.g., git): ", |it| {
            if it.is_empty() { Err("  A command is needed.") } else { Ok(it.to_owned()) }
        })?;
        let tasks =
            split_commas(&self.ask_line("  SCM tasks (comma-separated, e.g., commit,push): ")?);
        draft.add_value("scm", &json!({ "command": command, "tasks": tasks }));
        Ok(())
    }
}

fn list_numbered(lines: &[String]) -> String {
    let lines = (1..).zip(lines).map(|(number, line)| format!("  {number}. {line}\n"));
    lines.collect()
}

/// Returns the parts of a comma-separated answer.
fn split_commas(line: &str) -> Vec<String> {
    let parts = line.split(',').map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}
