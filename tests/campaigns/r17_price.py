"""R17: what the protection costs while nothing breaks, against the build before there was any."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

from nezha.lab import Lab

from campaigns.campaign import Campaign, Record
from campaigns.cases import Case
from campaigns.job import Job, child_env
from campaigns.lines import Broken
from campaigns.measure import Figure, percentile

# The last commit without heartbeats, reconnections and the rest.
BEFORE = "96815ef"
_ROOT = Path(__file__).resolve().parent.parent.parent
_MADE = _ROOT / "build" / "before"
# (case, operations of a round)
_WORK = [(Case("all_reduce", 2, "float32"), 3000), (Case("all_reduce", 1 << 18, "float32"), 20),
         (Case("all_reduce", 1 << 21, "float32"), 5)]
_RATES = {"1gbit": "1 gbit rails", "none": "unshaped rails"}


class Price(Campaign):
    """Both builds have a job in the same lab and take turns; a sample is one turn of both."""

    id = "R17"
    title = "price without faults"
    wanted = (0, 60, 400)
    budget_s = 200.0

    def run(self, record: Record) -> None:
        before = build_before()
        for rate in _RATES:
            with Lab(2, [rate, rate]) as lab:
                jobs: Dict[str, Job] = {}
                try:
                    cases = [case for case, _ in _WORK]
                    jobs["now"] = Job(lab, cases)
                    path = os.pathsep.join([child_env({})["PYTHONPATH"].split(os.pathsep)[0],
                                            str(before)])
                    # Another port: the first job's store may still be there.
                    port = str(lab.state.master_port + 1)
                    jobs["before"] = Job(lab, cases, env={"PYTHONPATH": path, "MASTER_PORT": port})
                    self._turns(record, jobs, rate)
                finally:
                    for job in jobs.values():
                        job.kill()

    def _turns(self, record: Record, jobs: Dict[str, Job], rate: str) -> None:
        for job in jobs.values():
            job.calibrate()
        end = record.wanted if rate == list(_RATES)[-1] else record.wanted // 2
        for number, _rng in record.faults():
            found = {}
            for name in sorted(jobs, reverse=number % 2 == 1):
                for index, (_case, count) in enumerate(_WORK):
                    done = jobs[name].ops([index] * count)
                    found[f"{name} {index}"] = statistics.median(op.seconds for op in done)
            record.add(rate=rate, **found)
            if number + 1 >= end:
                break
        record.checked += sum(job.checked for job in jobs.values())

    def figures(self, record: Record) -> List[Figure]:
        found: List[Figure] = []
        for rate, name in _RATES.items():
            for index, (case, _count) in enumerate(_WORK):
                now = record.of(f"now {index}", rate=rate)
                before = record.of(f"before {index}", rate=rate)
                size = 4 * case.elements
                if size < 1 << 20:
                    differences = [1e6 * (n - b) for n, b in zip(now, before)]
                    found.append(Figure(f"{name}, {size} B: median price",
                                        percentile(differences, 0.5), 1, "us"))
                else:
                    differences = [100 * (n / b - 1) for n, b in zip(now, before)]
                    found.append(Figure(f"{name}, {size >> 20} MiB: median price",
                                        percentile(differences, 0.5), 2, "%"))
        return found


def build_before() -> Path:
    """The folder from which the build before can be imported; built once. Raises Broken."""
    site = _MADE / "site"
    if (site / "nezha").is_dir():
        return site
    tree, archive = _MADE / "source", _MADE / "source.tar"
    shutil.rmtree(_MADE, ignore_errors=True)
    tree.mkdir(parents=True)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for step in (
            ["git", "-C", str(_ROOT), "archive", "-o", str(archive), BEFORE],
            ["tar", "-xf", str(archive), "-C", str(tree)],
            [sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps",
             "--disable-pip-version-check", "--target", str(site), str(tree)]):
        done = subprocess.run(step, env=env, text=True, capture_output=True)
        if done.returncode:
            raise Broken(f"{' '.join(step)}: {done.stderr.strip()[-500:]}")
    return site
