"""One rank of the test session: runs what tests/torch_backend/conftest.py sends.

    rank.py RANK WORLD STORE_FILE SOCKET
"""

from __future__ import annotations

import importlib
import sys
import traceback
from multiprocessing.connection import Client
from typing import Any


def main(rank: int, world: int, store_file: str, socket: str) -> None:
    """Joins the default group, then answers until it is told to end."""
    pipe = Client(socket, family="AF_UNIX")
    pipe.send(rank)
    try:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        dist.init_process_group("nezha", store=dist.FileStore(store_file, world), rank=rank,
                                world_size=world)
    except BaseException:
        pipe.send((False, traceback.format_exc()))
        raise
    pipe.send((True, None))
    while (order := pipe.recv()) is not None:
        pipe.send(answer(*order))
    if dist.is_initialized():
        dist.destroy_process_group()


def answer(module: str, function: str, args: Any) -> Any:
    """(True, the function's result) or (False, the traceback)."""
    try:
        return True, getattr(importlib.import_module(module), function)(*args)
    except BaseException:
        return False, traceback.format_exc()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
