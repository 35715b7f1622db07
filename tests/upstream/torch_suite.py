"""torch's own tests of a backend, from its wheel: torch.testing._internal.distributed.distributed_test.

    BACKEND=gloo|nezha WORLD_SIZE=3 torch_suite.py --results FILE [--names FILE] [NAME]...

Every test starts WORLD_SIZE processes. torch's own driver spawns them, and each imports torch; here
they are forked off one process that has imported it, which makes the suite ten times shorter.

FILE gets one JSON object, test -> "passed" | "skipped" | "failed"; what went wrong is on the standard
error. --names limits the run to the tests that such a file calls passed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import unittest
from pathlib import Path
from typing import Any, Dict, List

os.environ.setdefault("BACKEND", "nezha")
os.environ.setdefault("WORLD_SIZE", "3")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TEMP_DIR", "")
os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "120")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch
import torch.testing._internal.common_distributed as common

# The module reads these sets when it is imported.
for _feature in ("ddp", "subgroup", "plugin"):
    common.DistTestCases.backend_feature[_feature].add("nezha")

import torch.testing._internal.distributed.distributed_test as upstream  # noqa: E402

# Of gloo's profiler events it asks that they are flagged as asynchronous, which only a backend in C++
# can do. Of a backend called nezha it asks nothing about them.
if os.environ.get("NEZHA_TORCH_ALIAS"):
    for _list in (upstream.PROFILING_SUPPORTED_BACKENDS,
                  upstream.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
        _list[:] = [name for name in _list if name != "gloo"]


class TestUpstream(upstream.TestDistBackend, upstream.DistributedTest._DistTestBase):
    """The suite for the backend that BACKEND names."""

    def setUp(self) -> None:
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


class Outcomes(unittest.TextTestResult):
    """Notes each test's outcome as it ends."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.outcomes: Dict[str, str] = {}
        self._begin = 0.0

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 (unittest's name)
        self._begin = time.monotonic()
        self.outcomes[_name(test)] = "passed"
        super().startTest(test)

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().stopTest(test)
        name = _name(test)
        print(f"{self.outcomes[name]:8}{time.monotonic() - self._begin:6.1f} s  {name}", flush=True)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self.outcomes[_name(test)] = "skipped"

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self.outcomes[_name(test)] = "failed"

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self.outcomes[_name(test)] = "failed"


def _name(test: unittest.TestCase) -> str:
    return test.id().rsplit(".", 1)[-1]


def main(arguments: List[str]) -> int:
    """Runs the tests; the exit status tells only whether they could be run."""
    parser = argparse.ArgumentParser(description="torch's distributed_test for one backend")
    parser.add_argument("--results", type=Path, help="where the outcomes are written")
    parser.add_argument("--names", type=Path, help="results of a run: only what passed there")
    parser.add_argument("tests", nargs="*", help="names of tests; all without any")
    options = parser.parse_args(arguments)
    names = options.tests or unittest.TestLoader().getTestCaseNames(TestUpstream)
    if options.names:
        reference = json.loads(options.names.read_text())
        names = [name for name in names if reference.get(name) == "passed"]
    suite = unittest.TestSuite(TestUpstream(name) for name in names)
    result = unittest.TextTestRunner(resultclass=Outcomes, verbosity=0).run(suite)
    if options.results:
        options.results.write_text(json.dumps(result.outcomes, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
