//! The page of a run, live, on this machine only: a small HTTP server on plain threads.
//!
//! It speaks just as much HTTP as a browser needs for one page: one request a connection, which is
//! then closed, so that nothing can hide behind a first request. Everything is bounded: the size of
//! a request and the time it takes, connections, streams, what is kept of runs. Who may ask is
//! decided in `admission`. What is shown comes from [`Runs`], which the binary implements; a run is
//! never written to but by wishes. Not here: the page itself, and reading journals.

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

/// More than any number of pages that somebody has open; a few megabytes at worst.
const MOST_CONNECTIONS: usize = 64;

/// Pages that are followed at the same time. What is left is for those that come and go.
const MOST_STREAMS: usize = 32;

/// Runs that are kept at hand; reading one again takes moments.
const MOST_WATCHED: usize = 4;

/// How often a journal is looked at for each page that follows it.
const LOOK: Duration = Duration::from_millis(300);

/// A page hears something this often, so that both sides know of each other.
const BEAT: Duration = Duration::from_secs(15);

/// A stream ends after this long and the page asks anew: nothing is held for ever.
const LONGEST_STREAM: Duration = Duration::from_secs(6 * 60 * 60);

/// A page has this long to ask after its address was handed to a browser.
const TICKET_LIFE: Duration = Duration::from_secs(60);

/// What the server shows, and whom it tells what people wish.
pub trait Runs: Send + Sync {
    /// Returns the runs to pick from, newest first.
    fn list(&self) -> Vec<Listed>;

    /// Opens a run to be followed; nothing if there is none with this key. What is learned of it is
    /// kept for pages, their streams and wishes alike.
    fn follow(&self, key: &str) -> Option<Box<dyn Follow>>;
}

/// A run that is followed.
pub trait Follow: Send {
    /// Looks at it again, and returns what is to be shown where that may have changed.
    fn look(&mut self) -> Result<Option<Shown>, String>;

    /// Sends a wish to it, or says why that cannot be.
    fn wish(&mut self, wish: &Wish) -> Result<(), String>;
}

/// What is shown of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The title of the page.
    pub title: String,
    /// Its parts.
    pub parts: Vec<Part>,
    /// Whether buttons work.
    pub controls: Controls,
}

/// A server that has its port.
pub struct Server {
    listener: TcpListener,
    desk: Arc<Desk>,
}

/// What all connections share.
struct Desk {
    runs: Box<dyn Runs>,
    clock: WallClock,
    port: u16,
    token: String,
    /// What a browser may trade for the address, once and soon.
    ticket: Mutex<Option<(String, Instant)>>,
    watched: Mutex<BTreeMap<String, Arc<Mutex<Watched>>>>,
    next: AtomicUsize,
    connections: AtomicUsize,
    streams: AtomicUsize,
}

impl Server {
    /// Takes a port of the loopback address; 0 takes any that is free. The token must be drawn by
    /// chance: who knows it may see all and ask for anything.
    pub fn bind(
        port: u16,
        token: String,
        runs: Box<dyn Runs>,
        clock: WallClock,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let port = listener.local_addr()?.port();
        // A page may come back to a server that was started again, and must not take what that
        // one counts for what the former had counted.
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

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.desk.port
    }

    /// Returns the address with the token.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.desk.port, self.desk.token)
    }

    /// Returns an address that leads to the real one, once and for a minute. Other users of this
    /// machine see the command line of a program that opens a browser.
    pub fn ticket_url(&self, ticket: String) -> String {
        let url = format!("http://127.0.0.1:{}/open/{ticket}", self.desk.port);
        *lock(&self.desk.ticket) = Some((ticket, Instant::now()));
        url
    }

    /// Serves for ever.
    pub fn run(self) -> ! {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.desk.receive(stream),
                // Out of handles, or a client that was gone at once: neither is worth an end.
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
            // Who goes away has no further questions.
            let _ = desk.serve(&stream);
        };
        // Who is refused a thread sees the connection end.
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
            Admitted::Yes(Route::Wish { key, wish }) => match self.watched(&key) {
                Err(response) => response,
                Ok(watched) => match lock(&watched).wish(&wish) {
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
        // Taken out whoever asks: a wrong guess spoils it, and the user has the real address.
        let known = lock(&self.ticket).take();
        match known {
            Some((known, made))
                if admission::is_same(&known, ticket) && made.elapsed() < TICKET_LIFE =>
            {
                Response::elsewhere(&format!("/{}/", self.token))
            }
            Some(_) | None => Response::plain(403, "This address was good for one visit only."),
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

    /// Returns a run that is kept at hand, or opens it. The one that was not used for longest makes
    /// room; who follows it keeps it.
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
                None => return Err(Response::plain(503, "Too many runs are being looked at.")),
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let watched = Arc::new(Mutex::new(Watched::new(number, follow)));
        all.insert(key.to_owned(), Arc::clone(&watched));
        Ok(watched)
    }

    /// Tells what changes, until the page goes away.
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
        let (began, mut spoke) = (Instant::now(), Instant::now());
        while began.elapsed() < LONGEST_STREAM {
            let news = {
                let mut watched = lock(watched);
                // A journal that cannot be read just now is looked at again.
                let _ = watched.look();
                watched.news(since.as_deref())
            };
            if let Some((id, data)) = news {
                http::say(stream, &format!("id: {id}\nevent: news\ndata: {data}\n\n"))?;
                (since, spoke) = (Some(id), Instant::now());
            } else if spoke.elapsed() >= BEAT {
                http::say(stream, "event: beat\ndata: {}\n\n")?;
                spoke = Instant::now();
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

/// One of so many places, given back when it is dropped.
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

/// A thread that broke down leaves nothing half done that the next one could not use.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a request and decides who may ask, for fuzzing.
pub(crate) fn fuzz(bytes: &[u8]) {
    use admission::{Admitted, Route};

    let Some(request) = http::read_whole(bytes) else { return };
    let token = "0123456789abcdef0123456789abcdef";
    let Admitted::Yes(route) = admission::admit(&request, 4711, token) else { return };
    let host = request.header("host");
    assert!(matches!(host, Some("127.0.0.1:4711" | "localhost:4711")), "{host:?} is another one");
    let is_open = matches!(route, Route::Open { .. });
    assert!(
        is_open || request.path.starts_with(&format!("/{token}/")),
        "{route:?} without a token"
    );
    if let Route::Run { key } | Route::Events { key, .. } | Route::Wish { key, .. } = &route {
        assert!(!key.contains(['/', '.', '%', '\0']), "{key:?} is no key");
    }
    if let Route::Wish { .. } = route {
        assert_eq!(request.header("x-ralph-token"), Some(token), "only who was let in may wish");
    }
}

#[cfg(test)]
mod tests;
