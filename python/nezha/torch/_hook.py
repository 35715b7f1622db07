"""A communication hook: DistributedDataParallel's gradients over Nezha, the rest over another backend.

    model.register_comm_hook(nezha.init(job="gradients"), nezha.torch.ddp_hook)

No postponed annotations here: DistributedDataParallel compares the hook's with the classes themselves.
"""

from typing import Any

import torch
import torch.distributed as dist

from . import _connect
from ._dtypes import reducible
from ._work import Work


def ddp_hook(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The average of the bucket over the ranks, as a future of one tensor.

    state: the nezha.Communicator to use, or a process group of nezha, or None for the default one.
    """
    if state is None or not hasattr(state, "all_reduce"):
        state = _connect.communicator(state)
    gradients = bucket.buffer()
    native = state.all_reduce(reducible(gradients), "avg", async_op=True)
    return Work(native, [gradients]).get_future().then(_value)


def _value(future: torch.futures.Future) -> torch.Tensor:
    return future.value()[0]
