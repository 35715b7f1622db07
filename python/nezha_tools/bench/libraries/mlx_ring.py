"""The ring of MLX, from its PyPI wheel: a connection to each neighbour, or one over each rail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict, List, Optional

from ...cli.errors import BenchError
from ..lab_runner import BenchLab, Progress, patience_for
from ..spec import BenchSpec, Sample
from .settings import Setting

# Not mlx.py: the driver beside it imports the library of that name.
_DRIVER = Path(__file__).with_name("mlx_driver.py")
_OPS = ("sum", "min", "max")
_DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64")
_PORT = 7810  # of a host's first rank, and of its first rail


class Mlx:
    """Runs specs with mlx.core.distributed."""

    def __init__(self, prefix: Path, setting: Setting) -> None:
        self._python = prefix / "bin" / "python"
        self._setting = setting
        if not self._python.exists():
            raise BenchError(f"nothing in {prefix}; bench/install_peers.sh mlx installs it")

    def run(self, lab: BenchLab, spec: BenchSpec,
            progress: Optional[Progress] = None) -> List[Sample]:
        """One launch. Raises BenchError."""
        if not spec.in_place or spec.collective != "all_reduce" or spec.op not in _OPS or (
                spec.dtype not in _DTYPES):
            raise BenchError(f"MLX is compared for all_reduce in place only, {', '.join(_OPS)} of "
                             f"{', '.join(_DTYPES)}")
        if lab.lab.mode == "loopback":
            raise BenchError("MLX is compared in a lab with namespaces only")
        hosts = lab.scratch / "mlx-hosts.json"
        hosts.write_text(json.dumps(self._addresses(lab)), encoding="utf-8")
        environments: List[Dict[str, str]] = [{"MLX_HOSTFILE": str(hosts), "MLX_RANK": str(rank)}
                                              for rank in range(lab.lab.ranks)]
        return lab.launch([str(self._python), str(_DRIVER), str(lab.write_spec(spec))], environments,
                          progress, patience_for(spec))

    def _addresses(self, lab: BenchLab) -> List[List[str]]:
        """ADDRESS:PORT of each rank, on each rail that it is to use."""
        chosen = None if self._setting.apart else lab.devices()[lab.fastest()][0]
        per_node, found = lab.lab.state.ranks_per_node, []
        for node in lab.lab.status()["nodes"]:
            ports = [port for port in node["ports"] if chosen in (None, port["device"])]
            for rank in range(per_node):
                found.append([f"{port['address'].partition('/')[0]}:{_PORT + rank}" for port in ports])
        return found
