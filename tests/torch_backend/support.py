"""What the cases share: the same program on nezha and on Gloo, and how results compare."""

from __future__ import annotations

import itertools
from typing import Any, Callable, List

import torch
import torch.distributed as dist

_groups: List[Any] = []
_names = itertools.count()


def gloo() -> Any:
    """A group of all ranks that is Gloo's; one for the session."""
    if not _groups:
        _groups.append(dist.new_group(backend="gloo"))
    return _groups[0]


def values(dtype: torch.dtype, *shape: int, salt: int = 0) -> torch.Tensor:
    """Different on every rank, small enough that no product of three overflows int8."""
    generator = torch.Generator().manual_seed(1000 * salt + dist.get_rank())
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_complex or dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return torch.randint(0, 5, shape, generator=generator).to(dtype)


def compare(program: Callable[[Any], Any]) -> None:
    """Runs the program on both; integers must agree bit for bit, the rest within rounding."""
    expected = flat(program(gloo()))
    found = flat(program(dist.group.WORLD))
    assert len(found) == len(expected) > 0
    for mine, theirs in zip(found, expected):
        agree(mine, theirs)


def agree(mine: torch.Tensor, theirs: torch.Tensor) -> None:
    """Raises AssertionError with both when they differ."""
    assert mine.dtype is theirs.dtype and mine.shape == theirs.shape
    if mine.dtype.is_floating_point and mine.element_size() == 1:  # torch computes nothing with them
        mine, theirs = mine.float(), theirs.float()
    if mine.dtype.is_floating_point or mine.dtype.is_complex:
        tolerance = {torch.float16: 2e-2, torch.bfloat16: 1e-1}.get(mine.dtype, 1e-5)
        assert torch.allclose(mine, theirs, tolerance, tolerance, True), f"{mine} is not {theirs}"
    else:
        assert torch.equal(mine, theirs), f"{mine} is not {theirs}"


def flat(result: Any) -> List[torch.Tensor]:
    """The tensors of nested lists."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [tensor for item in result for tensor in flat(item)]


def raises(kind: Any, pattern: str, call: Callable[[], Any]) -> str:
    """The text of the error that the call must raise."""
    import re

    try:
        call()
    except kind as error:
        assert re.search(pattern, str(error)), f"{error!r} does not say {pattern!r}"
        return str(error)
    raise AssertionError(f"no {kind} was raised")


def fresh(*ranks: int, backend: str = "nezha", **options: Any) -> Any:
    """A new group; of all ranks unless some are named."""
    return dist.new_group(list(ranks) or None, backend=backend,
                          group_desc=f"test-{next(_names)}", **options)
