"""Tensors as memory that a Communicator takes, and reduce operators as its names.

A tensor that only moves goes as bytes when the core has no dtype for it. The views share the tensor's
memory and are made once per call, so nothing here copies or allocates tensors.
"""

from __future__ import annotations

from typing import Dict, Optional, Tuple

import torch
from torch.distributed import ReduceOp

from .. import errors

_COMPUTED = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int8,
                       torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
                       torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2})
_KIND = ReduceOp.RedOpType
_OPS: Dict[int, str] = {int(kind): name for kind, name in (
    (_KIND.SUM, "sum"), (_KIND.AVG, "avg"), (_KIND.PRODUCT, "prod"), (_KIND.MIN, "min"),
    (_KIND.MAX, "max"), (_KIND.BAND, "band"), (_KIND.BOR, "bor"), (_KIND.BXOR, "bxor"),
    (_KIND.PREMUL_SUM, "premul_sum"))}


def computes(dtype: torch.dtype) -> bool:
    """Whether the core has this dtype; other dtypes move as bytes."""
    return dtype in _COMPUTED


def movable(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a contiguous CPU tensor of any dtype."""
    if tensor.dtype in _COMPUTED:
        return reducible(tensor)
    return tensor.detach().reshape(-1).view(torch.uint8)


def reducible(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a contiguous CPU tensor that is combined; the Communicator knows what it can."""
    return tensor.detach() if tensor.requires_grad else tensor


def operator(op: ReduceOp) -> Tuple[str, Optional[float]]:
    """(name, factor) of torch's operator."""
    name = _OPS[int(op.op)]
    return name, float(op.__getstate__()[1]) if name == "premul_sum" else None


def host_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, where it is in host memory and dense. Raises Unsupported or InvalidArgument."""
    if tensor.layout is not torch.strided:
        raise errors.Unsupported(f"a tensor of layout {tensor.layout}: only dense tensors can be "
                                 "communicated; use to_dense()")
    if not tensor.is_cpu:
        raise errors.InvalidArgument(f"a tensor on {tensor.device} among tensors of the CPU: all "
                                     "tensors of one operation must be on one device")
    return tensor
