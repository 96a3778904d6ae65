//! Finds out whether a backend works here, and if not, what would make it work.
//!
//! Always tries the thing itself: versions and settings say what should work, and containers,
//! security modules and old kernels have the last word. Not here: choosing one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::sandbox::Backend;

use super::{TRY_COMMAND, Wall};
use crate::environment::Variables;
use crate::process::{Captured, Limits, Spawn, Stdin, Watch, capture, find_program};

/// What a look at a backend found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding<W = Wall> {
    /// It works, with this.
    Works(W),
    /// It does not.
    Fails {
        /// Why not.
        why: String,
        /// What would make it work, if something would.
        remedy: Option<String>,
    },
}

/// These take some milliseconds; a machine that needs longer than this has other troubles.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is kept of what a program says of its failure.
const KEPT: usize = 4096;

/// Tries a backend of this machine's kernel. Others are probed by those who know them.
pub fn probe(
    backend: Backend,
    ralph: &Path,
    project: &Path,
    env: &Variables,
    watch: &Watch,
) -> Finding {
    match backend {
        Backend::Native => native(ralph, env, watch),
        Backend::Bwrap => bwrap(ralph, project, env, watch),
        Backend::Landlock => landlock(),
        Backend::Sbx | Backend::Container => {
            fails(format!("`{backend}` is not built into this version"), None)
        }
        Backend::Guard | Backend::None => fails(format!("`{backend}` enforces nothing"), None),
    }
}

fn native(ralph: &Path, env: &Variables, watch: &Watch) -> Finding {
    if !cfg!(target_os = "linux") {
        return fails("namespaces are Linux's", None);
    }
    let (code, words) = run(ralph.to_owned(), vec![TRY_COMMAND.into()], env, watch);
    if code == Some(0) {
        return Finding::Works(Wall::Native);
    }
    let why = words.lines().last().unwrap_or_default();
    let why = why.strip_prefix(super::WALL_PREFIX).unwrap_or(why);
    fails(format!("no namespaces can be made: {why}"), Some(remedy()))
}

/// Says what keeps namespaces from being made, as far as the kernel tells.
fn remedy() -> String {
    let setting = |name: &str| {
        let text = std::fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let remedy = if setting("kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        "AppArmor forbids them: install `bubblewrap`, which has a profile of its own, or set \
         `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    } else if setting("kernel/unprivileged_userns_clone") == Some(0) {
        "set `sudo sysctl kernel.unprivileged_userns_clone=1`"
    } else if setting("user/max_user_namespaces") == Some(0) {
        "set `sudo sysctl user.max_user_namespaces=10000`"
    } else {
        "in a container, the engine must allow them; else the `landlock` backend needs none"
    };
    remedy.to_owned()
}

fn bwrap(ralph: &Path, project: &Path, env: &Variables, watch: &Watch) -> Finding {
    let spawn = spawn("bwrap".into(), Vec::new(), env);
    let install = Some("install `bubblewrap`, 0.5 or newer".to_owned());
    let Ok(program) = find_program(&spawn) else {
        return fails("`bwrap` is not on the PATH", install);
    };
    let real = program.canonicalize().unwrap_or_else(|_| program.clone());
    if real.starts_with(project) {
        let why = format!("`{}` lies in the project, where an agent can change it", real.display());
        return fails(why, install);
    }
    let words = "--unshare-user --unshare-pid --unshare-net --unshare-ipc --as-pid-1 \
                 --die-with-parent --ro-bind / / --dev /dev --proc /proc --perms 0755 --size 4096 \
                 --tmpfs /tmp --cap-drop ALL -- /bin/true";
    let words = words.split_whitespace().map(Into::into).collect();
    let (code, said) = run(program.clone(), words, env, watch);
    if code == Some(0) {
        return Finding::Works(Wall::Bwrap { program, ralph: ralph.to_owned() });
    }
    let why = said.lines().last().unwrap_or("it does not start").to_owned();
    fails(format!("bubblewrap makes no cell: {why}"), Some(remedy()))
}

fn landlock() -> Finding {
    #[cfg(target_os = "linux")]
    let works = super::stage::landlock_works();
    #[cfg(not(target_os = "linux"))]
    let works = false;
    if works {
        return Finding::Works(Wall::Landlock);
    }
    fails(
        "the kernel has no Landlock that restricts files and the network",
        Some("Linux 6.7 or newer, with `landlock` among its security modules".to_owned()),
    )
}

fn fails(why: impl Into<String>, remedy: Option<String>) -> Finding {
    Finding::Fails { why: why.into(), remedy }
}

fn spawn(program: PathBuf, args: Vec<std::ffi::OsString>, env: &Variables) -> Spawn {
    Spawn {
        program: program.into(),
        args,
        cwd: "/".into(),
        env: env.clone(),
        stdin: Stdin::Null,
        limits: Limits { hard: Some(PATIENCE), ..Limits::default() },
    }
}

/// Runs something and returns its code and what it said on stderr.
fn run(
    program: PathBuf,
    args: Vec<std::ffi::OsString>,
    env: &Variables,
    watch: &Watch,
) -> (Option<i32>, String) {
    let captured: Captured = capture(&spawn(program, args, env), watch, KEPT);
    let code = match captured.end.ending {
        ralph_core::child::Ending::Exited { code } => Some(code),
        ralph_core::child::Ending::Signalled { .. }
        | ralph_core::child::Ending::TimedOut { .. }
        | ralph_core::child::Ending::Lingered { .. }
        | ralph_core::child::Ending::Interrupted { .. }
        | ralph_core::child::Ending::NotStarted { .. } => None,
    };
    (code, String::from_utf8_lossy(&captured.stderr).into_owned())
}
