"""Attempts to get out of a cell. Each is a function that returns if it got out, and raises if not.

Run as `python3 escapes.py WORLD SKIP…`, where WORLD is a JSON object that says where things are on
the host. Prints one line for each attempt: its name, and `out` or what stopped it. Whether a file
really arrived outside is checked by the test that runs this. Attempts on the kernel, processes and the
network are in `escapes_beyond.py`.
"""

import ctypes
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import termios

W = json.loads(sys.argv[1])
SKIP = set(sys.argv[2:])
MARK = "escaped"
libc = ctypes.CDLL(None, use_errno=True)
ATTEMPTS = []

SYS = {
    "x86_64": dict(
        ptrace=101, process_vm_readv=310, pidfd_open=434, pidfd_getfd=438, unshare=272, setns=308,
        clone=56, clone3=435, mount=165, umount2=166, pivot_root=155, open_by_handle_at=304,
        name_to_handle_at=303, keyctl=250, bpf=321, perf_event_open=298, userfaultfd=323,
        io_uring_setup=425, open_tree=428, fsopen=430, mount_setattr=442, chroot=161, kcmp=312,
        init_module=175, reboot=169, swapon=167, add_key=248,
    ),
    "aarch64": dict(
        ptrace=117, process_vm_readv=270, pidfd_open=434, pidfd_getfd=438, unshare=97, setns=268,
        clone=220, clone3=435, mount=40, umount2=39, pivot_root=41, open_by_handle_at=265,
        name_to_handle_at=264, keyctl=219, bpf=280, perf_event_open=241, userfaultfd=282,
        io_uring_setup=425, open_tree=428, fsopen=430, mount_setattr=442, chroot=51, kcmp=272,
        init_module=105, reboot=142, swapon=224, add_key=217,
    ),
}[os.uname().machine]


def attempt(function):
    ATTEMPTS.append(function)
    return function


def call(name, *args):
    result = libc.syscall(ctypes.c_long(SYS[name]), *args)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def write(path, text=MARK):
    with open(path, "w") as file:
        file.write(text)


