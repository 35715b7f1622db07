"""`nezha plan rails`: which hosts send and which receive on each rail, so that all pairs meet. Pure.

With static allocation a port only sends or only receives. Host i reaches host j directly when there
is a rail on which i sends and j receives. So no host's set of sending rails may contain another's:
they form an antichain, and Sperner's theorem gives the most hosts for r rails: n <= C(r,
floor(r/2)).

Source: S. Coll, E. Frachtenberg, F. Petrini, A. Hoisie, L. Gurvits, Using Multirail Networks in
High-Performance Clusters, Cluster 2001 (the static bound, and the construction for n <= 2^(r/2)).
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Dict, List, Sequence, Set, Tuple

import numpy as np

from ..cli.validation import whole

HOSTS_MAX = 20000
RAILS_MAX = 64


def most_hosts(rails: int) -> int:
    """How many hosts `rails` rails can connect: C(r, floor(r/2))."""
    return comb(rails, rails // 2)


def fewest_rails(hosts: int) -> int:
    """The smallest r with C(r, floor(r/2)) >= hosts. Raises PlanError outside 2 to HOSTS_MAX hosts."""
    whole("nodes", hosts, 2, HOSTS_MAX)
    rails = 2
    while most_hosts(rails) < hosts:
        rails += 1
    return rails


def naive_rails(hosts: int) -> int:
    """Rails of the plain construction: two for each bit of a host's number, 2 ceil(log2 n)."""
    whole("nodes", hosts, 2, HOSTS_MAX)
    return 2 * (hosts - 1).bit_length()


def assign(hosts: int) -> List[int]:
    """For each host the rails on which it sends, as a bit set; on the others it receives.

    All sets have floor(r/2) of the r = fewest_rails(hosts) rails and differ, so none contains
    another. Sets that are rotations of each other are taken together: each group loads every rail
    alike, so that no rail has many more senders than another.
    """
    rails = fewest_rails(hosts)
    chosen: List[int] = []
    seen: Set[int] = set()
    for each in combinations(range(rails), rails // 2):
        mask = sum(1 << rail for rail in each)
        while mask not in seen and len(chosen) < hosts:
            seen.add(mask)
            chosen.append(mask)
            mask = (mask << 1 | mask >> (rails - 1)) & ((1 << rails) - 1)
    return chosen


def assign_naive(hosts: int) -> List[int]:
    """The same by the plain construction: on rails 2b and 2b + 1 a host sends on one, as bit b of
    its number says."""
    bits = naive_rails(hosts) // 2
    return [sum(1 << (2 * bit + (host >> bit & 1)) for bit in range(bits)) for host in range(hosts)]


def cut_off(sends: Sequence[int],
            receives: Sequence[int],
            most: int = 10) -> Tuple[int, List[Tuple[int, int]]]:
    """(how many ordered pairs have no rail on which the first sends and the second receives, the
    first `most`).

    sends, receives: a bit set of rails for each host. Looks at every pair.
    """
    width = np.uint32 if max([*sends, *receives]) < 1 << 32 else np.uint64
    sending, receiving = np.array(sends, dtype=width), np.array(receives, dtype=width)
    count = 0
    examples: List[Tuple[int, int]] = []
    for host in range(len(sends)):
        missing = np.flatnonzero((sending[host] & receiving) == 0)
        missing = missing[missing != host]
        count += len(missing)
        examples.extend((host, int(other)) for other in missing[:most - len(examples)])
    return count, examples


def loads(masks: Sequence[int], rails: int) -> List[int]:
    """How many of the bit sets have each rail."""
    return [sum(mask >> rail & 1 for mask in masks) for rail in range(rails)]


def mean_pair_rails(sends: Sequence[int], receives: Sequence[int], rails: int) -> float:
    """On how many rails one host can send to another, on average over all ordered pairs of hosts."""
    both = loads([one & other for one, other in zip(sends, receives)], rails)
    ways = sum(out * into - same for out, into, same in
               zip(loads(sends, rails), loads(receives, rails), both))
    return ways / (len(sends) * (len(sends) - 1))


def row_of(mask: int, rails: int) -> str:
    """`S` where the host sends and `R` where it receives: `SSRR`."""
    return "".join("S" if mask >> rail & 1 else "R" for rail in range(rails))


def directions(mask: int, rails: int) -> Dict[str, List[int]]:
    """The rails of one host by direction."""
    return {"sends": [rail for rail in range(rails) if mask >> rail & 1],
            "receives": [rail for rail in range(rails) if not mask >> rail & 1]}
