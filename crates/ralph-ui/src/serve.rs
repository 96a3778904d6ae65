//! Serves the live page of a run on localhost: a small HTTP server on plain threads.
//!
//! It supports only the HTTP that a browser needs for one page: one request per connection, which
//! is then closed, so that no second request can be smuggled after the first. Everything is
//! limited: size and duration of a request, connections, streams, cached runs. `admission` decides
//! which requests are allowed. The content comes from [`ServedRuns`], which the binary implements;
//! only control requests change a run. Not here: the page itself, and reading journals.

mod admission;
mod http;
mod watched;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ralph_core::control::Wish;

use crate::html::{self, Controls, Live, Part};
use crate::time::WallClock;
use admission::{Admitted, Route};
use http::{Request, Response};
use watched::Watched;

pub use crate::html::{Listed, ListedState};

/// More than the pages that a user has open; a few megabytes at worst.
const MOST_CONNECTIONS: usize = 64;

/// Concurrent event streams. The rest of the connections is for short requests.
const MOST_STREAMS: usize = 32;

/// Cached runs; reading one again is fast.
const MOST_WATCHED: usize = 4;

/// How often a journal is read for each event stream.
const LOOK: Duration = Duration::from_millis(300);

/// Interval of keep-alive events, so that both sides detect a dead connection.
const BEAT: Duration = Duration::from_secs(15);

/// A stream ends after this time and the page reconnects, so that no resource is held forever.
const LONGEST_STREAM: Duration = Duration::from_secs(6 * 60 * 60);

/// How long a ticket is valid after its address was passed to a browser.
const TICKET_LIFE: Duration = Duration::from_secs(60);

/// The runs that the server shows and forwards control requests to.
pub trait Runs: Send + Sync {
    /// Returns the runs to pick from, newest first.
    fn list(&self) -> Vec<Listed>;

    /// Opens a run; `None` if there is no run with this key. The server caches it for pages, event
    /// streams and control requests.
    fn follow(&self, key: &str) -> Option<Box<dyn Follow>>;
}

/// A run that the server follows.
pub trait Follow: Send {
    /// Reads the run again, and returns its content if that may have changed.
    fn look(&mut self) -> Result<Option<Shown>, String>;

    /// Sends a control request to the run. Fails with the reason if that is not possible.
    fn wish(&mut self, request: &Wish) -> Result<(), String>;
}

/// The content of a run's page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub title: String,
    pub parts: Vec<Part>,
    pub controls: Controls,
}

/// A server that is bound to its port.
pub struct Server {
    listener: TcpListener,
    desk: Arc<Desk>,
}

/// State shared by all connections.
struct Desk {
    runs: Box<dyn Runs>,
    clock: WallClock,
    port: u16,
    token: String,
    /// One-time ticket that redirects a browser to the real address, with its time of creation.
    ticket: Mutex<Option<(String, Instant)>>,
    watched: Mutex<BTreeMap<String, Arc<Mutex<Watched>>>>,
    next: AtomicUsize,
    connections: AtomicUsize,
    streams: AtomicUsize,
}

impl Server {
    /// Binds a port of the loopback address; 0 takes a free one. The token must be random: it gives
    /// access to all runs and control requests.
    pub fn bind(
        port: u16,
        token: String,
        runs: Box<dyn Runs>,
        clock: WallClock,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let port = listener.local_addr()?.port();
        // A page may reconnect to a restarted server, whose revision numbers must differ from
        // those of the previous one.
        let next = usize::try_from((clock.now)().0).unwrap_or_default();
        let desk = Desk {
            runs,
            clock,
            port,
            token,
            ticket: Mutex::new(None),
            watched: Mutex::new(BTreeMap::new()),
            next: AtomicUsize::new(next),
            connections: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
        };
        Ok(Self { listener, desk: Arc::new(desk) })
    }

    /// Returns the bound port.
    pub fn port(&self) -> u16 {
        self.desk.port
    }

