"""Which kind of lab this process can build, and why not a better one."""

from __future__ import annotations

import os
from dataclasses import dataclass

from . import _kernel, _userns

MODES = ("root", "userns", "loopback")


@dataclass(frozen=True)
class Capability:
    """mode: root (namespaces), userns (namespaces without privileges) or loopback. reason: why."""

    mode: str
    reason: str

    @property
    def namespaces(self) -> bool:
        """Whether the lab has networks of its own, with rates and faults."""
        return self.mode != "loopback"


def _privileged() -> str:
    """Empty when this process may create network namespaces as it is; else why not."""
    if not os.path.exists("/proc/self/ns/net"):
        return "this kernel has no network namespaces"
    try:
        _kernel.in_thread(lambda: _kernel.unshare(_kernel.CLONE_NEWNET))
        _kernel.in_thread(lambda: _kernel.unshare(_kernel.CLONE_NEWNS))
    except OSError as error:
        return str(error)
    return ""


def capabilities() -> Capability:
    """The best lab this process can build. Changes nothing in this process."""
    try:
        import pyroute2  # noqa: F401  (only whether it is there)
    except ImportError as error:
        return Capability("loopback", f"pyroute2 is not installed ({error})")
    refused = _privileged()
    if not refused:
        return Capability("root", "may create network namespaces")
    why = _userns.probe()
    if not why:
        return Capability("userns", f"not root ({refused}), user namespaces are allowed")
    return Capability("loopback", f"not root ({refused}), and no user namespaces ({why})")
