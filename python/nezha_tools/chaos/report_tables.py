"""A report.document() as tables and sentences for people."""

from __future__ import annotations

import shlex
from typing import Any, Dict, List, Optional, Sequence

from ..cli import console
from .faults import FAULTS

# Counters of Nezha that say how hard it worked, not what befell it. Of the others those are shown that
# counted something.
_WORK = {"frames_sent", "frames_received", "acks_sent", "send_calls", "receive_calls", "polls", "sleeps",
         "handovers", "buffer_allocations", "buffer_bytes_in_use", "memory_ranks", "memory_bytes_sent",
         "memory_bytes_received"}


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
                              if key == "operations" or key not in _WORK and counts[key]))
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
