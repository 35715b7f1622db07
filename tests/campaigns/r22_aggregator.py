"""R22: an aggregation node is killed, or stopped, under the operations of a job. The job, and the
comparison of every element, are tests/fault/aggregator_fault_test.cc, a hundred faults a run."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import List

from campaigns.campaign import Campaign, Record
from campaigns.lines import Broken
from campaigns.measure import Figure, spread

_ROOT = Path(__file__).resolve().parents[2]
_BUILD = _ROOT / "build/release"
_FAULT = re.compile(r"^fault (kill|stop) ([0-9.]+) s$")
_OPERATIONS = re.compile(r"^operations ([0-9]+)$", re.MULTILINE)


class Aggregator(Campaign):
    """A sample is one fault, confirmed by the repair that it made necessary."""

    id = "R22"
    title = "aggregation nodes killed and stopped"
    wanted = (0, 400, 2000)
    budget_s = 600.0

    def run(self, record: Record) -> None:
        if len(record.samples) < record.wanted:
            self._build()
        while len(record.samples) < record.wanted and not record.expired():
            kind = ("Kills", "Stops")[len(record.samples) // 100 % 2]
            self._hundred(record, kind)

    @staticmethod
    def _build() -> None:
        log = _BUILD / "fault_tests.log"
        _BUILD.mkdir(parents=True, exist_ok=True)
        with log.open("w", encoding="utf-8") as out:
            for command in (["cmake", "--preset", "release"],
                            ["cmake", "--build", str(_BUILD), "-j", str(os.cpu_count() or 1),
                             "--target", "fault_tests"]):
                if subprocess.run(command, cwd=_ROOT, stdout=out, stderr=out, check=False).returncode:
                    raise Broken(f"the tests cannot be built: {log}")

    @staticmethod
    def _hundred(record: Record, kind: str) -> None:
        done = subprocess.run(
            [str(_BUILD / "tests/fault_tests"), "--gtest_also_run_disabled_tests",
             f"--gtest_filter=AggregatorFaults.DISABLED_AHundred{kind}"],
            cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=False)
        found = [match for match in map(_FAULT.match, done.stdout.splitlines()) if match]
        for match in found:
            record.add(fault=match[1], stall=float(match[2]))
        record.checked += sum(int(number) for number in _OPERATIONS.findall(done.stdout))
        if done.returncode != 0:
            record.violations.append("\n".join(done.stdout.splitlines()[-30:]))
        if not found:
            raise Broken(f"no fault happened: {done.stdout[-2000:]}")

    def figures(self, record: Record) -> List[Figure]:
        return (spread("killed: stall", record.of("stall", fault="kill"), p99=500) +
                spread("stopped: stall", record.of("stall", fault="stop"), p99=500))
