"""Stands in for docker: the same command line, carried out by bubblewrap.

Takes only what ralph says, and refuses the rest, as docker would. Containers are noted in a directory
beside the script, so that they can be listed and removed. The file `down` beside it stands for a daemon
that does not answer.
"""

NOTES = notes("containers")


def field(text):
    """One mount, written as comma-separated values."""
    import csv

    parts = next(csv.reader([text]))
    return dict(part.split("=", 1) if "=" in part else (part, "") for part in parts)


def run(words):
    flags = {"--rm", "--interactive", "--read-only"}
    ignored = {
        "--pull", "--cap-drop", "--security-opt", "--pids-limit", "--memory", "--memory-swap",
        "--ulimit", "--ipc", "--user",
    }
    cell, env, network, workdir, entry, name, label = [], {}, None, "/", None, None, ""
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in flags:
            continue
        value = words.pop(0)
        if word == "--name":
            name = value
        elif word == "--label":
            label = value
        elif word == "--network":
            network = value
        elif word == "--workdir":
            workdir = value
        elif word == "--entrypoint":
            entry = value
        elif word == "--tmpfs":
            cell.append((value.split(":")[0], "tmpfs", None))
        elif word == "--env":
            key, _, text = value.partition("=")
            env[key] = text if "=" in value else os.environ[key]
        elif word == "--mount":
            mount = field(value)
            kind = "tmpfs" if mount["type"] == "tmpfs" else "ro" if "readonly" in mount else "rw"
            cell.append((mount["target"], kind, mount.get("source")))
        elif word not in ignored:
            fail(f"unknown flag: {word}", 125)
    image = words.pop(0)
    if image != "agent:1":
        fail(f"no such image: {image}", 125)
    if len({place for place, _, _ in cell}) != len(cell):
        fail("duplicate mount point", 125)
    bwrap = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--as-pid-1",
             "--die-with-parent", "--cap-drop", "ALL", "--clearenv"]
    bwrap += ["--unshare-net"] if network == "none" else []
    for place in ["/usr", "/bin", "/lib", "/lib64", "/etc/alternatives"]:
        bwrap += ["--ro-bind-try", place, place]
    bwrap += ["--dev", "/dev", "--proc", "/proc", "--dir", "/tmp"]
    # Engines sort mounts by their depth.
    for place, kind, source in sorted(cell, key=lambda it: it[0].count("/")):
        if kind == "tmpfs":
            bwrap += ["--tmpfs", place]
        else:
            bwrap += ["--bind" if kind == "rw" else "--ro-bind", source, place]
    bwrap += ["--remount-ro", "/"]
    for key, value in {"PATH": "/usr/bin:/bin", **env}.items():
        bwrap += ["--setenv", key, value]
    child = subprocess.Popen(bwrap + ["--chdir", workdir, "--", entry] + words)
    follow(child, os.path.join(NOTES, name), f"{child.pid} {label}")


def remove(name):
    note = os.path.join(NOTES, name)
    if os.path.exists(note):
        ended(os.kill, int(open(note).read().split()[0]))
        os.remove(note)


if os.path.exists(os.path.join(HERE, "down")):
    fail("Cannot connect to the Docker daemon")
if words[0] == "info":
    print("linux|Debian GNU/Linux 12|[name=seccomp]")
elif words[:2] == ["image", "inspect"]:
    if words[-1] != "agent:1":
        fail("No such image")
    print("sha256:1")
elif words[0] == "run":
    run(words[1:])
elif words[0] == "ps":
    wanted = words[-1].removeprefix("label=")
    for name in os.listdir(NOTES):
        if wanted in open(os.path.join(NOTES, name)).read():
            print(name)
elif words[0] == "rm":
    remove(words[-1])
else:
    fail(f"unknown command: {words[0]}")
