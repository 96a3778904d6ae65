//! The proxy server: accepts connections, checks what they ask for, and connects them.
//!
//! One thread per listener and one per connection, all of which end with their [`ProxyService`].
//! Not here: how listeners come to be (`handover`).

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ralph_core::http_head::find_head_end;
use ralph_core::sandbox::allowlist::{ConnectionRefusal, NetworkAllowlist, RefusalReason};
use ralph_core::sandbox::hosts::Host;
use rustix::event::PollFlags;

use super::dial::{self, DialError, Resolve, create_system_resolver};
use super::handover::ListenerPurpose;
use super::refusals::Refusals;
use super::request::{BadRequest, ProxyRequest};
use super::response;
use super::socket::{
    NonblockingSocket, ProxyListener, StopSignal, StopTrigger, WaitResult, new_stop_signal,
    wait_for_sockets,
};
use super::tunnel::{self, IdleLimits};

/// The stack of a connection's thread. Resolving a name runs code of the system, which needs some;
/// memory is used only when it is touched.
const STACK: usize = 512 << 10;

/// Limits of the proxy.
#[derive(Debug, Clone, Copy)]
pub struct ProxyLimits {
    /// Open connections, over all children.
    pub connections: usize,
    /// Size of a request's head.
    pub head_bytes: usize,
    /// Time for a request's head.
    pub head: Duration,
    /// Time to connect to a server, after its name is resolved.
    pub dial: Duration,
    /// How long a connection may be idle.
    pub silence: Duration,
    /// How long it may be idle after one side has closed.
    pub half_closed: Duration,
}

impl Default for ProxyLimits {
    /// Returns what agents need, with a margin.
    ///
    /// An agent has a dozen connections, a package manager about fifty. Servers commonly accept
    /// heads of 8 to 16 KiB. A model may think for many minutes before its first byte, so an idle
    /// connection is closed only after an hour; after one side has closed, a response is due
    /// sooner.
    fn default() -> Self {
        Self {
            connections: 256,
            head_bytes: 16 << 10,
            head: Duration::from_secs(10),
            dial: Duration::from_secs(20),
            silence: Duration::from_secs(3600),
            half_closed: Duration::from_secs(600),
        }
    }
}

/// The proxy of a run.
#[derive(Clone)]
pub struct Proxy(Arc<ProxyState>);

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("reach", &self.0.reach).finish_non_exhaustive()
    }
}

struct ProxyState {
    reach: NetworkAllowlist,
    resolve: Resolve,
    limits: ProxyLimits,
    refusals: Refusals,
    open: AtomicUsize,
}

/// A listener that is being served. Dropping this ends it and its connections.
#[derive(Debug)]
pub struct ProxyService {
    stopper: Option<StopTrigger>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ProxyService {
    fn drop(&mut self) {
        self.stopper = None;
        if let Some(thread) = self.thread.take() {
            // The thread waits for nothing but the signal, so this is immediate.
            let _ = thread.join();
        }
    }
}

impl Proxy {
    /// Returns a proxy that lets through what `reach` allows.
    pub fn new(reach: NetworkAllowlist) -> Self {
        Self::with_resolver(reach, create_system_resolver(), ProxyLimits::default())
    }

    /// Returns a proxy with its own resolver and limits.
    pub fn with_resolver(reach: NetworkAllowlist, resolve: Resolve, limits: ProxyLimits) -> Self {
        let (refusals, open) = (Refusals::default(), AtomicUsize::new(0));
        Self(Arc::new(ProxyState { reach, resolve, limits, refusals, open }))
    }

    /// Returns what was refused since the last call.
    pub fn take_refusals(&self) -> Vec<ConnectionRefusal> {
        self.0.refusals.drain()
    }

    /// Returns the ports of this machine that listeners inside may lead to.
    pub fn forwards(&self) -> Vec<u16> {
        self.0.reach.find_loopback_ports()
    }

    /// Returns how many connections are open.
    pub fn open_connections(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Serves on a free port of the host's loopback, for children without a network namespace.
    pub fn listen_on_loopback(&self) -> io::Result<(ProxyService, u16)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        Ok((self.serve_listener(ProxyListener::Tcp(listener), ListenerPurpose::Proxy)?, port))
    }

    /// Serves the connections of a listener.
    pub(super) fn serve_listener(
        &self,
        listener: ProxyListener,
        purpose: ListenerPurpose,
    ) -> io::Result<ProxyService> {
        listener.set_nonblocking()?;
        let (stopper, stop) = new_stop_signal()?;
        let proxy = self.clone();
        let thread = thread::Builder::new()
            .name("proxy listener".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                while let Some(client) = listener.accept_next(&stop) {
                    proxy.start_connection(client, purpose, &stop);
                }
            })?;
        Ok(ProxyService { stopper: Some(stopper), thread: Some(thread) })
    }

    /// Starts a thread for a connection, if a slot is free.
    fn start_connection(
        &self,
        client: NonblockingSocket,
        purpose: ListenerPurpose,
        stop: &StopSignal,
    ) {
        let most = self.0.limits.connections;
        let Some(slot) = ConnectionSlot::try_acquire(&self.0, most) else {
            // Written without a thread, as far as the system takes it at once: the response is
            // small.
            let _ = client.write(&response::build_too_many(most));
            client.shutdown_write();
            return;
        };
        let (proxy, stop) = (self.clone(), stop.clone());
        // If no thread can be started, the connection is closed: nothing better can be done.
        let _ =
            thread::Builder::new().name("proxy".to_owned()).stack_size(STACK).spawn(move || {
                // An error in a tunnel concerns only its two ends, which notice it themselves.
                let _ = match purpose {
                    ListenerPurpose::Proxy => proxy.serve_request(&client, &stop),
                    ListenerPurpose::Forward(port) => proxy.serve_forward(&client, port, &stop),
                };
                drop(client);
                drop(slot);
            });
    }

