"""How torch finds the backend: two entry points, neither of which a program names.

torch 2.14 and later look a backend up by name (group torch.distributed.backends). Every torch calls
`autoload` at the end of `import torch` (group torch.backends), where an exception would break the import.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Tuple

_DEVICES = ["cpu", "cuda"]


def register_backend() -> None:
    """Registers "nezha" with torch.distributed."""
    import torch.distributed as dist

    if takes_backends():
        dist.Backend.register_backend("nezha", _create, extended_api=True, devices=list(_DEVICES))
    else:
        dist.Backend.register_backend("nezha", _create_group, extended_api=True,
                                      devices=list(_DEVICES))


def autoload() -> None:
    """Called by `import torch`: an older torch, and the alias, must be registered beforehand."""
    try:
        import torch.distributed as dist

        if not dist.is_available():
            return
        if not takes_backends():
            register_backend()
        if os.environ.get("NEZHA_TORCH_ALIAS"):
            _register_alias(os.environ["NEZHA_TORCH_ALIAS"])
    except Exception as error:  # `import torch` must go on
        print(f"nezha: torch.distributed will not know the backend: {error}", file=sys.stderr)


def takes_backends() -> bool:
    """Whether this torch calls backends that are written in Python (2.14 and later)."""
    return torch_version() >= (2, 14)


def torch_version() -> Tuple[int, ...]:
    """(major, minor)."""
    import torch

    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def _register_alias(name: str) -> None:
    import torch.distributed as dist

    if name != "gloo":
        raise ValueError(f"NEZHA_TORCH_ALIAS={name}: only gloo can be stood in for")
    if not takes_backends():
        raise ValueError(f"NEZHA_TORCH_ALIAS={name} needs torch 2.14 or later")
    # Of torch's type for plug-ins: it casts what has the type GLOO to its own class.
    dist.Backend.register_backend("gloo", _create_as_gloo, extended_api=True,
                                  devices=list(_DEVICES))


def _create(opts: Any, options: Any) -> Any:
    from ._backend import create

    return create(opts, options)


def _create_as_gloo(opts: Any, options: Any) -> Any:
    from ._backend import create

    return create(opts, options, "gloo")


def _create_group(opts: Any, options: Any) -> Any:
    from ._process_group import create

    return create(opts, options)
