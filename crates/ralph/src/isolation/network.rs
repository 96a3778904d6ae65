//! The network of a sandbox: the hosts that its agents may reach, and the proxy to them.

use std::ffi::OsString;

use ralph_agents as agents;
use ralph_core::sandbox::allowlist::{NetworkAllowlist, NetworkSettingError};
use ralph_core::sandbox::hosts::format_url_pattern;
use ralph_io::agent_state;
use ralph_io::environment::{self, SandboxChild};
use ralph_io::sandbox::ProxyEndpoint;
use ralph_io::sandbox::proxy::{Handover, Proxy};
use ralph_model::agent::AgentKind;
use ralph_model::outcome::ExitStatus;
use ralph_model::sandbox::{NetworkMode, NetworkPolicy, SandboxPolicy};

use super::{NetworkProxy, SandboxContext};
use crate::cli_error::CliError;

/// Returns the hosts that agents of these kinds may reach.
pub(super) fn build_reachable_hosts(
    site: &SandboxContext<'_>,
    policy: &SandboxPolicy,
    kinds: &[AgentKind],
) -> Result<NetworkAllowlist, CliError> {
    let mut own: Vec<String> =
        kinds.iter().flat_map(|kind| find_user_endpoints(*kind, site.env)).collect();
    own.extend(policy.network.packages.iter().flatten().cloned());
    let hosts =
        kinds.iter().flat_map(|kind| agents::find_adapter(*kind).model_hosts.iter().copied());
    let hosts: Vec<&str> = hosts.collect();
    let reach = NetworkAllowlist::from_policy(&policy.network, &hosts)
        .map_err(|misread| to_host_error(&misread))?;
    Ok(reach.with_user_endpoints(&own))
}

/// Returns the hosts that gates may reach, if the settings name some for gates alone.
pub(super) fn build_gate_hosts(
    policy: &SandboxPolicy,
    agents: &NetworkAllowlist,
) -> Result<Option<NetworkAllowlist>, CliError> {
    if policy.gates.allow.is_empty() {
        return Ok(None);
    }
    let network = NetworkPolicy { allow: policy.gates.allow.clone(), ..policy.network.clone() };
    let own =
        NetworkAllowlist::from_policy(&network, &[]).map_err(|misread| to_host_error(&misread))?;
    Ok(match policy.gates.network {
        NetworkMode::None => Some(own),
        NetworkMode::Proxy => Some(agents.clone().with_hosts_of(own)),
        NetworkMode::Host => None,
    })
}

/// Starts the proxy of agents, and of gates that have no hosts of their own, if the network goes
/// through it.
pub(super) fn start_proxy(
    site: &SandboxContext<'_>,
    policy: &SandboxPolicy,
    reach: &NetworkAllowlist,
) -> Result<Option<(ProxyEndpoint, NetworkProxy)>, CliError> {
    let modes = [policy.network.mode, policy.gates.network];
    if !modes.contains(&NetworkMode::Proxy) {
        return Ok(None);
    }
    start_proxy_at(site, "proxy.sock", reach).map(Some)
}

/// Starts a proxy to these hosts.
pub(super) fn start_proxy_at(
    site: &SandboxContext<'_>,
    socket: &str,
    reach: &NetworkAllowlist,
) -> Result<(ProxyEndpoint, NetworkProxy), CliError> {
    let proxy = Proxy::new(reach.clone());
    let cannot = |error: std::io::Error| {
        let message = format!("the sandbox's proxy cannot be started: {error}");
        CliError::new(ExitStatus::Incomplete, message)
    };
    let handover = Handover::open(&proxy, &site.run.join(socket)).map_err(cannot)?;
    let (service, port) = proxy.listen_on_loopback().map_err(cannot)?;
    let door =
        ProxyEndpoint { handover: handover.path().to_owned(), forwards: proxy.forwards(), port };
    Ok((door, NetworkProxy { proxy, _handover: handover, _service: service }))
}

fn to_host_error(misread: &[NetworkSettingError]) -> CliError {
    let lines: Vec<String> =
        misread.iter().map(|it| format!("`{}`: {}", it.place, it.what)).collect();
    CliError::for_input(lines.join("; "))
}

/// Returns the hosts that the user's environment and configuration set in place of the vendor's.
fn find_user_endpoints(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<String> {
    let own = environment::filter_inherited(env, SandboxChild::Agent(kind), &[]);
    let common = environment::filter_inherited(env, SandboxChild::Agent(AgentKind::Sim), &[]);
    let variables = own.iter().filter(|variable| !common.contains(variable));
    let variables = variables.filter_map(|(_, value)| format_url_pattern(value.to_str()?));
    let configured = agent_state::configuration::find_addresses(kind, env);
    variables.chain(configured.iter().filter_map(|it| format_url_pattern(it))).collect()
}
