"""New arrays like the ones that were given: NumPy for NumPy and plain memory, torch for torch."""

from __future__ import annotations

import sys
from typing import Any, Tuple


def shape_of(x: Any) -> Tuple[int, ...]:
    """The extents of an array of any kind."""
    shape = getattr(x, "shape", None)
    return tuple(_as_numpy(x).shape if shape is None else shape)


def new_like(x: Any, shape: Tuple[int, ...]) -> Any:
    """An uninitialised array of `shape` with the dtype of `x`, and of its kind where that is torch's."""
    torch = sys.modules.get("torch")  # who passes a tensor has loaded it
    if torch is not None and isinstance(x, torch.Tensor):
        return torch.empty(shape, dtype=x.dtype, device=x.device)
    import numpy

    if isinstance(x, (numpy.ndarray, numpy.generic)):
        return numpy.empty(shape, x.dtype)
    return numpy.empty(shape, _as_numpy(x).dtype)


def _as_numpy(x: Any) -> Any:
    import numpy

    from .errors import InvalidArgument

    try:
        return numpy.asarray(memoryview(x))
    except TypeError:
        pass
    try:
        return numpy.from_dlpack(x)
    except (AttributeError, BufferError, RuntimeError, TypeError) as error:
        raise InvalidArgument(f"x is {type(x).__name__}, for which no result array can be made: pass a "
                              "NumPy array, a torch CPU tensor, or out=") from error
