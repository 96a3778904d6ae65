//! The agent port: one call from prompt to reply.
//!
//! Connects an adapter to the supervisor and saves the traces of the call: the prompt, the raw
//! stream as it arrives, and how the process ended. After a crash of ralph, an interrupted call is
//! read from these traces instead of being paid for again. Not here: anything about a single
//! agent.

mod call_listener;
mod rewritten_files;

use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use call_listener::{CallListener, send_answer};
use jiff::tz::TimeZone;
use ralph_agents::{
    self as agents, AgentCall, CallContext, IdleWatch, LineActivity, OuterSandbox, Privilege,
    StdinMode, SystemPrompt, Translator,
};
use ralph_core::answers::reply_fold::ReplyFold;
use ralph_core::checking::secret;
use ralph_core::ports::{Agent, AgentRequest};
use ralph_model::agent_output::{AgentEvent, Reply, ResultStatus};
use ralph_model::capability::{McpServers, Support};
use ralph_model::child::{ChildEnd, Ending, Force, Limit, NotStarted};
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::units::Millis;
use rewritten_files::ConfigBefore;

use crate::bounded_read;
use crate::environment::{self, Variables};
use crate::mask::Masker;
use crate::process::{
    ChildStdin, Chunk, OutputActivity, ProcessLimits, Spawn, StdinSource, Watch, supervise_dialog,
};
use crate::sandboxed_call::{AgentSandbox, SandboxedCall};
use crate::setuid_files;
use crate::store::RunDir;
use crate::store::active::ACTIVE_VARIABLE;
use crate::store::embedded::EmbeddedDirectory;
use crate::store::raw::{RawReader, RawWriter};

/// A result may be followed by a few lines and a second turn; an agent that stays longer than
/// this has failed to exit.
const LINGER: Millis = Millis::from_secs(10);

/// System prompts and MCP configurations are a few pages.
const LARGEST_FILE: u64 = 1024 * 1024;

/// Runs agents in child processes.
#[derive(Debug)]
pub struct AgentRunner {
    pub watch: Watch,
    pub project: PathBuf,
    /// Where the traces of calls are saved.
    pub files: RunDir,
    /// The environment that agents start from.
    pub env: Variables,
    pub self_exe: PathBuf,
    /// The zone of the times of day that agents print.
    pub zone: TimeZone,
    /// ralph's plugin, for agents that support plugins.
    pub plugin: Option<EmbeddedDirectory>,
    /// Whether the warning that hooks did not run was already given in this run.
    pub has_warned_of_hooks: bool,
    /// Masks secrets in prompts and traces.
    pub masker: Masker,
    /// The sandbox, if agents run in one.
    pub confined: Option<AgentSandbox>,
    /// Whether there is a sandbox; also set where a call is only shown.
    pub outer_sandbox: OuterSandbox,
}

