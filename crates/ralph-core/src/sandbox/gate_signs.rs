//! Detects in the output of a failed gate that the sandbox made it fail, and suggests a remedy.
//!
//! Only strong signs count: the text of a system error near the end of the output, together with
//! something that the sandbox is known to withhold.

use ralph_model::sandbox::{NetworkMode, SandboxSign, UnixSockets};
use serde_json::json;

use super::allowlist::ConnectionRefusal;

/// The parts of a gate's sandbox that signs depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateSandbox {
    pub home: Option<String>,
    pub project: String,
    /// Paths in the home directory that can be read inside.
    pub shown: Vec<String>,
    pub network: NetworkMode,
    pub unix_sockets: UnixSockets,
    /// Whether a package manager fetches packages of the project.
    pub has_packages: bool,
}

/// What is known outside of the sandbox.
pub struct OutsideView<'a> {
    /// Whether a path exists.
    pub exists: &'a dyn Fn(&str) -> bool,
    /// Whether a server of this machine listens on a port.
    pub is_listening: &'a dyn Fn(u16) -> bool,
    /// The connections that the proxy refused.
    pub refusals: &'a [ConnectionRefusal],
}

/// What a gate is missing: the reason, the advice, the setting.
type MissingAccess = (String, Option<String>, Option<String>);

/// The number of lines at the end of an output that are searched.
const LAST_LINES: usize = 60;

/// The most lines between an error and the path before it.
const LINES_BEFORE: usize = 3;

/// The most lines from an error of the network to the host that it is about.
const LINES_AFTER: usize = 8;

/// Longer lines are data.
const LONGEST_LINE: usize = 500;

/// Messages of programs that cannot reach the network.
const NO_NETWORK: [&str; 13] = [
    "could not resolve host",
    "temporary failure in name resolution",
    "temporary failure resolving",
    "name or service not known",
    "failed to lookup address information",
    "eai_again",
    "getaddrinfo enotfound",
    "java.net.unknownhostexception",
    ": no such host",
    "network is unreachable",
    "in offline mode",
    "for offline mode",
    "--offline was specified",
];

/// What package managers print about what they fetch.
const PACKAGE_WORDS: [&str; 12] = [
    "npm", "yarn", "pip ", "pip._", "poetry", "/simple/", "crate", "registry", "package", "gradle",
    "artifact", "go: ",
];

/// Messages of programs that cannot connect to a port.
const CLOSED: [&str; 2] = ["connection refused", "econnrefused"];

/// Messages of programs that miss a file.
const MISSING: [&str; 5] =
    ["no such file or directory", "enoent", "not found", "cannot find module", "does not exist"];

/// Messages of programs that cannot write a file.
const READ_ONLY: [&str; 2] = ["read-only file system", "erofs:"];

/// Messages of programs that are refused something.
const REFUSED: [&str; 2] = ["operation not permitted", "permission denied"];

/// System directories; no remedy should open these.
const SYSTEM: [&str; 9] =
    ["/usr", "/etc", "/bin", "/lib", "/sbin", "/boot", "/proc", "/sys", "/dev"];

/// Directories in the home directory with one subdirectory per program.
const PROGRAM_DIRECTORIES: [&str; 4] = [".cache", ".config", ".local/share", ".local/state"];

/// Directories of which only the single missing file is shown.
const SECRET: [&str; 5] = [".ssh", ".gnupg", ".aws", ".kube", ".docker"];