    /// Returns the address with the token.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.desk.port, self.desk.token)
    }

    /// Returns an address that redirects to the real one, once and within a minute. Used for opening
    /// a browser, because other users of this machine can see its command line.
    pub fn ticket_url(&self, ticket: String) -> String {
        let url = format!("http://127.0.0.1:{}/open/{ticket}", self.desk.port);
        *lock(&self.desk.ticket) = Some((ticket, Instant::now()));
        url
    }

    /// Serves forever.
    pub fn run(self) -> ! {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.desk.receive(stream),
                // Out of handles, or the client has gone: neither is a reason to stop.
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

impl Desk {
    fn receive(self: &Arc<Self>, stream: TcpStream) {
        let Some(place) = Place::take(self, |desk| &desk.connections, MOST_CONNECTIONS) else {
            http::turn_away(&stream);
            return;
        };
        let desk = Arc::clone(self);
        let serve = move || {
            let _place = place;
            // An error means that the client has gone.
            let _ = desk.serve(&stream);
        };
        // Without a thread the connection is closed.
        let _ = thread::Builder::new().name("page".to_owned()).spawn(serve);
    }

    fn serve(self: &Arc<Self>, stream: &TcpStream) -> io::Result<()> {
        let request = match http::read(stream) {
            Ok(request) => request,
            Err(refusal) => {
                return match refusal.response() {
                    Some(response) => http::write(stream, &response),
                    None => Ok(()),
                };
            }
        };
        match self.answer(&request) {
            Answer::Whole(response) => http::write(stream, &response),
            Answer::Stream { watched, since } => self.stream(stream, &watched, since),
        }
    }

    fn answer(self: &Arc<Self>, request: &Request) -> Answer {
        let admitted = admission::admit(request, self.port, &self.token);
        Answer::Whole(match admitted {
            Admitted::No(response) => response,
            Admitted::Yes(Route::Style) => Response::text("text/css; charset=utf-8", html::style()),
            Admitted::Yes(Route::Script) => {
                Response::text("text/javascript; charset=utf-8", html::SCRIPT.to_owned())
            }
            Admitted::Yes(Route::List) => {
                Response::html(html::list_page(&self.runs.list(), &self.clock))
            }
            Admitted::Yes(Route::Open { ticket }) => self.open(&ticket),
            Admitted::Yes(Route::Run { key }) => self.page(&key),
            Admitted::Yes(Route::Wish { key, request }) => match self.watched(&key) {
                Err(response) => response,
                Ok(watched) => match lock(&watched).wish(&request) {
                    Ok(()) => Response::text("text/plain; charset=utf-8", "sent\n".to_owned()),
                    Err(why) => Response::plain(409, &why),
                },
            },
            Admitted::Yes(Route::Events { key, since }) => match self.watched(&key) {
                Ok(watched) => return Answer::Stream { watched, since },
                Err(response) => response,
            },
        })
    }

    fn open(&self, ticket: &str) -> Response {
        // Any attempt uses the ticket up: a wrong guess invalidates it, and the user still has the
        // real address.
        let known = lock(&self.ticket).take();
        match known {
            Some((known, made))
                if admission::is_same(&known, ticket) && made.elapsed() < TICKET_LIFE =>
            {
                Response::elsewhere(&format!("/{}/", self.token))
            }
            Some(_) | None => Response::plain(403, "This address works only once."),
        }
    }

    fn page(&self, key: &str) -> Response {
        let watched = match self.watched(key) {
            Ok(watched) => watched,
            Err(response) => return response,
        };
        let mut watched = lock(&watched);
        if let Err(why) = watched.look() {
            return Response::plain(500, &format!("This run cannot be shown: {why}"));
        }
        let Some(shown) = watched.shown() else {
            return Response::plain(404, "This run has not begun yet. Load the page again.");
        };
        let since = watched.id();
        let live = Live { token: &self.token, since: &since, controls: &shown.controls };
        Response::html(html::live_page(&shown.title, &shown.parts, &live))
    }

    /// Returns a cached run, or opens it. Evicts the least recently used run that has no stream.
    fn watched(&self, key: &str) -> Result<Arc<Mutex<Watched>>, Response> {
        let mut all = lock(&self.watched);
        if let Some(watched) = all.get(key) {
            let watched = Arc::clone(watched);
            lock(&watched).touch();
            return Ok(watched);
        }
        let follow =
            self.runs.follow(key).ok_or_else(|| Response::plain(404, "There is no such run."))?;
        if all.len() >= MOST_WATCHED {
            let is_idle = |watched: &&Arc<Mutex<Watched>>| Arc::strong_count(watched) == 1;
            let oldest = all
                .iter()
                .filter(|(_, watched)| is_idle(watched))
                .min_by_key(|(_, watched)| lock(watched).used())
                .map(|(key, _)| key.clone());
            match oldest {
                Some(oldest) => drop(all.remove(&oldest)),
                None => return Err(Response::plain(503, "Too many runs are open.")),
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let watched = Arc::new(Mutex::new(Watched::new(number, follow)));
        all.insert(key.to_owned(), Arc::clone(&watched));
        Ok(watched)
    }

    /// Sends changes until the client disconnects.
    fn stream(
        self: &Arc<Self>,
        stream: &TcpStream,
        watched: &Mutex<Watched>,
        mut since: Option<String>,
    ) -> io::Result<()> {
        let Some(_place) = Place::take(self, |desk| &desk.streams, MOST_STREAMS) else {
            return http::write(stream, &Response::plain(503, "Too many pages are open."));
        };
        http::begin_stream(stream)?;
        let (began, mut last_sent) = (Instant::now(), Instant::now());
        while began.elapsed() < LONGEST_STREAM {
            let news = {
                let mut watched = lock(watched);
                // A journal that cannot be read now is tried again in the next round.
                let _ = watched.look();
                watched.news(since.as_deref())
            };
            if let Some((id, data)) = news {
                http::say(stream, &format!("id: {id}\nevent: news\ndata: {data}\n\n"))?;
                (since, last_sent) = (Some(id), Instant::now());
            } else if last_sent.elapsed() >= BEAT {
                http::say(stream, "event: beat\ndata: {}\n\n")?;
                last_sent = Instant::now();
            }
            if http::is_gone_within(stream, LOOK) {
                return Ok(());
            }
        }
        Ok(())
    }
}

enum Answer {
    Whole(Response),
    Stream { watched: Arc<Mutex<Watched>>, since: Option<String> },
}

/// A slot of a limited resource, released on drop.
struct Place {
    desk: Arc<Desk>,
    counter: fn(&Desk) -> &AtomicUsize,
}

impl Place {
    fn take(desk: &Arc<Desk>, counter: fn(&Desk) -> &AtomicUsize, most: usize) -> Option<Self> {
        let taken = counter(desk).fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
            (count < most).then_some(count + 1)
        });
        taken.ok().map(|_| Self { desk: Arc::clone(desk), counter })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        (self.counter)(&self.desk).fetch_sub(1, Ordering::AcqRel);
    }
}

/// Ignores poisoning: a thread that panicked leaves the data usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Parses a request and checks its admission, for fuzzing.
pub(crate) fn fuzz(bytes: &[u8]) {
    use admission::{Admitted, Route};

    let Some(request) = http::read_whole(bytes) else { return };
    let token = "0123456789abcdef0123456789abcdef";
    let Admitted::Yes(route) = admission::admit(&request, 4711, token) else { return };
    let host = request.header("host");
    assert!(
        matches!(host, Some("127.0.0.1:4711" | "localhost:4711")),
        "{host:?} is a foreign host"
    );
    let is_open = matches!(route, Route::Open { .. });
    assert!(
        is_open || request.path.starts_with(&format!("/{token}/")),
        "{route:?} without a token"
    );
    if let Route::Run { key } | Route::Events { key, .. } | Route::Wish { key, .. } = &route {
        assert!(!key.contains(['/', '.', '%', '\0']), "{key:?} is not a key");
    }
    if let Route::Wish { .. } = route {
        assert_eq!(
            request.header("x-ralph-token"),
            Some(token),
            "a control request needs the token"
        );
    }
}

#[cfg(test)]
mod tests;
