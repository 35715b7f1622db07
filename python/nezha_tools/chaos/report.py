"""What happened in a run: as a JSON-ready document, and that as tables and sentences for people."""

from __future__ import annotations

import shlex
from typing import Any, Dict, List, Optional, Sequence

from ..cli import console
from ..lab import format_rate
from .baseline import FAULTS_BEGIN, Baseline, measure
from .faults import FAULTS
from .nemesis import Happening
from .experiment import INTERVAL_S, Run
from .shortfall import Course, Lasting, judge
from .throughput import Span, outside

_POINTS = 600
_AFTER_S = 1.0  # "back" means the second after a fault
# Counters of Nezha that say how hard it worked, not what befell it. Of the others those are shown that
# counted something.
_WORK = {"frames_sent", "frames_received", "acks_sent", "send_calls", "receive_calls", "polls", "sleeps",
         "handovers", "buffer_allocations", "buffer_bytes_in_use", "memory_ranks", "memory_bytes_sent",
         "memory_bytes_received"}


def document(run: Run) -> Dict[str, Any]:
    """Everything, JSON-ready. Rates in bit/s per node, times in seconds from the run's start."""
    request = run.request
    baseline = _baseline(run)
    undisturbed = _per_node(run, baseline.rails_bps)
    below = _below(run, baseline)
    times, rates = run.timeline.rates(_POINTS)
    problems = find_problems(run)
    return {
        "config": {"command": list(request.command), "seed": request.seed, "nodes": request.nodes,
                   "rails": [format_rate(rate) for rate in run.rates_bps],
                   "faults": list(request.faults), "every_s": request.every_s,
                   "lasting_s": request.lasting_s, "count": request.count,
                   "allow_all_down": request.allow_all_down, "only_nodes": request.only_nodes,
                   "only_rails": request.only_rails, "env": dict(request.env)},
        "program": run.outcome.to_dict(), "traffic_from_s": run.traffic_s,
        "ended_s": round(run.ended_s, 3),
        "steady_from_s": run.steady_s, "undisturbed_bps": undisturbed, "below": below,
        "longest_standstill_undisturbed_s": round(
            run.timeline.longest_standstill(_calm(run)), 3),
        "faults": [_fault(run, happening, undisturbed) for happening in run.happenings],
        "timeline": {"sampled_every_s": INTERVAL_S, "t_s": [round(t, 3) for t in times],
                     "rails_bps": [[round(v / request.nodes) for v in rail] for rail in rates]},
        "nezha": {str(rank): counts for rank, counts in sorted(run.counts.items())},
        "notes": _notes(run, baseline, below), "problems": problems,
        "exit_code": run.outcome.exit_code or (1 if problems else 0),
    }


def find_problems(run: Run) -> List[str]:
    """Why the faults were not what was asked for; empty when all is well."""
    if run.traffic_s is None:
        return ["no fault was inflicted: not every rank of the program sent data over the rails"]
    found = [f"fault {h.injection.number} ({h.injection.kind}, {h.injection.where}) could not be "
             f"confirmed: {h.evidence}" for h in run.happenings if h.happened is False]
    if not found and not any(happening.happened for happening in run.happenings):
        return ["no fault happened: the program ended before the first one was over. Faults begin "
                f"{FAULTS_BEGIN}; let it run longer"]
    return found


def _until(run: Run) -> float:
    """The end of the program's traffic. One that fails may have stood still until then: that counts."""
    return run.timeline.busy_until_s if run.outcome.exit_code == 0 else run.ended_s


def _undisturbed(run: Run) -> Optional[Span]:
    """The time with which the rest is compared: a rail that never comes back must not lower it."""
    if run.steady_s is None:
        return None
    return run.steady_s, min((h.began_s - INTERVAL_S for h in run.happenings), default=_until(run))


