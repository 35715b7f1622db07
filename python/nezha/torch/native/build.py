"""Building and finding the compiled part, on the user's machine.

It is bound to one version of torch and of Python, so it is compiled where it is used, into the user's
cache directory, and found there afterwards without being asked for.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, Optional

import torch

_SOURCE = Path(__file__).with_name("bridge.cc")
_SOURCES = (_SOURCE, _SOURCE.with_name("direct.h"))
_MODULE = "nezha_torch_bridge"


def cache_directory() -> Path:
    """Where the compiled part for this torch, Python and source lies."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    source = hashlib.sha256(b"".join(path.read_bytes() for path in _SOURCES)).hexdigest()[:12]
    python = sys.implementation.cache_tag
    return Path(root) / "nezha" / "torch" / f"{torch.__version__}-{python}-{source}"


def build_native(verbose: bool = False) -> Path:
    """Compiles the part that makes every method of Work right for callers of torch.distributed.

    Takes about a minute and needs a C++ compiler and ninja. Groups that are created afterwards, in
    this process and in later ones, use it. Returns the file; raises RuntimeError with the
    compiler's words.
    """
    from torch.utils import cpp_extension

    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    cpp_extension.load(name=_MODULE, sources=[str(_SOURCE)], build_directory=str(directory),
                       extra_cflags=["-O2"], verbose=verbose, is_python_module=True)
    loaded.cache_clear()
    return directory / f"{_MODULE}.so"


@functools.lru_cache(maxsize=None)
def loaded() -> Optional[Any]:
    """The compiled part, where it was built; NEZHA_TORCH_NATIVE=0 leaves it unused."""
    if os.environ.get("NEZHA_TORCH_NATIVE") == "0":
        return None
    path = cache_directory() / f"{_MODULE}.so"
    if not path.exists():
        return None
    if _MODULE in sys.modules:
        return sys.modules[_MODULE]
    specification = importlib.util.spec_from_file_location(_MODULE, path)
    if specification is None or specification.loader is None:
        return None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    sys.modules[_MODULE] = module
    return module
