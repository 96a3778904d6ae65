//! Patterns of allowed host names: parsed from the settings and matched against requests.
//!
//! Which addresses a name may resolve to is checked in `addresses`.

use core::net::{IpAddr, Ipv6Addr};
use std::fmt;

use serde::{Deserialize, Serialize};

/// The port of a pattern that has none: HTTPS.
pub const DEFAULT_PORT: u16 = 443;

/// The longest name in DNS.
const LONGEST_NAME: usize = 253;

/// The longest part between two dots.
const LONGEST_LABEL: usize = 63;

/// A requested host, normalized: lower case, no dot at the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// Parses a host: a name, an IPv4 address, or an IPv6 address with or without brackets.
    ///
    /// International names must be in their ASCII form. A name that old resolvers would read as an
    /// address (`127.1`, `0x7f000001`, `017700000001`) is an error: it would be checked as a name
    /// and used as an address.
    pub fn parse_host(text: &str) -> Result<Self, HostProblem> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(HostProblem::OpenBracket)?;
            let address: Ipv6Addr = inner.parse().map_err(|_| HostProblem::NotAnAddress)?;
            return Ok(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if let Ok(address) = name.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        check_name(&name)?;
        Ok(Self::Name(name))
    }

    /// Returns whether it is this machine by its usual name or address.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost",
            Self::Address(address) => address.is_loopback(),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

fn check_name(name: &str) -> Result<(), HostProblem> {
    if name.is_empty() {
        return Err(HostProblem::Empty);
    }
    if name.len() > LONGEST_NAME {
        return Err(HostProblem::TooLong);
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Err(HostProblem::EmptyLabel);
        }
        if label.len() > LONGEST_LABEL {
            return Err(HostProblem::TooLong);
        }
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if !label.bytes().all(is_known) {
            return Err(HostProblem::Character);
        }
    }
    let last = name.rsplit('.').next().unwrap_or(name);
    let hexadecimal =
        last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|it| it.is_ascii_hexdigit()));
    if hexadecimal || last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(HostProblem::NotAnAddress);
    }
    Ok(())
}

/// What is wrong with a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostProblem {
    #[error("there is no host in it")]
    Empty,
    /// Two dots in a row, or a dot in front.
    #[error("a part of the name is empty")]
    EmptyLabel,
    #[error("the name is too long")]
    TooLong,
    #[error("names have letters, digits, `-`, `_` and `.` (international ones in their xn-- form)")]
    Character,
    /// `[` without `]`.
    #[error("`[` without `]`")]
    OpenBracket,
    #[error("it looks like an address, but is not one")]
    NotAnAddress,
}

/// One entry of `sandbox.network.allow` or `deny`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    hosts: HostMatch,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostMatch {
    Exact(Host),
    /// Every name below this one, but not the name itself.
    Below(String),
}

impl HostPattern {
    /// Parses `host`, `*.host`, `host:port`, `*.host:port`, or an address in place of the host; an
    /// IPv6 address with a port is in brackets.
    pub fn parse_pattern(text: &str) -> Result<Self, PatternError> {
        let error = |what| PatternError { pattern: text.to_owned(), what };
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(error(PatternProblem::Url { scheme: scheme.to_owned() }));
        }
        let (host, port) = split_port(text).map_err(&error)?;
        if host.contains('/') {
            return Err(error(PatternProblem::Path));
        }
        let hosts = match host.strip_prefix("*.") {
            Some(below) => match Host::parse_host(below) {
                Ok(Host::Name(name)) if name.contains('.') => HostMatch::Below(name),
                Ok(Host::Name(_)) => return Err(error(PatternProblem::Everything)),
                Ok(Host::Address(_)) => return Err(error(PatternProblem::Star)),
                Err(_) if below.contains('*') => return Err(error(PatternProblem::Star)),
                Err(what) => return Err(error(PatternProblem::Host(what))),
            },
            None if host == "*" => return Err(error(PatternProblem::Everything)),
            None if host.contains('*') => return Err(error(PatternProblem::Star)),
            None => match Host::parse_host(host) {
                Ok(host) => HostMatch::Exact(host),
                Err(what) => return Err(error(PatternProblem::Host(what))),
            },
        };
        Ok(Self { hosts, port })
    }

    /// Returns whether it matches a host, whatever the port.
    pub fn matches_host(&self, host: &Host) -> bool {
        match (&self.hosts, host) {
            (HostMatch::Exact(this), host) => this == host,
            (HostMatch::Below(above), Host::Name(name)) => {
                name.strip_suffix(above.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            (HostMatch::Below(_), Host::Address(_)) => false,
        }
    }

    /// Returns whether it allows this host and port. Without a port it only means [`DEFAULT_PORT`].
    pub fn allows_host(&self, host: &Host, port: u16) -> bool {
        self.matches_host(host) && self.port.unwrap_or(DEFAULT_PORT) == port
    }

    /// Returns whether it denies this host and port. Without a port it means all ports.
    pub fn denies_host(&self, host: &Host, port: u16) -> bool {
        self.matches_host(host) && self.port.is_none_or(|own| own == port)
    }

    /// Returns the port, if the pattern names this machine.
    pub(crate) fn loopback_port(&self) -> Option<u16> {
        match &self.hosts {
            HostMatch::Exact(host) if host.is_loopback() => self.port,
            HostMatch::Exact(_) | HostMatch::Below(_) => None,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            HostMatch::Exact(host) => write!(f, "{host}")?,
            HostMatch::Below(name) => write!(f, "*.{name}")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// Splits the port off the end of a host.
fn split_port(text: &str) -> Result<(&str, Option<u16>), PatternProblem> {
    let is_bare_address = text.parse::<Ipv6Addr>().is_ok();
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !is_bare_address && !port.ends_with(']') => (host, port),
        Some(_) | None => return Ok((text, None)),
    };
    match port.parse::<u16>() {
        Ok(number) if number > 0 && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok((host, Some(number)))
        }
        Ok(_) | Err(_) => Err(PatternProblem::Port { port: port.to_owned() }),
    }
}

/// Parses the `host:port` of a request.
///
/// The port is required: all known clients send it.
pub fn parse_authority(text: &str) -> Option<(Host, u16)> {
    let (host, port) = split_port(text).ok()?;
    Some((Host::parse_host(host).ok()?, port?))
}

/// Returns the pattern for the host and port of a URL.
pub fn format_url_pattern(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let default = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Some(if has_port { host.to_owned() } else { format!("{host}:{default}") })
}

/// A pattern that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}`: {what}")]
pub struct PatternError {
    pub pattern: String,
    pub what: PatternProblem,
}

/// What is wrong with a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternProblem {
    /// It would match every host, or every host of a top-level domain.
    #[error("it would allow every host; `sandbox.network.mode` \"host\" switches the proxy off")]
    Everything,
    /// `*` at another position than the front.
    #[error("`*` is only allowed in front, as in `*.example.com`")]
    Star,
    /// A URL instead of a host.
    #[error("write the host alone, without `{scheme}://`")]
    Url { scheme: String },
    #[error("write the host alone; paths are not visible in encrypted connections")]
    Path,
    #[error("`{port}` is not a port between 1 and 65535")]
    Port { port: String },
    #[error("{0}")]
    Host(HostProblem),
}

#[cfg(test)]
mod tests;
