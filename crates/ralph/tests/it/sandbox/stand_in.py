#!/usr/bin/python3
"""What the stand-ins for docker and sbx share. One of them follows behind this text.

`calls` beside the script says what was asked.
"""

import json
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
words = sys.argv[1:]
with open(os.path.join(HERE, "calls"), "a") as log:
    log.write(" ".join(words[:2]) + "\n")


def fail(text, code=1):
    sys.stderr.write(f"{os.path.basename(sys.argv[0])}: {text}\n")
    sys.exit(code)


def notes(kind):
    """Returns the directory with a note for each container or VM, which is made where it is missing."""
    place = os.path.join(HERE, kind)
    os.makedirs(place, exist_ok=True)
    return place


def follow(child, note, text):
    """Hands signals on to a child, and exits as it does. While it runs, a note says so."""
    with open(note, "w") as file:
        file.write(text)
    for number in [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]:
        signal.signal(number, lambda number, _: child.send_signal(number))
    code = child.wait()
    if os.path.exists(note):
        os.remove(note)
    sys.exit(code if code >= 0 else 128 - code)


def ended(kill, pid):
    """Kills a process or a group that may be gone."""
    try:
        kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


