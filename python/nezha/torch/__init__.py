"""torch.distributed over all rails: init_process_group("nezha").

Nothing here needs to be imported for that. For those who want more: communicator() gives the
nezha.Communicator behind a group, ddp_hook is a communication hook for DistributedDataParallel whose
group is another backend's, and build_native() compiles what makes Work.is_completed() and recv()
from any source right on torch 2.14 and later.
"""

from __future__ import annotations

from typing import Any

__all__ = ["build_native", "communicator", "ddp_hook"]

_HOMES = {"build_native": "_native.build", "communicator": "_connect", "ddp_hook": "_hook"}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'nezha.torch' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
