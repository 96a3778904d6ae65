//! One call of an agent in a sandbox: preparing it, starting it, and cleaning up after it.
//!
//! Not here: the sandbox itself, and calls without one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_agents::{self as agents, CallContext};
use ralph_core::ports::AgentRequest;
use ralph_core::reporting::report::REFUSED_CONNECTION;
use ralph_core::sandbox::blocked_call::find_blocked_failure;
use ralph_core::sandbox::gate_signs::{self, GateSandbox, OutsideView};
use ralph_core::sandbox::hosts::format_url_pattern;
use ralph_core::sandbox::model_hosts::is_telemetry_host;
use ralph_model::agent::AgentOrigin;
use ralph_model::child::{ChildEnd, Ending, NotStarted};
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::sandbox::NetworkMode;

use crate::agent_state::{self, PreparedAgentState};
use crate::environment::{self, SandboxChild, Variables};
use crate::process::{DiskLimit, Spawn};
use crate::sandbox::proxy::Proxy;
use crate::sandbox::{HandedFiles, Launcher, find_setup_failure};
use crate::sim;

/// The sandbox settings for all agents of a run.
#[derive(Debug, Clone)]
pub struct AgentSandbox {
    pub launcher: Launcher,
    /// Further environment variables that agents inherit.
    pub names: Vec<String>,
    /// The state directory of the project, with one directory for each kind of agent.
    pub state: PathBuf,
    /// The proxy for network access, if there is one.
    pub proxy: Option<Proxy>,
    /// How many bytes an agent may print in a call.
    pub output: u64,
    /// How much disk space an agent may use in a call.
    pub space: DiskLimit,
}

/// One call that is prepared to run in the sandbox.
#[derive(Debug)]
pub(crate) struct SandboxedCall {
    confined: AgentSandbox,
    /// The environment that the agent inherits.
    pub(crate) env: Variables,
    handed: HandedFiles,
    prepared: PreparedAgentState,
    program: String,
}

impl AgentSandbox {
    /// Prepares a call. Fails because of the user's machine, before anything has been started.
    pub(crate) fn prepare_call(
        &self,
        request: &AgentRequest,
        context: &CallContext,
        env: &[(OsString, OsString)],
    ) -> Result<SandboxedCall, Failure> {
        let kind = agents::detect_program_kind(&request.agent);
        let prepared =
            agent_state::prepare_agent_state(kind, env, &self.state).map_err(|error| {
                let text = format!("{error}: {}", error.source);
                Failure::new(FailureClass::BadCall, text)
            })?;
        let mut names = self.names.clone();
        names.extend(agent_state::configuration::find_key_variables(kind, env));
        let mut inherited = environment::filter_inherited(env, SandboxChild::Agent(kind), &names);
        inherited
            .retain(|(name, _)| !prepared.variables.iter().any(|(own, _)| name == own.as_str()));
        inherited
            .extend(prepared.variables.iter().map(|(name, value)| (name.into(), value.clone())));
        let mut handed = list_call_files(request, context, &prepared.directory);
        handed.readable.extend(prepared.readable.clone());
        Ok(SandboxedCall {
            confined: self.clone(),
            env: inherited,
            handed,
            prepared,
            program: request.agent.command.clone(),
        })
    }
}

/// Returns the files that a call refers to.
fn list_call_files(request: &AgentRequest, context: &CallContext, own: &Path) -> HandedFiles {
    let mut readable = vec![context.prompt_file.clone(), context.schema_file.clone()];
    readable.extend(context.mcp_config.clone());
    readable.extend(context.system_prompt.as_ref().map(|prompt| prompt.file.clone()));
    readable.extend(context.plugin.clone());
    let mut writable = vec![own.to_owned()];
    match request.agent.kind.origin() {
        // The script of the simulated agent, and the file in which it counts its calls.
        AgentOrigin::BuiltIn => {
            readable.push(request.agent.command.clone().into());
            writable.extend(sim::find_written_state_file(Path::new(&request.agent.command)));
        }
        AgentOrigin::Product | AgentOrigin::Command => {}
    }
    writable.extend(agents::select_answer_file(request, context).map(Path::to_owned));
    HandedFiles { readable, writable }
}

