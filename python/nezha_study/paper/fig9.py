"""Fig. 9: how many all_reduces of which sizes a step of each model has, as the library records them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

from nezha_tools.bench.lab_runner import BenchLab
from nezha_tools.cli import figures
from nezha_tools.cli.sizes import format_size
from .combinations import Combination, by_key
from .context import Context
from .jobs import Settings
from .models import MODELS
from .own_job import Advance, OwnJob
from .profile_worker import Profile, ProfileSpec
from .published import number
from .section import Section, Table
from .verdict import Claim, same_order
from .wrong import refuse_wrong

KEY, TITLE = "fig9", "Fig. 9: sizes of all_reduces in training"
_NODES = 2  # sizes do not depend on their number
_TAKES_S = 10.0

Counts = Dict[int, int]  # by the power of two that bytes do not exceed


@dataclass(frozen=True)
class ProfileJob(OwnJob):
    """One step of each model in full size, over wires that nothing limits."""

    @property
    def title(self) -> str:
        """For people."""
        return "profile of training"

    def records(self, settings: Settings) -> int:
        """One for each model."""
        return len(MODELS)

    def estimate(self, settings: Settings) -> float:
        """Seconds."""
        return _TAKES_S

    def measure(self, settings: Settings, advance: Advance) -> Dict[str, Any]:
        """Counts by model."""
        largest = 4 * max(max(model.tensors) for model in MODELS)
        with BenchLab(self.nodes, ["none"]) as lab:
            path = lab.scratch / "profile.json"
            ProfileSpec({model.key: list(model.tensors) for model in MODELS}).save(path)
            found: List[Profile] = lab.launch(
                [sys.executable, "-m", "nezha_study.paper.profile_worker", str(path)],
                [{} for _ in range(lab.lab.ranks)], advance, parse=Profile.parse)
            refuse_wrong(self, largest, sum(each.wrong for each in found))
            return {"counts": {each.model: each.counts for each in found}, "lab": lab.facts()}


def jobs(combinations: Sequence[Combination], nodes: Sequence[int]) -> List[ProfileJob]:
    """One, over TCP."""
    tcp = by_key("T")
    return [ProfileJob("profile", _NODES, tcp)] if tcp in combinations else []


def build(context: Context) -> Section:
    """Counts by size, and what the paper says of them."""
    planned = jobs(context.combinations, context.nodes)
    result = context.results.get(planned[0].key) if planned else None
    counts = {} if result is None else {
        model: {int(size): count for size, count in each.items()}
        for model, each in result["counts"].items()}
    claims = [_alexnet(counts), _vgg(counts)]
    return Section(KEY, TITLE, [_table(counts)], [each for each in claims if each is not None],
                   "The models' gradients are reduced one by one and in full size, without joining small "
                   "ones; the paper counts a whole training.",
                   lambda pyplot: _draw(counts, pyplot), {"counts": counts})


def within(counts: Counts, low: int, high: int) -> int:
    """All_reduces of more than `low` bytes and not more than `high`."""
    return sum(count for size, count in counts.items() if low < size <= high)


def _alexnet(counts: Dict[str, Counts]) -> Optional[Claim]:
    if "Alex" not in counts:
        return None
    most = number("profile.alex")
    below, all_of_them = within(counts["Alex"], 0, int(most.low)), sum(counts["Alex"].values())
    return Claim(f"AlexNet's communication is mostly of less than {format_size(int(most.low))}.",
                 most.place, f"{below} of the {all_of_them} all_reduces of a step are.",
                 sign=below > all_of_them / 2)


def _vgg(counts: Dict[str, Counts]) -> Optional[Claim]:
    if len(counts) < len(MODELS):
        return None
    where = number("profile.vgg")
    here = [within(counts[model.key], int(where.low), int(where.high)) for model in MODELS]
    return Claim(f"VGG-11 communicates intensively in sizes from {format_size(int(where.low))} to "
                 f"{format_size(int(where.high))}, and AlexNet does not.", where.place,
                 f"A step of VGG-11 has {here[1]} in this range, and one of AlexNet {here[0]}.",
                 order=same_order([(0, here[0]), (1, here[1])]))


def _table(counts: Dict[str, Counts]) -> Table:
    sizes = sorted({size for each in counts.values() for size in each})
    names = {model.key: model.name for model in MODELS}
    return Table("All_reduces of a step, by size: up to", ["size", *(names[key] for key in counts)],
                 [[format_size(size), *(str(each.get(size, 0)) for each in counts.values())]
                  for size in sizes])


def _draw(counts: Dict[str, Counts], pyplot: Any) -> Any:
    """Size against count; the range of which the paper speaks is shaded."""
    figure, axes = pyplot.subplots(figsize=(9.0, 4.0), dpi=110)
    sizes = sorted({size for each in counts.values() for size in each})
    for index, model in enumerate(MODELS):
        axes.bar([place + 0.4 * index - 0.2 for place in range(len(sizes))],
                 [counts.get(model.key, {}).get(size, 0) for size in sizes], 0.38,
                 color=figures.COLORS[index], label=model.name, zorder=3)
    where = number("profile.vgg")
    inside = [place for place, size in enumerate(sizes) if where.low < size <= where.high]
    if inside:
        axes.axvspan(inside[0] - 0.5, inside[-1] + 0.5, color="#dddddd", zorder=1,
                     label="where VGG-11 is said to have most")
    axes.set_xticks(range(len(sizes)))
    axes.set_xticklabels([format_size(size) for size in sizes], rotation=45)
    axes.set_xlabel("size of an all_reduce, up to", fontsize=11)
    axes.set_ylabel("all_reduces of a step", fontsize=11)
    axes.yaxis.get_major_locator().set_params(integer=True)
    figures.decorate(axes, "One step")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    return figure
