//! Serves the live page of a run on localhost: a small HTTP server on plain threads.
//!
//! It supports only the HTTP that a browser needs for one page: one request per connection, which
//! is then closed, so that no second request can be smuggled after the first. Everything is
//! limited: size and duration of a request, connections, streams, cached runs. `admission` decides
//! which requests are allowed. The content comes from [`ServedRuns`], which the binary implements;
//! only control requests change a run. Not here: the page itself, and reading journals.

mod admission;
mod cached_run;
mod http;

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use admission::ServeRoute;
use cached_run::CachedRun;
use http::ServeResponse;
use ralph_model::control::ControlRequest;

use crate::html::{self, Controls, LivePageData, PagePart};
use crate::time::WallClock;

pub use crate::html::{ChartedRun, ListedRun, ListedRunState};

/// Connections with the token: more than the pages that a user has open; a few megabytes at worst.
const MOST_CONNECTIONS: usize = 64;

/// Connections that have not sent the token yet. Any user of the machine can open some, so that the
/// oldest is dropped for a new one.
const MOST_WAITING: usize = 64;

/// Concurrent event streams. The rest of the connections is for short requests.
const MOST_STREAMS: usize = 32;

/// Cached runs; reading one again is fast.
const MOST_CACHED: usize = 4;

/// How often a journal is read for each event stream.
const REFRESH_INTERVAL: Duration = Duration::from_millis(300);

/// Interval of keep-alive events, so that both sides detect a dead connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// A stream ends after this time and the page reconnects, so that no resource is held forever.
const LONGEST_STREAM: Duration = Duration::from_secs(6 * 60 * 60);

/// How long a ticket is valid after its address was passed to a browser.
const TICKET_LIFE: Duration = Duration::from_secs(60);

/// The runs that the server shows and forwards control requests to.
pub trait ServedRuns: Send + Sync {
    /// Returns the runs to pick from, newest first.
    fn list_runs(&self) -> Vec<ListedRun>;

    /// Returns the figures of all runs, oldest first.
    fn read_stats(&self) -> Vec<ChartedRun>;

    /// Opens a run; `None` if there is no run with this key. The server caches it for pages, event
    /// streams and control requests.
    fn open_run(&self, key: &str) -> Option<Box<dyn FollowedRun>>;
}

/// A run that the server follows.
pub trait FollowedRun: Send {
    /// Reads the run again, and returns its content if that may have changed.
    fn refresh(&mut self) -> Result<Option<PageContent>, String>;

    /// Sends a control request to the run. Fails with the reason if that is not possible.
    fn send_request(&mut self, request: &ControlRequest) -> Result<(), String>;
}

/// The content of a run's page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageContent {
    pub title: String,
    pub parts: Vec<PagePart>,
    pub controls: Controls,
}

/// A server that is bound to its port.
pub struct Server {
    listener: TcpListener,
    state: Arc<LiveServerState>,
}

/// State shared by all connections.
struct LiveServerState {
    runs: Box<dyn ServedRuns>,
    clock: WallClock,
    port: u16,
    token: String,
    /// One-time ticket that redirects a browser to the real address, with its time of creation.
    ticket: Mutex<Option<(String, Instant)>>,
    cached: Mutex<BTreeMap<String, Arc<Mutex<CachedRun>>>>,
    next: AtomicUsize,
    /// Those that have not sent the token yet, the oldest first.
    waiting: Mutex<VecDeque<Arc<TcpStream>>>,
    /// How many have sent it.
    connections: AtomicUsize,
    streams: AtomicUsize,
}

impl Server {
    /// Binds a port of the loopback address; 0 takes a free one. The token must be random: it gives
    /// access to all runs and control requests.
    pub fn bind(
        port: u16,
        token: String,
        runs: Box<dyn ServedRuns>,
        clock: WallClock,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let port = listener.local_addr()?.port();
        // A page may reconnect to a restarted server, whose revision numbers must differ from
        // those of the previous one.
        let next = usize::try_from((clock.now)().0).unwrap_or_default();
        let server = LiveServerState {
            runs,
            clock,
            port,
            token,
            ticket: Mutex::new(None),
            cached: Mutex::new(BTreeMap::new()),
            next: AtomicUsize::new(next),
            waiting: Mutex::default(),
            connections: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
        };
        Ok(Self { listener, state: Arc::new(server) })
    }

    /// Returns the bound port.
    pub fn port(&self) -> u16 {
        self.state.port
    }

