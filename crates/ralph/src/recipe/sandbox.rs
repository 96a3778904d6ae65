//! The isolation that settings ask for.
//!
//! Not here: enforcing it.

use ralph_model::recipe::CommitPolicy;
use ralph_model::sandbox::{
    ChildLimits, GateCredentials, GateSandboxPolicy, GitAccess, NetworkMode, NetworkPolicy,
    SandboxPolicy,
};

use crate::settings::types::quantity::SizeSetting;
use crate::settings::types::sandbox as set;

/// Returns the sandbox policy, which depends on who commits.
pub(super) fn build_policy(sandbox: &set::SandboxSettings, commit: &CommitPolicy) -> SandboxPolicy {
    SandboxPolicy {
        backend: sandbox.backend.to_requested(),
        rejected: Vec::new(),
        fallback: sandbox.fallback,
        git: sandbox.git.unwrap_or(match commit {
            CommitPolicy::Agent => GitAccess::Agent,
            CommitPolicy::Ralph | CommitPolicy::Scm(_) | CommitPolicy::NoCommit => GitAccess::Ro,
        }),
        rw: sandbox.rw.clone(),
        ro: sandbox.ro.clone(),
        hide: sandbox.hide.clone(),
        home: sandbox.home.clone(),
        env: sandbox.env.clone(),
        unix_sockets: sandbox.unix_sockets,
        image: sandbox.image.clone(),
        network: NetworkPolicy {
            mode: sandbox.network.mode,
            allow: sandbox.network.allow.clone(),
            deny: sandbox.network.deny.clone(),
            allow_private: sandbox.network.allow_private.clone(),
            packages: sandbox.network.packages.then(Vec::new),
        },
        gates: GateSandboxPolicy {
            network: match sandbox.gates.network {
                NetworkMode::None if sandbox.network.packages => NetworkMode::Proxy,
                mode @ (NetworkMode::None | NetworkMode::Host | NetworkMode::Proxy) => mode,
            },
            allow: sandbox.gates.allow.clone(),
            credentials: if sandbox.gates.credentials {
                GateCredentials::Given
            } else {
                GateCredentials::Withheld
            },
        },
        limits: ChildLimits {
            pids: sandbox.limits.pids,
            memory: to_byte_limit(sandbox.limits.memory),
            tmp: sandbox.limits.tmp.0,
            file: to_byte_limit(sandbox.limits.file),
            growth: to_byte_limit(sandbox.limits.growth),
            output: to_byte_limit(sandbox.limits.output),
        },
    }
}

/// Returns a limit in bytes; 0 means unlimited.
fn to_byte_limit(size: SizeSetting) -> u64 {
    if size.0 == 0 { u64::MAX } else { size.0 }
}
