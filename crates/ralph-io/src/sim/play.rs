//! Plays one call of a scenario, from the prompt to the exit code.
//!
//! Not here: the format of scenarios, and the dialects.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use ralph_core::reading::{Speaker, TextForm, TodoItem, ToolOutcome, Usage};
use ralph_core::units::{Millis, Timestamp, Tokens, UsdMicros};
use serde_json::{Value, json};

use super::acp_peer;
use super::base64;
use super::deeds;
use super::matching::{Asked, pick};
use super::scenario::{Bytes, Deed, Dialect, Flood, Outcome, Resets, Scenario, Show};
use super::writer::{End, ToolCall, Writer};

/// Exit code if no entry of a scenario matches the call.
pub const STATUS_NO_MATCH: u8 = 64;

/// Exit code if a scenario cannot be read, or a step fails.
pub const STATUS_SCENARIO: u8 = 65;

/// Exit code if the output is no longer read.
const STATUS_NO_READER: u8 = 74;

/// Plays the entry of a scenario that matches the prompt and the variables `RALPH_ROLE`,
/// `RALPH_ITERATION`, `RALPH_ASK` and `RALPH_TASK`.
pub fn play(scenario: &Path, input: impl Read, env: &BTreeMap<String, String>) -> ExitCode {
    ExitCode::from(play_input(scenario, &mut BufReader::new(input), env))
}

fn play_input(path: &Path, input: &mut dyn BufRead, env: &BTreeMap<String, String>) -> u8 {
    let scenario = match Scenario::read(path) {
        Ok(scenario) => scenario,
        Err(error) => return refuse(STATUS_SCENARIO, &error.to_string()),
    };
    let session = ["RALPH_RUN_ID", "RALPH_ITERATION", "RALPH_ASK"]
        .map(|name| env.get(name).map_or("0", String::as_str))
        .join("-");
    let prompt = match scenario.dialect {
        Dialect::Acp => acp_peer::open(input, &mut io::stdout(), &session),
        Dialect::Sim
        | Dialect::Claude
        | Dialect::Text
        | Dialect::Amp
        | Dialect::Cline
        | Dialect::Codex => whole(input),
    };
    let prompt = match prompt {
        Ok(prompt) => prompt,
        Err(error) => {
            return refuse(STATUS_SCENARIO, &format!("cannot read the prompt: {error}"));
        }
    };
    let entry = match pick(&scenario, path, &Asked { prompt: &prompt, env }) {
        Ok(Some(entry)) => entry,
        Ok(None) => {
            let role = env.get("RALPH_ROLE").map_or("?", String::as_str);
            let iteration = env.get("RALPH_ITERATION").map_or("?", String::as_str);
            let message = format!(
                "no entry of `{}` matches role {role}, iteration {iteration}",
                path.display()
            );
            return refuse(STATUS_NO_MATCH, &message);
        }
        Err(error) => return refuse(STATUS_SCENARIO, &format!("cannot count calls: {error}")),
    };
    let writer = Writer::new(scenario.dialect, io::stdout().lock());
    let played = Player::new(writer, &prompt, input).play(&session, &entry.deeds);
    if played.is_ok() && scenario.dialect == Dialect::Acp {
        acp_peer::wait_for_the_end(input);
    }
    match played {
        Ok(status) | Err(Stop::Exit(status)) => status,
        Err(Stop::NoReader) => STATUS_NO_READER,
        Err(Stop::Undoable(error)) => {
            refuse(STATUS_SCENARIO, &format!("`{}`: {error}", path.display()))
        }
    }
}

fn whole(input: &mut dyn BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn refuse(status: u8, message: &str) -> u8 {
    // Stderr may be closed; the exit code still reports the failure.
    let _ = io::stderr().write_all(format!("sim: {message}\n").as_bytes());
    status
}

/// Why a call ends before its script does.
enum Stop {
    /// A step ends the process.
    Exit(u8),
    /// The output is no longer read.
    NoReader,
    /// A step failed.
    Undoable(String),
}

/// Whether the turn still needs a result.
enum Ending {
    /// A success follows at the end.
    Automatic,
    /// The script has printed one, or wants none.
    Settled,
}

struct Player<'a, W> {
    writer: Writer<W>,
    prompt: &'a str,
    /// Where answers to its own requests come from.
    input: &'a mut dyn BufRead,
    final_answer: String,
    ending: Ending,
    status: u8,
}

