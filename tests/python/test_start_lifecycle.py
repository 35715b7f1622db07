"""The edges of a program's life: forks, the interpreter's end, Ctrl-C, and starting once more."""

import os
import signal
import subprocess
import sys
import threading

import numpy
import pytest

import nezha
from conftest import run_threads
from nezha.launcher.placement import free_port

_PATIENCE_S = 60  # only a hang reaches it
_FAR_S = 600.0    # deadlines that only a reason ends in time

# Two ranks in one process; `comms` are theirs.
_PAIR = """
import os, sys, threading, time
import numpy, nezha

def pair(name="lifecycle"):
    comms = [None, None]
    def join(rank):
        comms[rank] = nezha.init(rank, 2, f"hash://{name}", timeout=600.0)
    threads = [threading.Thread(target=join, args=(rank,)) for rank in (0, 1)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return comms

def both(comms):
    sums = [numpy.ones(5000, numpy.float32), numpy.ones(5000, numpy.float32)]
    threads = [threading.Thread(target=comm.all_reduce, args=(sum,))
               for comm, sum in zip(comms, sums)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert (sums[0] == 2).all() and (sums[1] == 2).all(), sums

# What a thread prints while the interpreter ends may itself stop the process: Python cannot wait for the
# file's lock then. So a thread whose call the end interrupts prints nothing.
def silent(ended): pass

comms = pair()
"""


def run_script(body):
    """(exit code, stdout, stderr) of a program that begins as _PAIR."""
    done = subprocess.run([sys.executable, "-c", _PAIR + body], capture_output=True, text=True,
                          timeout=_PATIENCE_S, check=False)
    return done.returncode, done.stdout, done.stderr


