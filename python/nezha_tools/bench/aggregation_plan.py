"""The runs of the two benches. Pure.

Host-based: the ranks' own algorithms; switch-based: everything through the aggregation node. Fixed shares
of two networks are the paper's Table I: each alone, even, and 99 to 1 both ways.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence

from ..cli.errors import BenchError

# How each way is configured: without a node even its heartbeats stay away.
WAYS = {"hosts": {"aggregator": ""}, "switch": {"aggregator_share": "1"}}
_SHARES = ((1, 1), (99, 1), (1, 99))


@dataclass(frozen=True)
class Run:
    """One configuration. only: the one rail that the ranks have; None: all."""

    what: str
    config: Dict[str, str] = field(default_factory=dict)
    only: Optional[int] = None


def way(name: str) -> Run:
    """A run of the switch bench: `name` is one of WAYS."""
    return Run(name, WAYS[name])


def table(rails: Sequence[str], kinds: Sequence[str]) -> List[Run]:
    """The runs over two rails, as they are called ("1gbit") and of which kinds ("agg") they are.

    Raises BenchError where there are not two, or where both lead to aggregation nodes.
    """
    if len(rails) != 2 or list(kinds).count("agg") > 1:
        raise BenchError(f"rails {','.join(rails)}: want two, of which one may be an agg: rail, such as "
                         "1gbit,agg:1gbit")
    node = list(kinds).index("agg") if "agg" in kinds else None
    runs = []
    for number, (name, kind) in enumerate(zip(rails, kinds)):
        share = {"aggregator_share": "1"} if kind == "agg" else {}
        which = f" ({number})" if rails[0] == rails[1] else ""
        runs.append(Run(f"{name} alone{which}", share, number))
    for shares in _SHARES:
        text = f"{shares[0]}:{shares[1]}"
        if node is None:
            runs.append(Run(text, {"policy": "static", "weights": text}))
        else:
            runs.append(Run(text, {"aggregator_share": f"{shares[node] / sum(shares):.6g}"}))
    return runs
