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

use ralph_core::sandbox::hosts::Host;
use ralph_core::sandbox::reach::{Reach, Reason, Refusal};
use rustix::event::PollFlags;

use super::answer;
use super::dial::{self, NoConnection, Resolve, system_resolver};
use super::handover::Purpose;
use super::refusals::Refusals;
use super::request::{BadRequest, Request};
use super::socket::{Listener, Socket, Stop, Stopper, Woken, signal, wait};
use super::tunnel::{self, Silence};

/// The stack of a connection's thread. Resolving a name runs code of the system, which needs some;
/// memory is used only when it is touched.
const STACK: usize = 512 << 10;

/// Limits of the proxy.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
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

impl Default for Limits {
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
pub struct Proxy(Arc<Shared>);

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("reach", &self.0.reach).finish_non_exhaustive()
    }
}

struct Shared {
    reach: Reach,
    resolve: Resolve,
    limits: Limits,
    refusals: Refusals,
    open: AtomicUsize,
}

/// A listener that is being served. Dropping this ends it and its connections.
#[derive(Debug)]
pub struct Service {
    stopper: Option<Stopper>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Service {
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
    pub fn new(reach: Reach) -> Self {
        Self::with(reach, system_resolver(), Limits::default())
    }

    /// Returns a proxy with its own resolver and limits.
    pub fn with(reach: Reach, resolve: Resolve, limits: Limits) -> Self {
        let (refusals, open) = (Refusals::default(), AtomicUsize::new(0));
        Self(Arc::new(Shared { reach, resolve, limits, refusals, open }))
    }

    /// Returns what was refused since the last call.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.0.refusals.drain()
    }

    /// Returns the ports of this machine that listeners inside may lead to.
    pub fn forwards(&self) -> Vec<u16> {
        self.0.reach.loopback_ports()
    }

    /// Returns how many connections are open.
    pub fn connections(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Serves on a free port of the host's loopback, for children without a network namespace.
    pub fn listen(&self) -> io::Result<(Service, u16)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        Ok((self.serve(Listener::Tcp(listener), Purpose::Proxy)?, port))
    }