impl Agent for AgentRunner {
    #[expect(clippy::too_many_lines, reason = "one call from its start to its end, in order")]
    fn ask(&mut self, request: &AgentRequest, on_event: &mut dyn FnMut(&AgentEvent)) -> Reply {
        // The prompt may contain agent output and project files, hence secrets.
        let prompt = self.masker.mask_text(&request.prompt).into_owned();
        let request = &AgentRequest { prompt, ..request.clone() };
        let plugin = self.repair_plugin(request, on_event);
        let prepared = self.build_context(request).and_then(|context| {
            let context = CallContext { plugin: plugin.clone(), ..context };
            let call = agents::build_call(request, &context)?;
            let sandboxed =
                self.confined.as_ref().map(|it| it.prepare_call(request, &context, &self.env));
            Ok((
                call,
                agents::select_answer_file(request, &context).map(Path::to_owned),
                sandboxed.transpose()?,
            ))
        });
        let (call, answer_file, sandboxed) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => {
                return ReplyFold::default()
                    .into_reply(build_refused_end(request, &failure), Some(failure));
            }
        };
        let (iteration, ask) = (request.iteration, request.ask);
        if let Some(file) = &answer_file {
            // Otherwise the answer of an earlier call would be taken for this one's.
            let _ = fs::remove_file(file);
        }
        if let Some(schema) = agents::render_schema(request)
            && let Err(error) =
                write_trace(&self.files.schema_path(iteration, ask), schema.as_bytes())
        {
            on_event(&AgentEvent::Notice { text: format!("cannot save the schema: {error}") });
        }
        if let Err(error) =
            write_trace(&self.files.prompt_path(iteration, ask), request.prompt.as_bytes())
        {
            on_event(&AgentEvent::Notice { text: format!("cannot save the prompt: {error}") });
        }
        let mut raw = match RawWriter::create(&self.files.stream_path(iteration, ask)) {
            Ok(raw) => Some(raw),
            Err(error) => {
                on_event(&AgentEvent::Notice {
                    text: format!("cannot save the raw stream: {error}"),
                });
                None
            }
        };
        let mut listener = CallListener::new(request, &self.project);
        let (mut stdout, mut stderr) = (self.masker.new_stream(), self.masker.new_stream());
        // Both the output and the clock report events.
        let shared = RefCell::new(&mut *on_event);
        let mut on_chunk = |chunk: Chunk<'_>, stdin: &mut ChildStdin| {
            let on_event = &mut **shared.borrow_mut();
            // Secrets are masked from here on, in the saved stream as well.
            let clean = match chunk {
                Chunk::Stdout(bytes) => stdout.mask_next(bytes),
                Chunk::Stderr(bytes) => stderr.mask_next(bytes),
            };
            let chunk = match chunk {
                Chunk::Stdout(_) => Chunk::Stdout(&clean),
                Chunk::Stderr(_) => Chunk::Stderr(&clean),
            };
            if let (Chunk::Stdout(bytes), Some(writer)) = (chunk, &mut raw)
                && let Err(error) = writer.write(bytes).and_then(|()| writer.flush())
            {
                on_event(&AgentEvent::Notice {
                    text: format!("the raw stream is no longer saved: {error}"),
                });
                raw = None;
            }
            let (weight, answer) = listener.push_chunk(chunk, on_event);
            if !stdin.is_shutting_down() {
                listener.note_activity(weight);
            }
            if let Err(error) = send_answer(stdin, answer) {
                on_event(&AgentEvent::Notice {
                    text: format!("the agent gets no more input: {error}"),
                });
            }
            match weight {
                LineActivity::Idle => OutputActivity::Noise,
                LineActivity::Progress => OutputActivity::Useful,
                LineActivity::Final => OutputActivity::Final,
            }
        };
        let soft_limit = Duration::from(request.soft_limit);
        let mut has_passed = false;
        let mut on_tick = |ran: Duration| {
            if ran >= soft_limit && !has_passed {
                has_passed = true;
                (shared.borrow_mut())(&AgentEvent::SoftLimitPassed);
            }
            (shared.borrow_mut())(&AgentEvent::StillRunning { ran: ran.into() });
        };
        let (call_env, call_args) = (call.env.clone(), call.args.clone());
        let started = SystemTime::now();
        let config_before = ConfigBefore::read(&self.project, request.agent.kind);
        let spawn = self.build_spawn(request, call, sandboxed.as_ref());
        let end =
            match sandboxed.as_ref().map_or(Ok(spawn.clone()), |sandboxed| sandboxed.launch(spawn))
            {
                Ok(spawn) => supervise_dialog(&spawn, &self.watch, &mut on_chunk, &mut on_tick),
                Err(reason) => ChildEnd::from_ending(Ending::NotStarted { reason }),
            };
        let rest = stdout.finish();
        let (weight, _) = listener.push_chunk(Chunk::Stdout(&rest), on_event);
        listener.note_activity(weight);
        listener.push_chunk(Chunk::Stderr(&stderr.finish()), on_event);
        listener.finish(on_event);
        let end = sandboxed.as_ref().map_or(end.clone(), |sandboxed| {
            sandboxed.classify_end(end, &listener.stderr_tail.to_text())
        });
        listener.take_answer(answer_file.as_deref(), &self.masker, on_event);
        if let Some(mut writer) = raw {
            // A stream that cannot be closed is read as far as it goes.
            let _ = writer.write(&rest).and_then(|()| writer.finish());
        }
        if let Ok(text) = serde_json::to_vec(&end) {
            // If the end is lost, a crash in the next instant costs one more call at worst.
            let _ = write_trace(&self.files.end_path(iteration, ask), &text);
        }
        let warning = self.take_hooks_warning(request, &listener.translator);
        let overrun = describe_disk_limit(&end.ending);
        let mut reply = listener.into_reply(end, &self.zone);
        reply.warnings.extend(warning);
        reply.warnings.extend(overrun.map(str::to_owned));
        reply.warnings.extend(setuid_files::clear_new_bits(&self.project, started));
        reply.warnings.extend(config_before.restore(&self.project));
        if let Some(sandboxed) = sandboxed {
            reply.warnings.extend(sandboxed.clean_up(
                reply.failure.as_mut(),
                &call_env,
                &call_args,
            ));
        }
        reply
    }

    fn recover(&mut self, request: &AgentRequest) -> Option<Reply> {
        let (iteration, ask) = (request.iteration, request.ask);
        let prompt = fs::read_to_string(self.files.prompt_path(iteration, ask)).ok()?;
        let request = AgentRequest { prompt, ..request.clone() };
        let context = self.build_context(&request).ok()?;
        let mut listener = CallListener::new(&request, &self.project);
        let mut reader = RawReader::open(&self.files.stream_path(iteration, ask)).ok()?;
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = reader.read(&mut buffer) {
            listener.push_chunk(Chunk::Stdout(&buffer[..count]), &mut |_| {});
        }
        listener.finish(&mut |_| {});
        let answer_file = agents::select_answer_file(&request, &context);
        listener.take_answer(answer_file, &self.masker, &mut |_| {});
        let recorded = fs::read(self.files.end_path(iteration, ask))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        let end = match recorded {
            Some(end) => end,
            None if listener.reading.result() == Some(&ResultStatus::Success) => build_killed_end(),
            None => return None,
        };
        // When ralph asked it to exit is not recorded; the result in the stream counts as it is.
        listener.has_answered = true;
        let reply = listener.into_reply(end, &self.zone);
        // A call that failed because ralph died is repeated.
        reply.failure.is_none().then_some(reply)
    }

    fn command_line(&self, request: &AgentRequest) -> Vec<String> {
        match self.build_context(request).and_then(|context| agents::build_call(request, &context))
        {
            Ok(call) => {
                let prompt = request.prompt.as_str();
                let shown = |arg: String| {
                    if !prompt.is_empty() && arg.contains(prompt) {
                        arg.replace(prompt, "{prompt}")
                    } else {
                        arg
                    }
                };
                let command: Vec<String> =
                    std::iter::once(call.program).chain(call.args.into_iter().map(shown)).collect();
                secret::mask_command_line(&command)
            }
            Err(_) => vec![request.agent.command.clone()],
        }
    }
}

