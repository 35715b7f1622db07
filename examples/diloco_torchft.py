"""DiLoCo with torchft: replicas train alone for some steps, then average what they have learned.

    pip install torchft
    nezha run -n 2 python examples/diloco_torchft.py
    nezha run -n 2 python examples/diloco_torchft.py --backend gloo

Each process is one replica (a replica group of one). Only every --sync-every steps do the replicas
talk: the difference to the last common parameters is averaged over Nezha and given to an outer
optimizer. torchft watches who is alive: with --min-replicas 1 a replica may be killed or started
again while the others train.

The first rank also runs torchft's lighthouse, where the replicas find each other, on
MASTER_ADDR:MASTER_PORT. If TORCHFT_LIGHTHOUSE is set, that one is used instead.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from datetime import timedelta
from typing import Any, List, Tuple

import torch
from torch import nn
from torch.distributed import TCPStore

TIMEOUT = timedelta(seconds=30)


def load_digits(replica: int, replicas: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """This replica's own images [n, 64] in 0..1 and labels [n]: replicas never see each other's."""
    try:
        from sklearn.datasets import load_digits as bundled
    except ImportError as error:
        sys.exit(f"this example needs scikit-learn: pip install scikit-learn ({error})")
    digits = bundled()
    images = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    return images[replica::replicas], torch.tensor(digits.target)[replica::replicas]


def make_network() -> nn.Module:
    """The same in every replica."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))


def make_process_group(backend: str) -> Any:
    """What the replicas average with: reconfigured by torchft whenever one comes or goes."""
    if backend == "gloo":
        from torchft.process_group import ProcessGroupGloo

        return ProcessGroupGloo(timeout=TIMEOUT)
    from nezha.torch.torchft import ProcessGroupNezha

    return ProcessGroupNezha(timeout=TIMEOUT)


def own_address(peer: str) -> str:
    """The address of this host from which `peer` is reached; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((peer, 9))
        return str(probe.getsockname()[0])


def start_lighthouse(replica: int, arguments: argparse.Namespace) -> Tuple[str, Any]:
    """Its address, and the server when this process runs it (it ends with its object)."""
    if "TORCHFT_LIGHTHOUSE" in os.environ:
        return os.environ["TORCHFT_LIGHTHOUSE"], None
    from torchft.coordination import LighthouseServer

    host, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    server = None
    if replica == 0:
        server = LighthouseServer(bind=f"0.0.0.0:{port}", min_replicas=arguments.min_replicas)
    return f"http://{host}:{port}", server


def train(model: nn.Module, manager: Any, data: Tuple[torch.Tensor, torch.Tensor],
          arguments: argparse.Namespace) -> List[float]:
    """Loss on this replica's data after every synchronisation."""
    from torchft.local_sgd import DiLoCo

    inner = torch.optim.AdamW(model.parameters(), lr=arguments.rate)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    # What a replica that joins later needs beside the parameters, which DiLoCo takes care of.
    manager.register_state_dict_fn("inner", inner.load_state_dict, inner.state_dict)
    images, labels = data
    losses: List[float] = []
    with DiLoCo(manager, [model], inner, outer, sync_every=arguments.sync_every,
                pin_memory=False):
        for step in range(arguments.syncs * arguments.sync_every):
            batch = torch.randint(len(labels), (arguments.batch,))
            inner.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            inner.step()  # every sync_every-th time, DiLoCo averages here
            if (step + 1) % arguments.sync_every == 0:
                with torch.no_grad():
                    losses.append(nn.functional.cross_entropy(model(images), labels).item())
                print(f"synchronisation {len(losses)}: loss {losses[-1]:.4f}, "
                      f"{manager.num_participants()} replicas", flush=True)
    return losses


def main() -> None:
    """Finds the others, trains, reports."""
    arguments = _arguments()
    try:
        from torchft import Manager
    except ImportError as error:
        sys.exit(f"this example needs torchft: pip install torchft ({error})")
    torch.set_num_threads(1)
    replica, replicas = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    arguments.min_replicas = arguments.min_replicas or replicas
    address, lighthouse = start_lighthouse(replica, arguments)
    host = own_address(os.environ["MASTER_ADDR"])
    store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
    group = make_process_group(arguments.backend)
    manager = Manager(group, None, None, arguments.min_replicas, use_async_quorum=False,
                      timeout=TIMEOUT, rank=0, world_size=1, store_addr=host, hostname=host,
                      store_port=store.port, lighthouse_addr=address,
                      replica_id=f"replica_{replica}")
    torch.manual_seed(100 + replica)  # below, make_network() has a seed of its own
    losses = train(make_network(), manager, load_digits(replica, replicas), arguments)
    if arguments.json and replica == 0:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"backend": arguments.backend, "replicas": replicas, "losses": losses,
                       "participants": manager.num_participants()}, file)
    group.shutdown()
    manager.shutdown(wait=False)
    if lighthouse is not None:
        lighthouse.shutdown()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="nezha", choices=["nezha", "gloo"])
    parser.add_argument("--syncs", type=int, default=10, help="how often the replicas average")
    parser.add_argument("--sync-every", type=int, default=20, help="steps between two of them")
    parser.add_argument("--batch", type=int, default=32, help="images a step, of each replica")
    parser.add_argument("--rate", type=float, default=1e-3, help="inner learning rate")
    parser.add_argument("--min-replicas", type=int, default=0,
                        help="go on with so many (default: all of them)")
    parser.add_argument("--json", help="write the result to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