/// Returns why a gate failed in the sandbox, if its output shows that. If tests failed by name, the
/// gate itself works, and the network is not what they miss.
pub fn find_sign(
    output: &str,
    failing: &[String],
    sandbox: &GateSandbox,
    outside: &OutsideView<'_>,
) -> Option<SandboxSign> {
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
    let first = lines.len().saturating_sub(LAST_LINES);
    let last = || (first..lines.len()).filter(|at| lines[*at].len() <= LONGEST_LINE);
    let sign = |at: usize, (reason, advice, setting): MissingAccess| SandboxSign {
        line: lines[at].to_owned(),
        reason,
        advice,
        setting,
    };
    let found = last().find_map(|at| {
        let near = &lines[at.saturating_sub(LINES_BEFORE)..=at];
        find_missing_access(near, sandbox, outside)
            .or_else(|| find_missing_network(&lines[at..], failing, sandbox))
            .map(|it| sign(at, it))
    });
    // The proxy knows what it refused; the output shows that it mattered.
    found.or_else(|| {
        last().find_map(|at| find_refused_host(lines[at], outside).map(|it| sign(at, it)))
    })
}

/// Returns what a line misses that names a host which the proxy refused.
fn find_refused_host(line: &str, outside: &OutsideView<'_>) -> Option<MissingAccess> {
    let refusal = outside.refusals.iter().find(|it| line.contains(&it.host))?;
    let ConnectionRefusal { host, port, reason, .. } = refusal;
    let text = format!("the sandbox refused {host}:{port}: {reason}");
    // The list of gates counts whether or not they reach the hosts of agents.
    let remedy = reason.remedy(host, *port);
    Some((text, remedy.map(|it| it.replace("network.allow`", "gates.allow`")), None))
}

/// Returns what a line misses that reports a refused connection to a server of this machine which
/// only the sandbox hides.
fn find_closed_port(line: &str, outside: &OutsideView<'_>) -> Option<MissingAccess> {
    const MARKS: [&str; 5] = ["127.0.0.1:", "localhost:", "::1]:", "::1:", "port "];
    let after = MARKS.iter().filter_map(|mark| line.find(mark).map(|at| &line[at + mark.len()..]));
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let mut ports = after.filter_map(|text| digits(text).parse::<u16>().ok());
    let port = ports.find(|port| *port > 0 && (outside.is_listening)(*port))?;
    let allow = format!("localhost:{port}");
    let setting = json!({ "sandbox": { "gates": { "allow": [allow] } } });
    let reason = format!("port {port} of this machine cannot be reached in the sandbox");
    Some((reason, None, Some(setting.to_string())))
}

/// Checks the last of some lines; the lines before it give the context.
fn find_missing_access(
    near: &[&str],
    sandbox: &GateSandbox,
    outside: &OutsideView<'_>,
) -> Option<MissingAccess> {
    let line = near.last()?.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|it| line.contains(it));
    if has(&READ_ONLY) {
        return find_read_only(&find_nearest_paths(near), sandbox);
    }
    if has(&CLOSED) && sandbox.network != NetworkMode::Host {
        return find_closed_port(&line, outside);
    }
    if has(&MISSING) {
        let exists = outside.exists;
        let path =
            find_nearest_paths(near).into_iter().find(|it| is_hidden(it, sandbox) && exists(it));
        return path.and_then(|path| suggest_visible_path(path, sandbox));
    }
    if has(&REFUSED) && sandbox.unix_sockets == UnixSockets::Deny {
        let is_socket = |it: &&str| it.contains("socket") || it.contains(".sock");
        return near.iter().any(is_socket).then(|| {
            let setting = json!({ "sandbox": { "unixSockets": "private" } });
            ("unix sockets are refused in the sandbox".to_owned(), None, Some(setting.to_string()))
        });
    }
    None
}

/// Checks the first of some lines; the lines after it may name the host.
fn find_missing_network(
    lines: &[&str],
    failing: &[String],
    sandbox: &GateSandbox,
) -> Option<MissingAccess> {
    let line = lines.first()?.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|it| line.contains(it));
    // A test that mentions such an error is not one.
    let is_error = has(&NO_NETWORK) && !has(&["assert", "expected"]);
    if !is_error || !failing.is_empty() || sandbox.network != NetworkMode::None {
        return None;
    }
    let about = || lines.iter().take(LINES_AFTER);
    let is_tool = |line: &&str| {
        let line = line.to_ascii_lowercase();
        PACKAGE_WORDS.iter().any(|it| line.contains(it))
    };
    let setting = match about().find_map(|line| find_host(line)) {
        _ if sandbox.has_packages && about().any(is_tool) => {
            json!({ "sandbox": { "network": { "packages": true } } })
        }
        Some(host) => json!({ "sandbox": { "gates": { "allow": [host] } } }),
        None => json!({ "sandbox": { "gates": { "allow": ["HOST"] } } }),
    };
    let advice = "run it once outside of the sandbox, so that what it fetches is there".to_owned();
    let reason = "gates have no network in the sandbox".to_owned();
    Some((reason, Some(advice), Some(setting.to_string())))
}