impl AgentRunner {
    /// Returns the plugin's directory after repairing it: an earlier agent may have changed it. A
    /// plugin that cannot be repaired is not used, and a warning follows when the agent is done.
    fn repair_plugin(
        &self,
        request: &AgentRequest,
        on_event: &mut dyn FnMut(&AgentEvent),
    ) -> Option<PathBuf> {
        let plugin = self.plugin.as_ref().filter(|_| agents::can_call_hooks(&request.agent))?;
        match plugin.ensure_intact() {
            Ok(_) => Some(plugin.path().to_owned()),
            Err(error) => {
                let place = plugin.path().display();
                let text = format!("the plugin cannot be written to `{place}`: {error}");
                on_event(&AgentEvent::Notice { text });
                None
            }
        }
    }

    /// Returns the warning that hooks did not run, once per run.
    fn take_hooks_warning(
        &mut self,
        request: &AgentRequest,
        translator: &Translator,
    ) -> Option<String> {
        let is_given = self.plugin.is_some() && agents::can_call_hooks(&request.agent);
        let why = translator.missing_hooks().filter(|_| is_given && !self.has_warned_of_hooks)?;
        self.has_warned_of_hooks = true;
        let who = request.agent.display_name();
        Some(format!(
            "ralph's hooks did not run in {who}: {why}; ralph judges the work all the same"
        ))
    }

