"""Gloo through torch.distributed. A process group has one device: the fastest rail, or there is a group
on each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Optional

from ...cli.errors import BenchError
from ..lab_runner import BenchLab, Progress, patience_for
from ..spec import BenchSpec, Sample
from .settings import Setting

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

    def __init__(self, torch_python: Optional[str], prefix: Path, setting: Setting) -> None:
        self._setting = setting
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
        return lab.launch([self._python, str(_DRIVER), str(path)],
                          [self.environment(lab)] * lab.lab.ranks, progress, patience_for(spec))

    def environment(self, lab: BenchLab) -> Dict[str, str]:
        """What the ranks get. Raises BenchError."""
        return {"GLOO_SOCKET_IFNAME": lab.devices()[lab.fastest()][0], "NEZHA_BENCH_GLOO_PARTS":
                ",".join(f"{device}:{part:.6f}" for device, part in self._parts(lab).items())}

    def _parts(self, lab: BenchLab) -> Dict[str, float]:
        """Of the data, by device with a process group of its own. Raises BenchError."""
        if not self._setting.apart:
            return {}
        devices = [device for device, _, _ in lab.devices()]
        rates = lab.rates() if self._setting.rates else dict.fromkeys(devices, 1.0)
        if set(rates) != set(devices):
            raise BenchError("this setting divides by the rates of the rails; some have none")
        return {device: rates[device] / sum(rates.values()) for device in devices}
