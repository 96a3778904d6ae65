"""Attempts to get out of a cell. Each is a function that returns if it got out, and raises if not.

Run as `python3 escapes.py WORLD SKIP…`, where WORLD is a JSON object that says where things are on
the host. Prints one line for each attempt: its name, and `out` or what stopped it. Whether a file
really arrived outside is looked up by whoever runs this.
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
    write(W["home"] + "/.local/bin/planted")


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
    write(W["state"] + "/planted")


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
def replace_kept_name():
    os.rmdir(".husky")
    os.mkdir(".husky")
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


# --- The kernel's own files: only opened, never written.


@attempt
def core_pattern():
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))


@attempt
def max_user_namespaces():
    os.close(os.open("/proc/sys/user/max_user_namespaces", os.O_WRONLY))


@attempt
def sysrq():
    os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))


@attempt
def kernel_memory():
    read("/proc/kcore")


@attempt
def uevent_helper():
    os.close(os.open("/sys/kernel/uevent_helper", os.O_WRONLY))


@attempt
def control_group():
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified"):
        try:
            os.mkdir(root + "/ralph-escape-marker")
            os.rmdir(root + "/ralph-escape-marker")
            return
        except OSError as error:
            last = error
    raise last


@attempt
def disk():
    disks = [name for name in os.listdir("/dev") if name[:2] in ("vd", "sd", "nv", "xv")]
    os.close(os.open("/dev/" + disks[0], os.O_RDONLY))


@attempt
def own_device():
    os.mknod("device", 0o60666, os.makedev(254, 0))
    os.close(os.open("device", os.O_RDONLY))


@attempt
def terminal_of_user():
    os.close(os.open("/dev/tty", os.O_RDWR))


# --- Other processes.


@attempt
def see_host_process():
    with open("/proc/%d/cmdline" % W["pid"], "rb") as file:
        if b"424242" not in file.read():
            raise ProcessLookupError("another one")


@attempt
def signal_host_process():
    see = open("/proc/%d/cmdline" % W["pid"], "rb").read()
    if b"424242" not in see:
        raise ProcessLookupError("another one")
    os.kill(W["pid"], 18)


@attempt
def trace_host_process():
    call("ptrace", ctypes.c_long(0x4206), ctypes.c_long(W["pid"]), 0, 0)
    call("ptrace", ctypes.c_long(17), ctypes.c_long(W["pid"]), 0, 0)


@attempt
def read_host_process():
    with open("/proc/%d/maps" % W["pid"]) as maps:
        start = int(maps.readline().split("-")[0], 16)
    buffer = ctypes.create_string_buffer(16)
    ours = struct.pack("QQ", ctypes.addressof(buffer), 16)
    theirs = struct.pack("QQ", start, 16)
    one = ctypes.c_long(1)
    call("process_vm_readv", ctypes.c_long(W["pid"]), ours, one, theirs, one, ctypes.c_long(0))


@attempt
def files_of_host_process():
    descriptor = call("pidfd_open", ctypes.c_long(W["pid"]), 0)
    call("pidfd_getfd", ctypes.c_long(descriptor), 0, 0)


@attempt
def trace_parent():
    call("ptrace", ctypes.c_long(0x4206), ctypes.c_long(os.getppid()), 0, 0)
    call("ptrace", ctypes.c_long(17), ctypes.c_long(os.getppid()), 0, 0)


# --- The network.


def connect(family, kind, address, protocol=0):
    with socket.socket(family, kind, protocol) as it:
        it.settimeout(3)
        it.connect(address)


@attempt
def tcp_to_host():
    connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", W["tcp"]))


@attempt
def mptcp_to_host():
    connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", W["tcp"]), 262)


@attempt
def udp_to_host():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
        it.sendto(MARK.encode(), ("127.0.0.1", W["udp"]))


@attempt
def socket_in_tmp():
    connect(socket.AF_UNIX, socket.SOCK_STREAM, W["outside"] + "/socket")


@attempt
def socket_in_home():
    connect(socket.AF_UNIX, socket.SOCK_STREAM, W["home"] + "/socket")


@attempt
def socket_in_project():
    connect(socket.AF_UNIX, socket.SOCK_STREAM, "socket")


@attempt
def abstract_socket():
    connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + W["marker"])


@attempt
def raw_socket():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close()


@attempt
def packet_socket():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()


@attempt
def netlink_socket():
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()


@attempt
def vsock():
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()


# --- System calls that lead out.

NEWUSER, NEWNS, NEWNET = 0x10000000, 0x00020000, 0x40000000


@attempt
def unshare_user():
    in_child(lambda: call("unshare", NEWUSER))


@attempt
def unshare_mounts():
    in_child(lambda: call("unshare", NEWUSER | NEWNS))


@attempt
def clone_user():
    pid = call("clone", ctypes.c_long(NEWUSER | 17), None, None, None, None)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


@attempt
def clone3_user():
    args = struct.pack("11Q", NEWUSER, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    pid = call("clone3", ctypes.c_char_p(args), ctypes.c_long(len(args)))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


@attempt
def join_namespace():
    def join():
        with open("/proc/self/ns/uts") as it:
            call("setns", it.fileno(), 0)

    in_child(join)


@attempt
def mount_tmpfs():
    os.makedirs("mounted", exist_ok=True)
    call("mount", b"tmpfs", b"mounted", b"tmpfs", 0, None)
    call("umount2", b"mounted", 0)


@attempt
def remount_root():
    call("mount", None, b"/", None, ctypes.c_long(32 | 4096), None)


@attempt
def unmount_home():
    call("umount2", W["home"].encode(), ctypes.c_long(2))


@attempt
def unmount_protection():
    call("umount2", b".ralph", ctypes.c_long(2))


@attempt
def open_tree():
    os.close(call("open_tree", ctypes.c_long(-100), b"/", ctypes.c_long(1)))


@attempt
def new_file_system():
    os.close(call("fsopen", b"tmpfs", 0))


@attempt
def change_root():
    in_child(lambda: call("chroot", b"."))


@attempt
def open_by_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount_id = ctypes.c_int()
    call("name_to_handle_at", ctypes.c_long(-100), b"/", handle, ctypes.byref(mount_id), 0)
    root = os.open("/", os.O_RDONLY)
    os.close(call("open_by_handle_at", root, handle, 0))


@attempt
def keys():
    call("keyctl", 0, ctypes.c_long(-3), 0)


@attempt
def kernel_program():
    attributes = ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 4, 1) + bytes(64))
    os.close(call("bpf", 0, attributes, 80))


@attempt
def performance_events():
    attributes = ctypes.create_string_buffer(struct.pack("II", 1, 112) + bytes(104))
    os.close(call("perf_event_open", attributes, 0, ctypes.c_long(-1), ctypes.c_long(-1), 0))


@attempt
def user_faults():
    os.close(call("userfaultfd", ctypes.c_long(os.O_CLOEXEC)))


@attempt
def io_uring():
    parameters = ctypes.create_string_buffer(120)
    os.close(call("io_uring_setup", 1, parameters))


@attempt
def second_call_numbers():
    # getpid under its number of the x32 set.
    result = libc.syscall(ctypes.c_long(0x40000000 | 39))
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")


@attempt
def inject_input():
    import pty

    _, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSTI, b"x")


@attempt
def inner_bubblewrap():
    run("bwrap", "--unshare-user", "--ro-bind", "/", "/", "true")


@attempt
def regain_rights():
    with open("/proc/self/status") as it:
        status = dict(line.split(":", 1) for line in it)
    if int(status["CapBnd"], 16) == 0 or status["NoNewPrivs"].strip() == "1":
        raise PermissionError("none to regain")


for function in ATTEMPTS:
    name = function.__name__
    if name in SKIP:
        continue
    try:
        function()
        print(name, "out", flush=True)
    except BaseException as error:
        print(name, "held", repr(error).replace("\n", " "), flush=True)
