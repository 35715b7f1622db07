"""The answers of `nezha plan rails` as JSON: an assignment with its proof, and the way back. Pure."""

from __future__ import annotations

from typing import Any, Dict

from nezha_tools.cli.validation import whole
from nezha_tools.bench.static_rails import (HOSTS_MAX, RAILS_MAX, assign, assign_naive, cut_off,
                                            directions, fewest_rails, loads, mean_pair_rails,
                                            most_hosts, naive_rails, row_of)


def for_hosts(hosts: int) -> Dict[str, Any]:
    """Who sends where for so many hosts, with the fewest rails, every ordered pair checked; the plain
    construction beside it."""
    rails = fewest_rails(hosts)
    sends = assign(hosts)
    receives = [~mask & ((1 << rails) - 1) for mask in sends]
    missing, _ = cut_off(sends, receives)
    return {
        "hosts": hosts, "rails": rails, "most_hosts": most_hosts(rails),
        "one_rail_less_connects": most_hosts(rails - 1),
        "naive_rails": naive_rails(hosts), "pairs": hosts * (hosts - 1), "cut_off": missing,
        "mean_pair_rails": mean_pair_rails(sends, receives, rails), "senders": loads(sends, rails),
        "assignment": [{
            "host": host, "directions": row_of(mask, rails), **directions(mask, rails),
            "naive_directions": row_of(naive, naive_rails(hosts)),
        } for host, (mask, naive) in enumerate(zip(sends, assign_naive(hosts)))],
    }


def for_rails(rails: int) -> Dict[str, Any]:
    """How many hosts so many rails connect."""
    whole("rails", rails, 2, RAILS_MAX)
    most = most_hosts(rails)
    return {"rails": rails, "most_hosts": most, "naive_hosts": 2 ** (rails // 2),
            "planned_up_to": min(most, HOSTS_MAX)}
