//! The network inside: a loopback of its own, and the one listener that leads to the proxy.
//!
//! A socket belongs to the network namespace that it was made in, whoever holds it. So the listener
//! is made here and handed to ralph, which then takes connections from within and goes on with them
//! outside. No helper runs in the cell. Not here: what the proxy lets through.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recv, send, sendmsg, socket_with,
};

use super::trouble::Trouble;
use crate::sandbox::cell::PROXY_PORT;

/// Switches the loopback of this network namespace on.
pub(super) fn raise_loopback() -> Result<(), Trouble> {
    try_raising().map_err(Trouble::with("switch the loopback on"))
}

fn try_raising() -> io::Result<()> {
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
    // Sequence and sender are for who asks more than once; family and type are left open.
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

/// Makes the listener and hands it to the proxy, which was called before the walls went up.
pub(super) fn hand_over(proxy: &UnixStream) -> Result<(), Trouble> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))
        .map_err(Trouble::with("make the listener for the proxy"))?;
    let handed = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    message.push(SendAncillaryMessage::ScmRights(&handed));
    sendmsg(proxy, &[IoSlice::new(&[1])], &mut message, SendFlags::NOSIGNAL)
        .map(drop)
        .map_err(Trouble::with("hand the listener to the proxy"))
}
