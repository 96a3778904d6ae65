//! From an allowed name to a connection: resolves it once, checks each address, and connects only
//! to those that passed.
//!
//! Not here: the checks themselves, which are in the core.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ralph_core::sandbox::allowlist::{AddressCheck, AddressOwner, NetworkAllowlist, RefusalReason};
use ralph_core::sandbox::hosts::Host;

/// How a name is resolved to addresses.
pub type Resolve = Arc<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// Returns the system's resolver.
pub fn create_system_resolver() -> Resolve {
    Arc::new(|name| {
        // The port is irrelevant; the type requires one.
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    })
}

/// How many addresses are tried. A name with more has them for load balancing, not for failover.
const MOST_ADDRESSES: usize = 6;

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum DialError {
    Refused(RefusalReason),
    Failed(String),
}

/// Connects to a host, if the rules allow it.
pub(super) fn dial_host(
    reach: &NetworkAllowlist,
    resolve: &Resolve,
    host: &Host,
    port: u16,
    longest: Duration,
) -> Result<TcpStream, DialError> {
    let passage = reach.judge_name(host, port).map_err(DialError::Refused)?;
    let addresses = match (passage, host) {
        (AddressCheck::ThisMachine, _) => list_loopback_addresses(),
        (AddressCheck::Public | AddressCheck::UserEndpoint, Host::Address(address)) => {
            vec![*address]
        }
        (AddressCheck::Public | AddressCheck::UserEndpoint, Host::Name(name)) => {
            resolve(name).map_err(|error| DialError::Failed(error.to_string()))?
        }
    };
    // The checked addresses are the ones that are dialed: a name that resolves differently a second
    // time gains nothing.
    let mut passed = Vec::new();
    let mut refused = None;
    for address in addresses {
        match reach.judge_address(passage, address, find_ownership(address)) {
            Ok(()) => passed.push(address),
            Err(reason) => refused = refused.or(Some(reason)),
        }
    }
    match (passed.is_empty(), refused) {
        (true, Some(reason)) => Err(DialError::Refused(reason)),
        (true, None) => Err(DialError::Failed("the name has no address".to_owned())),
        (false, _) => connect_to_any(&passed, port, longest),
    }
}

/// Connects to a port of this machine.
pub(super) fn dial_loopback(port: u16, longest: Duration) -> Result<TcpStream, DialError> {
    connect_to_any(&list_loopback_addresses(), port, longest)
}

fn list_loopback_addresses() -> Vec<IpAddr> {
    vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
}

fn connect_to_any(
    addresses: &[IpAddr],
    port: u16,
    longest: Duration,
) -> Result<TcpStream, DialError> {
    let deadline = Instant::now() + longest;
    let mut why = "timed out".to_owned();
    let tried = addresses.iter().take(MOST_ADDRESSES);
    for (at, address) in tried.clone().enumerate() {
        // Each address gets its share of the remaining time, and the last all of it.
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(tried.len() - at).unwrap_or(1);
        if share.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&SocketAddr::new(*address, port), share) {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                // Detects a peer that vanished although a tunnel may be idle for long.
                let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
                return Ok(stream);
            }
            Err(error) => why = error.to_string(),
        }
    }
    Err(DialError::Failed(why))
}

/// Finds out whether an address belongs to this machine.
///
/// Connecting a datagram socket sends nothing, but makes the system pick a sender address; for an
/// address of its own it picks that one. Reading the list of interfaces would miss some kinds of
/// interfaces, and differs from system to system.
fn find_ownership(address: IpAddr) -> AddressOwner {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let picked = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    match picked {
        Ok(picked) if picked.ip() == address => AddressOwner::ThisMachine,
        // Without a route to it there will be no connection either.
        Ok(_) | Err(_) => AddressOwner::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_known_as_such() {
        for (address, expect) in
            [("127.0.0.1", AddressOwner::ThisMachine), ("8.8.8.8", AddressOwner::Other)]
        {
            assert_eq!(find_ownership(address.parse().expect(address)), expect, "{address}");
        }
        // Where this machine has another address, that is one of its own too.
        let probe = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
        if probe.connect((Ipv4Addr::new(8, 8, 8, 8), 9)).is_ok() {
            assert_eq!(
                find_ownership(probe.local_addr().expect("an address").ip()),
                AddressOwner::ThisMachine
            );
        }
    }
}
