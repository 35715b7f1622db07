"""Runs commands of nezha one after the other, each in a child of this process, which has loaded them all.

`python surroundings.py OUTPUT SECONDS` reads a list of lists of words, as JSON, from standard input and
prints [exit code, standard output, standard error] of each; the code is null where a command was ended
after so many seconds. OUTPUT: the file that is their standard output; "": what they say there is printed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import sys
from typing import List, NoReturn, Optional, Tuple

import nezha
import nezha_study
import nezha_tools
from nezha_tools.main import main

# Of others, what commands import when they use it; not matplotlib, which looks for a folder then.
_OTHERS = ("numpy", "pyroute2", "rich.box", "rich.cells", "rich.console", "rich.progress", "rich.table")


def load_all() -> None:
    """The modules that commands use, so that no child has to."""
    ours = [module.name for package in (nezha, nezha_tools, nezha_study)
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    for name in (*ours, *_OTHERS):
        if not name.startswith("nezha.torch") and not name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    gc.freeze()


def become(words: List[str], out: int, err: int) -> NoReturn:
    """What a shell would start, without a terminal."""
    os.setsid()
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
        os.dup2(file, number)
    sys.argv = ["nezha", *words]
    main()
    sys.exit(0)


def run(words: List[str], output: str, seconds: float) -> Tuple[Optional[int], str, str]:
    """One command, to its end or that of its time."""
    err = os.memfd_create("err")
    out = os.open(output, os.O_WRONLY) if output else os.memfd_create("out")
    child = os.fork()
    if child == 0:
        become(words, out, err)
    in_time = bool(select.select([os.pidfd_open(child)], [], [], seconds)[0])
    os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = ["" if file == out and output else os.pread(file, 1 << 20, 0).decode() for file in (out, err)]
    os.close(out)
    os.close(err)
    return code if in_time else None, said[0], said[1]


if __name__ == "__main__":
    load_all()
    print(json.dumps([run(words, sys.argv[1], float(sys.argv[2])) for words in json.load(sys.stdin)]))
