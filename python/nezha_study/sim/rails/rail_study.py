"""The study of the source, made again: which runs, and what is concluded from them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any, Callable, Dict, List, Sequence

from .case import Case, Network
from .findings import KIB, SATURATED, SIZES_KIB, Lookup, findings
from .case_runs import measure_all

LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
ALL_RAILS = ("modulo", "random", "round_robin", "local_dynamic", "dynamic", "hybrid")
MAIN = ("round_robin", "local_dynamic", "dynamic", "hybrid")


@dataclass(frozen=True)
class Experiment:
    """One figure of the study: cases whose outcomes belong together."""

    name: str
    title: str
    cases: Sequence[Case]


def variants(policies: Sequence[str]) -> List[Dict[str, Any]]:
    """Each policy as it is, and striped. Striped over all rails, `modulo`, `random` and `round_robin`
    are one policy, so only the last is."""
    return [{"policy": policy, "striped": striped} for policy in policies for striped in (False, True)
            if not striped or policy not in ("modulo", "random")]


def experiments(seed: int, messages: int = 60) -> List[Experiment]:
    """All of the study. messages: of each process in a run; fewer make it quicker and less certain."""
    def case(**values: Any) -> Case:
        return Case(**{"seed": seed, "messages": messages, **values})

    def curves(policies: Sequence[str], **values: Any) -> List[Case]:
        return [case(**each, load=load, **values) for each in variants(policies) for load in LOADS]

    def saturated(**values: Any) -> List[Case]:
        return [case(**each, load=SATURATED, **values) for each in variants(MAIN)]

    return [
        Experiment("load_4k", "128 hosts, 4 rails, messages of 4 KB",
                   curves(ALL_RAILS, hosts=128, means=(4 * KIB,))),
        Experiment("load_64k", "128 hosts, 4 rails, messages of 64 KB",
                   curves(ALL_RAILS, hosts=128, means=(64 * KIB,))),
        Experiment("hosts", "4 rails, messages of 32 KB, saturated", [
            each for hosts in (32, 64, 128) for each in saturated(hosts=hosts)]),
        Experiment("size", "32 hosts, 4 rails, saturated", [
            each for kib in SIZES_KIB for each in saturated(means=(kib * KIB,))]),
        Experiment("rails", "32 hosts, messages of 32 KB, saturated", [
            each for rails in (1, 2, 4, 6, 8) for each in saturated(rails=rails)]),
        Experiment("hybrid", "128 hosts, 4 rails, messages of 32 KB", curves(
            ("local_dynamic", "dynamic", "hybrid"), hosts=128)),
        Experiment("mixed", "32 hosts, 4 rails, half of the messages of 2 KB, half of 32 KB", curves(
            ("local_dynamic", "dynamic", "hybrid"), means=(2 * KIB, 32 * KIB))),
        Experiment("static", "32 hosts, 7 rails, messages of 32 KB", curves(
            ("round_robin", "static", "local_dynamic", "dynamic"), rails=7)),
        Experiment("threshold", "32 hosts, 4 rails, saturated; what hybrid calls short", [
            case(policy="hybrid", load=SATURATED, means=(kib * KIB,), short_bytes=short)
            for kib in (4, 16, 64) for short in (0, 2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB)]),
        Experiment("assumptions", "32 hosts, 4 rails, messages of 64 KB, saturated", [
            case(policy=policy, load=SATURATED, means=(64 * KIB,), **values)
            for values in _other_assumptions() for policy in MAIN[:3]]),
        Experiment("short_waits", "32 hosts, 4 rails, saturated; short messages wait for reserved ones", [
            case(policy="hybrid", load=SATURATED, means=means, network=Network(short_pass=False))
            for means in ((4 * KIB,), (32 * KIB,), (2 * KIB, 32 * KIB))]),
        Experiment("seeds", "32 hosts, 4 rails, messages of 32 KB, saturated", [
            case(policy=policy, load=SATURATED, seed=seed + number)
            for number in range(5) for policy in MAIN]),
    ]


def _other_assumptions() -> List[Dict[str, Any]]:
    return [{}, {"processes": 2}, {"processes": 8}, {"processes": 16},
            {"network": Network(duplex=1.0)}, {"network": Network(duplex=0.6)},
            {"network": Network(control_us=0.5)}, {"network": Network(control_us=8.0)},
            {"network": Network(backoff_us=1.0, backoff_most_us=8.0)},
            {"network": Network(backoff_us=16.0, backoff_most_us=128.0)}]


def source() -> Dict[str, Any]:
    """What the source has published, with where it says so."""
    text = (resources.files("nezha_study.sim.rails") / "data" / "source.json").read_text("utf-8")
    return dict(json.loads(text))


def run(seed: int, messages: int, advance: Callable[[str, int], Callable[[Any], None]]) -> Dict[str, Any]:
    """The whole study as a document. `advance` makes the function that is called for each run."""
    plan = experiments(seed, messages)
    every = [case for experiment in plan for case in experiment.cases]
    said = source()
    outcomes = measure_all(every, advance("runs", len(set(every))))
    return {
        "seed": seed, "messages": messages, "source": said,
        "experiments": [{
            "name": each.name, "title": each.title,
            "rows": [outcomes[case].row(case) for case in each.cases],
        } for each in plan],
        "findings": findings(Lookup({each.name: each.cases for each in plan}, outcomes), said),
    }
