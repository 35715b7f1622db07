"""Data-parallel training of a small network on real data, in plain NumPy over Nezha.

    nezha run -n 4 python examples/digits_numpy.py            # or --lab, or a hostfile
    python examples/digits_numpy.py                           # the same training, one process

The data is scikit-learn's bundled handwritten digits (1797 images of 8 x 8). Every rank holds the
whole model and takes its share of each batch; all gradients travel in one flat buffer, averaged by
one all_reduce a step. The network is wider than digits need, so that there is something to send:
64-1024-1024-10 has 4.5 MB of gradients.

--check trains the same model once more in rank 0 alone and compares the losses, which agree within
the rounding of float32: the same products, summed in another order.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any, Dict, List, Tuple

import numpy as np

LAYERS = (64, 1024, 1024, 10)
TOLERANCE = 1e-3  # of the loss; rounding differences grow a little with every step


def load_digits() -> Tuple[np.ndarray, np.ndarray]:
    """Images [1797, 64] in 0..1 and labels [1797], in a fixed shuffled order."""
    try:
        from sklearn.datasets import load_digits as bundled
    except ImportError as error:
        sys.exit(f"this example needs scikit-learn: pip install scikit-learn ({error})")
    digits = bundled()
    order = np.random.default_rng(7).permutation(len(digits.target))
    return (digits.data[order] / 16.0).astype(np.float32), digits.target[order]


class Network:
    """Fully connected, ReLU between, softmax cross-entropy; weights and gradients are flat."""

    def __init__(self, seed: int = 1) -> None:
        shapes = [shape for n_in, n_out in zip(LAYERS, LAYERS[1:])
                  for shape in ((n_in, n_out), (n_out,))]
        total = sum(int(np.prod(shape)) for shape in shapes)
        self.flat = np.zeros(total, np.float32)
        self.gradient = np.zeros(total, np.float32)
        self._weights = _views(self.flat, shapes)
        self._gradients = _views(self.gradient, shapes)
        generator = np.random.default_rng(seed)
        for weights in self._weights[::2]:
            weights[...] = generator.standard_normal(weights.shape) * np.sqrt(2 / len(weights))

    def step(self, images: np.ndarray, labels: np.ndarray, batch: int) -> float:
        """Fills `gradient` with this share's part of the batch's mean; returns its loss part."""
        activations = [images]
        for index in range(0, len(self._weights), 2):
            value = activations[-1] @ self._weights[index] + self._weights[index + 1]
            last = index + 2 == len(self._weights)
            activations.append(value if last else np.maximum(value, 0))
        scores = activations.pop()
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        chances /= chances.sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        loss = -float(np.log(chances[rows, labels] + 1e-12).sum()) / batch
        chances[rows, labels] -= 1
        self._backward(chances / batch, activations)
        return loss

    def _backward(self, delta: np.ndarray, activations: List[np.ndarray]) -> None:
        for index in range(len(self._weights) - 2, -1, -2):
            inputs = activations[index // 2]
            np.matmul(inputs.T, delta, out=self._gradients[index])
            self._gradients[index + 1][...] = delta.sum(axis=0)
            if index:
                delta = (delta @ self._weights[index].T) * (inputs > 0)


def _views(flat: np.ndarray, shapes: List[Tuple[int, ...]]) -> List[np.ndarray]:
    views, start = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        views.append(flat[start:start + size].reshape(shape))
        start += size
    return views


def train(comm: Any, epochs: int, batch: int, rate: float) -> Tuple[List[float], float]:
    """Loss per epoch (mean over its batches) and images per second after the first step.

    comm: a communicator, or None to train alone. The result does not depend on it, except for
    rounding. A batch is cut into world_size shares of nearly equal size.
    """
    images, labels = load_digits()
    rank, ranks = (comm.rank, comm.world_size) if comm is not None else (0, 1)
    network = Network()
    losses, seen, begin = [], 0, 0.0
    for epoch in range(epochs):
        order = np.random.default_rng(100 + epoch).permutation(len(labels))
        parts = []
        for start in range(0, len(order) - batch + 1, batch):
            share = np.array_split(order[start:start + batch], ranks)[rank]
            loss = network.step(images[share], labels[share], batch)
            if comm is not None:
                comm.all_reduce(network.gradient)
            network.flat -= rate * network.gradient
            parts.append(loss)
            if not begin:
                begin = time.perf_counter()  # the first step also warms everything up
            else:
                seen += batch
        total = np.array(parts)
        if comm is not None:
            comm.all_reduce(total)
        losses.append(float(total.mean()))
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {losses[-1]:.6f}", flush=True)
    return losses, seen / (time.perf_counter() - begin)


def difference_from_one(losses: List[float], batch: int, rate: float) -> float:
    """Largest relative difference of a loss from the same training in one process."""
    print("the same training in one process:", flush=True)
    alone, _ = train(None, len(losses), batch, rate)
    return max(abs(a - b) / b for a, b in zip(losses, alone))


def main() -> int:
    """Trains; returns 1 where --check finds another loss."""
    import nezha

    arguments = _arguments()
    with nezha.init() as comm:
        losses, speed = train(comm if comm.world_size > 1 else None, arguments.epochs,
                              arguments.batch, arguments.rate)
        rank, ranks = comm.rank, comm.world_size
    if rank != 0:
        return 0
    result: Dict[str, Any] = {"ranks": ranks, "images_per_s": speed, "losses": losses}
    print(f"{ranks} rank(s): {speed:.0f} images/s", flush=True)
    if arguments.check:
        difference = difference_from_one(losses, arguments.batch, arguments.rate)
        result["difference"] = difference
        verdict = "agrees" if difference <= TOLERANCE else "DISAGREES"
        print(f"{verdict} with one process: the losses differ by {difference:.1e} at most")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file)
    return int(result.get("difference", 0.0) > TOLERANCE)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128, help="images a step, all ranks together")
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate")
    parser.add_argument("--check", action="store_true", help="compare with one process")
    parser.add_argument("--json", help="write the result to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
