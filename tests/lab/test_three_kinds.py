"""One operation over TCP, libfabric and an aggregation node at the same time, each on wires of its own.

What happens when one of the kinds dies in mid-operation: campaign R25 (tests/campaigns).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import List

import pytest
from conftest import child_env
from test_ofi_rails import ofi

from nezha.lab import Lab

_RANK = os.path.join(os.path.dirname(__file__), "kinds_rank.py")
_CHUNK = 16384  # short, so that also what is left of 256 KiB for the rails of six hosts is several
_CONFIG = {"policy": "round_robin", "chunk_bytes": _CHUNK, "aggregator_share": 0.4, "log_level": "error"}


def run(rails: List[str], nodes: int) -> List[dict]:
    """What each rank has sent over each kind of rail, after all its results were right."""
    with Lab(nodes, rails) as lab:
        ranks = [lab.popen(node, [sys.executable, _RANK, json.dumps(_CONFIG)],
                           env={**child_env(), **lab.rank_env(node)}, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True) for node in range(nodes)]
        found = [rank.communicate(timeout=60) for rank in ranks]
    for number, (rank, (_, errors)) in enumerate(zip(ranks, found)):
        assert rank.returncode == 0, f"rank {number}: {errors}"
    return [json.loads(out) for out, _ in found]


@ofi
@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("nodes", [2, 3, 4, 6])
@pytest.mark.parametrize("kinds", [["tcp", "ofi", "node"], ["ofi", "node"]], ids="-".join)
def test_every_dtype_and_operator(kinds: List[str], nodes: int) -> None:
    wires = {"tcp": "1gbit", "ofi": "ofi:1gbit", "node": "agg:1gbit"}
    for rank, sent in enumerate(run([wires[kind] for kind in kinds], nodes)):
        assert sent["cut"] > 0, f"rank {rank}: no operation went partly through the node: {sent}"
        assert min(sent[kind] for kind in kinds) > _CHUNK, f"rank {rank}: {sent}"
