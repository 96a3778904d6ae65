//! A temporary environment around a sandbox: a home with secrets, a project with things to
//! protect, and servers and a process of the host that must be unreachable from inside.

use std::fs;
use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ralph_testkit::sealed::{Finished, Running, Sealed};
use serde_json::{Value, json};

/// A user id without an account.
const UNUSED_ID: u32 = 54_321;

/// The user that starts ralph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    /// The user of the tests, if that is not root.
    Ordinary,
    /// Root.
    Root,
}

impl User {
    /// Returns the users that can be tested. CI has both.
    #[expect(clippy::print_stderr, reason = "what is left out must be seen")]
    pub(super) fn all() -> Vec<Self> {
        if rustix::process::geteuid().is_root() {
            vec![Self::Ordinary, Self::Root]
        } else {
            eprintln!("LEFT OUT: ralph in a sandbox as root");
            vec![Self::Ordinary]
        }
    }
}

/// The environment around a sandbox.
pub(super) struct World {
    pub(super) sealed: Sealed,
    user: User,
    ralph: PathBuf,
    bystander: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    /// Held open so that they accept connections.
    _sockets: Vec<UnixListener>,
}

impl World {
    pub(super) fn new(user: User) -> Self {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        let root = sealed.root().to_owned();
        // The build directory may be closed to others.
        let ralph = root.join("ralph");
        fs::copy(env!("CARGO_BIN_EXE_ralph"), &ralph).expect("a copy");
        for (path, text) in [
            ("home/.ssh/id_ed25519", "canary"),
            ("home/.aws/credentials", "canary"),
            ("home/.config/gh/hosts.yml", "canary"),
            ("home/.cargo/credentials.toml", "canary"),
            ("home/.local/bin/tool", "#!/bin/sh\necho tool\n"),
            ("outside/overwritten", "canary"),
            ("outside/target", "canary"),
            ("outside/linked", "canary"),
            ("outside/chmodded", "canary"),
            ("state/ralph/canary", "canary"),
            ("project/.claude/settings.json", "{}"),
            ("project/docs/deep/spec/rules.md", "rules"),
            ("project/hidden/secret.txt", "canary"),
            (
                "project/.ralph/settings.json",
                r#"{"sandbox": {"ro": ["docs/deep/spec"], "hide": ["hidden"]}}"#,
            ),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("written");
        }
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(root.join("outside/chmodded"), private).expect("a mode");
        symlink(root.join("outside/target"), root.join("project/link-out")).expect("a link");
        let marker = marker(&sealed);
        let at = |path: &str| UnixListener::bind(root.join(path)).expect("a socket");
        let abstract_one =
            SocketAddr::from_abstract_name(marker.as_bytes()).expect("an abstract name");
        let sockets = vec![
            at("outside/socket"),
            at("home/socket"),
            at("project/socket"),
            UnixListener::bind_addr(&abstract_one).expect("an abstract socket"),
        ];
        if user == User::Ordinary && rustix::process::geteuid().is_root() {
            give_away(&root);
        }
        let mut bystander = Command::new("sleep");
        bystander.arg("424242").env("ESCAPE_SECRET", "canary").stdin(Stdio::null());
        become_user(&mut bystander, user);
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        udp.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        let bystander = bystander.spawn().expect("a process");
        Self { sealed, user, ralph, bystander, tcp, udp, _sockets: sockets }
    }

    /// Runs a command in an agent's sandbox without a network.
    pub(super) fn inside(&self, backend: &str, words: &[&str]) -> Finished {
        let mut command = self.sealed.build_command(&self.ralph);
        command
            .args(["sandbox", "exec", "--backend", backend, "--network", "none", "--"])
            .args(words)
            // The harder case; a project cannot request it.
            .env("RALPH_SANDBOX_GIT", "agent")
            .env("ESCAPE_SECRET", "canary");
        if backend == "container" {
            command.env("RALPH_SANDBOX_IMAGE", super::image::image().expect("an image"));
        }
        become_user(&mut command, self.user);
        Running::start_command(command).wait_for_end()
    }

    /// Returns the paths for the escape attempts.
    pub(super) fn map(&self) -> Value {
        let place = |name: &str| self.sealed.root().join(name);
        json!({
            "home": place("home"),
            "outside": place("outside"),
            "state": place("state/ralph"),
            "marker": marker(&self.sealed),
            "pid": self.bystander.id(),
            "tcp": self.tcp.local_addr().expect("an address").port(),
            "udp": self.udp.local_addr().expect("an address").port(),
        })
    }

    /// Returns whether a file has content written from inside. `@` is replaced by a name of this
    /// environment.
    pub(super) fn has_arrived(&self, path: &str) -> bool {
        let mut text = String::new();
        let read = fs::File::open(self.path(path))
            .and_then(|file| file.take(64).read_to_string(&mut text));
        read.is_ok() && text.contains("escaped")
    }

    /// Returns whether something is there.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Returns whether a file is world-writable.
    pub(super) fn is_open(&self, path: &str) -> bool {
        fs::metadata(self.path(path)).is_ok_and(|about| about.permissions().mode() & 0o066 != 0)
    }

    /// Returns whether a datagram has come.
    pub(super) fn has_received(&self) -> bool {
        self.udp.recv(&mut [0; 64]).is_ok()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.sealed.root().join(path.replace('@', &marker(&self.sealed)))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.bystander.kill();
        let _ = self.bystander.wait();
        for path in ["/tmp/@", "/var/tmp/@", "/dev/shm/@", "/usr/local/@", "/etc/@"] {
            let _ = fs::remove_file(self.path(path));
        }
    }
}

/// Returns a unique name.
fn marker(sealed: &Sealed) -> String {
    let name = sealed.root().file_name().expect("a name").to_string_lossy().into_owned();
    format!("ralph-escape{name}")
}

fn become_user(command: &mut Command, user: User) {
    if user == User::Ordinary && rustix::process::geteuid().is_root() {
        command.uid(UNUSED_ID).gid(UNUSED_ID);
    }
}

fn give_away(path: &Path) {
    chown(path, Some(UNUSED_ID), Some(UNUSED_ID)).expect("given away");
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).expect("readable").flatten() {
            if !entry.path().is_symlink() {
                give_away(&entry.path());
            }
        }
    }
}
