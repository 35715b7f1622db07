"""Fig. 8: training speeds of AlexNet and VGG-11 over each combination of networks."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from nezha_tools.cli import figures
from .combinations import Combination, by_key
from .context import Context
from .fig7 import VARIES
from .models import ALEXNET, TRAINED, VGG11, Model
from .published import number
from .section import Section, Table
from .trained import Trainings
from .training import KIND, TrainJob, trained_nodes, trainings
from .verdict import Claim, same_order, same_sign

KEY, TITLE = "fig8", "Fig. 8: training AlexNet and VGG-11"
DIFFERS = (" Training is replayed: gradients of the models' shapes, made as many times smaller as rails "
           "are slower than the paper's Ethernet, are reduced one after the other; computing is slept, "
           "as long as Table IV leaves for it.")
jobs = trainings


def build(context: Context) -> Section:
    """Images a second, the part of the data that each network carried, and the paper's observations."""
    found = _Found(context)
    tables = [_speeds(found, nodes) for nodes in found.nodes] + [_shares(found, nodes)
                                                                for nodes in found.nodes]
    claims = [_gains(found, VGG11, 64, (4, 6)), _models(found), _beside(found, "TA", "A", 4, 1),
              _beside(found, "TR", "R", 4, -1), _beside(found, "TR", "R", 6, -1), _application(found)]
    return Section(KEY, TITLE, tables, [each for each in claims if each is not None],
                   context.differs + DIFFERS, lambda pyplot: _draw(found, pyplot),
                   {"images_per_s": [
                       {"nodes": nodes, "combination": each.key, "model": model.name, "batch": batch,
                        "images_per_s": found.speed(nodes, each.key, model, batch),
                        "shares": found.shares(nodes, each.key, model, batch)}
                       for nodes in found.nodes for each in found.combinations
                       for model, batch in TRAINED]})