ENDINGS = {
    "nothing closed": "",
    "one of two closed": "comms[0].close()",
    "pending work, handle kept": """
x = numpy.ones(300_000, numpy.float32)
work = comms[0].all_reduce(x, async_op=True)
""",
    "pending work, handle and buffer dropped": """
comms[0].all_reduce(numpy.ones(300_000, numpy.float32), async_op=True)
""",
    "communicator dropped with pending work": """
comms[0].all_reduce(numpy.ones(300_000, numpy.float32), async_op=True)
del comms
""",
    "daemon thread inside a collective": """
threading.Thread(target=comms[0].barrier, daemon=True).start()
time.sleep(0.3)
threading.excepthook = silent
""",
    "daemon thread waits for work": """
work = comms[0].all_reduce(numpy.ones(10, numpy.float32), async_op=True)
threading.Thread(target=work.wait, daemon=True).start()
time.sleep(0.3)
threading.excepthook = silent
""",
    "thread still uses it": """
def use():
    for _ in range(200):
        both(comms)
threading.Thread(target=use).start()
""",
    "daemon thread waits for a job at an address": """
threading.Thread(target=nezha.init, args=(1, 2, "tcp://127.0.0.1:1"), kwargs={"timeout": 600.0},
                 daemon=True).start()
time.sleep(0.3)
threading.excepthook = silent
""",
    "daemon thread waits for a job in a table": """
threading.Thread(target=nezha.init, args=(1, 2, "hash://lonely"), kwargs={"timeout": 600.0},
                 daemon=True).start()
time.sleep(0.3)
threading.excepthook = silent
""",
    "daemon thread waits for a job in a Python store": """
class Store(dict):
    def set(self, key, value): self[key] = value
    def compare_set(self, key, old, new): return self.setdefault(key, new)
threading.Thread(target=nezha.init, args=(1, 2, Store()), kwargs={"timeout": 600.0},
                 daemon=True).start()
time.sleep(0.3)
threading.excepthook = silent
""",
    "exit from inside a with block": """
with comms[0]:
    sys.exit(0)
""",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_interpreter_ends_in_order(ending):
    assert run_script(ENDINGS[ending]) == (0, "", "")


def test_what_is_made_when_the_interpreter_ends_is_whole():
    """Threads that the end of the interpreter interrupts too late to keep their job from forming."""
    body = """
from nezha import _native
class Store(dict):
    def set(self, key, value):
        self[key] = value
        if "/done/" in key: _native.stop_waiting()  # the last word of a rank that joins
    def compare_set(self, key, old, new): return self.setdefault(key, new)
shared, made = Store(), {}
def make(rank): made[rank] = nezha.init(rank, 2, shared, timeout=30.0)
threads = [threading.Thread(target=make, args=(rank,)) for rank in (0, 1)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted((rank, comm.rank, comm.world_size) for rank, comm in made.items()))
"""
    for _ in range(3):
        assert run_script(body) == (0, "[(0, 0, 2), (1, 1, 2)]\n", "")


def test_an_exception_is_the_only_thing_printed():
    code, _, errors = run_script("raise ValueError('mine')")
    assert code == 1
    assert errors.strip().endswith("ValueError: mine") and errors.count("Traceback") == 1


CHILDREN = {
    "exits": "sys.exit(0)",
    "ends at once": "os._exit(0)",
    "drops what it inherited": "comms.clear(); import gc; gc.collect(); sys.exit(0)",
    "closes what it inherited": "[comm.close() for comm in comms]; sys.exit(0)",
    "uses it": """
    for call in (comms[0].barrier, lambda: comms[0].all_reduce(numpy.ones(3)),
                 lambda: comms[0].split(0), comms[0].rails):
        try:
            call()
        except nezha.InvalidArgument as error:
            assert "fork" in str(error), error
        else:
            os._exit(3)
    sys.exit(0)""",
    "starts a job of its own": """
    both(pair("child"))
    sys.exit(0)""",
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("child", CHILDREN)
def test_a_forked_worker_leaves_its_parent_alone(child):
    body = f"""
both(comms)
started = comms[0].all_reduce(numpy.ones(10, numpy.float32), async_op=True)
process = os.fork()
if process == 0:
    {CHILDREN[child]}
assert os.waitpid(process, 0)[1] == 0
comms[1].all_reduce(numpy.ones(10, numpy.float32))
started.wait()
for _ in range(20):
    both(comms)
for comm in comms: comm.close()
print("done")
"""
    assert run_script(body) == (0, "done\n", "")


def test_workers_of_multiprocessing():
    body = """
import multiprocessing
def load(item):
    return item * 2
with multiprocessing.get_context("fork").Pool(2) as pool:
    batches = pool.imap(load, range(50))
    for batch in batches:
        both(comms)
both(comms)
print("done")
"""
    assert run_script(body) == (0, "done\n", "")


def test_init_again_after_close_and_while_open(tmp_path):
    stores = (f"file://{tmp_path}", f"hash://again-{os.getpid()}")
    for store in stores:
        for round_ in range(3):
            def body(rank):
                with nezha.init(rank, 2, store, timeout=_FAR_S) as comm:
                    return comm.all_reduce(bytearray([rank + round_]))

            assert run_threads(2, body) == [bytearray([1 + 2 * round_])] * 2
    first, second = nezha.init(0, 1), nezha.init(0, 1)
    first.barrier()
    second.barrier()
    first.close()
    second.barrier()
    second.close()


def test_init_again_after_a_failure(tmp_path):
    store = f"file://{tmp_path}"
    with pytest.raises(nezha.TimedOut, match="rank 1 of 2 did not join"):
        nezha.init(0, 2, store, timeout=0.2)
    with pytest.raises(nezha.InvalidArgument):
        nezha.init(0, 2, store, config={"policy": "none such"})

    def body(rank):
        with nezha.init(rank, 2, store, timeout=_FAR_S) as comm:
            return comm.all_reduce(bytearray([1]))

    assert run_threads(2, body) == [bytearray([2])] * 2


def without_rank_0(timeout):
    """(store, what it prints on stderr) of a rank 1 that nobody serves a store for."""
    store = f"tcp://127.0.0.1:{free_port()}"
    done = subprocess.run([sys.executable, "-c", f"import nezha; nezha.init(1, 2, '{store}', "
                           f"timeout={timeout})"], capture_output=True, text=True, timeout=_PATIENCE_S,
                          check=False)
    assert done.returncode == 1
    return store, done.stderr


def test_a_rank_that_cannot_reach_rank_0_says_what_to_check():
    store, said = without_rank_0(0.3)
    assert f"TimedOut: rank 1: store {store}: cannot connect to " in said
    assert "(tried until the deadline); check that rank 0, which serves it, runs and was given this " \
        "address (MASTER_ADDR and MASTER_PORT, or NEZHA_STORE), which other hosts cannot reach, and " \
        "that no firewall blocks the port" in said
    assert "warn" not in said


@pytest.mark.long
def test_a_rank_that_waits_for_rank_0_says_so_after_ten_seconds():
    store, said = without_rank_0(11)
    assert said.count(f"[rank 1] warn store: waiting for rank 0 to serve the store {store}, for 1") == 1


@pytest.fixture
def control_c():
    """control_c(): SIGINT comes a moment later."""
    timers = []

    def press():
        timers.append(threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)))
        timers[-1].start()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield press
    for timer in timers:
        timer.join()
    signal.signal(signal.SIGINT, before)


