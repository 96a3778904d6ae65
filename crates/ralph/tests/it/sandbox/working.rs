//! What must work in a sandbox: everyday tools.

use std::fs;
use std::path::PathBuf;

use ralph_testkit::sealed::Running;

use super::{backends, inside, script};
use crate::{repository, sealed};

/// Runs a script in each backend, in a repository, and expects it to succeed.
#[track_caller]
fn works(files: &[(&str, &str)], body: &str) {
    for backend in backends() {
        let sealed = repository();
        for (path, text) in files {
            sealed.write_file(path, text);
        }
        let ran = script(&sealed, backend, body);
        assert_eq!(ran.code, Some(0), "{backend}:\n{}\n{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn python_with_processes_pipes_and_shared_memory() {
    let program = "
import multiprocessing, os, subprocess, tempfile
def double(number):
    return number * 2
if __name__ == '__main__':
    with multiprocessing.Pool(2) as pool:
        assert pool.map(double, [1, 2]) == [2, 4]
    with tempfile.NamedTemporaryFile() as file:
        file.write(b'x')
    assert subprocess.check_output(['echo', 'hi']) == b'hi\\n'
    assert multiprocessing.Value('i', 3).value == 3
";
    works(&[("work.py", program)], "/usr/bin/python3 work.py");
}

#[test]
fn a_terminal_of_its_own() {
    let program = "
import os, pty
pid, master = pty.fork()
if pid == 0:
    os.execvp('sh', ['sh', '-c', 'test -t 0 && echo it is one'])
text = b''
try:
    while True:
        piece = os.read(master, 1024)
        if not piece:
            break
        text += piece
except OSError:
    pass
assert b'it is one' in text, text
assert os.waitpid(pid, 0)[1] == 0
";
    works(&[("terminal.py", program)], "/usr/bin/python3 terminal.py");
}

#[test]
fn git_can_be_read() {
    works(
        &[("new.txt", "x")],
        "git status --short | grep -q new.txt && git diff HEAD && git log --oneline | grep -q Begin \
         && test \"$(git status --short | wc -l)\" = 1",
    );
}

#[test]
fn an_agent_that_commits_can() {
    works(
        &[("new.txt", "x"), (".ralph/settings.json", r#"{"sandbox": {"git": "agent"}}"#)],
        "git add -A && git commit -qm 'By an agent' && git checkout -qb branch && \
         test -z \"$(git status --short)\" && test \"$(git show --stat --format= | wc -l)\" = 3",
    );
}

#[test]
fn node_and_npm_scripts() {
    if std::process::Command::new("node").arg("--version").output().is_err() {
        return;
    }
    works(
        &[("package.json", r#"{"scripts": {"test": "node -e 'console.log(1+1)'"}}"#)],
        "node -e 'require(\"child_process\").execSync(\"true\")' && npm test --silent | grep -q 2",
    );
}

#[test]
fn a_server_on_its_own_loopback() {
    let program = "
import socket, threading
server = socket.create_server(('127.0.0.1', 0))
def answer():
    connection, _ = server.accept()
    connection.sendall(b'hello')
    connection.close()
threading.Thread(target=answer).start()
with socket.create_connection(server.getsockname()) as it:
    assert it.recv(5) == b'hello'
";
    for backend in backends().into_iter().filter(|it| *it != "landlock") {
        let sealed = sealed();
        sealed.write_file("server.py", program);
        let ran = inside(&sealed, backend, &["/usr/bin/python3", "server.py"]);
        assert_eq!(ran.code, Some(0), "{backend}: {}", ran.stderr);
    }
}

#[test]
fn own_sockets_work_and_host_sockets_are_hidden() {
    let program = "
import socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind('/tmp/own')
server.listen()
socket.socket(socket.AF_UNIX).connect('/tmp/own')
try:
    socket.socket(socket.AF_UNIX).connect('host.sock')
    sys.exit(3)
except OSError:
    pass
import multiprocessing
if __name__ == '__main__':
    multiprocessing.Manager().list([1])
";
    for backend in backends().into_iter().filter(|it| *it != "landlock") {
        let sealed = sealed();
        sealed.write_file("sockets.py", program);
        let _host = std::os::unix::net::UnixListener::bind(sealed.project_dir().join("host.sock"))
            .expect("a socket of the host's");
        let ran = inside(&sealed, backend, &["/usr/bin/python3", "sockets.py"]);
        assert_eq!(ran.code, Some(0), "{backend}: {}", ran.stderr);
    }
}

#[test]
fn a_crate_is_built_with_the_toolchain_in_the_home() {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    if ![".cargo/bin/cargo", ".rustup"].iter().all(|name| home.join(name).exists()) {
        return;
    }
    for backend in backends() {
        let sealed = sealed();
        sealed.write_file("Cargo.toml", "[package]\nname = \"tiny\"\nedition = \"2024\"\n");
        sealed.write_file("src/main.rs", "fn main() { println!(\"built\"); }\n");
        let bin = home.join(".cargo/bin");
        let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command
            .args(["sandbox", "exec", "--backend", backend, "--network", "none", "--"])
            .args(["sh", "-c", "cargo build --offline --quiet && ./target/debug/tiny"])
            .env("HOME", &home)
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
        let ran = Running::start_command(command).wait_for_end();
        assert_eq!(ran.stdout, "built\n", "{backend}: {}", ran.stderr);
    }
}

#[test]
fn programs_in_the_home_that_are_on_the_path() {
    for backend in backends() {
        let sealed = sealed();
        let bin = sealed.root().join("home/.local/bin");
        fs::create_dir_all(&bin).expect("a directory");
        let tool = bin.join("tool");
        fs::write(&tool, "#!/bin/sh\necho tool\n").expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&tool, mode).expect("a mode");
        let ran = inside(&sealed, backend, &[&tool.to_string_lossy()]);
        assert_eq!(ran.stdout, "tool\n", "{backend}: {}", ran.stderr);
    }
}

#[test]
fn programs_that_the_path_finds_through_links_in_temporary_places() {
    for backend in backends() {
        let sealed = sealed();
        let system = sealed.root().join("store/system/sw");
        fs::create_dir_all(system.join("bin")).expect("a directory");
        fs::create_dir(sealed.root().join("run")).expect("a directory");
        let link = sealed.root().join("run/current-system");
        std::os::unix::fs::symlink(sealed.root().join("store/system"), &link).expect("a link");
        fs::write(system.join("words"), "found").expect("written");
        let tool = system.join("bin/tool");
        fs::write(&tool, "#!/bin/sh\ncat \"${0%/bin/*}/words\"\n").expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&tool, mode).expect("a mode");
        let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        let words = ["sandbox", "exec", "--backend", backend, "--network", "none", "--", "tool"];
        command.args(words).env("PATH", format!("{}/sw/bin:/usr/bin:/bin", link.display()));
        let ran = Running::start_command(command).wait_for_end();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "found"), "{}", ran.stderr);
    }
}
