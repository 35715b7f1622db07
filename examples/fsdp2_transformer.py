"""FSDP2 of a small transformer on the CPU: every rank keeps only its shard of each parameter.

    torchrun --nproc-per-node 2 examples/fsdp2_transformer.py --backend nezha
    nezha run -n 2 python examples/fsdp2_transformer.py

The model learns to predict the next byte of Python's own standard library, which is on every
machine that runs this. fully_shard() gathers a block's parameters before it computes (all_gather)
and leaves each rank its part of the averaged gradients (reduce_scatter).
"""

from __future__ import annotations

import argparse
import json
import sysconfig
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

CONTEXT = 64  # bytes that a prediction may look back on
WIDTH = 128
HEADS = 4
BYTES = 256  # values of a byte: the vocabulary


def load_text(size: int = 1 << 20) -> torch.Tensor:
    """The first `size` bytes of the standard library's sources, uint8."""
    text = bytearray()
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text += path.read_bytes()
        if len(text) >= size:
            break
    return torch.frombuffer(text[:size], dtype=torch.uint8)


class Block(nn.Module):
    """Attention and a two-layer network, each added to what came in. [batch, CONTEXT, WIDTH]"""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.mixed = nn.Linear(WIDTH, WIDTH)
        self.network = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                     nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        parts = self.queries_keys_values(self.before_attention(x)).chunk(3, dim=-1)
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in parts)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mixed(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.network(x)


class Transformer(nn.Module):
    """Bytes [batch, CONTEXT] -> scores of the next byte [batch, CONTEXT, BYTES]."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.meaning = nn.Embedding(BYTES, WIDTH)
        self.place = nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.scores = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, BYTES))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.meaning(text) + self.place
        for block in self.blocks:
            x = block(x)
        return self.scores(x)


def sharded(layers: int) -> nn.Module:
    """The model with each block, and what remains, spread over all ranks."""
    torch.manual_seed(1)  # every rank makes the same model, and then keeps its part
    model = Transformer(layers)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def pick(text: torch.Tensor, step: int, batch: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """This rank's passages [batch, CONTEXT] and, for each byte, the one that follows it."""
    generator = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
    starts = torch.randint(len(text) - CONTEXT - 1, (batch,), generator=generator)
    passages = torch.stack([text[start:start + CONTEXT + 1] for start in starts.tolist()]).long()
    return passages[:, :-1], passages[:, 1:]


def train(arguments: argparse.Namespace) -> Dict[str, Any]:
    """Losses by step, averaged over the ranks, and bytes learned from per second."""
    text = load_text()
    model = sharded(arguments.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.rate)
    world = dist.get_world_size()
    losses: List[float] = []
    begin = time.perf_counter()
    for step in range(arguments.steps):
        inputs, targets = pick(text, step, arguments.batch)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / world)
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"step {step}: loss {losses[-1]:.4f}", flush=True)
    seen = arguments.steps * arguments.batch * CONTEXT * world
    held = sum(p.to_local().numel() for p in model.parameters())
    return {"backend": arguments.backend, "ranks": world, "losses": losses,
            "bytes_per_s": seen / (time.perf_counter() - begin),
            "parameters": sum(p.numel() for p in model.parameters()), "held_here": held}


def main() -> None:
    """Joins, trains, reports, leaves."""
    arguments = _arguments()
    torch.set_num_threads(arguments.threads)
    dist.init_process_group(arguments.backend)
    result = train(arguments)
    if dist.get_rank() == 0:
        print(f"{arguments.backend}, {result['ranks']} ranks: loss {result['losses'][0]:.3f} -> "
              f"{result['losses'][-1]:.3f}, {result['bytes_per_s']:.0f} bytes/s; this rank holds "
              f"{result['held_here']} of {result['parameters']} parameters", flush=True)
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(result), encoding="utf-8")
    dist.destroy_process_group()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="nezha", help="nezha, gloo (default: nezha)")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16, help="passages a step, of each rank")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--threads", type=int, default=1, help="of each rank, for the computation")
    parser.add_argument("--json", help="write the result to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
