//! `ralph __connect HOST PORT`: connects standard input and output, through the proxy, to a host.
//!
//! For ssh, which does not use the proxy otherwise. Not here: printing.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use rustix::io::dup;
use rustix::stdio::{stdin, stdout};

use super::PORT_INSIDE;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot reach the proxy at {proxy}: {error}")]
    NoProxy { proxy: String, error: io::Error },
    /// The proxy refused; its response.
    #[error("{0}")]
    Refused(String),
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
}

/// Connects, and copies bytes until the host closes the connection.
///
/// `proxy` is the value of `HTTPS_PROXY`; without it the default port is used.
pub fn connect_stdio(host: &str, port: u16, proxy: Option<&str>) -> Result<(), ConnectError> {
    let address = match proxy.and_then(|it| it.strip_prefix("http://")) {
        Some(address) => address.trim_end_matches('/').to_owned(),
        None => format!("127.0.0.1:{PORT_INSIDE}"),
    };
    let mut server = TcpStream::connect(&address)
        .map_err(|error| ConnectError::NoProxy { proxy: address, error })?;
    open_tunnel(&mut server, host, port)?;
    let mut upward = server.try_clone()?;
    // This thread may wait for input that never comes; it ends with the process.
    thread::spawn(move || {
        if let Ok(input) = dup(stdin()) {
            let _ = io::copy(&mut File::from(input), &mut upward);
        }
        let _ = upward.shutdown(Shutdown::Write);
    });
    // `std::io::stdout` would buffer until the end of a line.
    let mut output = File::from(dup(stdout()).map_err(io::Error::from)?);
    io::copy(&mut server, &mut output)?;
    Ok(())
}

/// Asks the proxy for a tunnel, and reads its response up to the first byte of the host's.
fn open_tunnel(server: &mut TcpStream, host: &str, port: u16) -> Result<(), ConnectError> {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    // Longer than the proxy takes to find out that it cannot reach the host.
    server.set_read_timeout(Some(Duration::from_secs(120)))?;
    write!(server, "CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")?;
    let mut head = Vec::new();
    let mut byte = [0];
    // Byte by byte: what follows the head comes from the host, and is read elsewhere.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > 16 << 10 || server.read(&mut byte)? == 0 {
            return Err(ConnectError::Refused("the proxy sent no response".to_owned()));
        }
        head.push(byte[0]);
    }
    if head.starts_with(b"HTTP/1.1 200 ") {
        server.set_read_timeout(None)?;
        return Ok(());
    }
    let mut why = String::new();
    let _ = server.take(4096).read_to_string(&mut why);
    Err(ConnectError::Refused(why.trim_end().to_owned()))
}
