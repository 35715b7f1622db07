"""Gloo over kernel MPTCP: it opens its connections on one rail, and the kernel adds the others.

MPTCP is set up with root's rights in every node: limits, and an announced address for each further rail.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, Optional

from ...cli.errors import BenchError
from ..lab_runner import BenchLab
from .gloo import Gloo
from .settings import Setting

_SOURCE = Path(__file__).with_name("mptcp_preload.c")
_ENABLED = Path("/proc/sys/net/mptcp/enabled")
_FIRST_PORT = 9900  # where the kernel listens on a further rail; Gloo's ports are above 32767
_PATIENCE_S = 30.0


class GlooOverMptcp(Gloo):
    """Runs specs with torch.distributed's gloo backend, whose sockets are MPTCP's."""

    def __init__(self, torch_python: Optional[str], prefix: Path, setting: Setting) -> None:
        super().__init__(torch_python, prefix, setting)
        if not _ENABLED.exists():
            raise BenchError("this kernel has no MPTCP (CONFIG_MPTCP)")
        self._compiler = shutil.which("gcc") or shutil.which("cc")
        if self._compiler is None:
            raise BenchError("Gloo over MPTCP needs a C compiler: apt-get install gcc")

    def environment(self, lab: BenchLab) -> Dict[str, str]:
        """Sets every node up; what the ranks get. Raises BenchError."""
        if lab.lab.mode == "loopback":
            raise BenchError("MPTCP is compared in a lab with namespaces only")
        first = lab.devices()[lab.fastest()][0]
        for node in lab.lab.status()["nodes"]:
            further = [port for port in node["ports"] if port["device"] != first]
            endpoints = [f"{port['address'].partition('/')[0]}:{_FIRST_PORT + index}"
                         for index, port in enumerate(further)]
            script = Path(__file__).with_name("mptcp_endpoints.py")
            done = lab.lab.exec(node["node"], [sys.executable, str(script), *endpoints],
                                capture_output=True, text=True, timeout=_PATIENCE_S)
            if done.returncode != 0:
                raise BenchError(f"node {node['node']}: MPTCP cannot be set up: {done.stderr[-500:]}")
        return {**super().environment(lab), "LD_PRELOAD": str(self._build(lab.scratch))}

    def _build(self, scratch: Path) -> Path:
        library = scratch / "mptcp-preload.so"
        command = [str(self._compiler), "-shared", "-fPIC", "-O2", "-o", str(library), str(_SOURCE),
                   "-ldl"]
        built = subprocess.run(command, capture_output=True, text=True)
        if built.returncode != 0:
            raise BenchError(f"{shlex.join(command)} failed:\n{built.stderr[-1500:]}")
        return library
