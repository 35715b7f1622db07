"""Building and finding the compiled part.

It is bound to one version of torch and of Python. Wheels have it for one version of torch, beside this
file; elsewhere it is compiled where it is used, into the user's cache directory, and found there
afterwards without being asked for. It is code that runs as this user, so it is loaded only from folders
that nobody else can write to (files.py).
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, List, Optional

import torch

from ... import errors
from ...files import distrusted

_SOURCE = Path(__file__).with_name("bridge.cc")
_SOURCES = (_SOURCE, _SOURCE.with_name("direct.h"), _SOURCE.with_name("works.h"))
_MODULE = "nezha_torch_bridge"


def cache_directory() -> Path:
    """Where the compiled part for this torch, Python and source lies."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(root) / "nezha" / "torch" / _key(torch.__version__)


def _package_directory() -> Path:
    """Where it lies in a wheel. Builds of torch for different devices have one interface."""
    return _SOURCE.parent / "built" / _key(torch.__version__.partition("+")[0])


def _key(version: str) -> str:
    source = hashlib.sha256(b"".join(path.read_bytes() for path in _SOURCES)).hexdigest()[:12]
    return f"{version}-{sys.implementation.cache_tag}-{source}"


def _folders(directory: Path) -> List[Path]:
    """Those that are Nezha's own, the outermost first."""
    return [directory.parent.parent, directory.parent, directory]


def _check_trusted(directory: Path) -> None:
    """Raises InvalidArgument when somebody else could have put what lies in `directory` there."""
    for each in (*_folders(directory), directory / f"{_MODULE}.so"):
        reason = distrusted(str(each))
        if reason is not None:
            raise errors.InvalidArgument(
                f"the compiled part for torch is not loaded: {each} {reason}, so that others could have "
                "put code there; remove it and call nezha.torch.build_native(), or set XDG_CACHE_HOME "
                "to a folder of your own (NEZHA_TORCH_NATIVE=0: do without)")


def build_native(verbose: bool = False) -> Path:
    """Compiles the part that makes every method of Work right for callers of torch.distributed.

    Takes about a minute and needs a C++ compiler and ninja. Groups that are created afterwards, in
    this process and in later ones, use it. Returns the file; raises RuntimeError with the
    compiler's words, and nezha.InvalidArgument where the folder is another user's or open to others.
    """
    directory = cache_directory()
    for folder in _folders(directory):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_trusted(directory)
    path = _compile(directory, verbose)
    loaded.cache_clear()
    return path


def build_into_package() -> Path:
    """The same for a wheel (tools/wheel.sh): into this package, which is being put together."""
    directory = _package_directory()
    directory.mkdir(parents=True)
    path = _compile(directory, False)
    for left in directory.iterdir():
        if left != path:
            left.unlink()
    return path


def _compile(directory: Path, verbose: bool) -> Path:
    from torch.utils import cpp_extension

    cpp_extension.load(name=_MODULE, sources=[str(_SOURCE)], build_directory=str(directory),
                       extra_cflags=["-O2"], verbose=verbose, is_python_module=True)
    path = directory / f"{_MODULE}.so"
    path.chmod(0o755)  # whatever the umask
    return path


@functools.lru_cache(maxsize=None)
def loaded() -> Optional[Any]:
    """The compiled part, where it came with the wheel or was built; NEZHA_TORCH_NATIVE=0: unused.

    Raises nezha.InvalidArgument where another user could have put it there.
    """
    if os.environ.get("NEZHA_TORCH_NATIVE") == "0":
        return None
    path = _package_directory() / f"{_MODULE}.so"
    is_packaged = path.exists()
    if not is_packaged:
        path = cache_directory() / f"{_MODULE}.so"
    if not path.exists():
        return None
    if _MODULE in sys.modules:
        return sys.modules[_MODULE]
    if not is_packaged:
        _check_trusted(path.parent)
    specification = importlib.util.spec_from_file_location(_MODULE, path)
    if specification is None or specification.loader is None:
        return None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    sys.modules[_MODULE] = module
    return module
