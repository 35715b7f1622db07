"""Callbacks of futures, and the threads that they run on; the cases are in cases_callbacks.py."""

from __future__ import annotations

import threading

import pytest

callbacks = pytest.importorskip("nezha.torch._callbacks")


@pytest.fixture
def running():
    made = callbacks.Callbacks()
    yield made
    made.stop(60)
    assert not made._threads


def until(condition):
    """Looks again until it holds; the test hangs otherwise, and is ended."""
    pause = threading.Event()
    while not condition():
        pause.wait(0.001)


def test_a_piece_that_blocks_holds_up_no_other(running):
    gate, through = threading.Event(), []
    for number in range(20):
        running.run(lambda number=number: (gate.wait(), through.append(number)))
    running.run(lambda: through.append("last"))
    until(lambda: not running.relieve() and through == ["last"])
    assert len(running._threads) == 21
    gate.set()
    until(lambda: len(through) == 21)


def test_the_order_is_kept_and_a_piece_that_raises_ends_nothing(running, capfd):
    through = []
    for number in range(50):
        running.run(lambda number=number: through.append(number))
        running.run(lambda: 1 // 0)
    until(lambda: len(through) == 50)
    assert through == list(range(50))
    assert len(running._threads) == 1
    running.run(lambda: through.append(50))
    until(lambda: len(through) == 51)
    assert capfd.readouterr().err.count("ZeroDivisionError") == 50


def test_threads_without_work_end(monkeypatch):
    monkeypatch.setattr(callbacks, "_IDLE_S", 0.01)
    running, gate = callbacks.Callbacks(), threading.Event()
    for _ in range(5):
        running.run(gate.wait)
    until(lambda: not running.relieve())
    assert len(running._threads) == 5
    gate.set()
    until(lambda: not running._threads)
    running.run(gate.clear)  # and come back
    until(lambda: not gate.is_set())
    running.stop(60)


def test_without_more_threads_a_piece_waits_for_one(running, monkeypatch):
    class Refused(threading.Thread):
        def start(self):
            raise RuntimeError("can't start new thread")

    done = threading.Event()
    with monkeypatch.context() as short:
        short.setattr(threading, "Thread", Refused)
        running.run(done.set)
        assert running.relieve() and not running._threads
    until(lambda: not running.relieve())
    assert done.wait(60)


@pytest.mark.parametrize("case", ["nested", "many_that_wait", "crossed", "deadline_beside_a_wait",
                                  "waiting_runs_no_callback", "raising", "in_order",
                                  "few_threads_for_short_ones"])
def test_callbacks(ranks, case):
    ranks.run("cases_callbacks", case)
