//! One call of an agent in a sandbox: preparing it, starting it, and cleaning up after it.
//!
//! Not here: the sandbox itself, and calls without one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_core::child::{ChildEnd, Ending, NotStarted};
use ralph_core::failure::{Failure, FailureClass};
use ralph_core::ports::Request;
use ralph_core::recipe::Origin;
use ralph_core::report::REFUSED_CONNECTION;
use ralph_core::sandbox::blocked::blocked;
use ralph_core::sandbox::hosts::pattern_for_url;

use crate::agent_state::{self, Prepared};
use crate::environment::{self, Child, Variables};
use crate::process::{Space, Spawn};
use crate::sandbox::proxy::Proxy;
use crate::sandbox::{Handed, Launcher, not_started};
use crate::sim;
use ralph_agents::{self as agents, CallContext};

/// The sandbox settings for all agents of a run.
#[derive(Debug, Clone)]
pub struct Confined {
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
    pub space: Space,
}

/// One call that is prepared to run in the sandbox.
#[derive(Debug)]
pub(crate) struct Room {
    confined: Confined,
    /// The environment that the agent inherits.
    pub(crate) env: Variables,
    handed: Handed,
    prepared: Prepared,
    program: String,
}

impl Confined {
    /// Prepares a call. Fails because of the user's machine, before anything has been started.
    pub(crate) fn prepare(
        &self,
        request: &Request,
        context: &CallContext,
        env: &[(OsString, OsString)],
    ) -> Result<Room, Failure> {
        let kind = agents::program_kind(&request.agent);
        let prepared = agent_state::prepare(kind, env, &self.state).map_err(|error| {
            let text = format!("{error}: {}", error.source);
            Failure::new(FailureClass::BadCall, text)
        })?;
        let mut names = self.names.clone();
        names.extend(agent_state::configuration::variables(kind, env));
        let mut inherited = environment::allowed(env, Child::Agent(kind), &names);
        inherited
            .retain(|(name, _)| !prepared.variables.iter().any(|(own, _)| name == own.as_str()));
        inherited
            .extend(prepared.variables.iter().map(|(name, value)| (name.into(), value.clone())));
        let mut handed = handed(request, context, &prepared.directory);
        handed.readable.extend(prepared.readable.clone());
        Ok(Room {
            confined: self.clone(),
            env: inherited,
            handed,
            prepared,
            program: request.agent.command.clone(),
        })
    }
}

/// Returns the files that a call refers to.
fn handed(request: &Request, context: &CallContext, own: &Path) -> Handed {
    let mut readable = vec![context.prompt_file.clone(), context.schema_file.clone()];
    readable.extend(context.mcp_config.clone());
    readable.extend(context.system_prompt.as_ref().map(|prompt| prompt.file.clone()));
    readable.extend(context.plugin.clone());
    let mut writable = vec![own.to_owned()];
    match request.agent.kind.origin() {
        // The script of the simulated agent, and the file with its position in that script.
        Origin::BuiltIn => {
            readable.push(request.agent.command.clone().into());
            writable.push(sim::state_beside(Path::new(&request.agent.command)));
        }
        Origin::Product | Origin::Command => {}
    }
    writable.extend(agents::answer_file(request, context).map(Path::to_owned));
    Handed { readable, writable }
}

impl Room {
    /// Returns how to start the agent in the sandbox.
    pub(crate) fn launch(&self, spawn: Spawn) -> Result<Spawn, NotStarted> {
        self.confined.launcher.launch_with(spawn, &self.handed)
    }

    /// Maps a failure of the sandbox itself to `NotStarted`, since it is not the agent's.
    /// Afterwards the files that the agent wrote can be read.
    pub(crate) fn seen(&self, end: ChildEnd, stderr: &str) -> ChildEnd {
        self.confined.launcher.fetch();
        match not_started(&self.program, &end.ending, stderr) {
            Some(reason) => ChildEnd { ending: Ending::NotStarted { reason }, ..end },
            None => end,
        }
    }

    /// Cleans up after a call and returns warnings for the user. Replaces a failure that the
    /// sandbox caused. `set` and `args` are the variables and arguments of the call.
    pub(crate) fn leave(
        self,
        failure: Option<&mut Failure>,
        set: &BTreeMap<String, String>,
        args: &[String],
    ) -> Vec<String> {
        let removed = self.confined.launcher.clear();
        let refused = self.confined.proxy.as_ref().map(Proxy::refusals).unwrap_or_default();
        if let (Some(failure), Some(proxy)) = (failure, &self.confined.proxy) {
            let inherited = self.env.iter().filter_map(|(_, value)| value.to_str());
            let is_proxy = |name: &str| name.to_ascii_lowercase().ends_with("proxy");
            let set = set.iter().filter(|(name, _)| !is_proxy(name));
            let values = set.map(|(_, value)| value.as_str()).chain(inherited);
            let urls = args.iter().filter_map(|it| it.get(it.find("http")?..));
            let values = values.chain(urls);
            let endpoints: Vec<String> = values.filter_map(pattern_for_url).collect();
            if let Some(blocked) = blocked(failure, &refused, &endpoints, &proxy.forwards()) {
                *failure = blocked;
            }
        }
        let refused = refused.into_iter().map(|refusal| {
            let remedy = refusal.reason.remedy(&refusal.host, refusal.port);
            let remedy = remedy.map(|remedy| format!("; to allow it, {remedy}"));
            format!("{REFUSED_CONNECTION}{refusal}{}", remedy.unwrap_or_default())
        });
        let notices = self.prepared.return_credentials();
        let removed = removed.iter().map(ToString::to_string);
        removed.chain(refused).chain(notices.iter().map(ToString::to_string)).collect()
    }
}
