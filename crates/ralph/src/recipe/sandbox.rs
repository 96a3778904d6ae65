//! The isolation that settings ask for.
//!
//! Not here: enforcing it.

use ralph_core::recipe::CommitPolicy;
use ralph_core::sandbox::{
    Backend, Bounds, Credentials, Fallback, GatePolicy, GitAccess, NetworkMode, NetworkPolicy,
    Policy, UnixSockets, Wanted,
};

use crate::settings::types::quantity::Size;
use crate::settings::types::sandbox as said;

/// Returns what agents and gates can reach, where this is who commits.
pub(super) fn policy(sandbox: &said::Sandbox, commit: &CommitPolicy) -> Policy {
    Policy {
        backend: backend(sandbox.backend),
        fallback: match sandbox.fallback {
            said::SandboxFallback::Stop => Fallback::Stop,
            said::SandboxFallback::Guard => Fallback::Guard,
        },
        git: match (sandbox.git, commit) {
            (Some(said::SandboxGit::Ro), _) => GitAccess::Ro,
            (Some(said::SandboxGit::Agent), _) | (None, CommitPolicy::Agent) => GitAccess::Agent,
            (Some(said::SandboxGit::Clone), _) => GitAccess::Clone,
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
            said::UnixSockets::Deny => UnixSockets::Deny,
            said::UnixSockets::Private => UnixSockets::Private,
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

/// Returns a bound in bytes, where 0 stands for none.
fn bound(size: Size) -> u64 {
    if size.0 == 0 { u64::MAX } else { size.0 }
}

fn backend(backend: said::SandboxBackend) -> Wanted {
    match backend {
        said::SandboxBackend::Auto => Wanted::Auto,
        said::SandboxBackend::Sbx => Wanted::This(Backend::Sbx),
        said::SandboxBackend::Native => Wanted::This(Backend::Native),
        said::SandboxBackend::Bwrap => Wanted::This(Backend::Bwrap),
        said::SandboxBackend::Container => Wanted::This(Backend::Container),
        said::SandboxBackend::Landlock => Wanted::This(Backend::Landlock),
        said::SandboxBackend::Guard => Wanted::This(Backend::Guard),
        said::SandboxBackend::None => Wanted::This(Backend::None),
    }
}

fn network(mode: said::NetworkMode) -> NetworkMode {
    match mode {
        said::NetworkMode::None => NetworkMode::None,
        said::NetworkMode::Host => NetworkMode::Host,
        said::NetworkMode::Proxy => NetworkMode::Proxy,
    }
}
