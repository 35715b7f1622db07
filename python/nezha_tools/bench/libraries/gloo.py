"""Gloo through torch.distributed, on the fastest rail: it has one device a process group."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import List, Optional

from ...cli.errors import BenchError
from ..lab_runner import BenchLab, Progress, patience_for
from ..spec import BenchSpec, Sample

_DRIVER = Path(__file__).with_name("gloo_driver.py")
_OPS = ("sum", "prod", "min", "max", "band", "bor", "bxor")
_DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64")


def _has_torch(python: str) -> bool:
    probe = "import importlib.util as u, sys; sys.exit(not (u.find_spec('torch')))"
    try:
        probed = subprocess.run([python, "-c", probe], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probed.returncode == 0


class Gloo:
    """Runs specs with torch.distributed's gloo backend."""

    def __init__(self, torch_python: Optional[str], prefix: Path) -> None:
        candidates = [torch_python] if torch_python else [sys.executable,
                                                          str(prefix / "bin" / "python")]
        usable = next((python for python in candidates if _has_torch(python)), None)
        if usable is None:
            raise BenchError(f"no torch in {' or '.join(candidates)}; bench/install_peers.sh gloo "
                             "installs it, or name a python that has it: --torch-python PATH")
        self._python = usable

    def run(self, lab: BenchLab, spec: BenchSpec,
            progress: Optional[Progress] = None) -> List[Sample]:
        """One launch. Raises BenchError."""
        if not spec.in_place or spec.collective != "all_reduce" or spec.op not in _OPS or (
                spec.dtype not in _DTYPES):
            raise BenchError(f"gloo is compared for all_reduce in place only, {', '.join(_OPS)} of "
                             f"{', '.join(_DTYPES)}")
        path = lab.write_spec(spec)
        fastest = lab.devices()[lab.fastest()][0]
        return lab.launch([self._python, str(_DRIVER), str(path)],
                          [{"GLOO_SOCKET_IFNAME": fastest}] * lab.lab.ranks, progress, patience_for(spec))
