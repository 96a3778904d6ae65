//! The questions of the wizard, in order, with the checks of the answers.
//!
//! Works by lines, so any terminal is enough. Not here: the terminal, and writing the files.

use ralph_core::checks::Found;
use serde_json::{Value, json};

use super::draft::Draft;
use crate::cli::WorkflowChoice;
use crate::recipe::{PROMPT_ITERATIONS, SPECS_ITERATIONS, TASK_ITERATIONS};
use crate::templates::Feature;

/// The input ended before the last answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended;

/// Shows a question and returns the typed line.
pub(super) type Answering<'a> = &'a mut dyn FnMut(&str) -> Option<String>;

/// What is known before the user is asked.
#[derive(Debug, Clone)]
pub(super) struct Known<'a> {
    /// The workflow that the project seems to have.
    pub(super) workflow: WorkflowChoice,
    /// Default name of the feature.
    pub(super) name: &'a str,
    /// The agents that are installed, with their versions.
    pub(super) agents: &'a [String],
    /// Commands that the project's files name.
    pub(super) found: &'a [Found],
}

/// The answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) workflow: WorkflowChoice,
    /// Name of the feature, for workflows with documents.
    pub(super) name: Option<String>,
    /// The settings.
    pub(super) draft: Draft,
}

/// Asks all questions.
pub(super) fn ask(known: &Known<'_>, answer: Answering<'_>) -> Result<Answers, Ended> {
    let mut asker = Asker { answer, note: String::new() };
    let workflow = asker.workflow(known.workflow)?;
    let mut draft = Draft::new(workflow);
    let name = match workflow {
        WorkflowChoice::Prompt => None,
        WorkflowChoice::Specs | WorkflowChoice::Tasks => {
            let question = format!("Name of what is to be built [{}]: ", known.name);
            Some(asker.until(&question, |it| {
                let name = if it.is_empty() { known.name } else { it };
                let feature = Feature::named(name, "--name");
                feature.map(|it| it.name).map_err(|_| "It has a letter or a digit, and is short.")
            })?)
        }
    };
    if !known.agents.is_empty() {
        asker.note(&format!("Installed: {}\n", known.agents.join(", ")));
    }
    let command = asker.until(AGENT, |it| {
        if it.is_empty() { Err("An agent is needed.") } else { Ok(it.to_owned()) }
    })?;
    let flags = separated(&asker.line("Agent flags (comma-separated, optional): ")?);
    asker.iterations(workflow, &mut draft)?;
    asker.completion(workflow, &mut draft)?;
    if workflow == WorkflowChoice::Prompt {
        draft.set("outputTruncateChars", &json!(5000));
        draft.set("streamAgentOutput", &json!(true));
    }
    draft.agent(&command, &flags);
    asker.guardrails(known.found, &mut draft)?;
    match workflow {
        WorkflowChoice::Prompt => asker.scm(&mut draft)?,
        // Their workflows commit by themselves.
        WorkflowChoice::Specs | WorkflowChoice::Tasks => {}
    }
    Ok(Answers { workflow, name, draft })
}

const AGENT: &str = "Agent command (e.g., claude, codex, amp, or other LLM CLI): ";
const GUARDRAIL: &str = "Add guardrail command (leave blank to finish): ";
const FAIL_ACTION: &str = "  Fail action (APPEND|PREPEND|REPLACE): ";
const HINT: &str = "  Hint (optional, guidance for agent on failure): ";

const WORKFLOWS: &str = "\
What does the agent work by?
  prompt  one prompt, again and again
  specs   specifications, and a plan that it keeps
  tasks   requirements and a task list
";

/// Asks until an answer is valid.
struct Asker<'a> {
    answer: Answering<'a>,
    /// What is shown before the next question.
    note: String,
}