    /// Returns the address with the token.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.state.port, self.state.token)
    }

    /// Returns an address that redirects to the real one, once and within a minute. Used for opening
    /// a browser, because other users of this machine can see its command line.
    pub fn create_ticket_url(&self, ticket: String) -> String {
        let url = format!("http://127.0.0.1:{}/open/{ticket}", self.state.port);
        *lock_mutex(&self.state.ticket) = Some((ticket, Instant::now()));
        url
    }

    /// Serves forever.
    pub fn serve_forever(self) -> ! {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.state.accept_connection(stream),
                // Out of handles, or the client has gone: neither is a reason to stop.
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

impl LiveServerState {
    fn accept_connection(self: &Arc<Self>, stream: TcpStream) {
        let stream = Arc::new(stream);
        {
            let mut waiting = lock_mutex(&self.waiting);
            if waiting.len() >= MOST_WAITING
                && let Some(oldest) = waiting.pop_front()
            {
                // Its thread ends with it.
                let _ = oldest.shutdown(Shutdown::Both);
            }
            waiting.push_back(Arc::clone(&stream));
        }
        let (owner, served) = (Arc::clone(self), Arc::clone(&stream));
        let serve = move || {
            // An error means that the client has gone.
            let _ = owner.serve_connection(&served);
            owner.stop_waiting(&served);
        };
        if thread::Builder::new().name("page".to_owned()).spawn(serve).is_err() {
            // Without a thread the connection is closed.
            self.stop_waiting(&stream);
        }
    }

    fn stop_waiting(&self, stream: &Arc<TcpStream>) {
        lock_mutex(&self.waiting).retain(|waiting| !Arc::ptr_eq(waiting, stream));
    }

    fn serve_connection(self: &Arc<Self>, stream: &Arc<TcpStream>) -> io::Result<()> {
        let request = match http::read_request(stream) {
            Ok(request) => request,
            Err(refusal) => {
                return match refusal.to_response() {
                    Some(response) => http::write_response(stream, &response),
                    None => Ok(()),
                };
            }
        };
        let route = match admission::admit_request(&request, self.port, &self.token) {
            Ok(ServeRoute::Open { ticket }) => {
                return http::write_response(stream, &self.redeem_ticket(&ticket));
            }
            Ok(route) => route,
            Err(response) => return http::write_response(stream, &response),
        };
        self.stop_waiting(stream);
        let Some(_place) =
            ServeSlot::acquire_slot(self, |server| &server.connections, MOST_CONNECTIONS)
        else {
            http::reject_connection(stream);
            return Ok(());
        };
        match self.respond_to(route) {
            Ok(ServeReply::Stream { watched, since }) => {
                self.stream_changes(stream, &watched, since)
            }
            Ok(ServeReply::Whole(response)) | Err(response) => {
                http::write_response(stream, &response)
            }
        }
    }

    fn respond_to(&self, route: ServeRoute) -> Result<ServeReply, ServeResponse> {
        let response = match route {
            ServeRoute::Style => {
                ServeResponse::from_text("text/css; charset=utf-8", html::render_style())
            }
            ServeRoute::Script => {
                ServeResponse::from_text("text/javascript; charset=utf-8", html::SCRIPT.to_owned())
            }
            ServeRoute::List => ServeResponse::from_html(html::render_list_page(
                &self.runs.list_runs(),
                &self.clock,
            )),
            ServeRoute::Stats => ServeResponse::from_html(html::render_stats_page(
                &self.runs.read_stats(),
                &self.clock,
            )),
            ServeRoute::Open { ticket } => self.redeem_ticket(&ticket),
            ServeRoute::Run { key } => self.render_run_page(&key)?,
            ServeRoute::Control { key, request } => {
                let watched = self.find_or_open_run(&key)?;
                let sent = lock_mutex(&watched).send_request(&request);
                sent.map_err(|why| ServeResponse::from_message(409, &why))?;
                ServeResponse::from_text("text/plain; charset=utf-8", "sent\n".to_owned())
            }
            ServeRoute::Events { key, since } => {
                return Ok(ServeReply::Stream { watched: self.find_or_open_run(&key)?, since });
            }
        };
        Ok(ServeReply::Whole(response))
    }

    fn redeem_ticket(&self, ticket: &str) -> ServeResponse {
        // Any attempt uses the ticket up: a wrong guess invalidates it, and the user still has the
        // real address.
        let known = lock_mutex(&self.ticket).take();
        match known {
            Some((known, made))
                if admission::is_equal_constant_time(&known, ticket)
                    && made.elapsed() < TICKET_LIFE =>
            {
                ServeResponse::redirect_to(&format!("/{}/", self.token))
            }
            Some(_) | None => ServeResponse::from_message(403, "This address works only once."),
        }
    }

    fn render_run_page(&self, key: &str) -> Result<ServeResponse, ServeResponse> {
        let watched = self.find_or_open_run(key)?;
        let mut watched = lock_mutex(&watched);
        watched.refresh().map_err(|why| {
            ServeResponse::from_message(500, &format!("This run cannot be shown: {why}"))
        })?;
        let Some(shown) = watched.content() else {
            let message = "This run has not begun yet. Load the page again.";
            return Err(ServeResponse::from_message(404, message));
        };
        let since = watched.id();
        let live = LivePageData { token: &self.token, since: &since, controls: &shown.controls };
        Ok(ServeResponse::from_html(html::render_live_page(&shown.title, &shown.parts, &live)))
    }

    /// Returns a cached run, or opens it. Evicts the least recently used run that has no stream.
    fn find_or_open_run(&self, key: &str) -> Result<Arc<Mutex<CachedRun>>, ServeResponse> {
        let mut all = lock_mutex(&self.cached);
        if let Some(watched) = all.get(key) {
            let watched = Arc::clone(watched);
            lock_mutex(&watched).mark_used();
            return Ok(watched);
        }
        let follow = self
            .runs
            .open_run(key)
            .ok_or_else(|| ServeResponse::from_message(404, "There is no such run."))?;
        if all.len() >= MOST_CACHED {
            let is_idle = |watched: &&Arc<Mutex<CachedRun>>| Arc::strong_count(watched) == 1;
            let oldest = all
                .iter()
                .filter(|(_, watched)| is_idle(watched))
                .min_by_key(|(_, watched)| lock_mutex(watched).last_used())
                .map(|(key, _)| key.clone());
            match oldest {
                Some(oldest) => drop(all.remove(&oldest)),
                None => return Err(ServeResponse::from_message(503, "Too many runs are open.")),
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let watched = Arc::new(Mutex::new(CachedRun::new(number, follow)));
        all.insert(key.to_owned(), Arc::clone(&watched));
        Ok(watched)
    }

    /// Sends changes until the client disconnects.
    fn stream_changes(
        self: &Arc<Self>,
        stream: &TcpStream,
        watched: &Mutex<CachedRun>,
        mut since: Option<String>,
    ) -> io::Result<()> {
        let Some(_place) = ServeSlot::acquire_slot(self, |server| &server.streams, MOST_STREAMS)
        else {
            return http::write_response(
                stream,
                &ServeResponse::from_message(503, "Too many pages are open."),
            );
        };
        http::start_stream(stream)?;
        let (began, mut last_sent) = (Instant::now(), Instant::now());
        while began.elapsed() < LONGEST_STREAM {
            let news = {
                let mut watched = lock_mutex(watched);
                // A journal that cannot be read now is tried again in the next round.
                let _ = watched.refresh();
                watched.changes_since(since.as_deref())
            };
            if let Some((id, data)) = news {
                http::write_text(stream, &format!("id: {id}\nevent: news\ndata: {data}\n\n"))?;
                (since, last_sent) = (Some(id), Instant::now());
            } else if last_sent.elapsed() >= KEEP_ALIVE_INTERVAL {
                http::write_text(stream, "event: beat\ndata: {}\n\n")?;
                last_sent = Instant::now();
            }
            if http::is_gone_within(stream, REFRESH_INTERVAL) {
                return Ok(());
            }
        }
        Ok(())
    }
}

enum ServeReply {
    Whole(ServeResponse),
    Stream { watched: Arc<Mutex<CachedRun>>, since: Option<String> },
}

/// A slot of a limited resource, released on drop.
struct ServeSlot {
    state: Arc<LiveServerState>,
    counter: fn(&LiveServerState) -> &AtomicUsize,
}

impl ServeSlot {
    fn acquire_slot(
        server: &Arc<LiveServerState>,
        counter: fn(&LiveServerState) -> &AtomicUsize,
        most: usize,
    ) -> Option<Self> {
        let taken = counter(server).fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
            (count < most).then_some(count + 1)
        });
        taken.ok().map(|_| Self { state: Arc::clone(server), counter })
    }
}

impl Drop for ServeSlot {
    fn drop(&mut self) {
        (self.counter)(&self.state).fetch_sub(1, Ordering::AcqRel);
    }
}

/// Ignores poisoning: a thread that panicked leaves the data usable.
fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
