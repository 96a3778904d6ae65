//! Posts JSON over HTTP, with retries and bounds: for webhooks and telemetry.
//!
//! Does not follow redirects or use proxies: ralph connects exactly to the address that it resolved
//! and checked. Only the beginning of an answer is read. Not here: what is posted.

mod retry_timer;

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use ralph_core::sandbox::addresses::{AddressClass, classify_address};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error};

pub(crate) use retry_timer::RetryTimer;

use crate::bounded_read;

/// How many bytes of an answer are read.
const LONGEST_ANSWER: u64 = 4096;

/// If the server asks for a longer pause than this, ralph does not retry.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Which addresses ralph may connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpReach {
    /// Public addresses, encrypted.
    Public,
    /// Also addresses of this machine and of private networks; public ones only encrypted.
    Private,
    Any,
}

/// Limits for posting: addresses, timeout, retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostTerms {
    pub reach: HttpReach,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How often it is tried again.
    pub retries: u32,
    /// How long to wait before the first retry; each further one waits twice as long.
    pub backoff: Duration,
    /// The trusted certificate authorities.
    pub roots: Roots,
}

/// The trusted certificate authorities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roots {
    /// The built-in ones of Mozilla.
    BuiltIn,
    /// Only those in a PEM file.
    File {
        path: PathBuf,
        /// The environment variable that names it.
        variable: &'static str,
    },
}

/// The variable for such a file in OpenSSL and most programs that use TLS.
pub const SSL_CERT_FILE: &str = "SSL_CERT_FILE";

/// A bundle of all public authorities has some hundred kilobytes.
const LARGEST_ROOTS: u64 = 8 * 1024 * 1024;

impl Roots {
    /// Returns the file named by the first of `variables` that is set, else the built-in roots.
    pub fn from_env(env: &[(OsString, OsString)], variables: &[&'static str]) -> Self {
        let named = variables.iter().find_map(|&variable| {
            let (_, path) = env.iter().find(|(name, path)| name == variable && !path.is_empty())?;
            Some(Self::File { path: path.into(), variable })
        });
        named.unwrap_or(Self::BuiltIn)
    }

    fn read_certificates(&self) -> Result<RootCerts, String> {
        let (path, variable) = match self {
            Self::BuiltIn => return Ok(RootCerts::WebPki),
            Self::File { path, variable } => (path, variable),
        };
        let place = format!("`{}`, which {variable} names", path.display());
        let text = bounded_read::read_beginning(path, LARGEST_ROOTS)
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

/// A successful answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    pub status: u16,
    /// The beginning of the body.
    pub body: String,
}

/// Why a post failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The server answered with an error status.
    #[error("{host} answered {status}{}", format_body_suffix(.body))]
    Refused {
        host: String,
        status: u16,
        /// The beginning of the body.
        body: String,
    },
    /// The server answered with a redirect.
    #[error("{host} answered {status}, and redirects are not followed")]
    Redirected { host: String, status: u16 },
    /// The server could not be reached, or did not answer in time.
    #[error("cannot reach {host}: {reason}")]
    Unreachable { host: String, reason: String },
    /// Its address is not allowed.
    #[error("{reason}")]
    Forbidden { reason: String },
}

fn format_body_suffix(body: &str) -> String {
    let body = ralph_model::text::join_to_line(body, 200);
    if body.is_empty() { String::new() } else { format!(": {body}") }
}

/// Whether to continue after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseEnd {
    /// The pause is over.
    Elapsed,
    /// The time is up.
    OutOfTime,
}

/// Posts to one URL.
#[derive(Debug)]
pub struct Poster {
    /// An error if the certificates cannot be read.
    agent: Result<Agent, String>,
    url: String,
    host: String,
    terms: PostTerms,
}

impl Poster {
    /// Returns a poster for a URL. Problems with the URL show when it is used.
    pub fn new(url: impl Into<String>, terms: PostTerms) -> Self {
        let url = url.into();
        let host = parse_host(&url);
        let is_plain = url.starts_with("http://");
        let roots = if is_plain { Ok(RootCerts::WebPki) } else { terms.roots.read_certificates() };
        let agent = roots.map(|roots| build_agent(&terms, roots));
        Self { agent, url, host, terms }
    }

    /// Returns the host, the only part of the URL that may be shown: the rest is often a secret.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Posts a body, with retries after connection errors and server errors, or when the server
    /// asks for one. Calls `headers` before each attempt.
    pub fn post(
        &self,
        body: &[u8],
        headers: &dyn Fn() -> Vec<(String, String)>,
        pause: &mut dyn FnMut(Duration) -> PauseEnd,
    ) -> Result<HttpAnswer, PostError> {
        let mut backoff = self.terms.backoff;
        let mut left = self.terms.retries;
        loop {
            let (error, wait) = match self.try_post(body, &headers()) {
                Ok(answer) => return Ok(answer),
                Err(PostFailure::Hopeless(error)) => return Err(error),
                Err(PostFailure::Later(error, wanted)) => (error, wanted.unwrap_or(backoff)),
            };
            if left == 0 || wait > LONGEST_PAUSE || pause(wait) == PauseEnd::OutOfTime {
                return Err(error);
            }
            left -= 1;
            backoff = backoff.saturating_mul(2);
        }
    }