impl Asker<'_> {
    /// Shows a text before the next question.
    fn note(&mut self, text: &str) {
        self.note.push_str(text);
    }

    /// Returns a trimmed answer. Asks again if it contains control characters, such as an arrow
    /// key.
    fn line(&mut self, question: &str) -> Result<String, Ended> {
        self.until(question, |it| Ok(it.to_owned()))
    }

    /// Asks until `read` accepts the answer; its error says what is wrong.
    fn until<T>(
        &mut self,
        question: &str,
        read: impl Fn(&str) -> Result<T, &'static str>,
    ) -> Result<T, Ended> {
        let mut above = std::mem::take(&mut self.note);
        loop {
            let line = (self.answer)(&format!("{above}{question}")).ok_or(Ended)?;
            let line = line.trim();
            let read = if line.chars().any(char::is_control) {
                Err("That holds a key that types nothing.")
            } else {
                read(line)
            };
            match read {
                Ok(value) => return Ok(value),
                Err(wrong) => above = format!("{wrong}\n"),
            }
        }
    }

    fn or_default(&mut self, question: &str, default: &str) -> Result<String, Ended> {
        let line = self.line(&format!("{question} [{default}]: "))?;
        Ok(if line.is_empty() { default.to_owned() } else { line })
    }

    fn yes(&mut self, question: &str) -> Result<bool, Ended> {
        let line = self.line(question)?.to_lowercase();
        Ok(line == "y" || line == "yes")
    }

    fn workflow(&mut self, usual: WorkflowChoice) -> Result<WorkflowChoice, Ended> {
        self.note(WORKFLOWS);
        let question = format!("Workflow (prompt|specs|tasks) [{}]: ", usual.name());
        self.until(&question, |line| {
            let line = line.to_lowercase();
            let mut fitting =
                WorkflowChoice::ALL.into_iter().filter(|it| it.name().starts_with(&line));
            match fitting.next() {
                _ if line.is_empty() => Ok(usual),
                Some(workflow) => Ok(workflow),
                None => Err("It is one of prompt, specs and tasks."),
            }
        })
    }

    /// The default depends on the workflow. It is always written for a prompt; for the others only
    /// if it differs, because planning has its own default.
    fn iterations(&mut self, workflow: WorkflowChoice, draft: &mut Draft) -> Result<(), Ended> {
        let usual = match workflow {
            WorkflowChoice::Prompt => PROMPT_ITERATIONS,
            WorkflowChoice::Specs => SPECS_ITERATIONS,
            WorkflowChoice::Tasks => TASK_ITERATIONS,
        };
        let iterations = self.until(&format!("Maximum iterations [{usual}]: "), |line| {
            let number = if line.is_empty() { Ok(usual) } else { line.parse::<u32>() };
            number.ok().filter(|it| *it > 0).ok_or("It is a whole number, 1 or more.")
        })?;
        if workflow == WorkflowChoice::Prompt || iterations != usual {
            draft.set("maximumIterations", &json!(iterations));
        }
        Ok(())
    }

    fn completion(&mut self, workflow: WorkflowChoice, draft: &mut Draft) -> Result<(), Ended> {
        let usual = match workflow {
            WorkflowChoice::Prompt => "DONE",
            WorkflowChoice::Specs => "COMPLETE",
            // With a task list ralph knows itself when everything is done.
            WorkflowChoice::Tasks => return Ok(()),
        };
        let response = self.or_default("Completion response", usual)?;
        if workflow == WorkflowChoice::Prompt || response != usual {
            draft.set("completionResponse", &json!(response));
        }
        Ok(())
    }

    fn guardrails(&mut self, found: &[Found], draft: &mut Draft) -> Result<(), Ended> {
        if !found.is_empty() {
            let mut text = "This project names these itself; a number takes one:\n".to_owned();
            for (number, it) in (1..).zip(found) {
                text.push_str(&format!("  {number}. {} ({})\n", it.command, it.place));
            }
            self.note(&text);
        }
        let mut guardrails: Vec<Value> = Vec::new();
        loop {
            let line = self.line(GUARDRAIL)?;
            if line.is_empty() {
                break;
            }
            let numbered = line.parse::<usize>().ok().and_then(|it| found.get(it.checked_sub(1)?));
            let command = numbered.map_or(line, |it| it.command.clone());
            let action = self.until(FAIL_ACTION, |it| {
                let action = it.to_uppercase();
                let is_known = ["APPEND", "PREPEND", "REPLACE"].contains(&action.as_str());
                if is_known {
                    Ok(action)
                } else {
                    Err("  It is one of APPEND, PREPEND and REPLACE.")
                }
            })?;
            let hint = self.line(HINT)?;
            let mut guardrail = json!({ "command": command, "failAction": action });
            if !hint.is_empty() {
                guardrail["hint"] = json!(hint);
            }
            draft.checked_by.push(command);
            guardrails.push(guardrail);
        }
        if !guardrails.is_empty() {
            draft.set("guardrails", &Value::Array(guardrails));
        }
        Ok(())
    }

    fn scm(&mut self, draft: &mut Draft) -> Result<(), Ended> {
        if !self.yes("Configure SCM? (y/N): ")? {
            return Ok(());
        }
        let command = self.until("  SCM command (e.g., git): ", |it| {
            if it.is_empty() { Err("  A command is needed.") } else { Ok(it.to_owned()) }
        })?;
        let tasks = separated(&self.line("  SCM tasks (comma-separated, e.g., commit,push): ")?);
        draft.set("scm", &json!({ "command": command, "tasks": tasks }));
        Ok(())
    }
}

/// Returns the parts of a comma-separated answer.
fn separated(line: &str) -> Vec<String> {
    let parts = line.split(',').map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}
