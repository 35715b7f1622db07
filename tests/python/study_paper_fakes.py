"""What measuring jobs of `nezha study paper` gives on a machine without noise, by the jobs' kind."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from nezha_study.paper.jobs import Job
from nezha_study.paper.models import MODELS
from nezha_study.paper.training import TrainJob


def ports(job: Job) -> Dict[str, Any]:
    """Fig. 6: every port at 1000 KB/s, in windows of a tenth of a second."""
    times = [0.1 * index for index in range(11)]
    sent: List[int] = [102400 * index for index in range(11)]
    devices = [f"eth{place}" for place in range(len(job.combination.key))]
    return {"size": 1 << 20, "operations": 5, "devices": devices, "times_s": times,
            "sent": [sent for _ in devices], "lab": {}}


def cores(job: Job) -> Dict[str, Any]:
    """Fig. 11: TCP needs half of a processor, the other networks one."""
    needs = 0.5 if job.combination.key == "T" else 1.0
    return {"cells": [{"processors": processors, "size": 1 << 20,
                       "time_us": 1000 * max(1.0, needs / processors), "cores_used": 0.1}
                      for processors in (0.25, 0.5, 1.0, 2.0)], "lab": {}}


def peers(job: Job) -> Dict[str, Any]:
    """Version 2: Gloo takes twice Nezha's time, MPTCP a quarter more."""
    rails = [{"name": "eth0", "share": 0.5}, {"name": "eth1", "share": 0.5}]
    rows = {name: [{"size": size, "time_us": factor * size / 100, "rails": rails}
                   for size in (1 << 10, 1 << 20, 16 << 20)]
            for name, factor in (("nezha", 1.0), ("gloo", 2.0), ("gloo-mptcp", 1.25))}
    return {"rows": rows, "missing": {}, "lab": {}}


def failover(job: Job) -> Dict[str, Any]:
    """Version 2: results come again after 50 ms, or after 150 in silence."""
    return {"faults": [{"what": what, "at_s": 0.0, "size": 1 << 20, "usual_ms": 10.0,
                        "longest_ms": longest, "counters": {
                            "endpoints_lost": 1, "links_suspected": 0, "retransmitted": 2}}
                       for what, longest in (("it is reset", 50.0), ("it is silent", 150.0))], "lab": {}}


def memory(job: Job) -> Dict[str, Any]:
    """Table III: of all combinations the same."""
    return {"size": 1 << 20, "counts": {"L1 misses": 100.0, "last level reads": 25.0}, "lab": {}}


def train(job: Job) -> Dict[str, Any]:
    """Fig. 8, Fig. 10, Table IV: a step computes 0.2 s, and sends 0.4 s over one network; beside another
    one RDMA loses a fifth of its speed."""
    assert isinstance(job, TrainJob)
    key = job.combination.key
    rails = 1.0 if job.shares else sum(0.8 if letter == "R" and len(key) > 1 else 1.0 for letter in key)
    sends = 0.4 / rails * (1.1 if job.shares else 1.0)
    runs = [{"model": model.key, "batch": batch, "steps_s": [0.2 + sends] * 3,
             "tensors_s": [[sends * count / model.elements] * 3 for count in model.tensors],
             "sent": [1 << 20 for _ in key]} for model in job.models for batch in job.batches]
    return {"runs": runs, "lab": {}}


def profile(job: Job) -> Dict[str, Any]:
    """Fig. 9: what recording gives."""
    counts: Dict[str, Dict[str, int]] = {}
    for model in MODELS:
        sizes = [str(1 << (4 * count - 1).bit_length()) for count in model.tensors]
        counts[model.key] = {size: sizes.count(size) for size in sizes}
    return {"counts": counts, "lab": {}}


FAKES: Dict[str, Callable[[Job], Dict[str, Any]]] = {
    "ports": ports, "cores": cores, "peers": peers, "failover": failover,
    "memory": memory, "train": train, "profile": profile}
