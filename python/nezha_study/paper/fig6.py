"""Fig. 6: the rate of each port while all_reduces run: one network alone, and two equal ones."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean, pstdev
from typing import Any, Dict, List, Optional, Sequence

from nezha_tools.cli import figures
from nezha_tools.cli.sizes import format_size
from .combinations import by_key
from .context import Context
from .ports import KEYS, jobs
from .published import number
from .section import Section, Table
from .verdict import SAME, Claim, same_order, same_sign

KEY, TITLE = "fig6", "Fig. 6: rates of the ports of a node during all_reduces"
_KB = 1024  # as sar counts
_QUIET = 0.02  # of the rate: ports that fluctuate by less have no fluctuations to compare


@dataclass(frozen=True)
class Port:
    """Rates of one port in KB/s, window after window. at_s: the middle of each window."""

    combination: str
    device: str
    at_s: List[float]
    rates: List[float]

    @property
    def rate(self) -> float:
        """Mean over the windows."""
        return mean(self.rates)

    @property
    def variation(self) -> float:
        """The coefficient of variation: standard deviation as a part of the mean."""
        return pstdev(self.rates) / self.rate if self.rate else 0.0


def ports_of(combination: str, result: Dict[str, Any]) -> List[Port]:
    """The ports of one measurement. A last window shorter than half of the usual one is left out."""
    times = result["times_s"]
    spans = [end - begin for begin, end in zip(times, times[1:])]
    usual = sorted(spans)[len(spans) // 2]
    kept = [index for index, span in enumerate(spans) if span >= usual / 2]
    return [Port(combination, device, [(times[i] + times[i + 1]) / 2 - times[0] for i in kept],
                 [(sent[i + 1] - sent[i]) / spans[i] / _KB for i in kept])
            for device, sent in zip(result["devices"], result["sent"])]


def synchrony(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson's correlation of two series: 1 where both rise and fall together."""
    spread = pstdev(first) * pstdev(second)
    if not spread:
        return 0.0
    middle_a, middle_b = mean(first), mean(second)
    return mean((a - middle_a) * (b - middle_b) for a, b in zip(first, second)) / spread


def build(context: Context) -> Section:
    """Rates and fluctuations, and what the paper says of both."""
    found = {job.combination.key: context.results[job.key]
             for job in jobs(context.combinations, context.nodes) if job.key in context.results}
    ports = {key: ports_of(key, result) for key, result in found.items()}
    claims = _claims(ports["T"][0], ports["TT"]) if set(KEYS) <= set(ports) else []
    size = format_size(next(iter(found.values()))["size"]) if found else "-"
    nodes = max((job.nodes for job in jobs(context.combinations, context.nodes)), default=0)
    differs = (f"{context.differs} Here the counters of the kernel are read several times a second, and "
               "a shaped port sends at its rate or waits; the paper's sar has seconds, and its adapters "
               "were not the limit.")
    return Section(KEY, TITLE, [_table(ports, f"Ports of node 0, {nodes} nodes, all_reduces of {size}")],
                   claims, differs, lambda pyplot: _draw(ports, pyplot),
                   {"ports": [{"combination": key, "device": port.device, "kb_per_s": port.rate,
                               "variation": port.variation, "at_s": port.at_s, "rates": port.rates}
                              for key, each in ports.items() for port in each]})


def _table(ports: Dict[str, List[Port]], title: str) -> Table:
    cells = [[by_key(key).name, port.device, f"{port.rate:,.0f}", f"{100 * port.variation:.1f} %",
              f"{number(f'nic.{key}').low:,.0f}"]
             for key, each in ports.items() for port in each]
    return Table(title, ["combination", "port", "KB/s", "coefficient of variation",
                         "KB/s in the paper"], cells)


# ---- claims


def _claims(alone: Port, pair: List[Port]) -> List[Claim]:
    return [_slower(alone, pair), _faster(alone, pair), _even(pair), _steadier(alone, pair),
            *(each for each in [_together(pair)] if each is not None)]


def _slower(alone: Port, pair: List[Port]) -> Claim:
    papers = [number("nic.T"), number("nic.TT")]
    order = same_order([(papers[0].low, alone.rate),
                        (papers[1].low, mean(port.rate for port in pair))])
    return Claim(f"A port alone carries {papers[0].low:,.0f} KB/s, each of two {papers[1].low:,.0f}.",
                 papers[0].place, f"{alone.rate:,.0f} KB/s alone, "
                 f"{' and '.join(f'{port.rate:,.0f}' for port in pair)} of two.", order=order)


def _faster(alone: Port, pair: List[Port]) -> Claim:
    paper = 2 * number("nic.TT").low / number("nic.T").low - 1
    here = sum(port.rate for port in pair) / alone.rate - 1
    return Claim(f"Two ports carry {100 * paper:.0f} % more than one, and not 100 %.",
                 number("nic.TT").place, f"They carry {100 * here:.0f} % more.", same_sign(paper, here))


def _even(pair: List[Port]) -> Claim:
    rates = [port.rate for port in pair]
    apart = (max(rates) - min(rates)) / max(rates)
    return Claim("The data are divided equally between the two ports.", number("nic.TT").place,
                 f"The ports' rates differ by {100 * apart:.1f} %.", sign=apart <= SAME)


def _steadier(alone: Port, pair: List[Port]) -> Claim:
    both = max(port.variation for port in pair)
    quiet = max(both, alone.variation) < _QUIET
    return Claim("The rate of a port alone fluctuates, that of two does so slightly.",
                 number("nic.TT").place, f"The coefficient of variation is {100 * alone.variation:.1f} % "
                 f"alone, up to {100 * both:.1f} % of two.",
                 order=None if quiet else alone.variation > both)


def _together(pair: List[Port]) -> Optional[Claim]:
    """Whether both ports fluctuate at the same times; None where they do not fluctuate."""
    if min(port.variation for port in pair) < _QUIET:
        return None
    found = synchrony(pair[0].rates, pair[1].rates)
    return Claim("When one of the two ports fluctuates, the other does so at the same time.",
                 number("nic.TT").place, f"The correlation of their rates is {found:+.2f}.",
                 same_sign(1, found))


# ---- picture


def _draw(ports: Dict[str, List[Port]], pyplot: Any) -> Any:
    """A panel for each combination: time against rate, as a part of TCP's mean; dotted the paper's."""
    figure, axes = pyplot.subplots(1, len(KEYS), figsize=(12.0, 4.4), dpi=110, sharey=True)
    unit = ports["T"][0].rate if "T" in ports else 1.0
    for panel, key in zip(axes, KEYS):
        for index, port in enumerate(ports.get(key, [])):
            panel.plot(port.at_s, [rate / unit for rate in port.rates], color=figures.COLORS[index],
                       linestyle=("-", "--")[index % 2], linewidth=1.4, label=port.device)
        panel.axhline(number(f"nic.{key}").low / number("nic.T").low, linestyle=":", linewidth=1.8,
                      color="#000000", label="mean in the paper")
        panel.set_xlabel("time (s)", fontsize=11)
        figures.decorate(panel, by_key(key).name)
    axes[-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("rate of a port / mean rate of TCP's", fontsize=11)
    return figure
