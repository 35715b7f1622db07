"""The optional compiled part; see build.py. Without it everything here passes objects through."""

from __future__ import annotations

from typing import Any, Optional

from .build import build_native, loaded

__all__ = ["available", "build_native", "implementation", "wrap"]


def wrap(backend: Any) -> Any:
    """The backend as torch shall call it: through the compiled part where that exists."""
    module = loaded()
    if module is None:
        return backend
    return module.make_backend(backend, backend.rank(), backend.size())


def available() -> bool:
    """Whether the compiled part exists for this torch and Python, and is used."""
    return loaded() is not None


def implementation(backend: Any) -> Optional[Any]:
    """The backend that wrap() was given; None when it did not make this object."""
    module = loaded()
    return None if module is None else module.implementation(backend)
