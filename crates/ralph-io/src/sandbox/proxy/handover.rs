//! How a listener gets from inside a network namespace to the proxy outside.
//!
//! A socket belongs to the namespace in which it was created, wherever it is used. The launcher
//! creates a listener on the loopback of the empty namespace and sends it through a unix socket;
//! the proxy accepts on it from outside. No part of the proxy runs inside.
//!
//! The wire: a stream connection. For each listener one message, `proxy\n` or `forward PORT\n`,
//! with the descriptor attached; the answer is `ok\n` or `no: WHY\n`. A message of the single byte
//! 1 means the proxy as well.
//!
//! Listeners are served until the process that connected has ended, and their connections end with
//! them. Without that a listener, which keeps its namespace alive, would never be closed: nothing
//! happens on it when all processes inside are gone. Where the system cannot report the end of a
//! process, the end of the connection counts.
//!
//! Not here: creating namespaces.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::server::{Proxy, ProxyService};
use super::socket::{
    NO_DEADLINE, NonblockingSocket, ProxyListener, StopSignal, StopTrigger, WaitResult,
    new_stop_signal, wait_for_sockets,
};

/// How long the launcher waits for the proxy's answer, which takes no work.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest path that fits into the address of a unix socket on every system.
const LONGEST_PATH: usize = 100;

/// What a listener leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenerPurpose {
    Proxy,
    /// This port of the host's loopback, and nothing else.
    Forward(u16),
}

impl ListenerPurpose {
    /// Parses the form on the wire, without the newline.
    fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            None if text == "proxy" => Some(Self::Proxy),
            Some(("forward", port)) => port.parse().ok().map(Self::Forward),
            Some(_) | None => None,
        }
    }
}

impl fmt::Display for ListenerPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proxy => f.write_str("proxy"),
            Self::Forward(port) => write!(f, "forward {port}"),
        }
    }
}

/// Connects to the proxy, from a process that lives as long as those inside. The path must be
/// visible.
pub fn connect_to_proxy(path: &Path) -> io::Result<UnixStream> {
    let (_directory, path) = shorten_path(path)?;
    UnixStream::connect(path)
}

/// Passes a listener to the proxy, and waits until it is served.
pub fn hand_over_listener(
    mut proxy: &UnixStream,
    purpose: ListenerPurpose,
    listener: &TcpListener,
) -> io::Result<()> {
    proxy.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [listener.as_fd()];
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for the descriptor"));
    }
    let line = format!("{purpose}\n");
    sendmsg(proxy, &[IoSlice::new(line.as_bytes())], &mut control, SendFlags::empty())?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\n") && answer.len() < 200 {
        if proxy.read(&mut byte)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&byte);
    }
    match String::from_utf8_lossy(&answer).trim_end() {
        "ok" => Ok(()),
        refusal => Err(io::Error::other(format!("the proxy answered `{refusal}`"))),
    }
}

