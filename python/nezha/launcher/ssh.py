"""A rank on another host, through the plain ssh client.

Nothing about the job stands on a command line: the environment, secrets included, goes through
ssh's standard input, which stays open as long as the rank may run. Then the names of signals for the
rank go the same way. When it closes (the launcher ended it, died, or the connection broke), the remote
side ends the rank and all its children.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from typing import Any, List, Mapping, Sequence

from .errors import LaunchError

_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")

# Runs on the remote host, in the place of the user's shell there; its arguments are the directory, a
# folder that comes first in PATH ("": none), and the command.
_REMOTE = r"""
trap '' USR1 USR2
while IFS= read -r pair && [ -n "$pair" ]; do export "$pair"; done
cd "$1" || exit 127
[ -z "$2" ] || export PATH="$2:$PATH"
shift 2
exec 3<&0
setsid "$@" </dev/null 3<&- &
child=$!
{ while read -r name <&3; do kill -s "$name" -- "-$child"; done; kill -s TERM -- "-$child"; sleep 5
  kill -s KILL -- "-$child"; } >/dev/null 2>&1 &
watch=$!
wait "$child"
code=$?
kill "$watch" 2>/dev/null
kill -s KILL -- "-$child" 2>/dev/null
exit "$code"
"""


def environment_text(env: Mapping[str, str]) -> bytes:
    """What the remote side reads: NAME=VALUE lines and an empty one. Raises LaunchError."""
    lines: List[str] = []
    for name, value in env.items():
        if not _NAME.match(name) or "\n" in value:
            raise LaunchError(f"the variable {name!r} cannot be sent to another host: names of "
                              "letters, digits and '_', values of one line only")
        lines.append(f"{name}={value}\n")
    return "".join(lines).encode() + b"\n"


def command_line(host: str, directory: str, command: Sequence[str], folder: str = "") -> List[str]:
    """The local command that starts `command` in `directory` on `host`. folder: where programs are looked
    for first."""
    remote = ["exec", "sh", "-c", _REMOTE, "nezha-run", directory, folder, *command]
    return ["ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=10", host,
            " ".join(shlex.quote(word) for word in remote)]


def start(host: str, directory: str, command: Sequence[str], env: Mapping[str, str], folder: str = "",
          **options: Any) -> "subprocess.Popen[bytes]":
    """Starts the rank; folder: as for command_line. Raises OSError when there is no ssh, LaunchError on a
    bad variable."""
    text = environment_text(env)
    child = subprocess.Popen(command_line(host, directory, command, folder), stdin=subprocess.PIPE,
                             **options)
    _say(child, text)
    return child


def pass_on(child: "subprocess.Popen[bytes]", number: int) -> None:
    """Sends a signal to the rank that `child` started, and to the rank's children."""
    _say(child, signal.Signals(number).name[len("SIG"):].encode() + b"\n")


def _say(child: "subprocess.Popen[bytes]", text: bytes) -> None:
    assert child.stdin is not None
    try:
        child.stdin.write(text)
        child.stdin.flush()
    except BrokenPipeError:
        pass  # ssh has ended already; its exit code and its words say why