    /// Reads a request and serves it.
    fn serve_request(&self, client: &NonblockingSocket, stop: &StopSignal) -> io::Result<()> {
        let ProxyLimits { head_bytes, head, .. } = self.0.limits;
        let (head, rest) = match read_head(client, head_bytes, Instant::now() + head, stop)? {
            RequestHead::Complete { head, rest } => (head, rest),
            RequestHead::TooSlow => {
                return self.send_response(client, &response::build_too_slow(), stop);
            }
            RequestHead::TooLong => {
                return self.send_response(client, &response::build_too_long(head_bytes), stop);
            }
            RequestHead::Closed => return Ok(()),
        };
        let (host, port, opening, first) = match ProxyRequest::parse(&head) {
            Ok(ProxyRequest::Tunnel { host, port }) => {
                (host, port, response::build_established(), rest)
            }
            Ok(ProxyRequest::Plain { host, port, head }) => {
                (host, port, Vec::new(), [head, rest].concat())
            }
            Err(BadRequest::Host { text }) => {
                let text: String = text.escape_default().take(200).collect();
                self.0.refusals.record(&text, 0, &RefusalReason::Malformed);
                return self.send_response(
                    client,
                    &response::build_refused(&text, 0, &RefusalReason::Malformed),
                    stop,
                );
            }
            Err(bad) => {
                return self.send_response(
                    client,
                    &response::build_bad_request(&bad.to_string()),
                    stop,
                );
            }
        };
        match self.dial_host(&host, port) {
            Ok(server) => {
                client.write_all(&opening, stop, Instant::now() + self.0.limits.head)?;
                tunnel::run_tunnel(client, &server, first, self.idle_limits(), stop)
            }
            Err(refusal) => self.send_response(client, &refusal, stop),
        }
    }

    /// Connects to a host, or returns the response that says why not.
    fn dial_host(&self, host: &Host, port: u16) -> Result<NonblockingSocket, Vec<u8>> {
        let ProxyState { reach, resolve, limits, refusals, .. } = &*self.0;
        let name = host.to_string();
        let failed = |why: &str| response::build_unreachable(&name, port, why);
        match dial::dial_host(reach, resolve, host, port, limits.dial) {
            Ok(server) => {
                NonblockingSocket::new(server.into()).map_err(|error| failed(&error.to_string()))
            }
            Err(DialError::Refused(reason)) => {
                refusals.record(&name, port, &reason);
                Err(response::build_refused(&name, port, &reason))
            }
            Err(DialError::Failed(why)) => Err(failed(&why)),
        }
    }

    /// Connects to a port of this machine. If that fails, the client sees its connection end.
    fn serve_forward(
        &self,
        client: &NonblockingSocket,
        port: u16,
        stop: &StopSignal,
    ) -> io::Result<()> {
        match dial::dial_loopback(port, self.0.limits.dial) {
            Ok(server) => tunnel::run_tunnel(
                client,
                &NonblockingSocket::new(server.into())?,
                Vec::new(),
                self.idle_limits(),
                stop,
            ),
            Err(_) => Ok(()),
        }
    }

    fn idle_limits(&self) -> IdleLimits {
        let ProxyLimits { silence, half_closed, .. } = self.0.limits;
        IdleLimits { open: silence, half_closed }
    }

    fn send_response(
        &self,
        client: &NonblockingSocket,
        answer: &[u8],
        stop: &StopSignal,
    ) -> io::Result<()> {
        client.write_all(answer, stop, Instant::now() + self.0.limits.head)?;
        client.close_gently(stop);
        Ok(())
    }
}

/// The first part of a connection.
enum RequestHead {
    /// A complete head up to its empty line, and the bytes after it.
    Complete {
        head: Vec<u8>,
        rest: Vec<u8>,
    },
    TooSlow,
    TooLong,
    /// The client has closed the connection, or the service ends.
    Closed,
}

fn read_head(
    client: &NonblockingSocket,
    most: usize,
    deadline: Instant,
    stop: &StopSignal,
) -> io::Result<RequestHead> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match wait_for_sockets(&[(client.fd(), PollFlags::IN)], stop, deadline)? {
            WaitResult::Ready => {}
            WaitResult::TimedOut => return Ok(RequestHead::TooSlow),
            WaitResult::Stopped => return Ok(RequestHead::Closed),
        }
        // The deadline is for the whole head: single bytes do not extend it.
        let read = match client.read(&mut buffer) {
            Ok(0) => return Ok(RequestHead::Closed),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        bytes.extend_from_slice(&buffer[..read]);
        match find_head_end(&bytes, most) {
            Ok(Some(end)) => {
                let rest = bytes.split_off(end);
                return Ok(RequestHead::Complete { head: bytes, rest });
            }
            Ok(None) => {}
            Err(_) => return Ok(RequestHead::TooLong),
        }
    }
}

/// One of the connections that may be open at once.
struct ConnectionSlot(Arc<ProxyState>);

impl ConnectionSlot {
    fn try_acquire(shared: &Arc<ProxyState>, most: usize) -> Option<Self> {
        let more = |open: usize| (open < most).then_some(open + 1);
        let taken = shared.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Self(Arc::clone(shared)))
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