impl SandboxedCall {
    /// Returns how to start the agent in the sandbox.
    pub(crate) fn launch(&self, spawn: Spawn) -> Result<Spawn, NotStarted> {
        self.confined.launcher.wrap_spawn_with_files(spawn, &self.handed)
    }

    /// Maps a failure of the sandbox itself to `NotStarted`, since it is not the agent's.
    /// Afterwards the files that the agent wrote can be read.
    pub(crate) fn classify_end(&self, end: ChildEnd, stderr: &str) -> ChildEnd {
        self.confined.launcher.copy_back();
        match find_setup_failure(&self.program, &end.ending, stderr) {
            Some(reason) => ChildEnd { ending: Ending::NotStarted { reason }, ..end },
            None => end,
        }
    }

    /// Returns the failure of an agent that crashed because the sandbox hides or protects a file.
    fn find_hidden_cause(&self, failure: &Failure) -> Option<Failure> {
        if failure.class != FailureClass::Crashed {
            return None;
        }
        let outside = OutsideView {
            exists: &|path| Path::new(path).symlink_metadata().is_ok(),
            is_listening: &|_| false,
            refusals: &[],
        };
        // The network is judged by what the proxy refused.
        let view = self.confined.launcher.gate_view()?;
        let view = GateSandbox { network: NetworkMode::Host, ..view };
        let sign = gate_signs::find_sign(&failure.message, &[], &view, &outside)?;
        let message = format!("{}: {}", sign.reason, failure.message);
        let remedies: Vec<String> = sign.list_remedies().collect();
        Some(Failure::new(FailureClass::Blocked, message).with_hint(remedies.join("; or ")))
    }

    /// Cleans up after a call and returns warnings for the user. Replaces a failure that the
    /// sandbox caused. `set` and `args` are the variables and arguments of the call.
    pub(crate) fn clean_up(
        self,
        mut failure: Option<&mut Failure>,
        set: &BTreeMap<String, String>,
        args: &[String],
    ) -> Vec<String> {
        let removed = self.confined.launcher.clean_up();
        let refused = self.confined.proxy.as_ref().map(Proxy::take_refusals).unwrap_or_default();
        if let Some(failure) = &mut failure
            && let Some(hidden) = self.find_hidden_cause(failure)
        {
            **failure = hidden;
        }
        if let (Some(failure), Some(proxy)) = (failure, &self.confined.proxy) {
            let inherited = self.env.iter().filter_map(|(_, value)| value.to_str());
            let is_proxy = |name: &str| name.to_ascii_lowercase().ends_with("proxy");
            let set = set.iter().filter(|(name, _)| !is_proxy(name));
            let values = set.map(|(_, value)| value.as_str()).chain(inherited);
            let urls = args.iter().filter_map(|it| it.get(it.find("http")?..));
            let values = values.chain(urls);
            let endpoints: Vec<String> = values.filter_map(format_url_pattern).collect();
            if let Some(blocked) =
                find_blocked_failure(failure, &refused, &endpoints, &proxy.forwards())
            {
                *failure = blocked;
            }
        }
        let worth_saying = refused.into_iter().filter(|it| !is_telemetry_host(&it.host));
        let refused = worth_saying.map(|refusal| {
            let remedy = refusal.reason.remedy(&refusal.host, refusal.port);
            let remedy = remedy.map(|remedy| format!("; to allow it, {remedy}"));
            format!("{REFUSED_CONNECTION}{refusal}{}", remedy.unwrap_or_default())
        });
        let notices = self.prepared.return_credentials();
        let removed = removed.iter().map(ToString::to_string);
        removed.chain(refused).chain(notices.iter().map(ToString::to_string)).collect()
    }
}
