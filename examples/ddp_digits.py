"""DistributedDataParallel on real data; the backend is one word on the command line.

    torchrun --nproc-per-node 2 examples/ddp_digits.py --backend nezha
    nezha run -n 2 python examples/ddp_digits.py --backend gloo
    nezha run --lab default python examples/ddp_digits.py        # see README.md beside this file

The data is scikit-learn's bundled handwritten digits (1797 images of 8 x 8). The network is wider
than digits need, so that there is something to send: 4.5 MB of gradients a step. The losses do not
depend on the backend, except for the rounding of float32.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any, Dict, List, Tuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def load_digits() -> Tuple[torch.Tensor, torch.Tensor]:
    """Images [1797, 64] in 0..1 and labels [1797], in the order in which they are bundled."""
    try:
        from sklearn.datasets import load_digits as bundled
    except ImportError as error:
        sys.exit(f"this example needs scikit-learn: pip install scikit-learn ({error})")
    digits = bundled()
    return torch.tensor(digits.data / 16.0, dtype=torch.float32), torch.tensor(digits.target)


def make_network() -> nn.Module:
    """The same on every rank: DDP would broadcast rank 0's, and here there is no need to."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                         nn.Linear(1024, 10))


def shares(images: int, batch: int, epoch: int) -> List[torch.Tensor]:
    """This rank's indices of each batch of an epoch; a batch is cut into equal shares."""
    rank, world = dist.get_rank(), dist.get_world_size()
    order = torch.randperm(images, generator=torch.Generator().manual_seed(100 + epoch))
    share = batch // world
    return [order[start + rank * share:start + (rank + 1) * share]
            for start in range(0, images - batch + 1, batch)]


def train(arguments: argparse.Namespace) -> Dict[str, Any]:
    """Losses (mean over an epoch's batches and all ranks), images per second after the first step."""
    images, labels = load_digits()
    model = DistributedDataParallel(make_network())
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.rate)
    world = dist.get_world_size()
    losses: List[float] = []
    seen, begin = 0, 0.0
    for epoch in range(arguments.epochs):
        total = torch.zeros(1)
        parts = shares(len(labels), arguments.batch, epoch)
        for share in parts:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[share]), labels[share])
            loss.backward()  # DDP averages the gradients here, while later ones are computed
            optimizer.step()
            total += loss.detach()
            if not begin:
                begin = time.perf_counter()  # the first step also warms everything up
            else:
                seen += len(share) * world
        dist.all_reduce(total)
        losses.append(total.item() / world / len(parts))
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: loss {losses[-1]:.6f}", flush=True)
    return {"backend": arguments.backend, "ranks": world, "losses": losses,
            "images_per_s": seen / (time.perf_counter() - begin)}


def rails_used() -> Dict[str, int]:
    """Bytes that this rank has sent, by rail."""
    from nezha.torch import communicator

    return {rail["name"]: rail["bytes_sent"] for rail in communicator().rails()}


def main() -> None:
    """Joins, trains, reports, leaves."""
    arguments = _arguments()
    torch.set_num_threads(arguments.threads)
    dist.init_process_group(arguments.backend)
    if arguments.batch < dist.get_world_size():
        raise SystemExit(f"--batch {arguments.batch} is less than one image for each of the "
                         f"{dist.get_world_size()} ranks")
    result = train(arguments)
    if arguments.backend == "nezha":
        result["bytes_sent"] = rails_used()
    if dist.get_rank() == 0:
        print(f"{arguments.backend}, {result['ranks']} ranks: {result['images_per_s']:.0f} images/s",
              flush=True)
        for name, sent in result.get("bytes_sent", {}).items():
            print(f"  {name}: rank 0 sent {sent / 1e6:.1f} MB")
        if arguments.json:
            with open(arguments.json, "w", encoding="utf-8") as file:
                json.dump(result, file)
    dist.destroy_process_group()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="nezha", help="nezha, gloo (default: nezha)")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128, help="images a step, all ranks together")
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate")
    parser.add_argument("--threads", type=int, default=1, help="of each rank, for the computation")
    parser.add_argument("--json", help="write the result to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
