//! `ralph __bridge DIRECTORY`: the proxy's end inside a container.
//!
//! A container without a network has only a directory with sockets of the proxy outside. This
//! listens on the loopback inside and leads each connection to its socket. Not here: rules, which
//! are all outside, and the program that runs beside it (`process::run_beside`).

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::handover::Purpose;
use super::socket::{Socket, Stop, Stopper, signal};
use super::tunnel::{self, Silence};
use super::variables::PORT_INSIDE;

/// The bridge ends with this value.
#[derive(Debug)]
pub struct Bridge {
    _stopper: Stopper,
}

/// Opens a listener for each socket in the directory: the proxy's on its usual port, a forwarded
/// one on its own.
pub fn open(directory: &Path) -> io::Result<Bridge> {
    let (stopper, stop) = signal()?;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(purpose) = name.to_str().and_then(Purpose::from_socket_name) else { continue };
        let port = match purpose {
            Purpose::Proxy => PORT_INSIDE,
            Purpose::Forward(port) => port,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let (socket, stop) = (entry.path(), stop.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (socket, stop) = (socket.clone(), stop.clone());
                // Who is refused a thread sees the connection end.
                let _ = thread::Builder::new().stack_size(256 << 10).spawn(move || {
                    let _ = lead(client.into(), &socket, &stop);
                });
            }
        });
    }
    Ok(Bridge { _stopper: stopper })
}

fn lead(client: std::os::fd::OwnedFd, socket: &Path, stop: &Stop) -> io::Result<()> {
    let client = Socket::new(client)?;
    let server = Socket::new(UnixStream::connect(socket)?.into())?;
    // The proxy outside knows when enough is enough.
    let day = Duration::from_secs(24 * 3600);
    tunnel::run(&client, &server, Vec::new(), Silence { open: day, half_closed: day }, stop)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Shutdown, TcpStream};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_port_inside_leads_to_its_socket_and_other_files_to_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let port = {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            free.local_addr().expect("an address").port()
        };
        for name in ["notes.txt", "forward-x.sock", "forward-70000.sock"] {
            std::fs::write(directory.path().join(name), "").expect("written");
        }
        let path = directory.path().join(format!("forward-{port}.sock"));
        let outside = UnixListener::bind(path).expect("a socket");
        let bridge = open(directory.path()).expect("a bridge");
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connected");
        let (mut server, _) = outside.accept().expect("led here");
        client.write_all(b"question").expect("written");
        client.shutdown(Shutdown::Write).expect("ended");
        let mut question = String::new();
        server.read_to_string(&mut question).expect("read");
        server.write_all(b"answer").expect("written");
        drop(server);
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("read");
        assert_eq!((question.as_str(), answer.as_str()), ("question", "answer"));
        drop(bridge);
    }
}
