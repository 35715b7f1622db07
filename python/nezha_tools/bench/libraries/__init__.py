"""Other libraries, measured in the same lab by the same rule: Gloo, Open MPI, MPICH.

The two MPI libraries are measured with the algorithms that they choose, and, as peers of their own, with
their ring: they do not always choose the fastest algorithm over several rails.

Each is optional. One that is missing is named, with the command that installs it. The two MPI
wheels overwrite each other's files, so each lives in an environment of its own, looked for in
$NEZHA_BENCH_PEERS (default `.cache/peers`), as `bench/install_peers.sh` makes them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from ...cli.errors import BenchError
from ..lab_runner import BenchLab, Progress
from ..spec import BenchSpec, Sample
from . import gloo, mpi

Runner = Callable[[BenchLab, BenchSpec, Optional[Progress]], List[Sample]]
# The names of peers, and how each is measured.
PEERS = {"gloo": "as torch calls it, on the fastest rail",
         "openmpi": "the algorithms that it chooses", "openmpi-ring": "with its ring",
         "mpich": "the algorithms that it chooses", "mpich-ring": "with its ring"}


def peers_directory() -> Path:
    """Where the environments of the peers are."""
    return Path(os.environ.get("NEZHA_BENCH_PEERS", ".cache/peers")).absolute()


def parse_peers(text: str) -> List[str]:
    """Names out of "gloo,openmpi". Raises BenchError for an unknown one."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in PEERS:
            raise BenchError(f"--compare {name}: one of {', '.join(PEERS)}")
    return names


def find_peers(names: List[str],
               torch_python: Optional[str]) -> Tuple[Dict[str, Runner], Dict[str, str]]:
    """Runners of the installed ones among `names`; of the others, how to install them."""
    found: Dict[str, Runner] = {}
    missing: Dict[str, str] = {}
    for name in names:
        try:
            if name == "gloo":
                found[name] = gloo.Gloo(torch_python, peers_directory() / "gloo").run
            else:
                library, _, algorithm = name.partition("-")
                found[name] = mpi.find(library, peers_directory() / library, algorithm == "ring").run
        except BenchError as error:
            missing[name] = str(error)
    return found, missing