/// The proxy's side: takes over listeners at a path. Everything that it serves ends with this
/// value.
#[derive(Debug)]
pub struct Handover {
    path: PathBuf,
    stopper: Option<StopTrigger>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Handover {
    /// Waits for launchers at this path, in a directory that only the user can enter.
    pub fn open(proxy: &Proxy, path: &Path) -> io::Result<Self> {
        let listener = ProxyListener::Unix(listen_at(path)?);
        listener.set_nonblocking()?;
        let (stopper, stop) = new_stop_signal()?;
        let proxy = proxy.clone();
        let thread = thread::Builder::new()
            .name("proxy handover".to_owned())
            .spawn(move || accept_callers(&proxy, &listener, &stop))?;
        Ok(Self { path: path.to_owned(), stopper: Some(stopper), thread: Some(thread) })
    }

    /// Returns the path at which launchers connect.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        self.stopper = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn accept_callers(proxy: &Proxy, listener: &ProxyListener, stop: &StopSignal) {
    let mut callers = Vec::new();
    while let Some(stream) = listener.accept_next(stop) {
        let (proxy, stop) = (proxy.clone(), stop.clone());
        let caller = thread::Builder::new()
            .name("proxy caller".to_owned())
            .spawn(move || serve_caller(&proxy, stream, &stop));
        callers.retain(|it: &thread::JoinHandle<()>| !it.is_finished());
        callers.extend(caller.ok());
    }
    for caller in callers {
        let _ = caller.join();
    }
}

/// Serves the listeners of one caller, until that process has ended.
fn serve_caller(proxy: &Proxy, stream: NonblockingSocket, stop: &StopSignal) {
    let peer_exit = watch_peer_exit(&stream);
    let mut stream = Some(stream);
    let mut services: Vec<ProxyService> = Vec::new();
    loop {
        let watched: Vec<_> =
            [peer_exit.as_ref().map(|it| it.as_fd()), stream.as_ref().map(NonblockingSocket::fd)]
                .into_iter()
                .flatten()
                .map(|fd| (fd, PollFlags::IN))
                .collect();
        match wait_for_sockets(&watched, stop, Instant::now() + NO_DEADLINE) {
            Ok(WaitResult::Ready) => {}
            Ok(WaitResult::TimedOut) => continue,
            Ok(WaitResult::Stopped) | Err(_) => return,
        }
        // The connection had ended before, and now the process has.
        let Some(open) = &stream else { return };
        let answer = match receive_message(open) {
            Ok(HandoverMessage::End) if peer_exit.is_some() => {
                stream = None;
                continue;
            }
            // Without a descriptor for the process, the end of the connection counts as its end.
            Ok(HandoverMessage::End) | Err(_) => return,
            Ok(HandoverMessage::Offer(purpose, listener)) => {
                match admit_listener(proxy, purpose, listener) {
                    Ok(service) => {
                        services.push(service);
                        "ok\n".to_owned()
                    }
                    Err(error) => format!("no: {error}\n"),
                }
            }
            Ok(HandoverMessage::Unknown) => "no: this is not an offer\n".to_owned(),
        };
        // A caller that does not read the answer is served nevertheless.
        let _ = open.write_all(answer.as_bytes(), stop, Instant::now() + ANSWER_TIMEOUT);
    }
}

/// Returns a descriptor that becomes readable when the process at the other end has ended.
#[cfg(target_os = "linux")]
fn watch_peer_exit(stream: &NonblockingSocket) -> Option<OwnedFd> {
    let peer = rustix::net::sockopt::socket_peercred(stream.fd()).ok()?;
    rustix::process::pidfd_open(peer.pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn watch_peer_exit(_: &NonblockingSocket) -> Option<OwnedFd> {
    None
}

enum HandoverMessage {
    Offer(ListenerPurpose, OwnedFd),
    Unknown,
    End,
}

fn receive_message(stream: &NonblockingSocket) -> io::Result<HandoverMessage> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut text = [0; 64];
    let received = recvmsg(
        stream.fd(),
        &mut [IoSliceMut::new(&mut text)],
        &mut control,
        // A child that is started at this moment must not inherit it.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        RecvFlags::CMSG_CLOEXEC,
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        RecvFlags::empty(),
    )?;
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Ok(HandoverMessage::End);
    }
    let purpose = match &text[..received.bytes] {
        [1] => Some(ListenerPurpose::Proxy),
        line => std::str::from_utf8(line)
            .ok()
            .and_then(|it| ListenerPurpose::parse(it.strip_suffix('\n')?)),
    };
    match (purpose, descriptors.pop(), descriptors.is_empty()) {
        (Some(purpose), Some(descriptor), true) => Ok(HandoverMessage::Offer(purpose, descriptor)),
        (..) => Ok(HandoverMessage::Unknown),
    }
}

fn admit_listener(
    proxy: &Proxy,
    purpose: ListenerPurpose,
    descriptor: OwnedFd,
) -> io::Result<ProxyService> {
    match purpose {
        ListenerPurpose::Proxy => {}
        ListenerPurpose::Forward(port) if proxy.forwards().contains(&port) => {}
        ListenerPurpose::Forward(port) => {
            return Err(io::Error::other(format!("port {port} of this machine is not allowed")));
        }
    }
    let listener = TcpListener::from(descriptor);
    // A descriptor that is not a socket has no address; one not on a loopback is not inside.
    let is_loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    if !is_loopback || !is_listening(&listener) {
        return Err(io::Error::other("this is not a listener on a loopback"));
    }
    proxy.serve_listener(ProxyListener::Tcp(listener), purpose)
}

#[cfg(not(target_os = "macos"))]
fn is_listening(listener: &TcpListener) -> bool {
    rustix::net::sockopt::socket_acceptconn(listener).unwrap_or(false)
}

/// macOS cannot tell; accepting fails on a socket that does not listen.
#[cfg(target_os = "macos")]
fn is_listening(_: &TcpListener) -> bool {
    true
}

/// Listens at a path of any length that only the user may connect to.
pub(in crate::sandbox) fn listen_at(path: &Path) -> io::Result<UnixListener> {
    // Left behind by a process that was killed. Anything but a socket is not ralph's to remove.
    if std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    let (_directory, short) = shorten_path(path)?;
    let listener = UnixListener::bind(short)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Returns a path that is short enough for a socket address, and the directory that it goes
/// through.
fn shorten_path(path: &Path) -> io::Result<(Option<OwnedFd>, PathBuf)> {
    if path.as_os_str().len() <= LONGEST_PATH {
        return Ok((None, path.to_owned()));
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let directory = rustix::fs::open(directory, flags, Mode::empty())?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&directory);
    let short = Path::new("/proc/self/fd").join(number.to_string()).join(name);
    Ok((Some(directory), short))
}
