//! Posts JSON over HTTP, patiently and within bounds: for webhooks and telemetry.
//!
//! Redirects are not followed and proxies not used: the address that was looked up and checked is
//! the one that is talked to. Of an answer only the beginning is read. Not here: what is posted.

mod rest;

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use ralph_core::sandbox::addresses::{Nearby, nearby};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error};

pub(crate) use rest::Rest;

use crate::bounded;

/// What of an answer is worth reading.
const LONGEST_ANSWER: u64 = 4096;

/// A server that wants to be asked later than this is not asked again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Which addresses may be talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Public ones, encrypted.
    Public,
    /// Those of this machine and of private networks as well; public ones only encrypted.
    Private,
    /// Any.
    Any,
}

/// Where to post, and how patiently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Which addresses may be talked to.
    pub reach: Reach,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How often it is tried again.
    pub retries: u32,
    /// How long to wait before the first retry; each further one waits twice as long.
    pub backoff: Duration,
    /// Whose certificates are good.
    pub roots: Roots,
}

/// The authorities whose certificates are good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roots {
    /// Those of Mozilla, as they are built in.
    BuiltIn,
    /// Those in a file of PEM, and no others.
    File {
        /// The file.
        path: PathBuf,
        /// The variable that names it.
        variable: &'static str,
    },
}

/// The variable that names such a file to OpenSSL, and to most programs that speak TLS.
pub const SSL_CERT_FILE: &str = "SSL_CERT_FILE";

/// A bundle of all authorities of the world has some hundred kilobytes.
const LARGEST_ROOTS: u64 = 8 * 1024 * 1024;

impl Roots {
    /// Returns what the first of some variables says that is set in an environment.
    pub fn of(env: &[(OsString, OsString)], variables: &[&'static str]) -> Self {
        let named = variables.iter().find_map(|&variable| {
            let (_, path) = env.iter().find(|(name, path)| name == variable && !path.is_empty())?;
            Some(Self::File { path: path.into(), variable })
        });
        named.unwrap_or(Self::BuiltIn)
    }

    fn read(&self) -> Result<RootCerts, String> {
        let (path, variable) = match self {
            Self::BuiltIn => return Ok(RootCerts::WebPki),
            Self::File { path, variable } => (path, variable),
        };
        let place = format!("`{}`, which {variable} names", path.display());
        let text = bounded::read_beginning(path, LARGEST_ROOTS)
            .map_err(|error| format!("cannot read {place}: {error}"))?;
        let mut certificates = Vec::new();
        for item in parse_pem(&text) {
            match item {
                Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
                Ok(_) => {}
                Err(error) => return Err(format!("cannot read {place}: {error}")),
            }
        }
        if certificates.is_empty() {
            return Err(format!("there is no certificate in {place}"));
        }
        Ok(certificates.into())
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The beginning of the body.
    pub body: String,
}

/// Why nothing was delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The server said no.
    #[error("{host} answered {status}{}", said(.body))]
    Refused {
        /// The host.
        host: String,
        /// The status.
        status: u16,
        /// The beginning of what it said.
        body: String,
    },
    /// The server points elsewhere.
    #[error("{host} answered {status}, and redirects are not followed")]
    Redirected {
        /// The host.
        host: String,
        /// The status.
        status: u16,
    },
    /// It could not be reached, or did not answer in time.
    #[error("cannot reach {host}: {reason}")]
    Unreachable {
        /// The host.
        host: String,
        /// Why.
        reason: String,
    },
    /// Its address may not be talked to.
    #[error("{reason}")]
    Forbidden {
        /// Which one, and what it is.
        reason: String,
    },
}

fn said(body: &str) -> String {
    let body = ralph_core::text::one_line(body, 200);
    if body.is_empty() { String::new() } else { format!(": {body}") }
}

/// Whether to go on after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// The pause is over.
    Left,
    /// There is no time for it.
    Gone,
}

/// Posts to one place.
#[derive(Debug)]
pub struct Poster {
    /// None where its certificates cannot be read, with the reason.
    agent: Result<Agent, String>,
    url: String,
    host: String,
    terms: Terms,
}

impl Poster {
    /// Returns one for a place. What is wrong with the URL shows when it is used.
    pub fn new(url: impl Into<String>, terms: Terms) -> Self {
        let url = url.into();
        let host = host_of(&url);
        let is_plain = url.starts_with("http://");
        let roots = if is_plain { Ok(RootCerts::WebPki) } else { terms.roots.read() };
        let agent = roots.map(|roots| agent(&terms, roots));
        Self { agent, url, host, terms }
    }

    /// Returns the host, which is all of a URL that may be shown: the rest is often a secret.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Posts a body, and again after a pause where that can help: after errors of the connection or
    /// of the server, and when it asks for it. `headers` is asked before each attempt.
    pub fn post(
        &self,
        body: &[u8],
        headers: &dyn Fn() -> Vec<(String, String)>,
        pause: &mut dyn FnMut(Duration) -> Patience,
    ) -> Result<Answer, PostError> {
        let mut backoff = self.terms.backoff;
        let mut left = self.terms.retries;
        loop {
            let (error, wait) = match self.attempt(body, &headers()) {
                Ok(answer) => return Ok(answer),
                Err(Attempt::Hopeless(error)) => return Err(error),
                Err(Attempt::Later(error, wanted)) => (error, wanted.unwrap_or(backoff)),
            };
            if left == 0 || wait > LONGEST_PAUSE || pause(wait) == Patience::Gone {
                return Err(error);
            }
            left -= 1;
            backoff = backoff.saturating_mul(2);
        }
    }

