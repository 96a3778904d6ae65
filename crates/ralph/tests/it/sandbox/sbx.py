"""Stands in for sbx: VMs are notes beside the script, and commands run in the directories that one
shares, which are those of this machine.

The files `signed-out` and `open` next to it simulate a user who has not signed in, and a policy
that lets everything through.
"""

NOTES = notes("vms")


def shared(name):
    note = os.path.join(NOTES, name)
    if not os.path.exists(note):
        fail(f"no such sandbox: {name}")
    return json.load(open(note))


def is_seen(name, path):
    return any(path == it or path.startswith(it + "/") for it in shared(name))


def execute(words):
    cwd, env = "/", {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "RALPH_SANDBOX": "sbx"}
    while words[0].startswith("-"):
        word = words.pop(0)
        if word == "-w":
            cwd = words.pop(0)
        elif word == "-e":
            key, _, value = words.pop(0).partition("=")
            env[key] = value
    name = words.pop(0)
    if words[0] == "cat" and not is_seen(name, words[1]):
        fail("cat: No such file or directory")
    if cwd != "/" and not is_seen(name, cwd):
        fail(f"no such directory: {cwd}")
    # Processes in a VM are not visible outside.
    env.pop("RALPH_RUN_ID", None)
    child = subprocess.Popen(words, cwd=cwd, env=env, start_new_session=True)
    follow(child, os.path.join(HERE, f"{name}.{child.pid}.running"), "")


if words[0] == "version":
    print("0.43.0")
elif os.path.exists(os.path.join(HERE, "signed-out")):
    fail("not signed in; run sbx login")
elif words[:2] == ["ls", "--json"]:
    print(json.dumps({"sandboxes": [{"name": name} for name in os.listdir(NOTES)]}))
elif words[0] == "create":
    name, rest = words[2], words[3:]
    while rest[0].startswith("-"):
        rest = rest[1:] if rest[0] == "--no-share-skills" else rest[2:]
    paths = [path.removesuffix(":ro") for path in rest[1:]]
    for path in paths:
        if not os.path.isdir(path):
            fail(f"not a directory: {path}")
    json.dump(paths, open(os.path.join(NOTES, name), "w"))
elif words[:2] == ["policy", "check"]:
    print("Allowed" if os.path.exists(os.path.join(HERE, "open")) else "Denied: no rule matches")
elif words[0] == "policy":
    shared(words[4])
elif words[0] == "exec":
    execute(words[1:])
elif words[0] == "stop":
    shared(words[1])
    for note in os.listdir(HERE):
        if note.startswith(words[1]) and note.endswith(".running"):
            ended(os.killpg, int(note.split(".")[-2]))
            os.remove(os.path.join(HERE, note))
elif words[0] == "rm":
    shared(words[2])
    os.remove(os.path.join(NOTES, words[2]))
else:
    fail(f"unknown command: {words[0]}")