def _baseline(run: Run) -> Baseline:
    undisturbed = _undisturbed(run)
    calm = [] if undisturbed is None else outside(undisturbed[1], _until(run), [
        (h.began_s - INTERVAL_S, h.ended_s + INTERVAL_S) for h in run.happenings])
    at_work_s = 0.0 if run.traffic_s is None else run.ended_s - run.traffic_s
    return measure(run.timeline, undisturbed, calm, at_work_s)


def _below(run: Run, baseline: Baseline) -> Optional[Dict[str, Any]]:
    undisturbed = _undisturbed(run)
    if undisturbed is None or baseline.rails_bps is None:
        return None
    nodes = run.request.nodes
    faults = [Lasting(h.injection, h.began_s - INTERVAL_S, h.ended_s + INTERVAL_S)
              for h in run.happenings]
    return judge(run.timeline, Course(nodes, run.rates_bps, baseline.total_bps / nodes, undisturbed,
                                      faults, _until(run)))


def _notes(run: Run, baseline: Baseline, below: Optional[Dict[str, Any]]) -> List[str]:
    """Why a number is missing."""
    if run.traffic_s is None:
        return []
    if baseline.missing:
        return [f"There are no percentages: {baseline.missing}"]
    if below is None:
        return ["Seconds below what was possible are not counted: the program moves far less than its "
                "mean for seconds at a time also when nothing disturbs it"]
    return []


def _calm(run: Run) -> List[Span]:
    """All the time that no fault can be blamed for."""
    if run.traffic_s is None:
        return []
    return outside(run.traffic_s if run.steady_s is None else run.steady_s, run.ended_s,
                   [(h.began_s - INTERVAL_S, h.ended_s + _AFTER_S) for h in run.happenings])


def _per_node(run: Run, rates: Optional[List[float]]) -> Optional[List[float]]:
    return None if rates is None else [round(rate / run.request.nodes) for rate in rates]


def _fault(run: Run, happening: Happening, undisturbed: Optional[List[float]]) -> Dict[str, Any]:
    began, ended = happening.began_s, happening.ended_s
    found = happening.to_dict()
    # What happens after the next fault has begun is not this one's doing.
    later = [h.began_s for h in run.happenings if h.began_s > began]
    after = min([ended + _AFTER_S, run.ended_s, *later])
    span = (began - INTERVAL_S, max(after, min([ended, *later])))
    found["standstill_s"] = round(run.timeline.longest_standstill([span]), 3)
    found["traffic_during"] = _share(run, (began, ended), undisturbed)
    found["traffic_after"] = _share(run, (ended, after), undisturbed)
    return found


def _share(run: Run, span: Span, undisturbed: Optional[List[float]]) -> Optional[float]:
    """Throughput over all rails, as a part of the undisturbed one."""
    if not undisturbed or not sum(undisturbed) or span[1] - span[0] < 2 * INTERVAL_S:
        return None
    rates = _per_node(run, run.timeline.mean_bps([span])) or []
    return round(sum(rates) / sum(undisturbed), 3)


def show(report: Dict[str, Any]) -> None:
    """Prints the tables to standard output."""
    _show_faults(report)
    if report["nezha"]:
        _show_counts(report)
    else:
        print("Nezha's own counters: none. The ranks did not use Nezha, or did not come to their end.")
    console.sentences(summary(report))


def _show_faults(report: Dict[str, Any]) -> None:
    cells = []
    for fault in report["faults"]:
        kind = fault["kind"] + (f" {fault['hertz']:g} Hz" if fault["hertz"] else "")
        verdict = {True: "yes", False: "NO", None: "unknown"}[fault["happened"]]
        cells.append([
            str(fault["number"]), f"{fault['began_s']:.1f}", kind, fault["where"],
            f"{fault['ended_s'] - fault['began_s']:.2f}", _percent(fault["traffic_during"]),
            _percent(fault["traffic_after"]),
            f"{fault['standstill_s']:.2f}" if fault["standstill_s"] else "-",
            f"{verdict}: {fault['evidence']}"])
    console.table(["#", "at\ns", "fault", "where", "lasted\ns", "traffic\nduring", "second\nafter",
                   "stood\nstill s", "happened"], cells, f"faults, seed {report['config']['seed']}")
    print()


