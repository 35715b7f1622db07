"""Tensors as memory that a Communicator takes, and reduce operators as its names.

Reductions need a dtype that the core computes with; what only moves goes as bytes when it has none.
The views share the tensor's memory and are made once per call, so nothing here copies or allocates
tensors.
"""

from __future__ import annotations

from typing import Dict, Optional, Tuple

import torch
from torch.distributed import ReduceOp

from .. import errors
from ._failures import refuse_dtype

_COMPUTED = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int8,
                       torch.uint8, torch.int32, torch.int64})
_KIND = ReduceOp.RedOpType
_OPS: Dict[int, str] = {int(kind): name for kind, name in (
    (_KIND.SUM, "sum"), (_KIND.AVG, "avg"), (_KIND.PRODUCT, "prod"), (_KIND.MIN, "min"),
    (_KIND.MAX, "max"), (_KIND.BAND, "band"), (_KIND.BOR, "bor"), (_KIND.BXOR, "bxor"),
    (_KIND.PREMUL_SUM, "premul_sum"))}
# On bytes that are 0 or 1, so that a bool stays one.
_BOOL_OPS = {"sum": "bor", "max": "bor", "bor": "bor", "prod": "band", "min": "band",
             "band": "band", "bxor": "bxor"}
_LINEAR = frozenset({"sum", "avg", "premul_sum"})


def computes(dtype: torch.dtype) -> bool:
    """Whether the core has this dtype; other dtypes move as bytes."""
    return dtype in _COMPUTED


def movable(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a contiguous CPU tensor of any dtype."""
    if tensor.dtype in _COMPUTED:
        return tensor.detach() if tensor.requires_grad else tensor
    return tensor.detach().reshape(-1).view(torch.uint8)


def reducible(tensor: torch.Tensor, operation: str) -> torch.Tensor:
    """The memory of a contiguous CPU tensor that `operation` computes with. Raises Unsupported."""
    dtype = tensor.dtype
    if dtype in _COMPUTED:
        return tensor.detach() if tensor.requires_grad else tensor
    if dtype is torch.bool:
        return tensor.detach().view(torch.uint8)
    if dtype is torch.complex64 or dtype is torch.complex128:
        return torch.view_as_real(tensor.detach())
    refuse_dtype(dtype, operation)


def operator(op: ReduceOp, tensor: torch.Tensor) -> Tuple[str, Optional[float]]:
    """(name, factor) of torch's operator on such a tensor. Raises Unsupported."""
    name = _OPS[int(op.op)]
    if name == "premul_sum":
        if tensor.dtype is torch.bool:
            raise errors.Unsupported("PREMUL_SUM on bool: convert the tensor to a number type")
        return name, float(op.__getstate__()[1])
    if tensor.dtype in _COMPUTED:
        return name, None
    if tensor.dtype is torch.bool:
        if name not in _BOOL_OPS:
            raise errors.Unsupported(f"{name} on bool: convert the tensor to a number type")
        return _BOOL_OPS[name], None
    if tensor.is_complex() and name not in _LINEAR:
        raise errors.Unsupported(f"{name} on complex numbers: only sums and averages are defined")
    return name, None


def host_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, where it is in host memory and dense. Raises Unsupported or InvalidArgument."""
    if tensor.layout is not torch.strided:
        raise errors.Unsupported(f"a tensor of layout {tensor.layout}: only dense tensors can be "
                                 "communicated; use to_dense()")
    if not tensor.is_cpu:
        raise errors.InvalidArgument(f"a tensor on {tensor.device} among tensors of the CPU: all "
                                     "tensors of one operation must be on one device")
    return tensor
