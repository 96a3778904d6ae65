//! The backend `native` on macOS: a profile for `sandbox-exec`.
//!
//! Based on Apple's own profiles and on published findings, and tested only as text: it has never
//! run on a Mac. Not here: ending the processes that a child leaves behind, which Seatbelt does not
//! do.

use std::ffi::OsString;
use std::path::Path;

use ralph_model::sandbox::{Backend, NetworkMode};

use super::SANDBOX_VARIABLE;
use super::boundary::{Boundary, BoundaryEntry};
use super::proxy::list_proxy_variables;
use crate::process::Spawn;

/// Always this path: another program of that name on the `PATH` could be anything.
pub(super) const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// How a child without a network namespace reaches the proxy.
#[derive(Debug, Clone, Copy)]
pub struct ProxyExit<'a> {
    /// The proxy's port on the host's loopback.
    pub port: u16,
    /// Ports of this machine that are allowed.
    pub forwards: &'a [u16],
    /// ralph's own executable.
    pub ralph: &'a Path,
}

/// Returns how to start a child within this boundary; without an exit it cannot reach the proxy.
///
/// All paths must be resolved: `/tmp` is a link on macOS, and rules are matched after links.
pub fn wrap_spawn(spawn: Spawn, boundary: &Boundary, exit: Option<ProxyExit<'_>>) -> Spawn {
    let profile = build_profile(boundary, exit);
    let mut args: Vec<OsString> = vec!["-p".into(), profile.text.into()];
    for (name, value) in profile.parameters {
        let mut parameter = OsString::from(format!("{name}="));
        parameter.push(value);
        args.extend(["-D".into(), parameter]);
    }
    args.push(spawn.program);
    args.extend(spawn.args);
    let mut set = vec![(SANDBOX_VARIABLE.to_owned(), Backend::Native.to_string())];
    if let (NetworkMode::Proxy, Some(exit)) = (boundary.network, exit) {
        set.extend(list_proxy_variables(exit.port, exit.ralph));
    }
    let mut env = spawn.env;
    env.retain(|(known, _)| !set.iter().any(|(name, _)| known == name.as_str()));
    env.extend(set.into_iter().map(|(name, value)| (name.into(), value.into())));
    Spawn { program: PROGRAM.into(), args, env, ..spawn }
}

/// A profile, and the paths that it refers to by parameter: no path is ever part of the text.
struct SeatbeltProfile {
    text: String,
    parameters: Vec<(String, OsString)>,
}

impl SeatbeltProfile {
    fn add_parameter(&mut self, path: &Path) -> String {
        let name = format!("P{}", self.parameters.len());
        self.parameters.push((name.clone(), path.into()));
        format!("(param \"{name}\")")
    }

    fn add_rule(&mut self, rule: &str) {
        self.text.push_str(rule);
        self.text.push('\n');
    }
}

/// Builds the profile. The last rule that matches wins.
fn build_profile(boundary: &Boundary, exit: Option<ProxyExit<'_>>) -> SeatbeltProfile {
    let mut profile = SeatbeltProfile { text: String::new(), parameters: Vec::new() };
    profile.add_rule("(version 1)");
    profile.add_rule("(allow default)");
    profile.add_rule("(deny file-write*)");
    profile.add_rule(
        "(allow file-write* (subpath \"/private/tmp\") (subpath \"/private/var/folders\") \
         (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/tty\") \
         (literal \"/dev/ptmx\") (regex #\"^/dev/ttys\"))",
    );
    if let Some(home) = &boundary.home {
        let home = profile.add_parameter(home);
        profile.add_rule(&format!("(deny file-read* (subpath {home}))"));
        // Only metadata; without it no path through the home can be resolved.
        profile.add_rule(&format!("(allow file-read-metadata (subpath {home}))"));
    }
    // Seatbelt cannot create scratch directories: temporary ones are writable, and home is closed.
    let places = boundary.places.iter().filter(|place| !matches!(place, BoundaryEntry::Scratch(_)));
    for place in places {
        let path = profile.add_parameter(match place {
            // Seatbelt cannot map paths: variables tell tools where the directory is.
            BoundaryEntry::Elsewhere { source, .. } => source,
            BoundaryEntry::Scratch(_)
            | BoundaryEntry::Writable(_)
            | BoundaryEntry::ReadOnly(_)
            | BoundaryEntry::HiddenDirectory(_)
            | BoundaryEntry::HiddenFile(_) => place.path(),
        });
        match place {
            BoundaryEntry::Scratch(_) => {}
            BoundaryEntry::Writable(_) => {
                profile.add_rule(&format!("(allow file-read* file-write* (subpath {path}))"));
                // The directory itself cannot be removed or moved.
                profile.add_rule(&format!("(deny file-write-unlink (literal {path}))"));
            }
            BoundaryEntry::Elsewhere { is_writable: true, .. } => {
                profile.add_rule(&format!("(allow file-read* file-write* (subpath {path}))"));
            }
            BoundaryEntry::ReadOnly(_) | BoundaryEntry::Elsewhere { is_writable: false, .. } => {
                profile.add_rule(&format!("(allow file-read* (subpath {path}))"));
                profile.add_rule(&format!("(deny file-write* (subpath {path}))"));
            }
            BoundaryEntry::HiddenDirectory(_) | BoundaryEntry::HiddenFile(_) => {
                profile.add_rule(&format!("(deny file-read* file-write* (subpath {path}))"));
            }
        }
    }
    for path in &boundary.absent {
        let path = profile.add_parameter(path);
        profile.add_rule(&format!("(deny file-write* (subpath {path}))"));
    }
    add_pins(&mut profile, boundary);
    add_network_rules(&mut profile, boundary, exit);
    profile.add_rule("(deny signal)");
    profile.add_rule("(allow signal (target same-sandbox))");
    // These would let another program act on the child's behalf.
    profile.add_rule("(deny appleevent-send)");
    profile.add_rule("(deny lsopen)");
    profile.add_rule(
        "(deny mach-lookup (global-name \"com.apple.pasteboard.1\") \
         (global-name \"com.apple.coreservices.launchservicesd\") \
         (global-name \"com.apple.SecurityServer\"))",
    );
    profile
}