def in_child(function):
    """Does something in a process of its own; raises if it failed there."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
            os._exit(0)
        except BaseException:
            os._exit(1)
    if os.waitpid(pid, 0)[1] != 0:
        raise PermissionError("refused in a child")


def run(*words):
    subprocess.run(words, check=True, capture_output=True, timeout=20)


# --- Writing where nothing may be written.


@attempt
def write_outside():
    write(W["outside"] + "/new")


@attempt
def overwrite_outside():
    write(W["outside"] + "/overwritten")


@attempt
def write_bashrc():
    write(W["home"] + "/.bashrc")


@attempt
def write_authorized_keys():
    write(W["home"] + "/.ssh/authorized_keys")


@attempt
def write_local_bin():
    write(W["home"] + "/.local/bin/added")


@attempt
def write_usr_local():
    write("/usr/local/" + W["marker"])


@attempt
def write_etc():
    write("/etc/" + W["marker"])


@attempt
def write_tmp():
    write("/tmp/" + W["marker"])


@attempt
def write_var_tmp():
    write("/var/tmp/" + W["marker"])


@attempt
def write_shared_memory():
    write("/dev/shm/" + W["marker"])


@attempt
def write_state():
    write(W["state"] + "/added")


@attempt
def through_link():
    write("link-out")


@attempt
def through_own_link():
    os.symlink(W["outside"] + "/by-own-link", "own-link")
    write("own-link")


@attempt
def through_link_to_directory():
    os.symlink(W["outside"], "own-directory")
    write("own-directory/by-directory")


@attempt
def hard_link():
    os.link(W["outside"] + "/linked", "hard-link")
    write("hard-link")


@attempt
def rename_out():
    write("moving")
    os.rename("moving", W["outside"] + "/moved")


@attempt
def chmod_outside():
    os.chmod(W["outside"] + "/chmodded", 0o666)


# --- Writing what is protected in the project.


@attempt
def write_settings():
    write(".ralph/settings.json", '{"escaped": 1}')


@attempt
def create_in_ralph():
    write(".ralph/created")


@attempt
def delete_settings():
    os.unlink(".ralph/settings.json")


@attempt
def swap_ralph():
    os.rename(".ralph", "ralph-old")
    os.mkdir(".ralph")
    write(".ralph/swapped")


@attempt
def write_hook():
    write(".git/hooks/post-checkout")


@attempt
def delete_hooks():
    shutil.rmtree(".git/hooks")


@attempt
def git_config():
    run("git", "config", "core.fsmonitor", MARK)


@attempt
def rename_git_config():
    write("config-of-mine")
    os.rename("config-of-mine", ".git/config")


@attempt
def git_commondir():
    write(".git/commondir")


@attempt
def git_config_worktree():
    write(".git/config.worktree")


@attempt
def git_attributes():
    write(".git/info/attributes")


@attempt
def git_alternates():
    write(".git/objects/info/alternates")


@attempt
def swap_git():
    os.rename(".git", "git-old")
    os.mkdir(".git")
    write(".git/swapped")


@attempt
def write_agent_settings():
    write(".claude/settings.json")


@attempt
def swap_agent_settings():
    os.rename(".claude", "claude-old")
    os.mkdir(".claude")
    write(".claude/settings.local.json")


@attempt
def create_mcp_servers():
    write(".mcp.json")


@attempt
def create_editor_tasks():
    os.makedirs(".vscode", exist_ok=True)
    write(".vscode/tasks.json")


@attempt
def create_envrc():
    write(".envrc")


@attempt
def link_kept_name():
    os.symlink(W["outside"], ".husky")
    write(".husky/pre-commit")


@attempt
def write_protected():
    write("docs/deep/spec/rules.md")


@attempt
def swap_above_protected():
    os.rename("docs", "docs-old")
    os.makedirs("docs/deep/spec")
    write("docs/deep/spec/swapped.md")


# --- Reading what is hidden.


def read(path):
    with open(path, "rb") as file:
        if not file.read(64):
            raise FileNotFoundError("empty")


@attempt
def read_ssh_key():
    read(W["home"] + "/.ssh/id_ed25519")


@attempt
def read_cloud_credentials():
    read(W["home"] + "/.aws/credentials")


@attempt
def read_token():
    read(W["home"] + "/.config/gh/hosts.yml")


@attempt
def read_cargo_token():
    read(W["home"] + "/.cargo/credentials.toml")


@attempt
def list_home():
    if ".ssh" not in os.listdir(W["home"]):
        raise FileNotFoundError("no keys")


@attempt
def read_outside():
    read(W["outside"] + "/overwritten")


@attempt
def read_shadow():
    read("/etc/shadow")


@attempt
def read_state():
    read(W["state"] + "/canary")


@attempt
def read_hidden_in_project():
    read("hidden/secret.txt")


@attempt
def read_link_to_secret():
    os.symlink(W["home"] + "/.ssh/id_ed25519", "key-link")
    read("key-link")


@attempt
def root_of_first_process():
    read("/proc/1/root" + W["home"] + "/.ssh/id_ed25519")


@attempt
def root_of_parent():
    read("/proc/%d/root%s/.ssh/id_ed25519" % (os.getppid(), W["home"]))


@attempt
def environment_of_first_process():
    with open("/proc/1/environ", "rb") as file:
        if b"ESCAPE_SECRET" not in file.read():
            raise FileNotFoundError("no secret")


@attempt
def environment_of_host_process():
    with open("/proc/%d/environ" % W["pid"], "rb") as file:
        if b"ESCAPE_SECRET" not in file.read():
            raise FileNotFoundError("no secret")


@attempt
def inherited_secret():
    os.environ["ESCAPE_SECRET"]


@attempt
def inherited_files():
    for number in range(3, 256):
        try:
            os.fstat(number)
            return
        except OSError:
            pass
    raise FileNotFoundError("none")
