"""One call of `nezha bench messages`: a lab, a launch for each policy, and the document."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List

from ..lab import parse_rail
from ..lab.shaping import EXACT
from .static_rails import fewest_rails
from ..cli.errors import BenchError
from .lab_runner import BenchLab
from ..cli.progress import Step
from .message_spec import LOAD_MAX, POLICIES, MessageSpec, Record

_PATIENCE_SECONDS = 300.0  # of each run, beyond the time in which it offers messages

_SCHEMA = (
    "mean: bytes; load, offered, accepted: parts of what a node's rails carry one way; *_us: "
    "microseconds from when a message was to be sent until it was received; late_us: 99 % of the sends "
    "were issued no later than that; shares: of all bytes sent, by rail; wrong: messages"
)


@dataclass
class Request:
    """What was asked for on the command line."""

    policies: List[str]
    means: List[int]
    loads: List[float]
    nodes: int = 4
    rails: List[str] = field(default_factory=lambda: ["20mbit"] * 4)
    seconds: float = 3.0
    seed: int = 1
    config: Dict[str, str] = field(default_factory=dict)
    lab_options: Dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises BenchError for what cannot be run, before anything is built."""
        for policy in self.policies:
            if policy not in POLICIES:
                raise BenchError(f"--policy {policy}: one of {', '.join(POLICIES)}")
        for load in self.loads:
            if not 0 < load <= LOAD_MAX:
                raise BenchError(f"--load {load:g}: a number above 0, at most {LOAD_MAX:g}")
        if min(self.means) < 1:
            raise BenchError("--mean: at least a byte")
        if len(self.rails) < 2:
            raise BenchError("--rates names one rail, on which all policies are alike: name two or more")
        if any(parse_rail(rail).kind == "agg" for rail in self.rails):
            raise BenchError(f"--rates {','.join(self.rails)}: aggregation nodes carry no messages; name "
                             "rails without agg:")
        needed = fewest_rails(self.nodes)
        if "static" in self.policies and len(self.rails) < needed:
            raise BenchError(f"--policy static needs {needed} rails for {self.nodes} nodes, and --rates "
                             f"names {len(self.rails)} (nezha plan rails)")


def run(request: Request, step: Step) -> Dict[str, Any]:
    """Measures every policy with every mean and load. The document. Raises BenchError, LabError."""
    advance = step("messages", len(request.policies) * len(request.means) * len(request.loads))
    records: List[Record] = []
    with BenchLab(request.nodes, request.rails, **request.lab_options) as lab:
        if len(lab.rates()) < len(request.rails):
            raise BenchError("a load is a part of what the rails carry, so every rail needs a rate: give "
                             "--rates such as 20mbit,20mbit, in a lab that can shape (nezha lab up says "
                             "what it needs)")
        if "shaping" not in request.lab_options:
            lab.lab.set_shaping(EXACT)
        for policy in request.policies:
            spec = MessageSpec(policy, request.means, request.loads, sum(lab.rates().values()),
                               request.seconds, request.seed, request.config)
            spec.check()
            records += _launch(lab, spec, advance)
        facts = lab.facts()
    return {"config": {"schema": _SCHEMA, "nodes": request.nodes, "rails": request.rails,
                       "seconds": request.seconds, "seed": request.seed, "options": request.config,
                       "lab": facts},
            "results": [asdict(record) for record in records],
            "wrong": sum(record.wrong for record in records)}


def _launch(lab: BenchLab, spec: MessageSpec, advance: Any) -> List[Record]:
    path = lab.scratch / f"messages-{spec.policy}.json"
    spec.save(path)
    command = [sys.executable, "-m", "nezha_tools.bench.message_worker", str(path)]
    found: List[Record] = lab.launch(
        command, [{}] * lab.nodes, advance, _PATIENCE_SECONDS + spec.seconds, Record.parse)
    wanted = len(spec.means) * len(spec.loads)
    if len(found) < wanted:
        raise BenchError(f"policy {spec.policy}: {len(found)} results instead of {wanted}")
    return found