/// Keeps directories above protected paths from being moved away and replaced.
fn add_pins(profile: &mut SeatbeltProfile, boundary: &Boundary) {
    let mut pinned: Vec<&Path> = Vec::new();
    for place in &boundary.places {
        match place {
            BoundaryEntry::ReadOnly(path)
            | BoundaryEntry::HiddenDirectory(path)
            | BoundaryEntry::HiddenFile(path) => {
                let above = path.ancestors().skip(1);
                pinned.extend(above.take_while(|it| it.starts_with(&boundary.project)));
            }
            BoundaryEntry::Scratch(_)
            | BoundaryEntry::Writable(_)
            | BoundaryEntry::Elsewhere { .. } => {}
        }
    }
    pinned.sort();
    pinned.dedup();
    for path in pinned {
        let path = profile.add_parameter(path);
        profile.add_rule(&format!("(deny file-write-unlink (literal {path}))"));
    }
}

fn add_network_rules(
    profile: &mut SeatbeltProfile,
    boundary: &Boundary,
    exit: Option<ProxyExit<'_>>,
) {
    match boundary.network {
        NetworkMode::Host => return,
        NetworkMode::None | NetworkMode::Proxy => {}
    }
    profile.add_rule("(deny network*)");
    profile.add_rule("(allow network-bind network-inbound (local ip \"localhost:*\"))");
    if let (NetworkMode::Proxy, Some(exit)) = (boundary.network, exit) {
        for port in [exit.port].iter().chain(exit.forwards) {
            profile.add_rule(&format!("(allow network-outbound (remote ip \"localhost:{port}\"))"));
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::sandbox::boundary::{build_example_boundary, build_example_spawn, format_spawn};

    #[test]
    fn a_profile_has_rules_for_every_place_and_no_path_in_its_text() {
        let exit = ProxyExit { port: 40123, forwards: &[8080], ralph: Path::new("/opt/ralph") };
        let launched = wrap_spawn(build_example_spawn(), &build_example_boundary(), Some(exit));
        expect![[r#"
            /usr/bin/sandbox-exec
            -p (version 1)
            (allow default)
            (deny file-write*)
            (allow file-write* (subpath "/private/tmp") (subpath "/private/var/folders") (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx") (regex #"^/dev/ttys"))
            (deny file-read* (subpath (param "P0")))
            (allow file-read-metadata (subpath (param "P0")))
            (allow file-read* file-write* (subpath (param "P1")))
            (deny file-write-unlink (literal (param "P1")))
            (allow file-read* (subpath (param "P2")))
            (deny file-write* (subpath (param "P2")))
            (allow file-read* (subpath (param "P3")))
            (deny file-write* (subpath (param "P3")))
            (deny file-read* file-write* (subpath (param "P4")))
            (deny file-read* file-write* (subpath (param "P5")))
            (allow file-read* (subpath (param "P6")))
            (deny file-write* (subpath (param "P6")))
            (allow file-read* file-write* (subpath (param "P7")))
            (deny file-write-unlink (literal (param "P7")))
            (deny file-write* (subpath (param "P8")))
            (deny file-write-unlink (literal (param "P9")))
            (deny network*)
            (allow network-bind network-inbound (local ip "localhost:*"))
            (allow network-outbound (remote ip "localhost:40123"))
            (allow network-outbound (remote ip "localhost:8080"))
            (deny signal)
            (allow signal (target same-sandbox))
            (deny appleevent-send)
            (deny lsopen)
            (deny mach-lookup (global-name "com.apple.pasteboard.1") (global-name "com.apple.coreservices.launchservicesd") (global-name "com.apple.SecurityServer"))

            -D P0=/home/ann
            -D P1=/home/ann/my project
            -D P2=/home/ann/my project/.git
            -D P3=/home/ann/my project/.ralph
            -D P4=/home/ann/my project/secrets
            -D P5=/home/ann/my project/.env
            -D P6=/home/ann/.local/state/ralph/run/mcp.json
            -D P7=/home/ann/.local/state/ralph/agent/claude
            -D P8=/home/ann/my project/.envrc
            -D P9=/home/ann/my project claude
            -p two words
            in /home/ann/my project/web with PATH HOME LANG MODEL_API_KEY DOCKER_HOST RALPH_SANDBOX HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy npm_config_proxy npm_config_https_proxy NO_PROXY no_proxy npm_config_noproxy NODE_USE_ENV_PROXY GIT_SSH_COMMAND
        "#]].assert_eq(&format_spawn(&launched));
    }

    #[test]
    fn networks_differ() {
        let rules = |network| {
            let boundary = Boundary { network, places: Vec::new(), ..build_example_boundary() };
            let exit = ProxyExit { port: 1, forwards: &[2], ralph: Path::new("/r") };
            let text = build_profile(&boundary, Some(exit)).text;
            text.lines().filter(|line| line.contains("network")).count()
        };
        let counts = [NetworkMode::None, NetworkMode::Host, NetworkMode::Proxy].map(rules);
        assert_eq!(counts, [2, 0, 4]);
    }
}
