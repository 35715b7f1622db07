"""Table II: the adapters of the paper's cluster, and what stands for them here."""

from __future__ import annotations

from typing import Any, List

from nezha_tools.cli import figures
from .context import Context, rate_text
from .published import data, row
from .section import Section, Table

KEY, TITLE = "table2", "Table II: adapters"
_GB = 1 << 30


def build(context: Context) -> Section:
    """The paper's rows, then a row for each kind of rail of the lab. It has no claim to compare."""
    published = data()["adapters"]
    rate = rate_text(context.settings.mbits)
    cells = [[*each, "the paper"] for each in published["rows"]]
    for name, switch, rdma in (
            ("veth, token bucket, TCP", "bridge of the kernel", "No"),
            ("the same, node that aggregates", "bridge, and a program beside it", "No"),
            ("the same, libfabric", "bridge of the kernel", "in software, by libfabric's provider")):
        cells.append([name, "Eth", switch, "queue of 10 ms", rdma, rate, "here"])
    return Section(KEY, TITLE, [Table("Adapters", [*published["columns"], "of"], cells),
                   _machine(context)], [], context.differs, lambda pyplot: _draw(context, pyplot),
                   {"rate_mbits": context.settings.mbits, "machine": dict(context.machine)})


def _machine(context: Context) -> Table:
    machine = context.machine
    cells: List[List[str]] = [
        ["processor", "Intel Xeon Gold 6230R in each of 6 hosts",
         f"{machine['processor']}, {machine['cores']} for all nodes together"],
        ["memory", "-", f"{machine['memory'] / _GB:.1f} GiB for all nodes together"],
        ["accelerators", "2 V100 a host", "none"],
        ["rails of a host", "3 Ethernet, 1 InfiniBand, 1 TH", "1 to 3, as the combination says"],
        ["kernel", "-", f"Linux {machine['kernel']}"]]
    if machine.get("capacity"):
        cells.append(["what limits", "-", str(machine["capacity"])])
    return Table("Hosts", ["", "the paper (Section V-A)", "here"], cells)


def _draw(context: Context, pyplot: Any) -> Any:
    """Bandwidth of an adapter, Gbit/s."""
    papers = {name: row("table2", name)[0].low for name in ("MCX623106AN", "MCX654106A", "TH NIC")}
    bars = {**{f"{name}\nthe paper": value for name, value in papers.items()},
            "a rail\nof the lab": context.settings.mbits / 1000}
    figure, axes = pyplot.subplots(figsize=(7.0, 3.6), dpi=110)
    axes.bar(range(len(bars)), list(bars.values()),
             color=[figures.COLORS[0]] * len(papers) + [figures.COLORS[1]], zorder=3)
    axes.set_xticks(range(len(bars)))
    axes.set_xticklabels(list(bars), fontsize=9)
    axes.set_yscale("log")
    axes.set_ylabel("Gbit/s", fontsize=11)
    figures.decorate(axes, "Bandwidth of an adapter")
    return figure
