//! The table of escape attempts: what shows that one got out, and where that is known to happen.
//! The attempts themselves are in `escapes.py` and `escapes_beyond.py`.

/// One escape attempt.
pub(super) struct Attempt {
    /// The name of the attempt in the script.
    pub(super) name: &'static str,
    /// What shows that it got out.
    pub(super) shown_by: Shown,
    /// Its result without a sandbox: an attempt that never works proves nothing.
    pub(super) bare: Bare,
    /// Its result in Landlock. In namespaces, none gets out.
    pub(super) landlock: Fate,
}

/// What shows that an attempt got out.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shown {
    /// Its own output.
    Said,
    /// A file arrived here, below the world's directory.
    Arrives(&'static str),
    /// This path was deleted.
    Gone(&'static str),
    /// This path is world-writable.
    Opened(&'static str),
    /// A datagram came.
    Received,
}

/// The result of an attempt without a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bare {
    /// It gets out for every user.
    Works,
    /// It gets out for root.
    WorksForRoot,
    /// It depends on kernel and machine.
    Depends,
    /// It makes sense only in a sandbox, or would harm the machine: not tried.
    NotTried,
}

/// The result of an attempt in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Held,
    /// A documented limit of the backend.
    Out,
}

use Bare::{Depends, NotTried, Works, WorksForRoot};
use Fate::{Held, Out};
use Shown::{Arrives, Gone, Opened, Received, Said};

const fn row(name: &'static str, shown_by: Shown, bare: Bare, landlock: Fate) -> Attempt {
    Attempt { name, shown_by, bare, landlock }
}