    /// Collects what the adapter needs for a call. Fails if a file of the user's cannot be used.
    fn build_context(&self, request: &AgentRequest) -> Result<CallContext, Failure> {
        let agent = &request.agent;
        let unusable = |what: &str, file: &Path, why: &dyn Display| {
            let text = format!("cannot use {what} `{}`: {why}", file.display());
            Failure::new(FailureClass::BadCall, text)
        };
        let mcp_config = match agent.capabilities.mcp {
            McpServers::None => None,
            McpServers::Added | McpServers::Only => {
                agent.mcp_config.as_ref().map(|file| self.project.join(file))
            }
        };
        let mcp_servers = match &mcp_config {
            Some(file) => {
                let what = "the MCP servers of";
                let text =
                    self.read_settings_file(file).map_err(|why| unusable(what, file, &why))?;
                agents::parse_mcp_servers(&text).map_err(|why| unusable(what, file, &why))?
            }
            None => Vec::new(),
        };
        let system_prompt = match (&agent.system_prompt, agent.capabilities.system_prompt) {
            (Some(file), Support::Yes) => {
                let file = self.project.join(file);
                let text = self
                    .read_settings_file(&file)
                    .map_err(|why| unusable("the system prompt", &file, &why))?;
                Some(SystemPrompt { file, text })
            }
            // It is part of the prompt instead.
            (Some(_), Support::No) | (None, _) => None,
        };
        Ok(CallContext {
            prompt_file: self.files.prompt_path(request.iteration, request.ask),
            self_exe: self.self_exe.clone(),
            privilege: if rustix::process::geteuid().is_root() {
                Privilege::Root
            } else {
                Privilege::User
            },
            mcp_config,
            mcp_servers,
            system_prompt,
            schema_file: self.files.schema_path(request.iteration, request.ask),
            answer_file: self.files.answer_path(request.iteration, request.ask),
            plugin: self.plugin.as_ref().map(|plugin| plugin.path().to_owned()),
            active_file: self.find_variable(ACTIVE_VARIABLE).map(PathBuf::from),
            outer_sandbox: self.outer_sandbox,
        })
    }

    fn find_variable(&self, name: &str) -> Option<&OsString> {
        self.env.iter().find_map(|(known, value)| (known == name).then_some(value))
    }

    /// Reads a file named in the settings. An earlier agent may have replaced it by anything.
    fn read_settings_file(&self, file: &Path) -> io::Result<String> {
        let bytes = bounded_read::read_within(&self.project, file, LARGEST_FILE)?;
        String::from_utf8(bytes).map_err(|_| io::Error::other("it is not valid UTF-8"))
    }

    fn build_spawn(
        &self,
        request: &AgentRequest,
        call: AgentCall,
        sandboxed: Option<&SandboxedCall>,
    ) -> Spawn {
        let env = sandboxed.map_or_else(|| self.env.clone(), |sandboxed| sandboxed.env.clone());
        let deny = [request.agent.env_deny.as_slice(), call.env_remove.as_slice()].concat();
        Spawn {
            program: call.program.into(),
            args: call.args.into_iter().map(OsString::from).collect(),
            cwd: self.project.clone(),
            env: environment::adjust_variables(&env, &deny, &call.env),
            stdin: match agents::find_adapter(request.agent.kind).stdin_mode {
                StdinMode::Dialog => StdinSource::Open(call.stdin),
                StdinMode::OneWay if call.stdin.is_empty() => StdinSource::Null,
                StdinMode::OneWay => StdinSource::Bytes(call.stdin),
            },
            limits: ProcessLimits {
                soft: Some(request.soft_limit.into()),
                hard: Some(request.hard_limit.into()),
                idle: match call.idle {
                    IdleWatch::Watch => Some(request.idle_limit.into()),
                    IdleWatch::Off => None,
                },
                linger: Some(LINGER.into()),
                output: self.confined.as_ref().map(|confined| confined.output),
                space: self.confined.as_ref().map(|confined| confined.space.clone()),
                ..ProcessLimits::default()
            },
        }
    }
}

/// Returns a warning about a disk that the agent has filled: trying again does not help.
fn describe_disk_limit(ending: &Ending) -> Option<&'static str> {
    match ending {
        Ending::TimedOut { limit: Limit::Growth, .. } => Some(
            "the agent wrote more to the disk than `sandbox.limits.growth` allows and was ended; \
             what it wrote is still there",
        ),
        Ending::TimedOut { limit: Limit::Disk, .. } => {
            Some("the disk was nearly full, so the agent was ended; make room for it")
        }
        Ending::TimedOut { limit: Limit::Hard | Limit::Idle | Limit::Output, .. }
        | Ending::Exited { .. }
        | Ending::Signalled { .. }
        | Ending::Lingered { .. }
        | Ending::Interrupted { .. }
        | Ending::NotStarted { .. } => None,
    }
}

/// Writes a trace of a call, readable by its owner only. It must survive a crash of ralph, not of
/// the machine, so it is not synced.
fn write_trace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(content)
}

/// Returns the end of a call that was refused before a process was started.
fn build_refused_end(request: &AgentRequest, failure: &Failure) -> ChildEnd {
    let (program, error) = (request.agent.command.clone(), failure.message.clone());
    ChildEnd::from_ending(Ending::NotStarted { reason: NotStarted::Refused { program, error } })
}

/// Returns the end of an agent that had printed its final result when ralph died.
fn build_killed_end() -> ChildEnd {
    ChildEnd::from_ending(Ending::Lingered { force: Force::Killed })
}