def _percent(share: Optional[float]) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _show_counts(report: Dict[str, Any]) -> None:
    keys = list(dict.fromkeys(key for counts in report["nezha"].values() for key in counts
                              if key == "operations_begun" or key not in _WORK and counts[key]))
    cells = []
    for rank in range(report["config"]["nodes"]):
        counts = report["nezha"].get(str(rank))
        cells.append([str(rank), *(["left none"] + [""] * (len(keys) - 1) if counts is None else
                                   [str(counts.get(key, "-")) for key in keys])])
    console.table(["rank"] + [key.replace("_", "\n") for key in keys], cells,
                   "what Nezha counted; what is 0 on every rank is left out")
    print()


def summary(report: Dict[str, Any]) -> List[str]:
    """The sentences under the tables."""
    lines = []
    rates = report["undisturbed_bps"]
    if rates:
        each = ", ".join(f"rail {rail} {rate / 1e6:.0f}" for rail, rate in enumerate(rates))
        lines.append(f"Before the first fault each node received on average (Mbit/s): {each}. Longest "
                     f"standstill without a fault: {report['longest_standstill_undisturbed_s']:.2f} s")
    lines += _sentences_below(report["below"]) + report["notes"]
    known = [fault for fault in report["faults"] if fault["happened"] is not None]
    lines.append(f"{len(report['faults'])} faults, {sum(f['happened'] for f in known)} confirmed by a "
                 f"counter, {len(report['faults']) - len(known)} cut short by the program's end")
    program = report["program"]
    lines.append(f"The program ran {program['seconds']:.1f} s and ended with {_ending(program)}")
    lines += [f"PROBLEM: {problem}" for problem in report["problems"]]
    lines.append(f"The same faults again: {_again(report['config'])}")
    return lines


def _sentences_below(below: Optional[Dict[str, Any]]) -> List[str]:
    if below is None:
        return []
    said = {name: f"{tally['below_s']:.1f} of {tally['judged_s']:.1f}" for name, tally in below.items()
            if isinstance(tally, dict)}
    return [f"Seconds below what was possible (under {100 * below['share']:.0f} % of it), "
            f"no fault active: {said['calm']}; "
            f"after the last fault's end: {said['after_last_fault']}; before the first "
            f"fault: {said['undisturbed']}",
            "Seconds below what the rails could still carry, faults active: " + said["during_faults"]]


def _ending(program: Dict[str, Any]) -> str:
    failure = program["first_failure"]
    if failure is None:
        return f"exit code {program['exit_code']}"
    last: Sequence[str] = failure["last_lines"][-1:]
    return (f"exit code {program['exit_code']}: rank {failure['rank']} failed first"
            + (f", saying: {last[0]}" if last else ""))


def _again(config: Dict[str, Any]) -> str:
    words = ["nezha", "chaos", "--nodes", str(config["nodes"]), "--rates", ",".join(config["rails"]),
             "--faults", ",".join(config["faults"]), "--every", f"{config['every_s']:g}s", "--lasting",
             f"{config['lasting_s']:g}s", "--seed", str(config["seed"])]
    words += ["--count", str(config["count"])] if config["count"] is not None else []
    words += ["--allow-all-down"] if config["allow_all_down"] else []
    for name in ("nodes", "rails"):
        chosen = config[f"only_{name}"]
        words += [f"--only-{name}", ",".join(map(str, chosen))] if chosen is not None else []
    for name, value in config["env"].items():
        words += ["--env", f"{name}={value}"]
    return shlex.join(words + ["--", *config["command"]])


def describe_faults() -> str:
    """Lines for --help: every fault and what it is."""
    width = max(map(len, FAULTS))
    return "\n".join(f"  {name:<{width}}  {meaning}" for name, meaning in FAULTS.items())
