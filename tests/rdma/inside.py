"""Runs in the guest: the network, then every case; one line of results.jsonl each.

Started by __main__.py; the names of cases to run as arguments, or none for all.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Callable, Dict

from . import fabric_cases, nezha_cases, network

RESULTS = "results.jsonl"

CASES: Dict[str, Callable[[], str]] = {
    "verbs ping-pong": fabric_cases.verbs_ping_pong,
    "raw libfabric": fabric_cases.raw_clean,
    "raw libfabric, 5 ms": fabric_cases.raw_delayed,
    "raw libfabric, 1 % loss": fabric_cases.raw_lossy,
    "raw libfabric, rail cut": fabric_cases.raw_cut,
    "connection suite": fabric_cases.connection_suite,
    **{job.name: partial(nezha_cases.run_job, job) for job in nezha_cases.JOBS},
}
SHORT = (nezha_cases.JOBS[0].name,)  # what `make test` has time for


def attempt(name: str, body: Callable[[], str]) -> bool:
    """Runs one case and writes what came of it; afterwards all rails are whole."""
    start = time.monotonic()
    try:
        note, passed = body(), True
    except network.Failure as failure:
        note, passed = str(failure), False
    except Exception as error:  # a defect of the case: shown, and the others still run
        traceback.print_exc()
        note, passed = f"{type(error).__name__}: {error}", False
    seconds = time.monotonic() - start
    result = {"case": name, "passed": passed, "seconds": seconds, "note": note}
    with open(RESULTS, "a") as output:
        output.write(json.dumps(result) + "\n")
    print(f"{'passed' if passed else 'FAILED'}  {name}  ({seconds:.1f} s)  {note}", flush=True)
    return passed


def main() -> int:
    """Entry point."""
    Path(RESULTS).write_text("")
    names = sys.argv[1:] or list(CASES)

    def set_up() -> str:
        network.set_up()
        return ", ".join(rail.name + (" with RDMA" if rail.rdma else "") for rail in network.RAILS)

    if not attempt("rails", set_up):
        return 1
    passed = True
    for name in names:
        passed = attempt(name, CASES[name]) and passed
        for rail in network.RAILS:
            rail.restore()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
