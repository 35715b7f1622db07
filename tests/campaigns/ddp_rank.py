"""One rank of a training under faults: DistributedDataParallel on the digits of examples/ddp_digits.

Lines of JSON, as in worker.py: {"do": "new"} begins a training anew, {"do": "steps", "count", "at"}
answers {"start", "end"}, {"do": "hash"} the SHA-256 of all weights, {"do": "state"} the rails.
"""

from __future__ import annotations

import faulthandler
import hashlib
import itertools
import json
import os
import signal
import sys
import time
from typing import Any, Dict, Iterator

import torch
import torch.distributed as dist
from nezha.torch import communicator
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from campaigns.moments import until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples"))
import ddp_digits

_BATCH = 128


class Training:
    """A model and its place in the data. Equal for every training of a process."""

    def __init__(self) -> None:
        self._images, self._labels = ddp_digits.load_digits()
        self._model = DistributedDataParallel(ddp_digits.make_network())
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.1)
        self._shares = self._endless()

    def _endless(self) -> Iterator[torch.Tensor]:
        for epoch in itertools.count():
            yield from ddp_digits.shares(len(self._labels), _BATCH, epoch)

    def steps(self, count: int) -> None:
        """Trains."""
        for share in itertools.islice(self._shares, count):
            self._optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self._model(self._images[share]), self._labels[share])
            loss.backward()
            self._optimizer.step()

    def hash(self) -> str:
        """Of every bit of every weight."""
        found = hashlib.sha256()
        for name, value in sorted(self._model.state_dict().items()):
            found.update(name.encode())
            found.update(value.contiguous().numpy().tobytes())
        return found.hexdigest()


def obey(training: Training, command: Dict[str, Any]) -> Dict[str, Any]:
    """The answer to one command but "new"."""
    if command["do"] == "steps":
        until(command["at"])
        start = time.monotonic()
        training.steps(command["count"])
        return {"start": start, "end": time.monotonic()}
    if command["do"] == "hash":
        return {"hash": training.hash()}
    return {"rails": communicator().rails(), "stats": communicator().stats()}


def main() -> None:
    """Joins, then obeys."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    torch.set_num_threads(1)
    dist.init_process_group("nezha")
    training = Training()
    print(json.dumps({"pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        answer: Dict[str, Any] = {}
        if command["do"] == "new":
            training = Training()
        else:
            answer = obey(training, command)
        print(json.dumps(answer), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
