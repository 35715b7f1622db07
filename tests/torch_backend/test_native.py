"""The compiled part, and the alias; the cases are in cases_native.py and cases_groups.py."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import ROOT, WORLD, Ranks

pytestmark = pytest.mark.compiles
BUILD = "import nezha.torch; print(nezha.torch.build_native())"


@pytest.fixture(scope="module")
def native_ranks(environment, tmp_path_factory):
    """Ranks that use the compiled part and call Nezha gloo."""
    variables = {**environment, "NEZHA_TORCH_NATIVE": "1", "NEZHA_TORCH_ALIAS": "gloo",
                 "XDG_CACHE_HOME": str(ROOT / "build" / "torch-cache")}
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    built = subprocess.run([sys.executable, "-c", BUILD], capture_output=True, text=True,
                           timeout=1200, env={**os.environ, **variables, "PATH": path})
    assert built.returncode == 0, built.stderr
    running = Ranks(WORLD, tmp_path_factory.mktemp("ranks"), variables)
    yield running
    assert running.close() == [0] * WORLD


@pytest.mark.parametrize("case", ["polled", "any_source", "failed", "surface", "direct",
                                  "direct_handles", "direct_failures", "alias", "reconfigured",
                                  "replaced"])
def test_compiled(native_ranks, case):
    native_ranks.run("cases_native", case)


@pytest.mark.parametrize("case", ["split_group", "split_leaves_out", "aborted", "deadlines"])
def test_groups(native_ranks, case):
    native_ranks.run("cases_groups", case)
