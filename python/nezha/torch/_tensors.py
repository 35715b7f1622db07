"""Tensor lists and strides: what c10d passes, as contiguous memory, and back.

A `finish` is what remains to be done once the operation has succeeded: None, or a function without
arguments that copies results to where the caller wants them. Whatever thread learns first that the
operation is over calls it, in whatever mode of torch that thread is.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager, Iterable, List, Optional, Sequence, Tuple

import torch

from .. import errors
from ._dtypes import computes, host_tensor

Finish = Optional[Callable[[], None]]


def single(tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The tensors, of which there must be one."""
    if len(tensors) != 1:
        raise errors.InvalidArgument(f"{len(tensors)} tensors where the operation takes one; call "
                                     "it once for each, or use the coalesced form")
    return tensors


def packed(tensor: torch.Tensor, load: bool = True) -> Tuple[torch.Tensor, Finish]:
    """Contiguous memory that stands for the tensor, and how the result comes back.

    load: whether the operation reads it, so that a stand-in must have its values.
    """
    host_tensor(tensor)
    if tensor.is_contiguous():
        return tensor, None
    stand_in = tensor.detach().contiguous() if load else host_memory(tensor.shape, tensor.dtype)

    def finish() -> None:
        write(tensor, stand_in)

    return stand_in, finish


def host_memory(shape: Any, dtype: torch.dtype, pinned: bool = False) -> torch.Tensor:
    """A new tensor in host memory, whatever the default device is."""
    return torch.empty(shape, dtype=dtype, device="cpu", pin_memory=pinned)


def writing(target: torch.Tensor) -> ContextManager[Any]:
    """A context in which any thread may write the target.

    torch refuses to write a tensor that was made in inference mode from outside that mode.
    """
    return torch.inference_mode() if target.is_inference() else contextlib.nullcontext()


def write(target: torch.Tensor, values: torch.Tensor) -> None:
    """target = values, as the operation itself would write it: no gradient is recorded."""
    with writing(target):
        target.detach().copy_(values)


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous memory with the tensor's values, for reading."""
    host_tensor(tensor)
    return tensor if tensor.is_contiguous() else tensor.detach().contiguous()


def both(finishes: Iterable[Finish]) -> Finish:
    """All of them as one."""
    parts = [finish for finish in finishes if finish is not None]
    if len(parts) < 2:
        return parts[0] if parts else None

    def finish() -> None:
        for part in parts:
            part()

    return finish


def lists(outer: Sequence[Sequence[torch.Tensor]], world: int,
          like: Optional[torch.Tensor] = None) -> Sequence[Sequence[torch.Tensor]]:
    """The one list, of one tensor per rank; all of one dtype, and of the size of `like`."""
    if len(outer) != 1:
        raise errors.InvalidArgument(f"{len(outer)} lists of tensors where one is needed")
    row = outer[0]
    if len(row) != world:
        raise errors.InvalidArgument(f"{len(row)} tensors for {world} ranks: one for each is needed")
    reference = row[0] if like is None else like
    for tensor in row:
        host_tensor(tensor)
        same_dtype(tensor, reference)
        if like is not None and tensor.numel() != like.numel():
            raise errors.InvalidArgument(f"tensors of {tensor.numel()} and {like.numel()} elements: "
                                         "all ranks' parts must have one size")
    return outer


def same_dtype(first: torch.Tensor, second: torch.Tensor) -> None:
    """Raises InvalidArgument unless both have one dtype."""
    if first.dtype is not second.dtype:
        raise errors.InvalidArgument(f"tensors of {first.dtype} and {second.dtype} in one operation: "
                                     "all need one dtype")


def same_length(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> None:
    """Raises InvalidArgument unless there are as many of one as of the other."""
    if len(first) != len(second):
        raise errors.InvalidArgument(f"{len(first)} outputs for {len(second)} inputs")


def flattened(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """One tensor with the values of all, one after another."""
    if len(tensors) == 1:
        return dense(tensors[0]).detach().reshape(-1)
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def scratch_for(targets: Sequence[torch.Tensor]) -> Tuple[torch.Tensor, Finish]:
    """A flat tensor as long as all targets, and the copy from it into them."""
    flat = host_memory(sum(target.numel() for target in targets), targets[0].dtype)

    def finish() -> None:
        begin = 0
        for target in targets:
            end = begin + target.numel()
            write(target, flat[begin:end].view(target.shape))
            begin = end

    return flat, finish


def divisible(tensor: torch.Tensor, world: int) -> None:
    """Raises InvalidArgument unless the first dimension divides evenly among the ranks."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if rows % world:
        raise errors.InvalidArgument(f"{rows} rows do not divide evenly among {world} ranks: pass "
                                     "split sizes")


def split_counts(tensor: torch.Tensor, splits: Sequence[int], world: int) -> List[int]:
    """Items per rank, as `movable` counts them, of splits in rows of the first dimension."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not splits:
        divisible(tensor, world)
        splits = [rows // world] * world
    if len(splits) != world or sum(splits) != rows or min(splits) < 0:
        raise errors.InvalidArgument(f"split sizes {list(splits)} for {world} ranks and {rows} rows: "
                                     "one per rank is needed, and their sum must be the rows")
    per_row = tensor.numel() // rows if rows else 0
    return [split * per_row * _items(tensor) for split in splits]


def byte_counts(flat: torch.Tensor, parts: Sequence[torch.Tensor]) -> List[int]:
    """Items per part, as `movable` counts them: elements, or bytes of other dtypes."""
    scale = _items(flat)
    return [part.numel() * scale for part in parts]


def _items(tensor: torch.Tensor) -> int:
    return 1 if computes(tensor.dtype) else tensor.element_size()
