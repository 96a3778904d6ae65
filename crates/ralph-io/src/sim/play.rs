//! Plays one call of a scenario, from the prompt to the exit code.
//!
//! Not here: the format of scenarios, and the dialects.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ralph_model::agent_output::{Speaker, TextForm, TodoItem, ToolOutcome, Usage};
use ralph_model::units::{Millis, Timestamp, Tokens, UsdMicros};
use serde_json::{Value, json};

use super::matching::{SimCall, pick_entry};
use super::scenario::{
    CommandDisplay, FloodShape, LimitReset, Scenario, ScenarioStep, ScriptedBytes, ScriptedOutcome,
    SimDialect,
};
use super::writer::{ScriptedToolCall, SimTurnEnd, SimWriter};
use super::{acp_peer, actions};

/// Exit code if no entry of a scenario matches the call.
pub const STATUS_NO_MATCH: u8 = 64;

/// Exit code if a scenario cannot be read, or a step fails.
pub const STATUS_SCENARIO: u8 = 65;

/// Exit code if the output is no longer read.
const STATUS_NO_READER: u8 = 74;

/// Plays the entry of a scenario that matches the prompt and the variables `RALPH_ROLE`,
/// `RALPH_ITERATION`, `RALPH_ASK` and `RALPH_TASK`.
pub fn play_scenario(
    scenario: &Path,
    input: impl Read,
    env: &BTreeMap<String, String>,
) -> ExitCode {
    ExitCode::from(play_input(scenario, &mut BufReader::new(input), env))
}

fn play_input(path: &Path, input: &mut dyn BufRead, env: &BTreeMap<String, String>) -> u8 {
    let scenario = match Scenario::read(path) {
        Ok(scenario) => scenario,
        Err(error) => return report_failure(STATUS_SCENARIO, &error.to_string()),
    };
    let session = ["RALPH_RUN_ID", "RALPH_ITERATION", "RALPH_ASK"]
        .map(|name| env.get(name).map_or("0", String::as_str))
        .join("-");
    let prompt = if scenario.dialect == SimDialect::Acp {
        acp_peer::open_session(input, &mut io::stdout(), &session)
    } else {
        read_all(input)
    };
    let prompt = match prompt {
        Ok(prompt) => prompt,
        Err(error) => {
            return report_failure(STATUS_SCENARIO, &format!("cannot read the prompt: {error}"));
        }
    };
    let entry = match pick_entry(&scenario, path, &SimCall { prompt: &prompt, env }) {
        Ok(Some(entry)) => entry,
        Ok(None) => {
            let role = env.get("RALPH_ROLE").map_or("?", String::as_str);
            let iteration = env.get("RALPH_ITERATION").map_or("?", String::as_str);
            let message = format!(
                "no entry of `{}` matches role {role}, iteration {iteration}",
                path.display()
            );
            return report_failure(STATUS_NO_MATCH, &message);
        }
        Err(error) => {
            return report_failure(STATUS_SCENARIO, &format!("cannot count calls: {error}"));
        }
    };
    let writer = SimWriter::new(scenario.dialect, io::stdout().lock());
    let played = ScenarioPlayer::new(writer, &prompt, input).play_steps(&session, &entry.steps);
    if played.is_ok() && scenario.dialect == SimDialect::Acp {
        acp_peer::wait_for_end(input);
    }
    match played {
        Ok(status) | Err(PlayStop::Exit(status)) => status,
        Err(PlayStop::NoReader) => STATUS_NO_READER,
        Err(PlayStop::Failed(error)) => {
            report_failure(STATUS_SCENARIO, &format!("`{}`: {error}", path.display()))
        }
    }
}

