"""Other libraries, measured in the same lab by the same rule: Gloo, also over kernel MPTCP, Open MPI,
MPICH, Intel MPI, and the ring of MLX.

Each is measured as its wheel installs it, and with the settings that a specialist would try
(settings.py): an MPI library does not always choose the fastest algorithm over several rails.

Each is optional. One that is missing is named, with the command that installs it. The MPI
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
from . import gloo, mlx_ring, mpi, mptcp, settings

Runner = Callable[[BenchLab, BenchSpec, Optional[Progress]], List[Sample]]


def peers_directory() -> Path:
    """Where the environments of the peers are."""
    return Path(os.environ.get("NEZHA_BENCH_PEERS", ".cache/peers")).absolute()


def find_peers(names: List[str],
               torch_python: Optional[str]) -> Tuple[Dict[str, Runner], Dict[str, str]]:
    """Runners of the installed ones among `names`; of the others, how to install them."""
    found: Dict[str, Runner] = {}
    missing: Dict[str, str] = {}
    for name in names:
        try:
            library, setting = settings.of(name)
            prefix = peers_directory() / library
            if library == "gloo":
                kind = mptcp.GlooOverMptcp if name == "gloo-mptcp" else gloo.Gloo
                found[name] = kind(torch_python, prefix, setting).run
            elif library == "mlx":
                found[name] = mlx_ring.Mlx(prefix, setting).run
            else:
                found[name] = mpi.find(library, prefix, setting).run
        except BenchError as error:
            missing[name] = str(error)
    return found, missing