    fn attempt(&self, body: &[u8], headers: &[(String, String)]) -> Result<Answer, Attempt> {
        let agent = self
            .agent
            .as_ref()
            .map_err(|reason| Attempt::Hopeless(PostError::Forbidden { reason: reason.clone() }))?;
        let mut request = agent.post(&self.url).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let mut response = request.send(body).map_err(|error| self.trouble(error))?;
        let status = response.status().as_u16();
        let wanted = response.headers().get("retry-after").and_then(|it| it.to_str().ok());
        let wanted = wanted.and_then(|it| it.trim().parse().ok()).map(Duration::from_secs);
        let mut bytes = Vec::new();
        // The status is what counts; a body that breaks off changes nothing.
        let _ = response.body_mut().as_reader().take(LONGEST_ANSWER).read_to_end(&mut bytes);
        let body = String::from_utf8_lossy(&bytes).into_owned();
        let host = self.host.clone();
        match status {
            200..=299 => Ok(Answer { status, body }),
            300..=399 => Err(Attempt::Hopeless(PostError::Redirected { host, status })),
            408 | 429 | 500..=599 => {
                Err(Attempt::Later(PostError::Refused { host, status, body }, wanted))
            }
            _ => Err(Attempt::Hopeless(PostError::Refused { host, status, body })),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "of another crate, which adds to it")]
    fn trouble(&self, error: Error) -> Attempt {
        let host = self.host.clone();
        let unreachable = |reason: String| PostError::Unreachable { host, reason };
        match error {
            Error::Io(error) if is_verdict(&error) => {
                Attempt::Hopeless(PostError::Forbidden { reason: error.to_string() })
            }
            Error::Io(error) => Attempt::Later(unreachable(error.to_string()), None),
            Error::Timeout(_) => {
                let timeout = self.terms.timeout.as_millis();
                Attempt::Later(unreachable(format!("no answer within {timeout} ms")), None)
            }
            Error::HostNotFound => {
                Attempt::Later(unreachable("its name was not found".to_owned()), None)
            }
            Error::ConnectionFailed => {
                Attempt::Later(unreachable("the connection failed".to_owned()), None)
            }
            Error::Protocol(error) => Attempt::Later(unreachable(error.to_string()), None),
            // Such texts may hold the URL.
            Error::BadUri(_) | Error::Http(_) => {
                Attempt::Hopeless(unreachable("the URL cannot be used".to_owned()))
            }
            other => Attempt::Hopeless(unreachable(other.to_string())),
        }
    }
}

fn agent(terms: &Terms, roots: RootCerts) -> Agent {
    let config = Config::builder()
        .timeout_global(Some(terms.timeout))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .proxy(None)
        .tls_config(TlsConfig::builder().root_certs(roots).build())
        .user_agent(concat!("ralph/", env!("CARGO_PKG_VERSION")))
        .max_idle_connections(1)
        .build();
    let resolver = Checked { reach: terms.reach, inner: DefaultResolver::default() };
    Agent::with_parts(config, DefaultConnector::default(), resolver)
}

/// Returns the host of a URL with its port, as far as that can be told.
fn host_of(url: &str) -> String {
    let uri = url.parse::<Uri>().ok();
    let authority = uri.as_ref().and_then(Uri::authority);
    let host = authority.map(|it| it.as_str().rsplit('@').next().unwrap_or_default().to_owned());
    host.unwrap_or_else(|| "the URL".to_owned())
}

/// Why an attempt failed, and whether another one can help.
enum Attempt {
    /// None can.
    Hopeless(PostError),
    /// One may, after this long if the server says so.
    Later(PostError, Option<Duration>),
}

/// Looks names up, and refuses addresses that are out of reach.
#[derive(Debug)]
struct Checked {
    reach: Reach,
    inner: DefaultResolver,
}

impl Resolver for Checked {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let found = self.inner.resolve(uri, config, timeout)?;
        let is_plain = uri.scheme_str() == Some("http");
        for address in &found {
            if let Some(why) = forbidden(self.reach, nearby(address.ip()), is_plain.into()) {
                let host = uri.host().unwrap_or_default();
                let reason = format!("{host} leads to {}: {why}", address.ip());
                return Err(Error::Io(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    Verdict(reason),
                )));
            }
        }
        Ok(found)
    }
}

/// Whether bytes can be read on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encryption {
    None,
    Tls,
}

impl From<bool> for Encryption {
    fn from(is_plain: bool) -> Self {
        if is_plain { Self::None } else { Self::Tls }
    }
}

/// Says why an address may not be talked to, if it may not.
fn forbidden(reach: Reach, kind: Option<Nearby>, encryption: Encryption) -> Option<String> {
    match (reach, kind) {
        (Reach::Any, _)
        | (Reach::Private, Some(Nearby::Loopback | Nearby::Private | Nearby::Own)) => None,
        (Reach::Public | Reach::Private, None) => (encryption == Encryption::None)
            .then(|| "a public address, and only https:// goes there".to_owned()),
        (Reach::Public, Some(kind @ (Nearby::Loopback | Nearby::Private | Nearby::Own))) => {
            Some(format!("{kind}, which needs `allowPrivate`"))
        }
        (Reach::Public | Reach::Private, Some(kind)) => Some(kind.words().to_owned()),
    }
}

/// Marks an error of ours among those of the system.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Verdict(String);

fn is_verdict(error: &io::Error) -> bool {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Verdict>()).is_some()
}

#[cfg(test)]
mod tests;
