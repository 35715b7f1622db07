"""Operations that fail, or only seem to; the cases are in cases_failures.py."""

from __future__ import annotations

import pytest

from nezha import errors

work = pytest.importorskip("nezha.torch._work")


class Native:
    """An operation whose wait passes its time; test() then says `outcome`, or raises it."""

    def __init__(self, outcome):
        self.outcome = outcome

    def wait(self, seconds):
        raise errors.TimedOut("still running")

    def test(self):
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def test_operation_that_ends_just_after_a_wait_has_succeeded():
    ended = work.Work(Native(True), [])
    assert ended.wait() and ended.is_success()


def test_operation_that_goes_on_after_a_wait():
    running = work.Work(Native(False), [])
    assert not running.settle_within(0.001)
    with pytest.raises(errors.TimedOut, match="continues"):
        running.wait(work.datetime.timedelta(milliseconds=1))


def test_operation_that_fails_just_after_a_wait_has_its_own_error():
    failed = work.Work(Native(errors.PeerLost("rank 1 is gone")), [])
    with pytest.raises(errors.PeerLost, match="Connection closed by peer: rank 1 is gone"):
        failed.wait()


@pytest.mark.parametrize("case", ["absent_in_backward", "failed_future"])
def test_failure(ranks, case):
    ranks.run("cases_failures", case)
