"""`nezha plan rails --file`: what a given cabling with fixed directions can and cannot do.

The file (YAML or JSON):

    rails: [eth0, eth1, eth2]
    hosts:
      node0: {sends: [eth0], receives: [eth1, eth2]}
      node1: {sends: [eth1], receives: [eth0]}

A port that is in both lists does both; a rail that is in neither does not reach that host.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List

from .documents import read_document, text_list
from nezha_tools.cli.errors import PlanError
from nezha_tools.bench.static_rails import (HOSTS_MAX, RAILS_MAX, cut_off, fewest_rails, loads,
                                            mean_pair_rails)


@dataclass(frozen=True)
class Cabling:
    """Rails, hosts and, for each host, bit sets of the rails on which it sends and receives."""

    rails: List[str]
    hosts: List[str]
    sends: List[int]
    receives: List[int]


def read_cabling(path: Path) -> Cabling:
    """Reads a file. Raises PlanError that names the field that makes no sense."""
    document = read_document(path, {"rails", "hosts"})
    rails = text_list(f"{path}: rails", document.get("rails"))
    hosts = document.get("hosts")
    if not 1 <= len(rails) <= RAILS_MAX or len(set(rails)) != len(rails):
        raise PlanError(f"{path}: rails must be 1 to {RAILS_MAX} different names")
    if not isinstance(hosts, dict) or not 2 <= len(hosts) <= HOSTS_MAX:
        raise PlanError(f"{path}: hosts must be a mapping of 2 to {HOSTS_MAX} names")
    sends, receives = [], []
    for name, entry in hosts.items():
        where = f"{path}: hosts.{name}"
        if not isinstance(entry, dict) or not set(entry) <= {"sends", "receives"}:
            raise PlanError(f"{where} must have lists `sends` and `receives`, and nothing else")
        sends.append(_mask(f"{where}.sends", entry.get("sends", []), rails))
        receives.append(_mask(f"{where}.receives", entry.get("receives", []), rails))
    return Cabling(rails, [str(name) for name in hosts], sends, receives)


def _mask(field: str, names: Any, rails: List[str]) -> int:
    mask = 0
    for name in text_list(field, names):
        if name not in rails:
            raise PlanError(f"{field} {name!r}: it must be one of the rails {', '.join(rails)}")
        mask |= 1 << rails.index(name)
    return mask


def explain(cabling: Cabling) -> Dict[str, Any]:
    """Pairs without a direct rail, senders and receivers of each rail, and what would have been
    enough."""
    count, examples = cut_off(cabling.sends, cabling.receives)
    hosts = len(cabling.hosts)
    both = sum(bin(sends & receives).count("1")
               for sends, receives in zip(cabling.sends, cabling.receives))
    return {
        "hosts": hosts, "rails": len(cabling.rails), "pairs": hosts * (hosts - 1), "cut_off": count,
        "examples": [{"from": cabling.hosts[i], "to": cabling.hosts[j]} for i, j in examples],
        "ports_that_do_both": both, "fewest_rails": fewest_rails(hosts),
        "mean_pair_rails": mean_pair_rails(cabling.sends, cabling.receives, len(cabling.rails)),
        "loads": [{"rail": name, "senders": out, "receivers": into} for name, out, into in zip(
            cabling.rails, loads(cabling.sends, len(cabling.rails)),
            loads(cabling.receives, len(cabling.rails)))],
    }
