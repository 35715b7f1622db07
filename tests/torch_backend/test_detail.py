"""TORCH_DISTRIBUTED_DEBUG=DETAIL: torch's wrapper stands between the program and the backend. Cases of
the other files, without the compiled part and with it, and between collections of garbage."""

from __future__ import annotations

import pytest
from conftest import WORLD, Ranks

COLLECTIVES = ["all_reduce", "all_reduce_kinds", "non_contiguous", "coalesced", "broadcast", "reduce",
               "gathers", "scatters", "exchanges", "messages", "objects", "futures"]
GROUPS = ["new_groups", "device_mesh", "destroyed", "deadlines", "monitored_barrier", "sequence_numbers",
          "threads", "forked"]
# DDP is compared with one process: torch's own Gloo ends a process by SIGSEGV in DDP's constructor at
# this level (torch 2.15), so a case that compares with Gloo's DDP cannot run.
ALWAYS = [("cases_collectives", "all_reduce_kinds"), ("cases_collectives", "futures"),
          ("cases_groups", "new_groups"),
          ("cases_hooks", "of_half_precision")]
LONG = [("cases_collectives", each) for each in COLLECTIVES] + [("cases_groups", each) for each in GROUPS]
CASES = ALWAYS + [pytest.param(*each, marks=pytest.mark.long) for each in LONG if each not in ALWAYS]


@pytest.fixture(scope="module")
def detailed(environment, tmp_path_factory):
    yield from _ranks({**environment, "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, tmp_path_factory)


@pytest.fixture(scope="module")
def native_detailed(native_environment, tmp_path_factory):
    yield from _ranks({**native_environment, "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, tmp_path_factory)


def _ranks(variables, tmp_path_factory):
    running = Ranks(WORLD, tmp_path_factory.mktemp("ranks"), variables)
    yield running
    assert running.close() == [0] * WORLD


def test_the_backend_outlives_collections(detailed):
    detailed.run("cases_detail", "collected")


def test_groups_that_are_over_are_let_go(detailed):
    detailed.run("cases_detail", "let_go")


@pytest.mark.compiles
def test_the_compiled_backend_outlives_collections(native_detailed):
    native_detailed.run("cases_detail", "collected")


@pytest.mark.parametrize("module, case", CASES)
def test_case(detailed, module, case):
    detailed.run("cases_detail", "collecting", module, case)


@pytest.mark.compiles
@pytest.mark.parametrize("module, case", CASES)
def test_compiled_case(native_detailed, module, case):
    native_detailed.run("cases_detail", "collecting", module, case)
