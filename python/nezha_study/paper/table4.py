"""Table IV: more adapters (N) against more accelerators (G) a host, over TCP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional, Sequence

from nezha_tools.cli import figures
from .combinations import Combination
from .context import Context
from .fig8 import DIFFERS
from .models import TRAINED, Model
from .published import find, number
from .section import Section, Table
from .trained import Trainings
from .training import KIND, TrainJob, trained_nodes
from .verdict import Claim, same_order, same_sign

KEY, TITLE = "table4", "Table IV: more adapters against more accelerators"
_UNITS, _RAILS = (1, 2), (1, 2, 3)


@dataclass(frozen=True)
class _Cell:
    """A host of `units` accelerators and `rails` adapters."""

    units: int
    rails: int

    @property
    def name(self) -> str:
        """As the paper has it: `G1N2`."""
        return f"G{self.units}N{self.rails}"

    def job(self, nodes: int) -> TrainJob:
        return TrainJob(KIND, nodes, Combination("T" * self.rails), self.units)


CELLS = [_Cell(units, rails) for units in _UNITS for rails in _RAILS]


def jobs(combinations: Sequence[Combination], nodes: Sequence[int]) -> List[TrainJob]:
    """All cells on every number of nodes that the paper trains on."""
    return [cell.job(count) for count in trained_nodes(nodes) for cell in CELLS]


def build(context: Context) -> Section:
    """Images a second, ratios to one accelerator with one adapter, the paper's beside them."""
    found = _Found(context)
    tables = [_table(found, nodes) for nodes in found.nodes]
    claims = [claim for nodes in found.nodes
              for claim in (_accelerators(found, nodes), _both(found, nodes), _order(found, nodes))]
    claims.append(_third(found))
    return Section(KEY, TITLE, tables, [each for each in claims if each is not None],
                   context.differs + DIFFERS + " An accelerator is a rank, and its computing is that of "
                   "Table IV's columns of one accelerator.", lambda pyplot: _draw(found, pyplot),
                   {"ratios": [{"nodes": nodes, "cell": cell.name, "model": model.name, "batch": batch,
                                "images_per_s": found.speed(nodes, cell, model, batch),
                                "ratio": found.ratio(nodes, cell, model, batch)}
                               for nodes in found.nodes for cell in CELLS
                               for model, batch in TRAINED]})


class _Found:
    """What was measured, by nodes, cell, model, batch."""

    def __init__(self, context: Context) -> None:
        self.nodes = trained_nodes(context.nodes)
        self._trainings = Trainings(context.results)

    def speed(self, nodes: int, cell: _Cell, model: Model, batch: int) -> Optional[float]:
        return self._trainings.images_per_s(cell.job(nodes), model, batch)

    def ratio(self, nodes: int, cell: _Cell, model: Model, batch: int,
              base: _Cell = CELLS[0]) -> Optional[float]:
        """The speed, as so many times that of `base`."""
        gain = self._trainings.gain(cell.job(nodes), base.job(nodes), model, batch)
        return None if gain is None else 1 + gain


def _paper(nodes: int, cell: _Cell, model: Model, batch: int) -> Optional[float]:
    """The paper's ratio."""
    found = find(f"table4.ratio/{model.key}{batch}/{nodes}: {cell.name}")
    return None if found is None else found.low


def _table(found: _Found, nodes: int) -> Table:
    cells = []
    for model, batch in TRAINED:
        here, paper = [f"{model.name}, {batch}", "here"], ["", "the paper"]
        for cell in CELLS:
            speed, ratio = found.speed(nodes, cell, model, batch), found.ratio(nodes, cell, model, batch)
            here.append("-" if speed is None or ratio is None else f"{speed:.4g} ({ratio:.2f})")
            theirs = find(f"table4/{model.key}{batch}/{nodes}: {cell.name}")
            their_ratio = _paper(nodes, cell, model, batch)
            paper.append("-" if theirs is None else
                         f"{theirs.low:g}" + ("" if their_ratio is None else f" ({their_ratio:.2f})"))
        cells += [here, paper]
    return Table(f"Images a second of {nodes} nodes together, and how many times that of G1N1",
                 ["", "of", *(cell.name for cell in CELLS)], cells)


# ---- claims


