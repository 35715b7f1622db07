"""bench/from_c.c: a time for each size, sums that are right, and sizes that are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from test_examples import BUILD, nezha_run, run


@pytest.fixture(scope="module")
def program() -> Path:
    """The one of the C++ tests' build."""
    built = BUILD / "bench" / "from_c"
    if not built.exists():
        pytest.skip("from_c is not built: cmake --preset release && "
                    "cmake --build build/release --target from_c")
    return built


def test_prints_a_time_for_each_size(program: Path) -> None:
    done = nezha_run(2, program, 4, 4096)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^(?:\[0\] )?(\d+) ([\d.]+)$", done.stdout, re.MULTILINE)
    assert [size for size, _ in found] == ["4", "4096"]
    assert all(float(us) > 0 for _, us in found)


@pytest.mark.parametrize("size", ["0", "6", "many"])
def test_refuses_what_floats_do_not_fill(program: Path, size: str) -> None:
    done = run(program, size)
    assert done.returncode == 3
    assert "no number of bytes" in done.stderr