class _Found:
    """Speeds and shares of the trainings that were measured, by nodes, combination, model, batch."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.nodes = trained_nodes(context.nodes)
        self.combinations: List[Combination] = context.combinations
        self._trainings = Trainings(context.results)

    def speed(self, nodes: int, key: str, model: Model, batch: int) -> Optional[float]:
        return self._trainings.images_per_s(TrainJob(KIND, nodes, by_key(key)), model, batch)

    def shares(self, nodes: int, key: str, model: Model, batch: int) -> Optional[List[float]]:
        return self._trainings.shares(TrainJob(KIND, nodes, by_key(key)), model, batch)

    def gain(self, nodes: int, key: str, base: str, model: Model, batch: int) -> Optional[float]:
        """In percent."""
        jobs_ = [TrainJob(KIND, nodes, by_key(each)) for each in (key, base)]
        gain = self._trainings.gain(jobs_[0], jobs_[1], model, batch)
        return None if gain is None else 100 * gain


def _speeds(found: _Found, nodes: int) -> Table:
    cells = []
    for model, batch in TRAINED:
        speeds = [found.speed(nodes, each.key, model, batch) for each in found.combinations]
        cells.append([f"{model.name}, {batch}",
                      *("-" if speed is None else f"{speed:.4g}" for speed in speeds)])
    return Table(f"Images a second of {nodes} nodes together, by model and batch of a node",
                 ["", *(each.name for each in found.combinations)], cells)


def _shares(found: _Found, nodes: int) -> Table:
    several = [each for each in found.combinations if not each.is_alone]
    cells = []
    for model, batch in TRAINED:
        cells.append([f"{model.name}, {batch}"])
        for each in several:
            shares = found.shares(nodes, each.key, model, batch)
            cells[-1].append("-" if shares is None else
                             " : ".join(f"{100 * share:.0f}" for share in shares))
    return Table(f"Percent of the data of a training on {nodes} nodes that each network carried, in the "
                 "order of their names", ["", *(each.name for each in several)], cells)


# ---- claims


def _gains(found: _Found, model: Model, batch: int, nodes: Any) -> Optional[Claim]:
    """Two equal rails against one, which gain more on more nodes."""
    theirs = [number(f"train.vgg{batch}.TT.{count}") for count in nodes]
    ours = [found.gain(count, "TT", "T", model, batch) for count in nodes]
    known = [(each.low, here) for each, here in zip(theirs, ours) if here is not None]
    if not known:
        return None
    return Claim(f"TCP + TCP trains {model.name} with batches of {batch} faster than TCP by "
                 + " and ".join(f"{each.low:g} % on {count} nodes" for each, count in zip(theirs, nodes))
                 + ".", theirs[0].place,
                 "It is faster by " + ", ".join(f"{here:.1f} %" for _, here in known) + ".",
                 all(same_sign(paper, here) for paper, here in known), same_order(known))


def _models(found: _Found) -> Optional[Claim]:
    """Two equal rails against one on 6 nodes, of which AlexNet has more."""
    pairs = [(number("train.alex32.TT.6"), found.gain(6, "TT", "T", ALEXNET, 32)),
             (number("train.vgg32.TT.6"), found.gain(6, "TT", "T", VGG11, 32))]
    known = [(each.low, here) for each, here in pairs if here is not None]
    if len(known) < len(pairs):
        return None
    return Claim(f"On 6 nodes, with batches of 32, TCP + TCP is faster than TCP by {known[0][0]:g} % for "
                 f"AlexNet and {known[1][0]:g} % for VGG-11.", pairs[0][0].place,
                 f"It is faster by {known[0][1]:.1f} % and {known[1][1]:.1f} %.",
                 all(same_sign(paper, here) for paper, here in known), same_order(known))


def _beside(found: _Found, key: str, base: str, nodes: int, paper: int) -> Optional[Claim]:
    """Whether a second network helps; `paper` has the sign of what it says."""
    gains: Dict[str, Optional[float]] = {
        f"{model.name} {batch}": found.gain(nodes, key, base, model, batch) for model, batch in TRAINED}
    known = {name: gain for name, gain in gains.items() if gain is not None}
    if not known:
        return None
    word = "faster" if paper > 0 else "slower"
    return Claim(f"{by_key(key).name} trains {word} than {by_key(base).name}"
                 + (f" on {nodes} nodes." if paper > 0 else "."), "Section V-C, Fig. 8",
                 f"On {nodes} nodes its speed differs by "
                 + ", ".join(f"{gain:+.0f} % ({name})" for name, gain in known.items()) + ".",
                 all(same_sign(paper, gain) for gain in known.values()))


def _application(found: _Found) -> Optional[Claim]:
    """RDMA's share in training against that of the largest all_reduce of the benchmark."""
    nodes = found.nodes[0]
    curves, shares = found.context.curves, found.shares(nodes, "RA", ALEXNET, 32)
    sizes = curves.sizes(nodes, "RA")
    benchmark = curves.shares(nodes, "RA", max(sizes)) if sizes else None
    if shares is None or benchmark is None:
        return None
    return Claim("RDMA carries a larger part of the data beside aggregation in training than in the "
                 "benchmark.", "Section V-B2",
                 f"It carries {100 * shares[0]:.0f} % of AlexNet's gradients on {nodes} nodes, and "
                 f"{100 * benchmark[0]:.0f} % of the benchmark's largest operation.",
                 shares[0] >= benchmark[0] + VARIES)


# ---- picture


def _draw(found: _Found, pyplot: Any) -> Any:
    """A panel for each number of nodes: groups of bars by model and batch."""
    figure, axes = pyplot.subplots(len(found.nodes), 1, figsize=(12.0, 3.6 * len(found.nodes)), dpi=110,
                                   squeeze=False)
    width = 0.8 / max(1, len(found.combinations))
    for (panel,), nodes in zip(axes, found.nodes):
        for index, each in enumerate(found.combinations):
            places = [group + (index + 0.5) * width - 0.4 for group in range(len(TRAINED))]
            speeds = [found.speed(nodes, each.key, model, batch) or 0.0 for model, batch in TRAINED]
            panel.bar(places, speeds, 0.9 * width, color=figures.COLORS[index % len(figures.COLORS)],
                      label=each.name, zorder=3)
        panel.set_xticks(range(len(TRAINED)))
        panel.set_xticklabels([f"{model.name}, batch {batch}" for model, batch in TRAINED])
        panel.set_ylabel("images/s", fontsize=11)
        figures.decorate(panel, f"{nodes} nodes")
    axes[0][0].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    return figure
