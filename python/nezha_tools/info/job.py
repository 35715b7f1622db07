"""The hosts of a job, as its ranks find them."""

from __future__ import annotations

import json
import os
import platform
from typing import Any, Dict, List

_RECORD_BYTES = 512  # of what a rank says of itself


def hosts_of(comm: Any) -> Dict[str, Any]:
    """The same on every rank; collective. {"ranks", "hierarchy": the option, "hosts": [{"host", "name",
    "ranks", "leader", "processors", "inside"}]}; inside: what carries bytes between the ranks of a host.
    """
    import numpy as np

    record = json.dumps({"name": platform.node()[:64], "processors": len(os.sched_getaffinity(0)),
                         "inside": _inside(comm)}).encode()
    mine = np.frombuffer(record.ljust(_RECORD_BYTES), np.uint8)
    everybody = comm.all_gather(mine).reshape(comm.world_size, _RECORD_BYTES)
    said = [json.loads(each.tobytes()) for each in everybody]
    ranks_of: Dict[int, List[int]] = {}
    for rank, host in enumerate(comm.stats()["host_of"]):
        ranks_of.setdefault(host, []).append(rank)
    return {"ranks": comm.world_size, "hierarchy": comm.config()["hierarchy"]["value"], "hosts": [
        {"host": host, "name": said[ranks[0]]["name"], "ranks": ranks, "leader": ranks[0],
         "processors": said[ranks[0]]["processors"],
         "inside": said[ranks[0]]["inside"] if len(ranks) > 1 else ""}
        for host, ranks in sorted(ranks_of.items())]}


def _inside(comm: Any) -> str:
    """Found by doing: a sum and what it went through. Collective."""
    import numpy as np

    comm.all_reduce(np.ones(1))
    if comm.stats()["memory_bytes_sent"] > 0:
        return "memory of all ranks together"
    if any(rail["shm_bytes_sent"] for rail in comm.rails()):
        return "shared memory, pair by pair"
    return "loopback"


def sentences(job: Dict[str, Any]) -> List[str]:
    """What the hosts mean for collectives."""
    hosts, ranks = len(job["hosts"]), job["ranks"]
    if hosts == ranks:
        return ["Every rank has a host of its own: collectives have one level."]
    if hosts == 1:
        return [f"All {ranks} ranks share one host: collectives have one level."]
    if job["hierarchy"] == "off":
        return ["hierarchy=off: collectives take every rank for a host."]
    return ["Collectives go inside the hosts first where that costs less (nezha explain --ranks-per-host "
            f"{','.join(str(len(host['ranks'])) for host in job['hosts'])}). In the algorithm leaders "
            "the leader of a host sends for it; where there is a root, the root leads its host."]