def _accelerators(found: _Found, nodes: int) -> Optional[Claim]:
    """One accelerator more gains more than one adapter more."""
    by = {(cell.name, model.key, batch): found.ratio(nodes, cell, model, batch)
          for cell in CELLS for model, batch in TRAINED}
    told = [(by["G1N2", model.key, batch], by["G2N1", model.key, batch]) for model, batch in TRAINED]
    known = [(one, two) for one, two in told if one is not None and two is not None]
    if not known:
        return None
    ratios = ", ".join(f"{two:.2f} and {one:.2f}" for one, two in known)
    return Claim(f"On {nodes} nodes a second accelerator gains more than a second adapter.", "Table IV",
                 f"The speeds are these times G1N1's: {ratios}.",
                 order=all(same_order([(1, one), (2, two)]) for one, two in known))


def _both(found: _Found, nodes: int) -> Optional[Claim]:
    """What the second adapter gains beside a second accelerator."""
    one, two = (next(cell for cell in CELLS if cell.name == name) for name in ("G2N1", "G2N2"))
    ratios = [found.ratio(nodes, two, model, batch, one) for model, batch in TRAINED]
    known = [100 * (ratio - 1) for ratio in ratios if ratio is not None]
    paper = number("nics.G2N2")
    if not known:
        return None
    return Claim(f"On {nodes} nodes, with two accelerators, a second adapter gains at least "
                 f"{paper.low:g} %.", paper.place,
                 "It gains " + ", ".join(f"{gain:.0f} %" for gain in known) + ".",
                 all(same_sign(paper.low, gain) for gain in known))


def _third(found: _Found) -> Optional[Claim]:
    two, three = (next(cell for cell in CELLS if cell.name == name) for name in ("G1N2", "G1N3"))
    ratios = [found.ratio(6, three, model, batch, two) for model, batch in TRAINED]
    known = [100 * (ratio - 1) for ratio in ratios if ratio is not None]
    paper = number("nics.G1N3.6")
    if not known:
        return None
    return Claim(f"On 6 nodes a third adapter gains about {paper.low:g} % over two.", paper.place,
                 "It gains " + ", ".join(f"{gain:.0f} %" for gain in known) + ".",
                 all(same_sign(paper.low, gain) for gain in known))


def _order(found: _Found, nodes: int) -> Optional[Claim]:
    """All cells that the paper has, of each model and batch."""
    told = []
    for model, batch in TRAINED:
        pairs = [(theirs, found.ratio(nodes, cell, model, batch)) for cell in CELLS
                 for theirs in [_paper(nodes, cell, model, batch)] if theirs is not None]
        told.append(same_order(pairs))
    known = [each for each in told if each is not None]
    if not known:
        return None
    return Claim(f"Table IV's ratios of {nodes} nodes, of the slowest hosts to the fastest.", "Table IV",
                 f"The order is the same in {sum(known)} of {len(known)} rows.", order=all(known))


def _draw(found: _Found, pyplot: Any) -> Any:
    """A panel for each number of nodes: ratios by cell, lines for here and marks for the paper's."""
    figure, axes = pyplot.subplots(1, len(found.nodes), figsize=(2.0 + 5.0 * len(found.nodes), 4.4),
                                   dpi=110, squeeze=False, sharey=True)
    places = list(range(len(CELLS)))
    for panel, nodes in zip(axes[0], found.nodes):
        for index, (model, batch) in enumerate(TRAINED):
            style = figures.curve(index)
            ours = [found.ratio(nodes, cell, model, batch) for cell in CELLS]
            theirs = [_paper(nodes, cell, model, batch) for cell in CELLS]
            panel.plot(places, ours, **style, linewidth=1.6, markersize=5,
                       label=f"{model.name}, {batch}, here")
            panel.plot(places, theirs, color=style["color"], marker=style["marker"], linestyle="none",
                       markerfacecolor="none", markersize=9, label=f"{model.name}, {batch}, the paper")
        panel.set_xticks(places)
        panel.set_xticklabels([cell.name for cell in CELLS])
        figures.decorate(panel, f"{nodes} nodes")
    axes[0][0].set_ylabel("speed, as so many times G1N1's", fontsize=11)
    axes[0][0].set_ylim(bottom=0)
    axes[0][-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=8)
    return figure
