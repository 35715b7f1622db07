"""Other libraries, measured in the same lab by the same rule: Gloo, Open MPI, MPICH.

Each is optional. One that is missing is named, with the command that installs it. The two MPI
wheels overwrite each other's files, so each lives in an environment of its own, looked for in
$NEZHA_BENCH_PEERS (default `.cache/peers`), as `bench/install_peers.sh` makes them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from ..._command_errors import BenchError
from ..lab_runner import BenchLab, Progress
from ..spec import BenchSpec, Sample
from . import gloo, mpi

Runner = Callable[[BenchLab, BenchSpec, Optional[Progress]], List[Sample]]


def peers_directory() -> Path:
    """Where the environments of the peers are."""
    return Path(os.environ.get("NEZHA_BENCH_PEERS", ".cache/peers")).absolute()


def parse_peers(text: str) -> List[str]:
    """Names out of "gloo,openmpi". Raises BenchError for an unknown one."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in ("gloo", "openmpi", "mpich"):
            raise BenchError(f"--compare {name}: one of gloo, openmpi, mpich")
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
                found[name] = mpi.find(name, peers_directory() / name).run
        except BenchError as error:
            missing[name] = str(error)
    return found, missing