fn read_all(input: &mut dyn BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn report_failure(status: u8, message: &str) -> u8 {
    // Stderr may be closed; the exit code still reports the failure.
    let _ = io::stderr().write_all(format!("sim: {message}\n").as_bytes());
    status
}

/// Why a call ends before its script does.
enum PlayStop {
    /// A step ends the process.
    Exit(u8),
    /// The output is no longer read.
    NoReader,
    /// A step failed.
    Failed(String),
}

struct ScenarioPlayer<'a, W> {
    writer: SimWriter<W>,
    prompt: &'a str,
    /// Where answers to its own requests come from.
    input: &'a mut dyn BufRead,
    final_answer: String,
    /// Whether the script has printed a result, or wants none; else a success follows at the end.
    has_result: bool,
    status: u8,
}

/// Size of one piece of a flood.
const FLOOD_PIECE: usize = 8 << 10;

impl<'a, W: Write> ScenarioPlayer<'a, W> {
    fn new(writer: SimWriter<W>, prompt: &'a str, input: &'a mut dyn BufRead) -> Self {
        let final_answer = String::new();
        Self { writer, prompt, input, final_answer, has_result: false, status: 0 }
    }

    /// Plays all steps, and returns the exit code.
    fn play_steps(&mut self, session: &str, steps: &[ScenarioStep]) -> Result<u8, PlayStop> {
        map_write_error(self.writer.start_session(session, self.prompt))?;
        for (at, step) in steps.iter().enumerate() {
            self.perform_step(step).map_err(|stop| match stop {
                PlayStop::Failed(error) => PlayStop::Failed(format!("step {}: {error}", at + 1)),
                PlayStop::Exit(_) | PlayStop::NoReader => stop,
            })?;
        }
        if !self.has_result {
            self.end_turn(SimTurnEnd::Success)?;
        }
        Ok(self.status)
    }

    fn end_turn(&mut self, end: SimTurnEnd) -> Result<(), PlayStop> {
        self.has_result = true;
        self.status = self.writer.exit_code(&end);
        map_write_error(self.writer.write_end(end, &self.final_answer))
    }

