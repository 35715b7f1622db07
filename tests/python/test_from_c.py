"""bench/from_c.c: a time for each size, sums that are right, and sizes that are refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = "import sys; sys.argv[0] = 'nezha'; from nezha._cli import main; main()"


@pytest.fixture(scope="module")
def program() -> str:
    """The newest from_c that was built here."""
    built = sorted(ROOT.glob("build/*/bench/from_c"), key=lambda path: path.stat().st_mtime)
    if not built:
        pytest.skip("from_c is not built: cmake --preset release && "
                    "cmake --build build/release --target from_c")
    return str(built[-1])


def test_prints_a_time_for_each_size(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", CODE, "run", "-n", "2", program, "4", "4096"],
                          text=True, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^(?:\[0\] )?(\d+) ([\d.]+)$", done.stdout, re.MULTILINE)
    assert [size for size, _ in found] == ["4", "4096"]
    assert all(float(us) > 0 for _, us in found)


@pytest.mark.parametrize("size", ["0", "6", "many"])
def test_refuses_what_floats_do_not_fill(program: str, size: str) -> None:
    done = subprocess.run([program, size], text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "no number of bytes" in done.stderr
