"""The compiled part, and the alias; the cases are in cases_native.py and cases_groups.py."""

from __future__ import annotations

import pytest
from conftest import WORLD, Ranks

pytestmark = pytest.mark.compiles


@pytest.fixture(scope="module")
def native_ranks(native_environment, tmp_path_factory):
    """Ranks that use the compiled part and call Nezha gloo."""
    variables = {**native_environment, "NEZHA_TORCH_ALIAS": "gloo"}
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
