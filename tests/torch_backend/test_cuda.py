"""The path of device tensors: on a CUDA device where there is one, and with a stand-in, host memory and a
clock of events."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from typing import Any, List

import pytest
import torch
import torch.distributed as dist

import nezha
from nezha import errors
from nezha.torch import _cuda
from nezha.torch._work import Done, Work


class FakeEvent:
    def __init__(self, log: List[Any]) -> None:
        self.log = log

    def synchronize(self) -> None:
        self.log.append("synchronize")


class FakeDevice:
    """Copies at once, and remembers who ordered what after whom."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.log: List[Any] = []

    def follow_caller(self) -> None:
        self.log.append("follow")

    def lead_caller(self, event: FakeEvent) -> None:
        assert isinstance(event, FakeEvent)
        self.log.append("lead")

    def pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.full(tensor.shape, 77, dtype=tensor.dtype)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> FakeEvent:
        target.copy_(source)
        self.log.append(("copy", source.numel()))
        return FakeEvent(self.log)

    def beside(self) -> Any:
        self.log.append("beside")
        return contextlib.nullcontext()


class FakeWork(Work):
    def _new_future(self) -> torch.futures.Future:
        return torch.futures.Future()


class FakeGroup:
    """The group whose twin adds one to what it is given."""

    def __init__(self) -> None:
        self.calls: List[Any] = []
        self._comm = self
        self.rank = 0
        self.closed = self.aborted = False

    def beside(self, name: str) -> "FakeGroup":
        assert name == "cuda"
        return self

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


def add_one(group: FakeGroup, tensors: List[torch.Tensor], opts: Any) -> Work:
    group.calls.append(tensors[0].numel())
    tensors[0].add_(1)
    return Done(tensors)


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(_cuda.DeviceWork, "_new_future", FakeWork._new_future)
    made = _cuda.DeviceRunner(FakeGroup(), FakeDevice)
    yield made
    made.close()


def write_threes(group: FakeGroup, tensors: List[torch.Tensor], opts: Any) -> Work:
    """What the core does: it writes the memory, and asks no mode of torch."""
    threes = torch.full(tensors[0].shape, 3.0)
    ctypes.memmove(tensors[0].data_ptr(), threes.data_ptr(), threes.nbytes)
    return Done(tensors)


def rooted(root: int) -> Any:
    options = dist.BroadcastOptions()
    options.rootRank = root
    return options


CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)


def run(runner: Any, name: str, body: Any, *args: Any) -> Any:
    """DeviceRunner.run with the host's device behind the name of another."""
    runner._devices[CUDA] = runner._devices.get(CUDA) or FakeDevice(CPU)
    return runner.run(name, body, args, {}, CUDA)


def test_result_comes_back_and_streams_are_ordered(runner):
    tensor = torch.zeros(5)
    work = run(runner, "allreduce", add_one, [tensor], dist.AllreduceOptions())
    assert work.wait() and tensor.tolist() == [1.0] * 5
    log = runner._devices[CUDA].log
    assert log == ["follow", ("copy", 5), "synchronize", ("copy", 5), "lead"]


def test_large_tensors_go_in_chunks(runner, monkeypatch):
    monkeypatch.setattr(_cuda, "CHUNK_BYTES", 64)
    tensor = torch.zeros(40)
    run(runner, "allreduce", add_one, [tensor], dist.AllreduceOptions()).wait()
    assert runner._group.calls == [16, 16, 8] and (tensor == 1).all()
    log = runner._devices[CUDA].log
    loads, rest = log[1:4], log[4:]
    assert loads == [("copy", 16), ("copy", 16), ("copy", 8)]  # all before the first is waited for
    assert rest.count("synchronize") == 3 and rest[-1] == "lead"


def test_strided_tensors_go_whole(runner, monkeypatch):
    monkeypatch.setattr(_cuda, "CHUNK_BYTES", 64)
    tensor = torch.zeros(8, 10).t()
    run(runner, "allreduce", add_one, [tensor], dist.AllreduceOptions()).wait()
    assert runner._group.calls == [80] and (tensor == 1).all()


def test_inputs_are_read_and_outputs_written(runner):
    def gather(group: FakeGroup, outputs: Any, inputs: Any, opts: Any) -> Work:
        assert (outputs[0][0] == 77).all() and inputs[0].tolist() == [1.0, 2.0]
        for index, output in enumerate(outputs[0]):
            output.copy_(inputs[0] + index)
        inputs[0].zero_()
        return Done(outputs[0])

    outputs, tensor = [torch.zeros(2), torch.zeros(2)], torch.tensor([1.0, 2.0])
    work = run(runner, "allgather", gather, [outputs], [tensor], None)
    assert work.wait()
    assert [output.tolist() for output in outputs] == [[1.0, 2.0], [2.0, 3.0]]
    assert tensor.tolist() == [1.0, 2.0]
    assert len(work.result()) == 2


