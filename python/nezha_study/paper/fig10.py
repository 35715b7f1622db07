"""Fig. 10: times of all_reduces while AlexNet trains: one network, two balanced, and shares of 99:1."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from nezha_tools.cli import figures
from nezha_tools.cli.sizes import format_size
from .combinations import Combination, by_key
from .context import Context, time_text
from .fig8 import DIFFERS
from .models import ALEXNET, BATCHES
from .own_job import usual_nodes
from .published import Number, number
from .section import Section, Table
from .trained import Trainings
from .training import KIND, TrainJob, tensors, trained_nodes
from .verdict import Claim, same_sign

KEY, TITLE = "fig10", "Fig. 10: times of all_reduces while AlexNet trains"
_PAIRS = ("TT", "TR", "TA", "RA")  # the paper's
_SHARES = ("99:1", "1:99")
_MARKS = [4 << power for power in range(0, 32, 4)]  # bytes, on the axis of sizes
_WEIGHT = 36 << 20  # elements of the gradient of which the paper speaks, the largest

Times = Dict[int, float]  # seconds by the bytes of an all_reduce


def _nodes(nodes: Sequence[int]) -> int:
    return usual_nodes(trained_nodes(nodes))


def jobs(combinations: Sequence[Combination], nodes: Sequence[int]) -> List[TrainJob]:
    """Each network alone, and each pair balanced and with fixed shares."""
    count = _nodes(nodes)
    pairs = [each for each in combinations if each.key in _PAIRS]
    alone = [each for each in combinations if each.is_alone]
    return [*(TrainJob(KIND, count, each) for each in (*alone, *pairs)),
            *(TrainJob(KIND, count, each, shares=shares) for each in pairs for shares in _shares(each))]


def _shares(pair: Combination) -> Tuple[str, ...]:
    """Those that differ."""
    return _SHARES[:1] if pair.key[0] == pair.key[1] else _SHARES


def build(context: Context) -> Section:
    """Times by size, and what 1 % on another network costs."""
    found = _times(context)
    pairs = [each for each in context.combinations if each.key in _PAIRS]
    largest = max(tensors(ALEXNET, context.settings)) * 4
    claims = [_beside(found, largest, "R", ("RA",), number("beside.R.36MB")),
              _beside(found, largest, "A", ("RA",), number("beside.A.36MB")),
              _beside(found, largest, "T", ("TR", "TA", "TT"), number("beside.T"))]
    return Section(KEY, TITLE, [_table(found, pair) for pair in pairs],
                   [each for each in claims if each is not None],
                   context.differs + DIFFERS + " Whole operations are timed, and not the part of each "
                   "network, so the paper's times of TCP with 1 % of the data have none beside them.",
                   lambda pyplot: _draw(found, pairs, pyplot),
                   {"seconds": {name: {str(size): value for size, value in times.items()}
                                for name, times in found.items()}})


def _times(context: Context) -> Dict[str, Times]:
    """By `T`, `TR` or `TR 99:1`; of gradients of one size the slowest."""
    trainings = Trainings(context.results)
    sizes = [4 * count for count in tensors(ALEXNET, context.settings)]
    found = {}
    for job in jobs(context.combinations, context.nodes):
        seconds = trainings.tensors_s(job, ALEXNET, BATCHES[0])
        if seconds:
            found[f"{job.combination.key} {job.shares}".strip()] = dict(sorted(zip(sizes, seconds)))
    return found


def _columns(pair: Combination) -> List[Tuple[str, str]]:
    """(name of times, for people) of the curves of a pair."""
    alone = [(letter, by_key(letter).name + " alone") for letter in dict.fromkeys(pair.key)]
    return [*alone, (pair.key, "balanced"),
            *((f"{pair.key} {shares}", shares) for shares in _shares(pair))]


def _table(found: Dict[str, Times], pair: Combination) -> Table:
    columns = [(name, text) for name, text in _columns(pair) if name in found]
    sizes = sorted({size for name, _ in columns for size in found[name]})
    return Table(f"{pair.name}: median time of the all_reduce of a gradient, by size",
                 ["size", *(text for _, text in columns)],
                 [[format_size(size), *(time_text(1e6 * found[name][size]) for name, _ in columns)]
                  for size in sizes])


def _beside(found: Dict[str, Times], size: int, letter: str, pairs: Sequence[str],
            paper: Number) -> Optional[Claim]:
    """The network with 99 % of the largest gradient, against all of it on this network alone."""
    losses: Dict[str, float] = {}
    for key in pairs:
        shares = _SHARES[key.index(letter)]
        with_other, alone = found.get(f"{key} {shares}"), found.get(letter)
        if with_other and alone:
            losses[by_key(key).name] = 100 * (with_other[size] / alone[size] - 1)
    if not losses:
        return None
    return Claim(f"With 99 % of AlexNet's largest gradient ({_WEIGHT >> 20} Mi elements), an all_reduce "
                 f"over {by_key(letter).name} beside another network takes {paper.text} longer than "
                 "alone.",
                 paper.place, "It takes longer by " + ", ".join(
                     f"{loss:+.1f} % ({name})" for name, loss in losses.items()) + ".",
                 all(same_sign(paper.low, loss) for loss in losses.values()))


def _draw(found: Dict[str, Times], pairs: List[Combination], pyplot: Any) -> Any:
    """A panel for each pair: size against time."""
    figure, axes = pyplot.subplots(1, max(1, len(pairs)), figsize=(1.5 + 4.4 * max(1, len(pairs)), 4.4),
                                   dpi=110, squeeze=False, sharey=True)
    for panel, pair in zip(axes[0], pairs):
        sizes = [1]
        for index, (name, text) in enumerate(_columns(pair)):
            times = found.get(name, {})
            panel.plot(list(times), [1e3 * seconds for seconds in times.values()],
                       **figures.curve(index), markersize=4, linewidth=1.4, label=text)
            sizes = list(times) or sizes
        # Sizes of gradients lie too close to each other for a mark each.
        marks = [size for size in _MARKS if min(sizes) <= size <= max(sizes)]
        figures.against_size(panel, marks or sizes, pair.name)
        panel.set_yscale("log")
        panel.legend(frameon=False, fontsize=8)
    axes[0][0].set_ylabel("time of an all_reduce (ms)", fontsize=11)
    return figure