    #[expect(clippy::too_many_lines, reason = "one match over every kind of step")]
    fn perform_step(&mut self, step: &ScenarioStep) -> Result<(), PlayStop> {
        match step {
            ScenarioStep::Write { path, text } => {
                map_step_error(path, actions::write_file(path, text))
            }
            ScenarioStep::Append { path, text } => {
                map_step_error(path, actions::append_to_file(path, text))
            }
            ScenarioStep::Delete { path } => map_step_error(path, actions::delete_path(path)),
            ScenarioStep::Edit { path, find, replace } => {
                map_step_error(path, actions::replace_in_file(path, find, replace))
            }
            ScenarioStep::Mkdir { path } => map_step_error(path, std::fs::create_dir_all(path)),
            ScenarioStep::Symlink { path, to } => {
                map_step_error(path, actions::create_symlink(path, to))
            }
            ScenarioStep::Touch(path) => map_step_error(path, actions::append_to_file(path, "")),
            ScenarioStep::Run { command, show, env } => self.run_command(command, *show, env),
            ScenarioStep::Text(text) => self.print_text(text),
            ScenarioStep::Claim(text) => self.print_text(&format!("<response>{text}</response>")),
            ScenarioStep::Delta(pieces) => {
                self.final_answer = pieces.concat();
                map_write_error(self.writer.write_pieces(pieces))
            }
            ScenarioStep::SubagentText(text) => {
                map_write_error(self.writer.write_text(text, Speaker::Subagent, TextForm::Message))
            }
            ScenarioStep::Reasoning(text) => map_write_error(self.writer.write_reasoning(text)),
            ScenarioStep::Tool { name, summary, output, outcome } => {
                let outcome = *outcome;
                map_write_error(self.writer.write_tool_call(&ScriptedToolCall {
                    name,
                    summary,
                    output,
                    outcome,
                }))
            }
            ScenarioStep::Permission(what) => self.ask_permission(what),
            ScenarioStep::Todo(items) => {
                let items = items
                    .iter()
                    .map(|item| TodoItem { text: item.text.clone(), state: item.state })
                    .collect();
                map_write_error(self.writer.write_todo(items))
            }
            ScenarioStep::Usage { input, output, cache_read, cache_write, cost } => {
                map_write_error(self.writer.write_usage(Usage {
                    input: Tokens(*input),
                    output: Tokens(*output),
                    cache_read: Tokens(*cache_read),
                    cache_write: Tokens(*cache_write),
                    cost: cost.map(UsdMicros::from_dollars),
                    turns: None,
                }))
            }
            ScenarioStep::Notice(text) => map_write_error(self.writer.write_notice(text)),
            ScenarioStep::RateLimit { status, resets } => {
                let now = read_clock();
                let resets_at = match *resets {
                    LimitReset::Unknown => None,
                    LimitReset::At(seconds) => Some(Timestamp::from_seconds(seconds)),
                    LimitReset::In(seconds) => {
                        Some(Timestamp(now.0.saturating_add(seconds.saturating_mul(1000))))
                    }
                };
                map_write_error(self.writer.write_rate_limit(*status, resets_at, now))
            }
            ScenarioStep::Result(ScriptedOutcome::Success) => self.end_turn(SimTurnEnd::Success),
            ScenarioStep::Result(ScriptedOutcome::Error { class, words }) => {
                self.end_turn(SimTurnEnd::Error(*class, words.clone()))
            }
            ScenarioStep::Structured(value) | ScenarioStep::Handoff(value) => {
                self.end_turn(SimTurnEnd::Structured(add_token(value, self.prompt)))
            }
            ScenarioStep::Verdict(value) => {
                let answer = add_evidence(&add_token(value, self.prompt), self.prompt);
                self.end_turn(SimTurnEnd::Structured(answer))
            }
            ScenarioStep::EchoPrompt => map_write_error(self.writer.echo_prompt(self.prompt)),
            ScenarioStep::Sleep(seconds) => {
                actions::sleep_seconds(*seconds);
                Ok(())
            }
            ScenarioStep::WaitFor { path, seconds } => {
                map_step_error(path, actions::wait_for_file(path, *seconds))
            }
            ScenarioStep::Hang => actions::hang_forever(),
            ScenarioStep::Chatter { seconds } => loop {
                map_write_error(self.writer.write_chatter())?;
                actions::sleep_seconds(*seconds);
            },
            ScenarioStep::IgnoreTerm => {
                actions::ignore_term().map_err(|error| PlayStop::Failed(error.to_string()))
            }
            ScenarioStep::Grandchild { kind, pid_file, seconds } => {
                map_step_error(pid_file, actions::start_grandchild(*kind, pid_file, *seconds))
            }
            ScenarioStep::Flood { bytes, shape } => self.print_flood(*bytes, *shape),
            ScenarioStep::Garbage(ScriptedBytes::Text(text)) => {
                map_write_error(self.writer.write_bytes(text.as_bytes()))
            }
            ScenarioStep::Garbage(ScriptedBytes::Base64(text)) => {
                let bytes =
                    STANDARD_NO_PAD.decode(text.trim().trim_end_matches('=')).map_err(|error| {
                        PlayStop::Failed(format!("{text:?} is not base64: {error}"))
                    })?;
                map_write_error(self.writer.write_bytes(&bytes))
            }
            ScenarioStep::Stderr(text) => map_write_error(SimWriter::<W>::write_stderr(text)),
            ScenarioStep::NoResult => {
                self.has_result = true;
                Ok(())
            }
            ScenarioStep::Exit(status) => Err(PlayStop::Exit(*status)),
            ScenarioStep::Die(signal) => {
                actions::kill_self(*signal).map_err(|error| PlayStop::Failed(error.to_string()))?;
                Err(PlayStop::Failed(format!("survived {signal:?}")))
            }
        }
    }

    fn print_text(&mut self, text: &str) -> Result<(), PlayStop> {
        text.clone_into(&mut self.final_answer);
        map_write_error(self.writer.write_text(text, Speaker::Agent, TextForm::Message))
    }

