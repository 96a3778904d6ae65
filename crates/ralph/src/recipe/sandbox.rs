//! The isolation that settings ask for.
//!
//! Not here: enforcing it.

use ralph_core::recipe::CommitPolicy;
use ralph_core::sandbox::{
    Backend, Bounds, Credentials, Fallback, GatePolicy, GitAccess, NetworkMode, NetworkPolicy,
    Policy, UnixSockets, Wanted,
};

use crate::settings::types::quantity::Size;
use crate::settings::types::sandbox as set;

/// Returns the sandbox policy, which depends on who commits.
pub(super) fn policy(sandbox: &set::Sandbox, commit: &CommitPolicy) -> Policy {
    Policy {
        backend: backend(sandbox.backend),
        fallback: match sandbox.fallback {
            set::SandboxFallback::Stop => Fallback::Stop,
            set::SandboxFallback::Guard => Fallback::Guard,
        },
        git: match (sandbox.git, commit) {
            (Some(set::SandboxGit::Ro), _) => GitAccess::Ro,
            (Some(set::SandboxGit::Agent), _) | (None, CommitPolicy::Agent) => GitAccess::Agent,
            (Some(set::SandboxGit::Clone), _) => GitAccess::Clone,
            (None, CommitPolicy::Ralph | CommitPolicy::Scm(_) | CommitPolicy::Nobody) => {
                GitAccess::Ro
            }
        },
        rw: sandbox.rw.clone(),
        ro: sandbox.ro.clone(),
        hide: sandbox.hide.clone(),
        home: sandbox.home.clone(),
        env: sandbox.env.clone(),
        unix_sockets: match sandbox.unix_sockets {
            set::UnixSockets::Deny => UnixSockets::Deny,
            set::UnixSockets::Private => UnixSockets::Private,
        },
        image: sandbox.image.clone(),
        network: NetworkPolicy {
            mode: network(sandbox.network.mode),
            allow: sandbox.network.allow.clone(),
            deny: sandbox.network.deny.clone(),
            allow_private: sandbox.network.allow_private.clone(),
        },
        gates: GatePolicy {
            network: network(sandbox.gates.network),
            credentials: if sandbox.gates.credentials {
                Credentials::Given
            } else {
                Credentials::Withheld
            },
        },
        limits: Bounds {
            pids: sandbox.limits.pids,
            memory: bound(sandbox.limits.memory),
            tmp: sandbox.limits.tmp.0,
            file: bound(sandbox.limits.file),
            growth: bound(sandbox.limits.growth),
            output: bound(sandbox.limits.output),
        },
    }
}

/// Returns a limit in bytes; 0 means unlimited.
fn bound(size: Size) -> u64 {
    if size.0 == 0 { u64::MAX } else { size.0 }
}

fn backend(backend: set::SandboxBackend) -> Wanted {
    match backend {
        set::SandboxBackend::Auto => Wanted::Auto,
        set::SandboxBackend::Sbx => Wanted::This(Backend::Sbx),
        set::SandboxBackend::Native => Wanted::This(Backend::Native),
        set::SandboxBackend::Bwrap => Wanted::This(Backend::Bwrap),
        set::SandboxBackend::Container => Wanted::This(Backend::Container),
        set::SandboxBackend::Landlock => Wanted::This(Backend::Landlock),
        set::SandboxBackend::Guard => Wanted::This(Backend::Guard),
        set::SandboxBackend::None => Wanted::This(Backend::None),
    }
}

fn network(mode: set::NetworkMode) -> NetworkMode {
    match mode {
        set::NetworkMode::None => NetworkMode::None,
        set::NetworkMode::Host => NetworkMode::Host,
        set::NetworkMode::Proxy => NetworkMode::Proxy,
    }
}
