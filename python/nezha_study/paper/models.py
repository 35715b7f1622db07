"""The models that the paper trains: the sizes of their gradients, and how long their steps compute. Pure.

Layers: AlexNet as in A. Krizhevsky, One weird trick for parallelizing convolutional neural networks,
arXiv 1404.5997; VGG-11 as configuration A of K. Simonyan, A. Zisserman, Very Deep Convolutional Networks
for Large-Scale Image Recognition, ICLR 2015; both for 1000 classes, with biases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Sequence, Tuple

from .published import number

BATCHES = (32, 64)  # of one accelerator, as in the paper
_NODES = (4, 6)  # of Table IV


@dataclass(frozen=True)
class Model:
    """key: as Table IV names it. tensors: elements of each gradient, in the order in which a backward
    pass has them, the last layer's first."""

    key: str
    name: str
    tensors: Tuple[int, ...]

    @property
    def elements(self) -> int:
        """Of all gradients."""
        return sum(self.tensors)

    def compute_s(self, batch: int) -> float:
        """Seconds of a step that no network shortens, with `batch` images an accelerator.

        A step takes t(n) = c + w / n over n adapters. From Table IV's G1N1 and G1N2, whose steps have
        nodes * batch images, c = 2 t(2) - t(1); this is the mean over 4 and 6 nodes. (The model leaves
        Table IV's G1N3 to be checked: what both columns predict is within 12 % of it.)
        """
        found = []
        for nodes in _NODES:
            one, two = (nodes * batch / number(f"table4/{self.key}{batch}/{nodes}: {column}").low
                        for column in ("G1N1", "G1N2"))
            found.append(2 * two - one)
        return sum(found) / len(found)


def _convolutions(shapes: Sequence[Tuple[int, int, int]]) -> List[int]:
    """Weights and biases of (channels in, channels out, width of the square kernel)."""
    return [count for into, out, width in shapes for count in (into * out * width * width, out)]


def _connected(shapes: Sequence[Tuple[int, int]]) -> List[int]:
    """Weights and biases of (inputs, outputs)."""
    return [count for into, out in shapes for count in (into * out, out)]


ALEXNET = Model("Alex", "AlexNet", tuple(reversed(
    _convolutions([(3, 64, 11), (64, 192, 5), (192, 384, 3), (384, 256, 3), (256, 256, 3)])
    + _connected([(256 * 6 * 6, 4096), (4096, 4096), (4096, 1000)]))))
VGG11 = Model("VGG", "VGG-11", tuple(reversed(
    _convolutions([(3, 64, 3), (64, 128, 3), (128, 256, 3), (256, 256, 3), (256, 512, 3), (512, 512, 3),
                   (512, 512, 3), (512, 512, 3)])
    + _connected([(512 * 7 * 7, 4096), (4096, 4096), (4096, 1000)]))))
MODELS = (ALEXNET, VGG11)
TRAINED = tuple((model, batch) for model in MODELS for batch in BATCHES)  # in the paper
