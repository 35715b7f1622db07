"""`nezha plan links`: what links are advertised with, in both units and both ways of counting. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from nezha_tools.cli.validation import refused
from .published import Accelerator, Fabric, accelerator, accelerators, data, fabrics, practical
from nezha_tools.cli.units import gbps

Row = Dict[str, Any]


def intra_rows(name: Optional[str] = None) -> List[Row]:
    """A row for each accelerator, or for the one called `name` (PlanError where there is none)."""
    return [_intra_row(each) for each in ([accelerator(name)] if name else accelerators())]


def _intra_row(each: Accelerator) -> Row:
    return {
        "accelerator": each.name, "link": each.link,
        "lanes": f"{each.links} x {each.lanes} x {each.lane / 1e9:g}",
        "gb_per_s": each.all_to_all / 1e9, "gbit_per_s": gbps(each.all_to_all),
        "duplex_gb_per_s": 2 * each.all_to_all / 1e9,
        "practical_gb_per_s": practical() * each.all_to_all / 1e9,
        "pair_gb_per_s": None if each.peer is None else each.peer / 1e9,
        "bf16_tflops": each.bf16_tflops, "memory_gb": each.memory / 1e9,
        "source_says_gb_per_s": each.says.get("all_to_all_gb"), "remark": each.why,
    }


def pcie_rows() -> List[Row]:
    """A row for each generation of PCI Express, 16 lanes."""
    return [{
        "generation": row["generation"], "lanes": f"16 x {row['lane_gb']:g}", "gb_per_s": row["gb"],
        "gbit_per_s": row["gb"] * 8, "duplex_gb_per_s": 2 * row["gb"],
        "practical_gb_per_s": practical() * row["gb"],
    } for row in data("intra_node")["pcie_x16"]]


def inter_rows(part: Optional[str] = None) -> List[Row]:
    """A row for each fabric whose name contains `part`. Raises PlanError where none does, and no
    generation of InfiniBand either."""
    chosen = [each for each in fabrics() if part is None or part.lower() in each.name.lower()]
    if not chosen and not infiniband_rows(part):
        names = [each.name for each in fabrics()] + [row["generation"] for row in infiniband_rows()]
        raise refused("fabric", part, "a part of one of " + ", ".join(names))
    return [_inter_row(each) for each in sorted(chosen, key=lambda each: -each.rate)]


def _inter_row(each: Fabric) -> Row:
    return {
        "fabric": each.name, "nics": f"{each.nics} x {gbps(each.nic):g}",
        "gbit_per_s": gbps(each.rate), "gb_per_s": each.rate / 1e9,
        "duplex_gb_per_s": 2 * each.rate / 1e9, "practical_gb_per_s": practical() * each.rate / 1e9,
        "remark": each.note,
    }


def infiniband_rows(part: Optional[str] = None) -> List[Row]:
    """Gbit/s of an InfiniBand port by width (lanes) and generation, of those whose name contains `part`;
    latency in us where published."""
    source = data("inter_node")
    return [{
        "generation": name,
        **{f"x{width}_gbit_per_s": width * lane for width in source["infiniband_widths"]},
        "x4_gb_per_s": 4 * lane / 8, "latency_us": source["infiniband_latency_us"].get(name),
    } for name, lane in source["infiniband_lane_gbps"].items() if part is None or part.upper() in name]


def sources() -> List[str]:
    """Where the numbers are from."""
    return [str(data("intra_node")["source"]), str(data("inter_node")["source"]),
            "80 % rule: " + str(data("assumptions")["practical"]["source"])]