@pytest.mark.parametrize("made_inside", [False, True])
@pytest.mark.parametrize("waited_inside", [False, True])
def test_results_come_back_whatever_the_mode(runner, made_inside, waited_inside):
    with torch.inference_mode(made_inside):
        strided, tensor = torch.zeros(4, 2).t(), torch.zeros(4)
    with torch.inference_mode(waited_inside):
        works = [run(runner, "allreduce", write_threes, [each], None) for each in (strided, tensor)]
    for work in works:
        assert work.wait()
    assert strided.tolist() == [[3.0] * 4] * 2 and tensor.tolist() == [3.0] * 4


def test_what_a_rank_only_reads_is_not_written(runner):
    source = torch.zeros(1).expand(4)  # writing it would raise
    assert run(runner, "broadcast", write_threes, [source], rooted(0)).wait()
    work = run(runner, "reduce", write_threes, [source], rooted(1))
    assert work.wait() and source.tolist() == [0.0] * 4
    assert work.result()[0] is source
    target = torch.zeros(4)
    assert run(runner, "broadcast", write_threes, [target], rooted(1)).wait()
    assert target.tolist() == [3.0] * 4
    copies = [entry for entry in runner._devices[CUDA].log if entry == ("copy", 4)]
    assert len(copies) == 3, "one each: to the host, to the host, from it"


def test_future_is_completed_beside_the_caller(runner):
    tensor = torch.zeros(3)
    future = run(runner, "broadcast", add_one, [tensor], None).get_future()
    assert future.wait()[0].tolist() == [1.0] * 3
    assert "beside" in runner._devices[CUDA].log


def test_errors_reach_the_caller(runner):
    def fails(group: FakeGroup, tensors: Any, opts: Any) -> Work:
        raise errors.PeerLost("rank 1 has gone")

    def breaks(group: FakeGroup, tensors: Any, opts: Any) -> Work:
        raise ValueError("out of pinned memory")

    work = run(runner, "allreduce", fails, [torch.zeros(3)], None)
    with pytest.raises(dist.DistBackendError, match="Connection closed by peer"):
        work.wait()
    with pytest.raises(nezha.Internal, match="out of pinned memory"):
        run(runner, "allreduce", breaks, [torch.zeros(3)], None).wait()
    assert work.is_completed() and not work.is_success()


def test_waiting_has_a_limit_and_can_go_on(runner):
    import datetime

    gate = threading.Event()

    def slow(group: FakeGroup, tensors: Any, opts: Any) -> Work:
        assert gate.wait(30)
        return add_one(group, tensors, opts)

    tensor = torch.zeros(3)
    work = run(runner, "allreduce", slow, [tensor], None)
    assert not work.is_completed()
    with pytest.raises(dist.DistBackendError, match="timed out after"):
        work.wait(datetime.timedelta(milliseconds=10))
    gate.set()
    assert work.wait() and work.is_completed()


def test_mixed_devices_and_unknown_ones_are_refused(runner):
    at = FakeDevice(CUDA)
    runner._devices[CUDA] = at
    with pytest.raises(nezha.InvalidArgument, match="one device"):
        runner.run("allreduce", add_one, ([torch.zeros(2)], None), {}, CUDA)
    with pytest.raises(nezha.Unsupported, match="meta"):
        runner.run("allreduce", add_one, ([torch.zeros(2)], None), {}, torch.device("meta"))


def test_the_source_of_a_message_is_known(runner):
    class Native:
        source = 2

        def wait(self, timeout: Any = None) -> None:
            pass

    def receive(group: FakeGroup, tensors: Any, tag: int) -> Work:
        tensors[0].fill_(5)
        return Work(Native(), tensors)

    tensor = torch.zeros(2)
    work = run(runner, "recv_anysource", receive, [tensor], 0)
    work.wait()
    assert work.source_rank() == 2 and tensor.tolist() == [5.0, 5.0]


def test_abort_reaches_the_twin():
    made = _cuda.DeviceRunner(FakeGroup(), FakeDevice)
    made.abort()  # before it exists
    run(made, "broadcast", add_one, [torch.zeros(2)], None).wait()
    made.abort()
    made.close()
    assert made._group.aborted and made._group.closed


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("case", ["collectives", "large", "streams", "ddp"])
def test_on_a_device(ranks, case):
    ranks.run("cases_cuda", case)
