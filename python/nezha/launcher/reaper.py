"""A small process that outlives the launcher and ends the ranks that it left running.

It knows the process groups that are running and waits for the launcher's pipe to close, which
also happens when the launcher is killed with -9. It is a shell: it must start in a millisecond.
"""

from __future__ import annotations

import subprocess

_SCRIPT = r"""
groups=" "
while read -r what group; do
  case $what in
    +) groups="$groups$group " ;;
    -) groups="${groups%% "$group" *} ${groups#* "$group" }" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""


class Reaper:
    """Ends the groups that were added and not removed when this process ends. A context manager."""

    def __init__(self) -> None:
        self._shell = subprocess.Popen(["sh", "-c", _SCRIPT], stdin=subprocess.PIPE,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       start_new_session=True)

    def add(self, group: int) -> None:
        """A group is running."""
        self._say(f"+ {group}\n")

    def remove(self, group: int) -> None:
        """A group is gone; its number may be given to others from now on."""
        self._say(f"- {group}\n")

    def _say(self, line: str) -> None:
        assert self._shell.stdin is not None
        try:
            self._shell.stdin.write(line.encode())
            self._shell.stdin.flush()
        except BrokenPipeError:
            pass  # somebody killed the shell: the launcher itself still ends its ranks

    def __enter__(self) -> "Reaper":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait()