    /// Serves the connections of a listener.
    pub(super) fn serve(&self, listener: Listener, purpose: Purpose) -> io::Result<Service> {
        listener.set_nonblocking()?;
        let (stopper, stop) = signal()?;
        let proxy = self.clone();
        let thread = thread::Builder::new()
            .name("proxy listener".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                while let Some(client) = listener.next(&stop) {
                    proxy.begin(client, purpose, &stop);
                }
            })?;
        Ok(Service { stopper: Some(stopper), thread: Some(thread) })
    }

    /// Starts a thread for a connection, if a slot is free.
    fn begin(&self, client: Socket, purpose: Purpose, stop: &Stop) {
        let most = self.0.limits.connections;
        let Some(slot) = Slot::take(&self.0, most) else {
            // Written without a thread, as far as the system takes it at once: the response is
            // small.
            let _ = client.write(&answer::too_many(most));
            client.finish();
            return;
        };
        let (proxy, stop) = (self.clone(), stop.clone());
        // If no thread can be started, the connection is closed: nothing better can be done.
        let _ =
            thread::Builder::new().name("proxy".to_owned()).stack_size(STACK).spawn(move || {
                // An error in a tunnel concerns only its two ends, which notice it themselves.
                let _ = match purpose {
                    Purpose::Proxy => proxy.attend(&client, &stop),
                    Purpose::Forward(port) => proxy.forward(&client, port, &stop),
                };
                drop(client);
                drop(slot);
            });
    }

    /// Reads a request and serves it.
    fn attend(&self, client: &Socket, stop: &Stop) -> io::Result<()> {
        let Limits { head_bytes, head, .. } = self.0.limits;
        let (head, rest) = match read_head(client, head_bytes, Instant::now() + head, stop)? {
            Head::Whole { head, rest } => (head, rest),
            Head::Slow => return self.say(client, &answer::too_slow(), stop),
            Head::Long => return self.say(client, &answer::too_long(head_bytes), stop),
            Head::Over => return Ok(()),
        };
        let (host, port, opening, first) = match Request::read(&head) {
            Ok(Request::Tunnel { host, port }) => (host, port, answer::established(), rest),
            Ok(Request::Plain { host, port, head }) => {
                (host, port, Vec::new(), [head, rest].concat())
            }
            Err(BadRequest::Host { text }) => {
                let text: String = text.escape_default().take(200).collect();
                self.0.refusals.note(&text, 0, &Reason::Malformed);
                return self.say(client, &answer::refused(&text, 0, &Reason::Malformed), stop);
            }
            Err(bad) => return self.say(client, &answer::bad_request(&bad.to_string()), stop),
        };
        match self.dial(&host, port) {
            Ok(server) => {
                client.write_all(&opening, stop, Instant::now() + self.0.limits.head)?;
                tunnel::run(client, &server, first, self.silence(), stop)
            }
            Err(refusal) => self.say(client, &refusal, stop),
        }
    }

    /// Connects to a host, or returns the response that says why not.
    fn dial(&self, host: &Host, port: u16) -> Result<Socket, Vec<u8>> {
        let Shared { reach, resolve, limits, refusals, .. } = &*self.0;
        let name = host.to_string();
        let failed = |why: &str| answer::unreachable(&name, port, why);
        match dial::dial(reach, resolve, host, port, limits.dial) {
            Ok(server) => Socket::new(server.into()).map_err(|error| failed(&error.to_string())),
            Err(NoConnection::Refused(reason)) => {
                refusals.note(&name, port, &reason);
                Err(answer::refused(&name, port, &reason))
            }
            Err(NoConnection::Failed(why)) => Err(failed(&why)),
        }
    }

    /// Connects to a port of this machine. If that fails, the client sees its connection end.
    fn forward(&self, client: &Socket, port: u16, stop: &Stop) -> io::Result<()> {
        match dial::dial_loopback(port, self.0.limits.dial) {
            Ok(server) => {
                tunnel::run(client, &Socket::new(server.into())?, Vec::new(), self.silence(), stop)
            }
            Err(_) => Ok(()),
        }
    }

    fn silence(&self) -> Silence {
        let Limits { silence, half_closed, .. } = self.0.limits;
        Silence { open: silence, half_closed }
    }

    fn say(&self, client: &Socket, answer: &[u8], stop: &Stop) -> io::Result<()> {
        client.write_all(answer, stop, Instant::now() + self.0.limits.head)?;
        client.linger(stop);
        Ok(())
    }
}

/// The first part of a connection.
enum Head {
    /// A complete head up to its empty line, and the bytes after it.
    Whole {
        head: Vec<u8>,
        rest: Vec<u8>,
    },
    Slow,
    Long,
    /// The client has closed the connection, or the service ends.
    Over,
}

fn read_head(client: &Socket, most: usize, deadline: Instant, stop: &Stop) -> io::Result<Head> {
    const END: &[u8] = b"\r\n\r\n";
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match wait(&[(client.fd(), PollFlags::IN)], stop, deadline)? {
            Woken::Ready => {}
            Woken::Late => return Ok(Head::Slow),
            Woken::Stopped => return Ok(Head::Over),
        }
        // The deadline is for the whole head: single bytes do not extend it.
        let read = match client.read(&mut buffer) {
            Ok(0) => return Ok(Head::Over),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        let seen = bytes.len().saturating_sub(END.len() - 1);
        bytes.extend_from_slice(&buffer[..read]);
        let end = bytes[seen..].windows(END.len()).position(|it| it == END);
        match end.map(|at| seen + at + END.len()) {
            Some(end) if end <= most => {
                let rest = bytes.split_off(end);
                return Ok(Head::Whole { head: bytes, rest });
            }
            Some(_) => return Ok(Head::Long),
            None if bytes.len() >= most => return Ok(Head::Long),
            None => {}
        }
    }
}

/// One of the connections that may be open at once.
struct Slot(Arc<Shared>);

impl Slot {
    fn take(shared: &Arc<Shared>, most: usize) -> Option<Self> {
        let more = |open: usize| (open < most).then_some(open + 1);
        let taken = shared.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Self(Arc::clone(shared)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
