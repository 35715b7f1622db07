"""The ranks of a job on the nodes of a lab: `nezha run --lab`, and the ranks of bench and chaos."""

from __future__ import annotations

import subprocess
from typing import Any, List, Mapping, Sequence

from nezha import launcher


def in_lab(name: str, count: int, command: Sequence[str],
           extra: Mapping[str, str]) -> List[launcher.Rank]:
    """Ranks on the nodes of a lab that is up, those of node 0 first: as many on each as on the next, or
    one more. count = 0: as many as the lab is for. Raises LaunchError."""
    from . import Lab, LabError

    try:
        lab = Lab.attach(name)
        nodes = len(lab)
        count = count or lab.ranks
        extra = launcher.with_secret(extra)
        ranks: List[launcher.Rank] = []
        for node in range(nodes):
            local_size = (count - node + nodes - 1) // nodes
            for local_rank in range(local_size):
                rank = len(ranks)
                env = lab.rank_env(node * lab.state.ranks_per_node)
                env.update(launcher.identity(rank, count, local_rank, local_size, env["MASTER_ADDR"],
                                             int(env["MASTER_PORT"])))
                ranks.append(in_node(lab, rank, node, command, {**env, **extra}))
        return ranks
    except LabError as error:
        raise launcher.LaunchError(str(error)) from error


def in_node(lab: Any, rank: int, node: int, command: Sequence[str],
            env: Mapping[str, str]) -> launcher.Rank:
    """One rank on a node of a lab that is up; env: all that makes it this rank."""
    def start(**options: Any) -> "subprocess.Popen[bytes]":
        child: "subprocess.Popen[bytes]" = lab.popen(
            node, list(command), env={**launcher.buffering(), **env}, stdin=subprocess.DEVNULL, **options)
        return child

    return launcher.Rank(rank, f"node {node}", start)