/// Every attempt.
pub(super) const ATTEMPTS: [Attempt; 102] = [
    row("write_outside", Arrives("outside/new"), Works, Held),
    row("overwrite_outside", Arrives("outside/overwritten"), Works, Held),
    row("write_bashrc", Arrives("home/.bashrc"), Works, Held),
    row("write_authorized_keys", Arrives("home/.ssh/authorized_keys"), Works, Held),
    row("write_local_bin", Arrives("home/.local/bin/added"), Works, Held),
    row("write_usr_local", Arrives("/usr/local/@"), WorksForRoot, Held),
    row("write_etc", Arrives("/etc/@"), WorksForRoot, Held),
    row("write_tmp", Arrives("/tmp/@"), Works, Held),
    row("write_var_tmp", Arrives("/var/tmp/@"), Works, Held),
    row("write_shared_memory", Arrives("/dev/shm/@"), Works, Out),
    row("write_state", Arrives("state/ralph/added"), Works, Held),
    row("through_link", Arrives("outside/target"), Works, Held),
    row("through_own_link", Arrives("outside/by-own-link"), Works, Held),
    row("through_link_to_directory", Arrives("outside/by-directory"), Works, Held),
    row("hard_link", Arrives("outside/linked"), Works, Held),
    row("rename_out", Arrives("outside/moved"), Works, Held),
    row("chmod_outside", Opened("outside/chmodded"), Works, Out),
    row("write_settings", Said, Works, Out),
    row("create_in_ralph", Said, Works, Out),
    row("delete_settings", Gone("project/.ralph/settings.json"), Works, Out),
    row("swap_ralph", Arrives("project/.ralph/swapped"), Works, Out),
    row("write_hook", Said, Works, Out),
    row("delete_hooks", Gone("project/.git/hooks"), Works, Out),
    row("git_config", Said, Works, Out),
    row("rename_git_config", Said, Works, Out),
    // Without a sandbox, `swap_git` moves these away again.
    row("git_commondir", Arrives("project/.git/commondir"), Depends, Held),
    row("git_config_worktree", Arrives("project/.git/config.worktree"), Depends, Held),
    row("git_attributes", Said, Works, Out),
    row("git_alternates", Arrives("project/.git/objects/info/alternates"), Depends, Held),
    row("swap_git", Arrives("project/.git/swapped"), Works, Out),
    row("write_agent_settings", Said, Works, Out),
    row("swap_agent_settings", Arrives("project/.claude/settings.local.json"), Works, Held),
    row("create_mcp_servers", Arrives("project/.mcp.json"), Works, Held),
    row("create_editor_tasks", Arrives("project/.vscode/tasks.json"), Works, Held),
    row("create_envrc", Arrives("project/.envrc"), Works, Held),
    row("link_kept_name", Arrives("outside/pre-commit"), Works, Held),
    row("write_protected", Said, Works, Out),
    row("swap_above_protected", Arrives("project/docs/deep/spec/swapped.md"), Works, Out),
    row("read_ssh_key", Said, Works, Held),
    row("read_cloud_credentials", Said, Works, Held),
    row("read_token", Said, Works, Held),
    row("read_cargo_token", Said, Works, Held),
    row("list_home", Said, Works, Held),
    row("read_outside", Said, Works, Held),
    row("read_shadow", Said, WorksForRoot, Held),
    row("read_state", Said, Works, Held),
    row("read_hidden_in_project", Said, Works, Out),
    row("read_link_to_secret", Said, Works, Held),
    row("root_of_first_process", Said, Depends, Held),
    row("root_of_parent", Said, Works, Held),
    row("environment_of_first_process", Said, NotTried, Held),
    row("environment_of_host_process", Said, Works, Held),
    row("inherited_secret", Said, Works, Held),
    row("inherited_files", Said, NotTried, Held),
    row("core_pattern", Said, Depends, Held),
    row("max_user_namespaces", Said, Depends, Held),
    row("sysrq", Said, Depends, Held),
    row("kernel_memory", Said, Depends, Held),
    row("uevent_helper", Said, Depends, Held),
    row("control_group", Said, Depends, Held),
    row("disk", Said, Depends, Held),
    row("own_device", Said, Depends, Held),
    row("terminal_of_user", Said, NotTried, Held),
    row("see_host_process", Said, Works, Out),
    row("signal_host_process", Said, Works, Held),
    row("trace_host_process", Said, Depends, Held),
    row("read_host_process", Said, Depends, Held),
    row("files_of_host_process", Said, Depends, Held),
    row("trace_parent", Said, Depends, Held),
    row("tcp_to_host", Said, Works, Held),
    row("mptcp_to_host", Said, Depends, Held),
    row("udp_to_host", Received, Works, Held),
    row("socket_in_tmp", Said, Works, Held),
    row("socket_in_home", Said, Works, Held),
    row("socket_in_project", Said, Works, Held),
    row("abstract_socket", Said, Works, Held),
    row("raw_socket", Said, WorksForRoot, Held),
    row("packet_socket", Said, Depends, Held),
    row("netlink_socket", Said, Works, Held),
    row("vsock", Said, Depends, Held),
    row("unshare_user", Said, Works, Held),
    row("unshare_mounts", Said, Works, Held),
    row("clone_user", Said, Works, Held),
    row("clone3_user", Said, Works, Held),
    row("join_namespace", Said, Depends, Held),
    row("mount_tmpfs", Said, WorksForRoot, Held),
    row("remount_root", Said, NotTried, Held),
    row("unmount_home", Said, NotTried, Held),
    row("unmount_protection", Said, NotTried, Held),
    row("open_tree", Said, WorksForRoot, Held),
    row("new_file_system", Said, WorksForRoot, Held),
    row("change_root", Said, WorksForRoot, Held),
    row("open_by_handle", Said, Depends, Held),
    row("keys", Said, Depends, Held),
    row("kernel_program", Said, Depends, Held),
    row("performance_events", Said, Depends, Held),
    row("user_faults", Said, Depends, Held),
    row("io_uring", Said, Depends, Held),
    row("second_call_numbers", Said, Depends, Held),
    row("inject_input", Said, Depends, Held),
    row("inner_bubblewrap", Said, Depends, Held),
    row("regain_rights", Said, Works, Held),
];
