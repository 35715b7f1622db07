"""The Nezha paper's combinations of rails, on its sizes of clusters and beyond: the balancer.

Rates and latencies follow from what the paper (arXiv 2405.17870) has: 1,050,000 KB/s of a TCP rail; in
Table I, 64 MB on 4 nodes in 158,089 us over its RDMA network and 181,484 us over switches that add up,
and 9 us for 1 KB there; 34 us until RDMA starts on 2 nodes, which are two messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

from .._bench.collective_run import Step
from .._planning.units import parse_rails, parse_rate
from . import aggregation, convergence
from .cluster import Cluster, uniform

TCP = "8.6G:60us"


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
    Combination("TCP and TCP", f"{TCP},{TCP}", "100G,100G"),
    Combination("TCP and RDMA", f"{TCP},5.1G:17us", "100G,128G"),
    Combination("TCP and switches that add up", f"{TCP},2.96G:4us",
                nodes=aggregation.Nodes(radix=36, rail=1, port=None, adds=1e12)))


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