    fn try_post(
        &self,
        body: &[u8],
        headers: &[(String, String)],
    ) -> Result<HttpAnswer, PostFailure> {
        let agent = self.agent.as_ref().map_err(|reason| {
            PostFailure::Hopeless(PostError::Forbidden { reason: reason.clone() })
        })?;
        let mut request = agent.post(&self.url).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let mut response = request.send(body).map_err(|error| self.classify_error(error))?;
        let status = response.status().as_u16();
        let wanted = response.headers().get("retry-after").and_then(|it| it.to_str().ok());
        let wanted = wanted.and_then(|it| it.trim().parse().ok()).map(Duration::from_secs);
        let mut bytes = Vec::new();
        // The status is what counts; a truncated body changes nothing.
        let _ = response.body_mut().as_reader().take(LONGEST_ANSWER).read_to_end(&mut bytes);
        let body = String::from_utf8_lossy(&bytes).into_owned();
        let host = self.host.clone();
        match status {
            200..=299 => Ok(HttpAnswer { status, body }),
            300..=399 => Err(PostFailure::Hopeless(PostError::Redirected { host, status })),
            408 | 429 | 500..=599 => {
                Err(PostFailure::Later(PostError::Refused { host, status, body }, wanted))
            }
            _ => Err(PostFailure::Hopeless(PostError::Refused { host, status, body })),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "an enum of another crate that may grow")]
    fn classify_error(&self, error: Error) -> PostFailure {
        let host = self.host.clone();
        let unreachable = |reason: String| PostError::Unreachable { host, reason };
        match error {
            Error::Io(error) if is_address_refused(&error) => {
                PostFailure::Hopeless(PostError::Forbidden { reason: error.to_string() })
            }
            Error::Io(error) => PostFailure::Later(unreachable(error.to_string()), None),
            Error::Timeout(_) => {
                let timeout = self.terms.timeout.as_millis();
                PostFailure::Later(unreachable(format!("no answer within {timeout} ms")), None)
            }
            Error::HostNotFound => {
                PostFailure::Later(unreachable("its name was not found".to_owned()), None)
            }
            Error::ConnectionFailed => {
                PostFailure::Later(unreachable("the connection failed".to_owned()), None)
            }
            Error::Protocol(error) => PostFailure::Later(unreachable(error.to_string()), None),
            // Their messages may contain the URL.
            Error::BadUri(_) | Error::Http(_) => {
                PostFailure::Hopeless(unreachable("the URL cannot be used".to_owned()))
            }
            other => PostFailure::Hopeless(unreachable(other.to_string())),
        }
    }
}

fn build_agent(terms: &PostTerms, roots: RootCerts) -> Agent {
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
    let resolver = CheckedResolver { reach: terms.reach, inner: DefaultResolver::default() };
    Agent::with_parts(config, DefaultConnector::default(), resolver)
}

/// Returns the host of a URL with its port, if it can be parsed.
fn parse_host(url: &str) -> String {
    let uri = url.parse::<Uri>().ok();
    let authority = uri.as_ref().and_then(Uri::authority);
    let host = authority.map(|it| it.as_str().rsplit('@').next().unwrap_or_default().to_owned());
    host.unwrap_or_else(|| "the URL".to_owned())
}

/// Why an attempt failed, and whether a retry can help.
enum PostFailure {
    /// A retry cannot help.
    Hopeless(PostError),
    /// A retry may help, after this pause if the server names one.
    Later(PostError, Option<Duration>),
}

/// Resolves host names, and refuses addresses that are not allowed.
#[derive(Debug)]
struct CheckedResolver {
    reach: HttpReach,
    inner: DefaultResolver,
}

impl Resolver for CheckedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let found = self.inner.resolve(uri, config, timeout)?;
        let is_plain = uri.scheme_str() == Some("http");
        for address in &found {
            if let Some(why) =
                check_address(self.reach, classify_address(address.ip()), is_plain.into())
            {
                let host = uri.host().unwrap_or_default();
                let reason = format!("{host} leads to {}: {why}", address.ip());
                return Err(Error::Io(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    AddressRefused(reason),
                )));
            }
        }
        Ok(found)
    }
}

/// Whether the connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HttpEncryption {
    Plain,
    Tls,
}

impl From<bool> for HttpEncryption {
    fn from(is_plain: bool) -> Self {
        if is_plain { Self::Plain } else { Self::Tls }
    }
}

/// Returns why an address is not allowed, if it is not.
fn check_address(
    reach: HttpReach,
    kind: Option<AddressClass>,
    encryption: HttpEncryption,
) -> Option<String> {
    match (reach, kind) {
        (HttpReach::Any, _)
        | (
            HttpReach::Private,
            Some(AddressClass::Loopback | AddressClass::Private | AddressClass::Own),
        ) => None,
        (HttpReach::Public | HttpReach::Private, None) => (encryption == HttpEncryption::Plain)
            .then(|| "a public address, and only https:// goes there".to_owned()),
        (
            HttpReach::Public,
            Some(kind @ (AddressClass::Loopback | AddressClass::Private | AddressClass::Own)),
        ) => Some(format!("{kind}, which needs `allowPrivate`")),
        (HttpReach::Public | HttpReach::Private, Some(kind)) => Some(kind.describe().to_owned()),
    }
}

/// Marks an error of ours among those of the system.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct AddressRefused(String);

fn is_address_refused(error: &io::Error) -> bool {
    error.get_ref().and_then(|inner| inner.downcast_ref::<AddressRefused>()).is_some()
}

#[cfg(test)]
mod tests;
