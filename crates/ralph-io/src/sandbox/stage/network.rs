//! The network inside: a loopback of its own, and the listener that leads to the proxy.
//!
//! A socket belongs to the network namespace that it was created in, whichever process holds it. So
//! the listener is created here and passed to ralph, which accepts connections from inside and
//! serves them outside. No helper runs in the sandbox. Not here: what the proxy allows.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

use crate::sandbox::ProxyEndpoint;
use crate::sandbox::launch_error::LaunchError;
use crate::sandbox::proxy::{self, ListenerPurpose, PORT_INSIDE};

/// Enables the loopback of this network namespace.
pub(super) fn enable_loopback() -> Result<(), LaunchError> {
    send_link_up().map_err(LaunchError::for_operation("enable the loopback"))
}

fn send_link_up() -> io::Result<()> {
    const HEADER: usize = 16;
    const LENGTH: u32 = 32;
    const CHANGE_LINK: u16 = 16;
    const REQUEST_WITH_ANSWER: u16 = 1 | 4;
    const UP: u32 = 1;
    const LOOPBACK: i32 = 1;
    let mut request = Vec::with_capacity(LENGTH as usize);
    request.extend(LENGTH.to_ne_bytes());
    request.extend(CHANGE_LINK.to_ne_bytes());
    request.extend(REQUEST_WITH_ANSWER.to_ne_bytes());
    // Sequence number and port id matter only for several requests; family and type stay zero.
    request.extend([0; 8 + 4]);
    request.extend(LOOPBACK.to_ne_bytes());
    request.extend(UP.to_ne_bytes());
    request.extend(UP.to_ne_bytes());
    let link = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&link, &request, SendFlags::empty())?;
    let mut answer = [0; 256];
    let (count, _) = recv(&link, &mut answer, RecvFlags::empty())?;
    let code = answer[..count].get(HEADER..HEADER + 4).and_then(|code| code.try_into().ok());
    match code.map_or(-libc::EPROTO, i32::from_ne_bytes) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// The first port that any user may listen on.
const FIRST_FREE_PORT: u16 = 1024;

fn build_listener_error(port: u16, error: &io::Error) -> LaunchError {
    let way = if port < FIRST_FREE_PORT && error.kind() == io::ErrorKind::PermissionDenied {
        "; this backend cannot pass on ports below 1024 of this machine: `--sandbox=native` can, or \
         use another port in `sandbox.network.allow` or the agent's address"
    } else {
        ""
    };
    LaunchError::new(format!("cannot pass on port {port} of this machine: {error}{way}"))
}

/// Creates the listeners of an endpoint and passes them to the proxy, on the connection that was
/// opened before the sandbox was closed. The proxy serves them while a process in here holds that
/// connection.
pub(super) fn hand_over_listeners(
    proxy: &UnixStream,
    endpoint: &ProxyEndpoint,
) -> Result<(), LaunchError> {
    let forwards = endpoint.forwards.iter().map(|port| (*port, ListenerPurpose::Forward(*port)));
    for (port, purpose) in std::iter::once((PORT_INSIDE, ListenerPurpose::Proxy)).chain(forwards) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|error| build_listener_error(port, &error))?;
        proxy::hand_over_listener(proxy, purpose, &listener)
            .map_err(LaunchError::for_operation("pass a listener to the proxy"))?;
    }
    Ok(())
}
