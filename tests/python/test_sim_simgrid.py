"""The engine beside SimGrid, which runs the same shipped schedules message by message (tests/oracle)."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oracle import simgrid
from oracle.simgrid import ALLOWED, FREE, Case

pytestmark = [
    pytest.mark.skipif(not simgrid.HEADER.exists(),
                       reason="SimGrid is not installed (as root: apt-get install libsimgrid-dev)"),
    pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return simgrid.build(tmp_path_factory.mktemp("simgrid"))


# Among 261,632 messages another order of two changes the whole by 12 %.
CHAOTIC = Case("all_gather", "direct", 512, 4 << 20, simgrid.UNEQUAL, (32, 2.0))


def check(cases, program):
    found = [simgrid.compare(case, program) for case in cases]
    beyond = [(each.case, round(each.difference, 4)) for each in found
              if abs(each.difference) > (0.15 if each.case == CHAOTIC else ALLOWED[each.case.kind])]
    assert not beyond
    return found


@pytest.mark.parametrize("rails", [simgrid.ONE, simgrid.UNEQUAL])
@pytest.mark.parametrize("tree", [None, (4, 2.0)])
def test_every_algorithm_on_16_hosts(program, rails, tree):
    found = check([case for case in simgrid.cases(16, [tree]) if case.rails == rails], program)
    assert any(each.case.kind == FREE for each in found) == (tree is None)


def test_uplinks_are_counted_where_partners_change_from_wave_to_wave(program):
    case = Case("all_gather", "direct", 16, 4 << 20, simgrid.ONE, (4, 2.0))
    shared = check([case], program)[0].nezha_s
    free = check([replace(case, tree=None)], program)[0].nezha_s
    assert shared > 1.5 * free  # 3 of 15 messages stay in their pod, and uplinks have half the rate


@pytest.mark.parametrize("rails", [simgrid.ONE, simgrid.UNEQUAL])
@pytest.mark.parametrize("collective, algorithm", [("all_reduce", "ring"), ("all_gather", "bruck"),
                                                   ("all_gather", "direct"), ("reduce", "tree")])
def test_hosts_that_begin_apart_at_rates_of_their_own(program, collective, algorithm, rails):
    check([Case(collective, algorithm, 16, 1 << 20, rails, tree, differ=True)
           for tree in (None, (4, 2.0))], program)


@pytest.mark.long
def test_64_and_512_hosts(program):
    check([case for case in simgrid.every_case() if case.hosts > 16], program)