    fn ask_permission(&mut self, what: &str) -> Result<(), PlayStop> {
        let asked = self.writer.request_permission(what).map_err(|_| PlayStop::NoReader)?;
        let Some(id) = asked else {
            let outcome = ToolOutcome::Ok;
            let call = ScriptedToolCall { name: "Bash", summary: what, output: "done", outcome };
            return map_write_error(self.writer.write_tool_call(&call));
        };
        let answer = acp_peer::wait_for_permission(self.input, &id)
            .map_err(|error| PlayStop::Failed(format!("no answer: {error}")))?;
        map_write_error(self.writer.write_permitted_call(&id, answer))
    }

    fn run_command(
        &mut self,
        command: &str,
        show: CommandDisplay,
        env: &BTreeMap<String, String>,
    ) -> Result<(), PlayStop> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).envs(env).stdin(Stdio::null());
        let failed = |error| PlayStop::Failed(format!("`{command}`: {error}"));
        match show {
            // Without pipes: a background process must not be waited for.
            CommandDisplay::Hidden => {
                shell.stdout(Stdio::null()).stderr(Stdio::null()).status().map_err(failed)?;
                Ok(())
            }
            CommandDisplay::Tool => {
                let output = shell.output().map_err(failed)?;
                let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
                text.push_str(&String::from_utf8_lossy(&output.stderr));
                let outcome =
                    if output.status.success() { ToolOutcome::Ok } else { ToolOutcome::Error };
                let call =
                    ScriptedToolCall { name: "Bash", summary: command, output: &text, outcome };
                map_write_error(self.writer.write_tool_call(&call))
            }
        }
    }

    fn print_flood(&mut self, bytes: usize, shape: FloodShape) -> Result<(), PlayStop> {
        match shape {
            FloodShape::Line => {
                let text = "x".repeat(bytes);
                map_write_error(self.writer.write_text(&text, Speaker::Agent, TextForm::Message))
            }
            FloodShape::Events => {
                let mut form = TextForm::Message;
                let mut left = bytes;
                while left > 0 {
                    let size = left.min(FLOOD_PIECE);
                    let mut piece = "x".repeat(size - 1);
                    piece.push('\n');
                    map_write_error(self.writer.write_text(&piece, Speaker::Agent, form))?;
                    form = TextForm::Delta;
                    left -= size;
                }
                Ok(())
            }
        }
    }
}

fn read_clock() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::default().saturating_add(Millis::from(now))
}

fn map_write_error(result: io::Result<()>) -> Result<(), PlayStop> {
    result.map_err(|_| PlayStop::NoReader)
}

fn map_step_error(path: &Path, result: io::Result<()>) -> Result<(), PlayStop> {
    result.map_err(|error| PlayStop::Failed(format!("`{}`: {error}", path.display())))
}

/// Returns an answer with the token of the prompt, if there is one and the scenario gives none.
fn add_token(answer: &Value, prompt: &str) -> Value {
    let mut answer = answer.clone();
    let token = prompt.rsplit_once("\"token\": \"").and_then(|(_, rest)| rest.split_once('"'));
    if let (Some(object), Some((token, _))) = (answer.as_object_mut(), token) {
        object.entry("token").or_insert_with(|| token.into());
    }
    answer
}

/// Returns a verdict with an entry for each criterion that the prompt lists, if the scenario
/// approves and omits `criteria` or leaves it empty.
fn add_evidence(verdict: &Value, prompt: &str) -> Value {
    let mut verdict = verdict.clone();
    let is_approved = verdict["verdict"] == "approved";
    let is_empty = verdict["criteria"].as_array().is_none_or(Vec::is_empty);
    if is_approved && is_empty {
        let listed = prompt.lines().filter_map(|line| line.strip_prefix("- [ ] "));
        let entry = |criterion: &str| json!({ "criterion": criterion, "met": true, "evidence": "as scripted" });
        verdict["criteria"] = listed.map(entry).collect();
    }
    verdict
}

#[cfg(test)]
mod tests;