fn find_read_only(paths: &[&str], sandbox: &GateSandbox) -> Option<MissingAccess> {
    let is_open = |path: &str| is_below(path, &sandbox.project);
    let is_system = |path: &str| SYSTEM.iter().any(|it| is_below(path, it));
    let path = paths.iter().find(|path| !is_open(path) && !is_system(path))?;
    let directory = find_build_directory(path);
    let reason = format!("`{directory}` is read-only in the sandbox");
    // The visible part of the home directory is the user's own; no agent should write there.
    if sandbox.shown.iter().any(|it| is_below(path, it)) {
        let advice = "run it once outside of the sandbox, so that what it installs is there";
        return Some((reason, Some(advice.to_owned()), None));
    }
    let setting = json!({ "sandbox": { "rw": [directory] } });
    Some((reason, None, Some(setting.to_string())))
}

fn suggest_visible_path(path: &str, sandbox: &GateSandbox) -> Option<MissingAccess> {
    let below = path.strip_prefix(sandbox.home.as_deref()?)?.trim_matches('/');
    let depth = PROGRAM_DIRECTORIES
        .iter()
        .find(|it| is_below(below, it))
        .map_or(0, |it| it.split('/').count());
    let is_secret = SECRET.iter().any(|it| is_below(below, it));
    let taken = if is_secret { usize::MAX } else { depth + 1 };
    let entry = below.split('/').take(taken).collect::<Vec<_>>().join("/");
    let setting = json!({ "sandbox": { "home": [entry] } });
    Some((format!("`~/{below}` is hidden in the sandbox"), None, Some(setting.to_string())))
}

fn is_hidden(path: &str, sandbox: &GateSandbox) -> bool {
    let is_in_home = sandbox
        .home
        .as_ref()
        .is_some_and(|home| home.len() > 1 && path != home && is_below(path, home));
    is_in_home
        && !is_below(path, &sandbox.project)
        && !sandbox.shown.iter().any(|shown| is_below(path, shown))
}

/// Returns the paths of the last line, or of the nearest line before it that has any.
fn find_nearest_paths<'a>(near: &[&'a str]) -> Vec<&'a str> {
    near.iter().rev().map(|line| find_paths(line)).find(|it| !it.is_empty()).unwrap_or_default()
}

/// Returns the absolute paths in a line.
fn find_paths(line: &str) -> Vec<&str> {
    let is_end = |it: char| it.is_whitespace() || "'\"`()<>[],;=|".contains(it);
    let paths = line.split(is_end).map(|it| it.trim_start_matches("file://"));
    let paths = paths.map(|it| it.trim_end_matches([':', '.']));
    paths.filter(|it| it.starts_with('/') && it.len() > 1 && !it.contains("/../")).collect()
}

