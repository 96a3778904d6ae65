//! The network allowlist of a child process: checks a request by its name, then by its address.
//! Connections are handled elsewhere.

use core::net::IpAddr;
use std::fmt;

use ralph_model::sandbox::NetworkPolicy;
use serde::{Deserialize, Serialize};

use super::addresses::{
    AddressClass, AddressRange, RangeError, classify_address, resolve_embedded,
};
use super::hosts::{DEFAULT_PORT, Host, HostPattern, PatternError};

/// What a child process may reach over the network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkAllowlist {
    allow: Vec<HostPattern>,
    deny: Vec<HostPattern>,
    private: Vec<AddressRange>,
    /// Hosts that the user's own environment and agent configuration name.
    own: Vec<HostPattern>,
}

/// How the addresses of an allowed name are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressCheck {
    /// They must be public, or in a range of `allowPrivate`.
    Public,
    /// The user's own configuration names the host: its addresses may be private.
    UserEndpoint,
    /// The host is this machine, and the user allowed the port.
    ThisMachine,
}

/// Why a connection is refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RefusalReason {
    NotListed,
    /// A pattern matches the host, but none with this port.
    Port,
    /// `deny` names it.
    Denied {
        pattern: String,
    },
    /// The name resolves to an address that is not public.
    Nearby {
        address: IpAddr,
        what: AddressClass,
    },
    /// The request has no valid host.
    Malformed,
}

impl RefusalReason {
    /// Returns the stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotListed => "host-not-allowed",
            Self::Port => "port-not-allowed",
            Self::Denied { .. } => "host-denied",
            Self::Nearby { .. } => "address-not-allowed",
            Self::Malformed => "malformed-host",
        }
    }

    /// Returns the setting that would allow the connection; `None` if there is no such setting.
    pub fn remedy(&self, host: &str, port: u16) -> Option<String> {
        match self {
            Self::NotListed | Self::Port if port == DEFAULT_PORT => {
                Some(format!("add \"{host}\" to `sandbox.network.allow`"))
            }
            Self::NotListed | Self::Port => {
                Some(format!("add \"{host}:{port}\" to `sandbox.network.allow`"))
            }
            Self::Denied { pattern } => {
                Some(format!("take \"{pattern}\" out of `sandbox.network.deny`"))
            }
            Self::Nearby { what: AddressClass::Loopback, .. } => Some(format!(
                "add \"localhost:{port}\" to `sandbox.network.allow`, and connect to that"
            )),
            Self::Nearby { address, .. } => {
                Some(format!("add \"{address}\" to `sandbox.network.allowPrivate`"))
            }
            Self::Malformed => None,
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotListed => f.write_str("it is not on the list of allowed hosts"),
            Self::Port => f.write_str("the host is allowed, but not this port"),
            Self::Denied { pattern } => write!(f, "`{pattern}` is on the list of denied hosts"),
            Self::Nearby { address, what } => write!(f, "it resolves to {address}, {what}"),
            Self::Malformed => f.write_str("the name cannot be read"),
        }
    }
}

/// A refused connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionRefusal {
    pub host: String,
    pub port: u16,
    pub reason: RefusalReason,
    pub times: u64,
}

impl fmt::Display for ConnectionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, reason, times } = self;
        write!(f, "{host}:{port} refused: {reason}")?;
        if *times > 1 { write!(f, " ({times} times)") } else { Ok(()) }
    }
}

/// An error in the network section of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSettingError {
    /// The key and the index in its list, such as `sandbox.network.allow[2]`.
    pub place: String,
    pub what: String,
}

