"""What a campaign is, and the record of what it did.

A campaign breaks one thing `wanted` times and hands one sample for each to its record, which writes
it to a file at once: a long run that is interrupted goes on where it was.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

from campaigns.measure import Figure

FORMS = ("short", "faults", "soak")


class Record:
    """Samples of one campaign, in `path`, a line of JSON each; those of a former run when resumed.

    budget_s: no new fault begins later than that after the start; 0 = no limit.
    """

    def __init__(self, path: Path, form: str, wanted: int, seed: int, budget_s: float = 0.0,
                 resume: bool = False) -> None:
        self.form, self.wanted, self._seed, self._budget_s = form, wanted, seed, budget_s
        self.samples: List[Dict[str, Any]] = []
        self.violations: List[str] = []
        self.notes: Dict[str, Any] = {}
        self.noise: List[float] = []  # seconds by which fault-free operations exceed their median
        self.checked = 0  # operations whose bits were compared in this run
        self.seconds = 0.0
        self.dumps = path.with_suffix(".flight")  # what ranks did last, where one fails
        shutil.rmtree(self.dumps, ignore_errors=True)
        self.dumps.mkdir(parents=True)
        if resume and path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            self.samples = [json.loads(line) for line in lines]
        self._file = path.open("a" if resume else "w", encoding="utf-8")
        self._begin = time.monotonic()

    def faults(self) -> Iterator[Tuple[int, random.Random]]:
        """Numbers of the faults that are still wanted, each with its own random numbers, which
        depend on the seed and the number only. Ends early when the time is used up."""
        while len(self.samples) < self.wanted and not self.expired():
            number = len(self.samples)
            yield number, random.Random(f"{self._seed}/{number}")
            if len(self.samples) == number:
                raise AssertionError(f"fault {number} left no sample")

    def expired(self) -> bool:
        """Whether the time for faults is used up."""
        return 0 < self._budget_s < time.monotonic() - self._begin

    def add(self, **sample: Any) -> None:
        """One fault that happened and was survived. Times in seconds."""
        self.samples.append(sample)
        self._file.write(json.dumps(sample) + "\n")
        self._file.flush()

    def of(self, key: str, **where: Any) -> List[float]:
        """That value of all samples that have it, and have the other values."""
        return [s[key] for s in self.samples if s.get(key) is not None
                and all(s.get(name) == value for name, value in where.items())]

    def close(self) -> None:
        """Ends the file."""
        self.seconds = time.monotonic() - self._begin
        self._file.close()
        if not any(self.dumps.iterdir()):
            self.dumps.rmdir()


class Campaign:
    """One file of this package makes one. wanted: faults by form, in FORMS' order; 0 = left out.
    budget_s: seconds that `faults` may take."""

    id = ""
    title = ""
    wanted: Tuple[int, int, int] = (0, 0, 0)
    budget_s = 300.0

    def run(self, record: Record) -> None:
        """Breaks things until record.faults() ends. Raises Broken, or OSError of the lab."""
        raise NotImplementedError

    def figures(self, record: Record) -> List[Figure]:
        """From the record's samples."""
        raise NotImplementedError
