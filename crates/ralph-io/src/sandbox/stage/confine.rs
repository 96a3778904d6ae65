//! What a process gives up permanently before it becomes, or starts, the confined program: rights,
//! system calls, resources, open files.
//!
//! Not here: the file system and the network.

use std::collections::BTreeMap;

use ralph_model::sandbox::UnixSockets;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, sock_filter,
};

use super::kernel::close_files_on_exec;
use crate::sandbox::ResourceLimits;
use crate::sandbox::launch_error::LaunchError;

/// What separates a process from the host's network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NetworkIsolation {
    /// Its own network namespace, or nothing because it may use the host's.
    Own,
    /// Rules about TCP ports, which cover nothing but TCP.
    Ports,
}

/// Which other processes a process can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VisibleProcesses {
    /// Only those of its own sandbox. It may trace them, as debuggers and leak checkers do, and
    /// ralph watches its memory: a limit on data would refuse the address space that sanitizers
    /// reserve.
    Inside,
    /// Others of the user, or none that need tracing.
    Host,
}

/// Gives up all of this. Only starting the program may follow.
pub(super) fn confine_process(
    bounds: &ResourceLimits,
    pids: u64,
    sockets: UnixSockets,
    reach: NetworkIsolation,
    neighbors: VisibleProcesses,
) -> Result<(), LaunchError> {
    set_limits(bounds, pids, neighbors)?;
    drop_rights()?;
    set_no_new_privs(true).map_err(LaunchError::for_operation("refuse new rights"))?;
    // Other processes of the same user cannot inspect this one.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(LaunchError::for_operation("close itself"))?;
    close_files_on_exec().map_err(LaunchError::for_operation("close its files"))?;
    install_filters(sockets, reach, neighbors)
        .map_err(LaunchError::for_operation("filter system calls"))
}

fn set_limits(
    bounds: &ResourceLimits,
    pids: u64,
    neighbors: VisibleProcesses,
) -> Result<(), LaunchError> {
    let data = match neighbors {
        VisibleProcesses::Inside => u64::MAX,
        VisibleProcesses::Host => bounds.memory,
    };
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Nproc, pids),
        (Resource::Fsize, bounds.file),
        // Per process. The address space itself cannot be limited: some programs reserve terabytes.
        (Resource::Data, data),
    ] {
        let already = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let most = Some(most.min(already)).filter(|most| *most != u64::MAX);
        setrlimit(resource, Rlimit { current: most, maximum: most })
            .map_err(LaunchError::for_operation("set limits"))?;
    }
    Ok(())
}

fn drop_rights() -> Result<(), LaunchError> {
    for bit in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        // Fails for numbers that the kernel does not know, and for a process without rights.
        let _ = remove_capability_from_bounding_set(one);
    }
    let _ = clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(LaunchError::for_operation("give up rights"))
}

/// Calls on the memory of other processes. The kernel applies the filter after the tracer has
/// changed a call, so that tracing cannot bypass this filter.
const TRACING: [i64; 3] =
    [libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev];

/// Calls that fail with "not permitted": other processes' files, mounts, namespaces, keys, the
/// kernel.
const FORBIDDEN: [i64; 38] = [
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
];

/// Calls that fail as if the kernel did not have them, for which programs have a fallback. `clone3`
/// and `openat2` pass their flags where a filter cannot see them, and `io_uring` can do what other
/// calls may not.
const UNSUPPORTED: [i64; 5] = [
    libc::SYS_clone3,
    libc::SYS_openat2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Calls that set the mode of a file, and which argument it is. A setuid file would be one of the
/// user's outside the sandbox. The setgid bit is also one of directories, so it is left to ralph.
const MODE_CALLS: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];