class SlowStore(dict):
    """A store whose keys never appear, and that can be interrupted only inside its own get."""

    def set(self, key, value):
        self[key] = value

    def get(self, key, default=None):
        return None

    def compare_set(self, key, old, new):
        return self.setdefault(key, new)


@pytest.mark.parametrize("where", ["tcp", "file", "hash", "object"])
def test_control_c_ends_waiting_for_a_job(where, tmp_path, control_c):
    store = {"tcp": "tcp://127.0.0.1:1", "file": f"file://{tmp_path}",
             "hash": f"hash://interrupted-{os.getpid()}", "object": SlowStore()}[where]
    for rank in (0, 1):
        if (where, rank) == ("tcp", 0):
            continue  # it cannot serve there, which it says at once
        control_c()
        with pytest.raises(KeyboardInterrupt):
            nezha.init(rank, 2, store, timeout=_FAR_S)
    with nezha.init(0, 1) as comm:
        comm.barrier()


def test_what_a_handler_raises_arrives(control_c):
    class Enough(Exception):
        pass

    def handler(*_):
        raise Enough("stop")

    signal.signal(signal.SIGINT, handler)
    control_c()
    with pytest.raises(Enough, match="stop"):
        nezha.init(1, 2, "tcp://127.0.0.1:1", timeout=_FAR_S)


def test_a_handler_that_only_notes_does_not_interrupt(control_c):
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    control_c()
    with pytest.raises(nezha.TimedOut):
        nezha.init(1, 2, "tcp://127.0.0.1:1", timeout=1.5)
    assert seen == [1]


def test_control_c_ends_a_blocking_call_and_a_wait(control_c):
    name = f"hash://pressed-{os.getpid()}"
    comms = run_threads(2, lambda rank: nezha.init(rank, 2, name, timeout=_FAR_S))
    work = comms[0].all_reduce(numpy.ones(10), async_op=True)
    control_c()
    with pytest.raises(KeyboardInterrupt):
        work.wait()
    comms[1].all_reduce(numpy.ones(10))
    work.wait()  # only the waiting was ended
    control_c()
    with pytest.raises(KeyboardInterrupt):
        comms[0].barrier()
    with pytest.raises(nezha.Aborted):
        comms[1].barrier()
    for comm in comms:
        comm.close()


@pytest.mark.parametrize("call, words", [
    (lambda: nezha.init("0", 2, "hash://nobody"), "rank is '0': pass a whole number, not str"),
    (lambda: nezha.init(0, 2.0, "hash://nobody"), "world_size is 2.0: pass a whole number, not float"),
    (lambda: nezha.init(config=["chunk_bytes=1M"]), "config is list: pass a mapping"),
    (lambda: nezha.init(rails="lo", config={"rails": "lo"}), "rails is given twice"),
    (lambda: nezha.init(policy="best"), r"policy \(from code\): .*'best'; choose one of pull"),
    (lambda: nezha.init(0, 2, "hash://nobody", rails="lo", config={"message_policy": "best"}),
     r"message_policy \(from code\): .*'best'; choose one of pull"),
])
def test_arguments_that_are_none(call, words):
    with pytest.raises(nezha.InvalidArgument, match=words):
        call()


def test_a_policy_of_the_environment_is_named_by_its_variable(monkeypatch):
    monkeypatch.setenv("NEZHA_POLICY", "best")
    with pytest.raises(nezha.InvalidArgument, match=r"policy \(from environment NEZHA_POLICY\): "):
        nezha.init()