/// Size of one piece of a flood.
const FLOOD_PIECE: usize = 8 << 10;

impl<'a, W: Write> Player<'a, W> {
    fn new(writer: Writer<W>, prompt: &'a str, input: &'a mut dyn BufRead) -> Self {
        let final_answer = String::new();
        Self { writer, prompt, input, final_answer, ending: Ending::Automatic, status: 0 }
    }

    /// Plays all steps, and returns the exit code.
    fn play(&mut self, session: &str, steps: &[Deed]) -> Result<u8, Stop> {
        printed(self.writer.begin(session, self.prompt))?;
        for (at, step) in steps.iter().enumerate() {
            self.perform(step).map_err(|stop| match stop {
                Stop::Undoable(error) => Stop::Undoable(format!("step {}: {error}", at + 1)),
                Stop::Exit(_) | Stop::NoReader => stop,
            })?;
        }
        match self.ending {
            Ending::Automatic => self.end(End::Success)?,
            Ending::Settled => {}
        }
        Ok(self.status)
    }

    fn end(&mut self, end: End) -> Result<(), Stop> {
        self.ending = Ending::Settled;
        self.status = self.writer.exit_code(&end);
        printed(self.writer.end(end, &self.final_answer))
    }

    fn perform(&mut self, step: &Deed) -> Result<(), Stop> {
        match step {
            Deed::Write { path, text } => done(path, deeds::write(path, text)),
            Deed::Append { path, text } => done(path, deeds::append(path, text)),
            Deed::Delete { path } => done(path, deeds::delete(path)),
            Deed::Edit { path, find, replace } => done(path, deeds::edit(path, find, replace)),
            Deed::Mkdir { path } => done(path, std::fs::create_dir_all(path)),
            Deed::Symlink { path, to } => done(path, deeds::symlink(path, to)),
            Deed::Touch(path) => done(path, deeds::append(path, "")),
            Deed::Run { command, show, env } => self.run(command, *show, env),
            Deed::Text(text) => self.say(text),
            Deed::Claim(text) => self.say(&format!("<response>{text}</response>")),
            Deed::Delta(pieces) => {
                self.final_answer = pieces.concat();
                printed(self.writer.pieces(pieces))
            }
            Deed::SubagentText(text) => {
                printed(self.writer.text(text, Speaker::Subagent, TextForm::Message))
            }
            Deed::Reasoning(text) => printed(self.writer.reasoning(text)),
            Deed::Tool { name, summary, output, outcome } => {
                let outcome = *outcome;
                printed(self.writer.tool(&ToolCall { name, summary, output, outcome }))
            }
            Deed::Permission(what) => self.ask_for(what),
            Deed::Todo(items) => {
                let items = items
                    .iter()
                    .map(|item| TodoItem { text: item.text.clone(), state: item.state })
                    .collect();
                printed(self.writer.todo(items))
            }
            Deed::Usage { input, output, cache_read, cache_write, cost } => {
                printed(self.writer.usage(Usage {
                    input: Tokens(*input),
                    output: Tokens(*output),
                    cache_read: Tokens(*cache_read),
                    cache_write: Tokens(*cache_write),
                    cost: cost.map(UsdMicros::from_dollars),
                }))
            }
            Deed::Notice(text) => printed(self.writer.notice(text)),
            Deed::RateLimit { status, resets } => {
                let now = now();
                let resets_at = match *resets {
                    Resets::Unknown => None,
                    Resets::At(seconds) => Some(Timestamp::from_seconds(seconds)),
                    Resets::In(seconds) => {
                        Some(Timestamp(now.0.saturating_add(seconds.saturating_mul(1000))))
                    }
                };
                printed(self.writer.rate_limit(*status, resets_at, now))
            }
            Deed::Result(Outcome::Success) => self.end(End::Success),
            Deed::Result(Outcome::Error { class, words }) => {
                self.end(End::Error(*class, words.clone()))
            }
            Deed::Structured(value) | Deed::Handoff(value) => {
                self.end(End::Structured(value.clone()))
            }
            Deed::Verdict(value) => self.end(End::Structured(with_evidence(value, self.prompt))),
            Deed::EchoPrompt => printed(self.writer.echo(self.prompt)),
            Deed::Sleep(seconds) => {
                deeds::sleep(*seconds);
                Ok(())
            }
            Deed::WaitFor { path, seconds } => done(path, deeds::wait_for(path, *seconds)),
            Deed::Hang => deeds::hang(),
            Deed::Chatter { seconds } => loop {
                printed(self.writer.chatter())?;
                deeds::sleep(*seconds);
            },
            Deed::IgnoreTerm => {
                deeds::ignore_term().map_err(|error| Stop::Undoable(error.to_string()))
            }
            Deed::Grandchild { kind, pid_file, seconds } => {
                done(pid_file, deeds::grandchild(*kind, pid_file, *seconds))
            }
            Deed::Flood { bytes, shape } => self.flood(*bytes, *shape),
            Deed::Garbage(Bytes::Text(text)) => printed(self.writer.raw(text.as_bytes())),
            Deed::Garbage(Bytes::Base64(text)) => {
                let bytes = base64::decode(text)
                    .ok_or_else(|| Stop::Undoable(format!("{text:?} is not base 64")))?;
                printed(self.writer.raw(&bytes))
            }
            Deed::Stderr(text) => printed(Writer::<W>::aside(text)),
            Deed::NoResult => {
                self.ending = Ending::Settled;
                Ok(())
            }
            Deed::Exit(status) => Err(Stop::Exit(*status)),
            Deed::Die(signal) => {
                deeds::die(*signal).map_err(|error| Stop::Undoable(error.to_string()))?;
                Err(Stop::Undoable(format!("survived {signal:?}")))
            }
        }
    }

