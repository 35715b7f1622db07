"""The networks that `nezha bench train` trains, with the shapes and parameter counts as published.

Built with torch.nn only. Inputs are images [batch, 3, 224, 224], outputs scores [batch, 1000].
"""

from __future__ import annotations

from typing import Callable, Dict, List, Sequence

import torch
from torch import nn

CLASSES = 1000
IMAGE = (3, 224, 224)

# Of the publications; what is built here is tested to agree.
PARAMETERS = {"alexnet": 61_100_840, "vgg11": 132_863_336, "resnet50": 25_557_032,
              "resnet101": 44_549_160, "resnet152": 60_192_808}


def build(name: str) -> nn.Module:
    """The model `name` with random weights. Raises KeyError for a name that is not in PARAMETERS."""
    return _BUILDERS[name]()


def _alexnet() -> nn.Module:
    features = nn.Sequential(
        nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2))
    return nn.Sequential(
        features, nn.Flatten(),
        nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(inplace=True),
        nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, CLASSES))


def _vgg11() -> nn.Module:
    layers: List[nn.Module] = []
    channels = 3
    for group in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
        for width in group:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2, 2))
    return nn.Sequential(
        *layers, nn.Flatten(),
        nn.Linear(512 * 7 * 7, 4096), nn.ReLU(inplace=True), nn.Dropout(),
        nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, CLASSES))


class _Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut; the output is 4 x `width` channels."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != 4 * width:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, 4 * width, 1, stride, bias=False),
                                          nn.BatchNorm2d(4 * width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.path(x) + self.shortcut(x))


def _resnet(blocks: Sequence[int]) -> nn.Module:
    layers: List[nn.Module] = [
        nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64),
        nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    channels = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for index in range(count):
            layers.append(_Bottleneck(channels, width, 2 if stage and not index else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(channels, CLASSES))


_BUILDERS: Dict[str, Callable[[], nn.Module]] = {
    "alexnet": _alexnet,
    "vgg11": _vgg11,
    "resnet50": lambda: _resnet((3, 4, 6, 3)),
    "resnet101": lambda: _resnet((3, 4, 23, 3)),
    "resnet152": lambda: _resnet((3, 8, 36, 3)),
}