impl NetworkAllowlist {
    /// Reads the settings and adds the hosts of the agent's model. Returns all errors, if there are
    /// any.
    pub fn from_policy(
        policy: &NetworkPolicy,
        model_hosts: &[&str],
    ) -> Result<Self, Vec<NetworkSettingError>> {
        let mut mistakes = Vec::new();
        let mut misread = |key: &str, at: usize, what: &dyn fmt::Display| {
            let place = format!("sandbox.network.{key}[{at}]");
            mistakes.push(NetworkSettingError { place, what: what.to_string() });
        };
        let mut patterns = |key: &str, texts: &[String]| -> Vec<HostPattern> {
            let read =
                texts.iter().enumerate().map(|(at, text)| (at, HostPattern::parse_pattern(text)));
            read.filter_map(|(at, pattern): (usize, Result<_, PatternError>)| {
                pattern.inspect_err(|error| misread(key, at, error)).ok()
            })
            .collect()
        };
        let mut allow = patterns("allow", &policy.allow);
        let deny = patterns("deny", &policy.deny);
        let mut private = Vec::new();
        for (at, text) in policy.allow_private.iter().enumerate() {
            let range: Result<AddressRange, RangeError> = AddressRange::parse_range(text);
            match range {
                Ok(range) => private.push(range),
                Err(error) => misread("allowPrivate", at, &error),
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        allow.extend(model_hosts.iter().filter_map(|host| HostPattern::parse_pattern(host).ok()));
        Ok(Self { allow, deny, private, own: Vec::new() })
    }

    /// Adds the hosts that the user's own environment and agent configuration name. They may be in
    /// the local network.
    #[must_use]
    pub fn with_user_endpoints(mut self, hosts: &[String]) -> Self {
        self.own = hosts.iter().filter_map(|host| HostPattern::parse_pattern(host).ok()).collect();
        self.allow.extend(self.own.iter().cloned());
        self
    }

    /// Adds what another list allows.
    #[must_use]
    pub fn with_hosts_of(mut self, other: Self) -> Self {
        self.allow.extend(other.allow);
        self
    }

    /// Checks a request by its host name.
    pub fn judge_name(&self, host: &Host, port: u16) -> Result<AddressCheck, RefusalReason> {
        if let Some(pattern) = self.deny.iter().find(|it| it.denies_host(host, port)) {
            return Err(RefusalReason::Denied { pattern: pattern.to_string() });
        }
        // Clients use either name of this machine, whichever the user wrote.
        if host.is_loopback() && self.find_loopback_ports().contains(&port) {
            return Ok(AddressCheck::ThisMachine);
        }
        if self.own.iter().any(|it| it.allows_host(host, port)) {
            return Ok(AddressCheck::UserEndpoint);
        }
        if self.allow.iter().any(|it| it.allows_host(host, port)) {
            return Ok(AddressCheck::Public);
        }
        let listed = self.allow.iter().any(|it| it.matches_host(host));
        Err(if listed { RefusalReason::Port } else { RefusalReason::NotListed })
    }

    /// Checks an address that a name resolved to; `own` says whether it is this machine's.
    pub fn judge_address(
        &self,
        passage: AddressCheck,
        address: IpAddr,
        own: AddressOwner,
    ) -> Result<(), RefusalReason> {
        let address = resolve_embedded(address);
        let what = match (classify_address(address), own) {
            (Some(what), _) => what,
            (None, AddressOwner::ThisMachine) => AddressClass::Own,
            (None, AddressOwner::Other) => return Ok(()),
        };
        let is_private_listed = self.private.iter().any(|range| range.contains_address(address));
        let is_allowed = match passage {
            AddressCheck::ThisMachine => what == AddressClass::Loopback,
            AddressCheck::UserEndpoint => {
                is_private_listed || matches!(what, AddressClass::Private | AddressClass::Own)
            }
            AddressCheck::Public => is_private_listed,
        };
        if is_allowed { Ok(()) } else { Err(RefusalReason::Nearby { address, what }) }
    }

    /// Returns the ports of this machine to forward to the loopback inside the sandbox: those
    /// allowed as `127.0.0.1:PORT`, `[::1]:PORT` or `localhost:PORT`.
    pub fn find_loopback_ports(&self) -> Vec<u16> {
        let ports = self.allow.iter().filter_map(HostPattern::loopback_port);
        let mut ports: Vec<u16> = ports
            .filter(|port| {
                let this = [Host::Name("localhost".into()), Host::Address([127, 0, 0, 1].into())];
                !self.deny.iter().any(|it| this.iter().any(|host| it.denies_host(host, *port)))
            })
            .collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Returns the patterns of allowed hosts as in the settings, without this machine's.
    pub fn list_allowed(&self) -> Vec<String> {
        let abroad = self.allow.iter().filter(|it| it.loopback_port().is_none());
        abroad.map(HostPattern::to_string).collect()
    }

    /// Returns the patterns of denied hosts as in the settings.
    pub fn list_denied(&self) -> Vec<String> {
        self.deny.iter().map(HostPattern::to_string).collect()
    }
}

/// Whether an address is one of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressOwner {
    ThisMachine,
    Other,
}

#[cfg(test)]
mod tests;