/// Calls that open files, and which argument the flags are. The mode follows; without a flag that
/// makes files it means nothing.
const OPEN_CALLS: &[(i64, u8)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

const SETUID: libc::c_int = 0o4000;

/// The flag of `O_TMPFILE` without that of directories, which it contains.
const TMPFILE: libc::c_int = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Namespaces that a new process may not create.
const NEW_NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Mask for the socket type, without the flags in the same argument.
const SOCKET_KIND: u64 = 0xf;

fn install_filters(
    sockets: UnixSockets,
    reach: NetworkIsolation,
    neighbors: VisibleProcesses,
) -> Result<(), seccompiler::Error> {
    let unknown = UNSUPPORTED.into_iter().map(|call| (call, Vec::new())).collect();
    apply_filter(&compile_filter(unknown, libc::ENOSYS)?)?;
    let mut forbidden: BTreeMap<i64, Vec<SeccompRule>> =
        FORBIDDEN.into_iter().map(|call| (call, Vec::new())).collect();
    match neighbors {
        VisibleProcesses::Inside => {}
        VisibleProcesses::Host => forbidden.extend(TRACING.map(|call| (call, Vec::new()))),
    }
    let mut clone = Vec::new();
    for flag in NEW_NAMESPACES {
        clone.push(build_rule([require_flag(0, flag)?])?);
    }
    forbidden.insert(libc::SYS_clone, clone);
    // Text injected into a terminal's input would be run by the shell that reads it.
    let inject = [libc::TIOCSTI, libc::TIOCLINUX].map(|call| build_rule([require_equal(1, call)?]));
    forbidden.insert(libc::SYS_ioctl, inject.into_iter().collect::<Result<_, _>>()?);
    forbidden.insert(libc::SYS_socket, build_socket_rules(sockets, reach)?);
    forbidden
        .insert(libc::SYS_socketpair, vec![build_rule([require_not_equal(0, libc::AF_UNIX)?])?]);
    for (call, mode) in MODE_CALLS {
        forbidden.insert(*call, vec![build_rule([require_flag(*mode, SETUID)?])?]);
    }
    for (call, flags) in OPEN_CALLS {
        let makes =
            |flag| build_rule([require_flag(*flags, flag)?, require_flag(flags + 1, SETUID)?]);
        forbidden.insert(*call, vec![makes(libc::O_CREAT)?, makes(TMPFILE)?]);
    }
    apply_filter(&compile_filter(forbidden, libc::EPERM)?)?;
    // The x32 variants of the same calls, on kernels that have them.
    if cfg!(target_arch = "x86_64") {
        apply_filter(&build_x32_filter())?;
    }
    Ok(())
}

fn build_socket_rules(
    sockets: UnixSockets,
    reach: NetworkIsolation,
) -> Result<Vec<SeccompRule>, seccompiler::Error> {
    let mut families =
        vec![require_not_equal(0, libc::AF_INET)?, require_not_equal(0, libc::AF_INET6)?];
    match sockets {
        UnixSockets::Deny => {}
        UnixSockets::Private => families.push(require_not_equal(0, libc::AF_UNIX)?),
    }
    let mut refused = vec![
        build_rule(families)?,
        build_rule([SeccompCondition::new(
            1,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::MaskedEq(SOCKET_KIND),
            to_number(libc::SOCK_RAW),
        )?])?,
    ];
    match reach {
        NetworkIsolation::Own => {}
        NetworkIsolation::Ports => {
            // Datagrams, and protocols such as MPTCP that look like TCP but are not covered.
            let inet = require_not_equal(0, libc::AF_UNIX)?;
            let datagram = SeccompCondition::new(
                1,
                SeccompCmpArgLen::Dword,
                SeccompCmpOp::MaskedEq(SOCKET_KIND),
                to_number(libc::SOCK_DGRAM),
            )?;
            refused.push(build_rule([inet.clone(), datagram])?);
            refused.push(build_rule([
                inet,
                require_not_equal(2, 0)?,
                require_not_equal(2, libc::IPPROTO_TCP)?,
            ])?);
        }
    }
    Ok(refused)
}

fn compile_filter(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    error: libc::c_int,
) -> Result<BpfProgram, seccompiler::Error> {
    let refusal = SeccompAction::Errno(error.unsigned_abs());
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        refusal,
        std::env::consts::ARCH.try_into()?,
    )?;
    Ok(filter.try_into()?)
}

/// Loads the number of the call, and refuses the x32 numbers.
fn build_x32_filter() -> BpfProgram {
    const SECOND_SET: u32 = 0x4000_0000;
    const LOAD: u16 = 0x20;
    const AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const REFUSE: u32 = 0x0005_0000;
    vec![
        sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: AT_LEAST, jt: 0, jf: 1, k: SECOND_SET },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: REFUSE | libc::ENOSYS.unsigned_abs() },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW },
    ]
}

fn build_rule(
    conditions: impl Into<Vec<SeccompCondition>>,
) -> Result<SeccompRule, seccompiler::Error> {
    Ok(SeccompRule::new(conditions.into())?)
}

fn require_equal(
    argument: u8,
    value: impl TryInto<u64>,
) -> Result<SeccompCondition, seccompiler::Error> {
    compare_argument(argument, SeccompCmpOp::Eq, to_number(value))
}

fn require_not_equal(
    argument: u8,
    value: impl TryInto<u64>,
) -> Result<SeccompCondition, seccompiler::Error> {
    compare_argument(argument, SeccompCmpOp::Ne, to_number(value))
}

fn require_flag(argument: u8, flag: libc::c_int) -> Result<SeccompCondition, seccompiler::Error> {
    // As a bit pattern: the highest of these flags is the sign bit.
    let flag = u64::from(flag.cast_unsigned());
    compare_argument(argument, SeccompCmpOp::MaskedEq(flag), flag)
}

fn compare_argument(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::Error> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?)
}

/// Converts a constant, which is always small and not negative.
fn to_number(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(u64::MAX)
}
