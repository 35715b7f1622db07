"""S1: every parser eats millions of broken inputs, under AddressSanitizer and UBSan."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import List

from campaigns.campaign import Campaign, Record
from campaigns.lines import Broken
from campaigns.measure import Figure, percentile

_ROOT = Path(__file__).resolve().parents[2]
_EXECUTIONS = {"faults": 5_000_000, "soak": 50_000_000}
TARGETS = sorted(path.name[:-len("_fuzz.cc")] for path in (_ROOT / "tests/fuzz").glob("*_fuzz.cc"))


class Fuzz(Campaign):
    """A sample is one target. The short form is ctest's, on the same corpus."""

    id = "S1"
    title = "inputs fuzzed"
    wanted = (0, len(TARGETS), len(TARGETS))

    def run(self, record: Record) -> None:
        through = {sample["target"] for sample in record.samples}
        left = [target for target in TARGETS if target not in through]
        if not left:
            return
        with subprocess.Popen(["tools/fuzz.sh", str(_EXECUTIONS[record.form]), *left], cwd=_ROOT,
                              stdout=subprocess.PIPE, text=True) as fuzzing:
            assert fuzzing.stdout is not None
            for line in fuzzing.stdout:
                if line.partition(" ")[0] not in left:  # the head, or what a compiler says
                    continue
                target, executions, seconds, verdict = line.strip().split(maxsplit=3)
                if verdict == "ok":
                    record.add(target=target, executions=int(executions), seconds=float(seconds))
                else:
                    record.violations.append(f"{target}: {verdict}")
        if fuzzing.returncode != 0 and not record.violations:
            raise Broken("the fuzz targets cannot be built: build/fuzz/build.log")

    def figures(self, record: Record) -> List[Figure]:
        return [Figure("executions of each parser, no finding",
                       percentile(record.of("executions"), 0), _EXECUTIONS[record.form], "",
                       at_least=True)]
