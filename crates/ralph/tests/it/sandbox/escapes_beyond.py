"""Continues `escapes.py` in the same program: attempts that are not about files."""

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