/// Returns the host in a line about the network: that of a URL, or the word after the error.
fn find_host(line: &str) -> Option<String> {
    let after =
        ["://", "EAI_AGAIN ", "ENOTFOUND ", "resolve host: ", "lookup ", "UnknownHostException: "];
    let at = after.iter().find_map(|mark| line.find(mark).map(|at| at + mark.len()))?;
    let is_part = |it: &char| it.is_ascii_alphanumeric() || *it == '.' || *it == '-';
    let host: String = line[at..].chars().take_while(is_part).collect();
    let host = host.trim_end_matches('.');
    host.contains('.').then(|| host.to_owned())
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the directory to open for a file that cannot be written: the whole build directory, or
/// the file's own directory.
fn find_build_directory(path: &str) -> &str {
    const BUILDS: [&str; 5] = ["/target/", "/build/", "/dist/", "/node_modules/", "/out/"];
    let whole = BUILDS.iter().find_map(|build| path.find(build).map(|at| at + build.len() - 1));
    let parent = path.rfind('/').filter(|at| *at > 0);
    whole.or(parent).map_or(path, |end| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::super::allowlist::RefusalReason;
    use super::*;

    fn sandbox() -> GateSandbox {
        GateSandbox {
            home: Some("/home/u".into()),
            project: "/home/u/w/crates/app".into(),
            shown: vec!["/home/u/.cargo".into(), "/home/u/.m2/repository".into()],
            network: NetworkMode::None,
            unix_sockets: UnixSockets::Deny,
            has_packages: false,
        }
    }

    fn find_with(output: &str, sandbox: &GateSandbox, failing: &[String]) -> Option<SandboxSign> {
        let refusals = [ConnectionRefusal {
            host: "refused.example".into(),
            port: 443,
            reason: RefusalReason::NotListed,
            times: 1,
        }];
        let outside = OutsideView {
            exists: &|path: &str| !path.contains("absent"),
            is_listening: &|port| port == 5432,
            refusals: &refusals,
        };
        find_sign(output, failing, sandbox, &outside)
    }

    fn find(output: &str) -> Option<SandboxSign> {
        find_with(output, &sandbox(), &[])
    }

    #[test]
    fn refused_ports_and_hosts_have_remedies() {
        let setting = r#"{"sandbox":{"gates":{"allow":["localhost:5432"]}}}"#;
        for output in [
            "connection to server at \"127.0.0.1\", port 5432 failed: Connection refused",
            "Error: connect ECONNREFUSED 127.0.0.1:5432",
            "dial tcp [::1]:5432: connect: connection refused",
        ] {
            let found = find(output).and_then(|sign| sign.setting);
            assert_eq!(found.as_deref(), Some(setting), "{output}");
        }
        assert_eq!(find("Error: connect ECONNREFUSED 127.0.0.1:5433"), None, "nothing listens");
        let sign = find("curl: (56) CONNECT tunnel to refused.example failed, response 403");
        let advice = sign.and_then(|sign| sign.advice).unwrap_or_default();
        assert_eq!(advice, "add \"refused.example\" to `sandbox.gates.allow`");
    }

    #[test]
    fn system_errors_have_remedies() {
        let proxy = |host: &str| format!(r#"{{"sandbox":{{"gates":{{"allow":["{host}"]}}}}}}"#);
        let home = |entry: &str| format!(r#"{{"sandbox":{{"home":["{entry}"]}}}}"#);
        for (output, setting) in [
            (
                "error: failed to open: /home/u/w/target/debug/.cargo-lock\n\nCaused by:\n  Read-only file system (os error 30)\n",
                r#"{"sandbox":{"rw":["/home/u/w/target"]}}"#.to_owned(),
            ),
            (
                "OSError: [Errno 30] Read-only file system: '/srv/data/lock'",
                r#"{"sandbox":{"rw":["/srv/data"]}}"#.to_owned(),
            ),
            ("cat: /home/u/.store/a/lib.txt: No such file or directory", home(".store")),
            (
                "Error: ENOENT: no such file or directory, open '/home/u/.cache/tool/db/x'",
                home(".cache/tool"),
            ),
            ("cat: /home/u/.ssh/known_hosts: No such file or directory", home(".ssh/known_hosts")),
            (
                "  File \"/usr/lib/python3.11/socket.py\", line 232, in __init__\n    _socket.socket.__init__(self, family, type, proto, fileno)\nPermissionError: [Errno 1] Operation not permitted",
                r#"{"sandbox":{"unixSockets":"private"}}"#.to_owned(),
            ),
            (
                "npm error request to https://registry.npmjs.org/x failed, reason: getaddrinfo EAI_AGAIN registry.npmjs.org",
                proxy("registry.npmjs.org"),
            ),
            (
                "[ERROR] Cannot access central (https://repo.maven.apache.org/maven2) in offline mode and the artifact junit:junit:jar:4.13 has not been downloaded from it before. -> [Help 1]\n[ERROR] To see the full stack trace, re-run with -e",
                proxy("repo.maven.apache.org"),
            ),
            (
                "go: x@v1: dial tcp: lookup proxy.golang.org: no such host",
                proxy("proxy.golang.org"),
            ),
            ("fatal: Could not resolve host: example.com", proxy("example.com")),
            ("socket.gaierror: [Errno -3] Temporary failure in name resolution", proxy("HOST")),
        ] {
            let found = find(output).and_then(|sign| sign.setting);
            assert_eq!(found.as_deref(), Some(setting.as_str()), "{output}");
        }
    }

    #[test]
    fn the_host_may_follow_the_error_and_package_managers_get_all_of_theirs() {
        let npm = "npm error code EAI_AGAIN\nnpm error syscall getaddrinfo\nnpm error errno EAI_AGAIN\nnpm error request to https://packages.example.com/x failed, reason: getaddrinfo EAI_AGAIN packages.example.com";
        let own = r#"{"sandbox":{"gates":{"allow":["packages.example.com"]}}}"#;
        let all = r#"{"sandbox":{"network":{"packages":true}}}"#;
        let other = "fatal: Could not resolve host: example.com";
        for (output, has_packages, setting) in [
            (npm, false, own),
            (npm, true, all),
            (other, true, r#"{"sandbox":{"gates":{"allow":["example.com"]}}}"#),
        ] {
            let found = find_with(output, &GateSandbox { has_packages, ..sandbox() }, &[]);
            let found = found.and_then(|sign| sign.setting);
            assert_eq!(found.as_deref(), Some(setting), "{output}");
        }
    }

    #[test]
    fn visible_stores_are_filled_outside() {
        let sign =
            find("error: could not create '/home/u/.cargo/registry/x': Read-only file system");
        let sign = sign.expect("a sign");
        assert_eq!(sign.setting, None);
        assert!(sign.advice.is_some_and(|it| it.contains("once outside")));
    }

    #[test]
    fn ordinary_failures_are_no_signs() {
        let far = format!("Could not resolve host: a.example\n{}", "a line\n".repeat(LAST_LINES));
        for output in [
            "assertion failed: 1 == 2",
            "a.py:1: no such file: b.py",
            "ModuleNotFoundError: No module named 'x'",
            "sh: 1: eslint: not found",
            "open /home/u/w/crates/app/x: no such file or directory",
            "/home/u/.absent/x: No such file or directory",
            "/home/u/.cargo/bin/tool: not found",
            "/opt/tool/x: No such file or directory",
            "x: Read-only file system",
            "touch: cannot touch '/etc/x': Read-only file system",
            "touch: cannot touch '/home/u/w/crates/app/.git/x': Read-only file system",
            "assert 'Could not resolve host' in output",
            "expected: Network is unreachable, got: ok",
            "the host was not found in the list of hosts",
            "open secret.txt: permission denied",
            &far,
        ] {
            assert_eq!(find(output), None, "{output}");
        }
    }

    #[test]
    fn available_resources_are_not_blamed() {
        let open = GateSandbox {
            network: NetworkMode::Proxy,
            unix_sockets: UnixSockets::Private,
            ..sandbox()
        };
        for output in ["Could not resolve host: a.example", "socket: Operation not permitted"] {
            assert_eq!(find_with(output, &open, &[]), None, "{output}");
        }
        let failing = ["tests::fetches".to_owned()];
        let output = "Could not resolve host: a.example";
        assert_eq!(find_with(output, &sandbox(), &failing), None);
    }
}
