"""The Nezha paper's combinations of rails, on its sizes of clusters and beyond: the balancer.

The numbers of the paper (arXiv 2405.17870) do not fit together as they stand. At the 1,050,000 KB/s that
it measured of a TCP rail, a ring of 4 nodes moves 64 MB in 94 ms; its Table I has 158 ms for 64 MB over
RDMA (GLEX) and 181 ms over switches that add up (SHARP); and its text calls SHARP "far superior" to TCP.
They fit if the sizes of Table I count elements of four bytes, as Gloo's benchmark, which it used, counts
sizes. So 64 MB are taken for 256 MiB, and 1 KB for 4 KiB. Then TCP takes 374 ms, and the order of the
three networks is the one that the text has. docs/simulation_study.md says it, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

from nezha_tools.cli.progress import Step
from nezha_tools.cli.units import parse_rails, parse_rate
from . import aggregation, convergence
from .cluster import Cluster, uniform

# Rate of a wire: 1,050,000 KB/s (Fig. 6). The paper has no latency of TCP: 60 us is assumed, between two
# hosts of today whose kernels carry it.
TCP = "8.6G:60us"
# 64 Mi elements in 158,089 us on 4 nodes (Table I), of which a ring sends 1.5 times the vector. "Startup
# overhead of approximately 34 us" on 2 nodes (section V-B), which are two messages.
RDMA = "20.4G:17us"
# 64 Mi elements in 181,484 us on 4 nodes (Table I), each once. 3 us for the shortest on 2 nodes (section
# V-B), up and down.
SHARP = "11.8G:1.5us"
# The nominal rates of the adapters (Table II).
TCP_SOLD, RDMA_SOLD = "100G", "128G"
# Ports of the switch that the paper names (Table II). Its rate of adding is not in the paper: so fast
# that wires are the limit.
SHARP_RADIX, SHARP_ADDS = 40, 1e12


@dataclass(frozen=True)
class Combination:
    """Two rails as measured, and what their devices are sold with; nodes: switches add up at rail 1."""

    name: str
    rates: str
    advertised: str = ""
    nodes: Optional[aggregation.Nodes] = None

    def cluster(self, hosts: int) -> Cluster:
        """`hosts` hosts with these rails."""
        return uniform(hosts, parse_rails("rates", self.rates))


COMBINATIONS = (
    Combination("TCP and TCP", f"{TCP},{TCP}", f"{TCP_SOLD},{TCP_SOLD}"),
    Combination("TCP and RDMA", f"{TCP},{RDMA}", f"{TCP_SOLD},{RDMA_SOLD}"),
    Combination("TCP and switches that add up", f"{TCP},{SHARP}",
                nodes=aggregation.Nodes(radix=SHARP_RADIX, rail=1, port=None, adds=SHARP_ADDS)))


def run(hosts: Sequence[int], sizes: Sequence[int], step: Step) -> Dict[str, Any]:
    """Every combination: the answer of `nezha sim balancer`, or of `nezha sim aggregation`."""
    found: List[Dict[str, Any]] = []
    for each in COMBINATIONS:
        if each.nodes is not None:
            document = aggregation.run(hosts, sizes, each.cluster, each.nodes, "auto", step)
        else:
            told = [parse_rate("advertised", rate) for rate in each.advertised.split(",")]
            document = convergence.run(hosts, sizes, each.cluster, told, "auto", 200, step)
        found.append({"name": each.name, "rates": each.rates, "through_nodes": each.nodes is not None,
                      **document})
    return {"combinations": found}