    fn say(&mut self, text: &str) -> Result<(), Stop> {
        text.clone_into(&mut self.final_answer);
        printed(self.writer.text(text, Speaker::Agent, TextForm::Message))
    }

    fn ask_for(&mut self, what: &str) -> Result<(), Stop> {
        let asked = self.writer.permission(what).map_err(|_| Stop::NoReader)?;
        let Some(id) = asked else {
            let outcome = ToolOutcome::Ok;
            let call = ToolCall { name: "Bash", summary: what, output: "done", outcome };
            return printed(self.writer.tool(&call));
        };
        let answer = acp_peer::permission(self.input, &id)
            .map_err(|error| Stop::Undoable(format!("no answer: {error}")))?;
        printed(self.writer.permitted(&id, answer))
    }

    fn run(
        &mut self,
        command: &str,
        show: Show,
        env: &BTreeMap<String, String>,
    ) -> Result<(), Stop> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).envs(env).stdin(Stdio::null());
        let failed = |error| Stop::Undoable(format!("`{command}`: {error}"));
        match show {
            // Without pipes: a background process must not be waited for.
            Show::Hidden => {
                shell.stdout(Stdio::null()).stderr(Stdio::null()).status().map_err(failed)?;
                Ok(())
            }
            Show::Tool => {
                let output = shell.output().map_err(failed)?;
                let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
                text.push_str(&String::from_utf8_lossy(&output.stderr));
                let outcome =
                    if output.status.success() { ToolOutcome::Ok } else { ToolOutcome::Error };
                let call = ToolCall { name: "Bash", summary: command, output: &text, outcome };
                printed(self.writer.tool(&call))
            }
        }
    }

    fn flood(&mut self, bytes: usize, shape: Flood) -> Result<(), Stop> {
        match shape {
            Flood::Line => {
                let text = "x".repeat(bytes);
                printed(self.writer.text(&text, Speaker::Agent, TextForm::Message))
            }
            Flood::Events => {
                let mut form = TextForm::Message;
                let mut left = bytes;
                while left > 0 {
                    let size = left.min(FLOOD_PIECE);
                    let mut piece = "x".repeat(size - 1);
                    piece.push('\n');
                    printed(self.writer.text(&piece, Speaker::Agent, form))?;
                    form = TextForm::Delta;
                    left -= size;
                }
                Ok(())
            }
        }
    }
}

fn now() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::default().plus(Millis::from(now))
}

fn printed(result: io::Result<()>) -> Result<(), Stop> {
    result.map_err(|_| Stop::NoReader)
}

fn done(path: &Path, result: io::Result<()>) -> Result<(), Stop> {
    result.map_err(|error| Stop::Undoable(format!("`{}`: {error}", path.display())))
}

/// Returns a verdict with an entry for each criterion that the prompt lists, if the scenario
/// approves and omits `criteria` or leaves it empty.
fn with_evidence(verdict: &Value, prompt: &str) -> Value {
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
