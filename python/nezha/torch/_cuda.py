"""Operations on tensors of an accelerator: through pinned host memory, beside the caller's stream.

The caller's thread only enqueues: copies to the host go on a side stream that is ordered after the
caller's, and a thread of the group waits for them, runs the same operation on the host tensors and
enqueues the copies back. Large tensors of element-wise operations go in chunks, so that copying and
the network overlap. wait() blocks until the network is done and then orders the caller's stream after
the copies back. These operations have a communicator of their own, because their order against the
CPU's would differ from rank to rank.
"""

from __future__ import annotations

import queue
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from .. import errors
from . import _tensors
from ._work import Work

CHUNK_BYTES = 8 << 20

# method -> (arguments that it reads, arguments that it writes)
_MEMORY: Dict[str, Tuple[Tuple[int, ...], Tuple[int, ...]]] = {
    "broadcast": ((0,), (0,)), "allreduce": ((0,), (0,)), "allreduce_coalesced": ((0,), (0,)),
    "reduce": ((0,), (0,)), "send": ((0,), ()), "recv": ((), (0,)), "recv_anysource": ((), (0,)),
}
_READ_SECOND_WRITE_FIRST = ((1,), (0,))
_ROOTED = frozenset({"broadcast", "reduce"})  # the root does one, and the others do the other
_ELEMENTWISE = frozenset({"broadcast", "allreduce"})


class CudaDevice:
    """One CUDA device and the stream that copies between it and the host."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._side = torch.cuda.Stream(device)

    def follow_caller(self) -> None:
        """What the side stream does from now on comes after what the caller has enqueued."""
        self._side.wait_stream(torch.cuda.current_stream(self.device))

    def lead_caller(self, event: Any) -> None:
        """What the caller enqueues from now on comes after the event."""
        torch.cuda.current_stream(self.device).wait_event(event)

    def pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        """Host memory of the same shape."""
        return _tensors.host_memory(tensor.shape, tensor.dtype, pinned=True)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> Any:
        """Enqueues a copy on the side stream; the event after it."""
        with torch.cuda.stream(self._side):
            target.copy_(source, non_blocking=True)
            for tensor in (target, source):
                if not tensor.is_cpu:
                    tensor.record_stream(self._side)
            event = torch.cuda.Event()
            event.record(self._side)
        return event

    def beside(self) -> Any:
        """A context in which the side stream is the current one."""
        return torch.cuda.stream(self._side)


class Job:
    """One operation on the way through the host; stands for nezha.Work in Work."""

    def __init__(self, calls: Sequence["Piece"]) -> None:
        self.pieces = calls
        self.last_copy: Any = None
        self._over = threading.Event()
        self._error: Optional[errors.Error] = None
        self._source: Optional[int] = None

    def end(self, error: Optional[errors.Error], source: Optional[int] = None) -> None:
        """Called by the group's thread, once."""
        self._error, self._source = error, source
        self._over.set()

    def test(self) -> bool:
        """Whether it is over; raises its error."""
        if self._over.is_set() and self._error is not None:
            raise self._error
        return self._over.is_set()

    def wait(self, timeout: Optional[float] = None) -> None:
        """Raises its error, or WaitTimedOut when it still runs after `timeout` seconds."""
        if not self._over.wait(timeout):
            raise errors.WaitTimedOut(f"the operation was still running after {timeout} s")
        self.test()

    @property
    def source(self) -> Optional[int]:
        """The rank whose message a receive took."""
        return self._source


class Piece:
    """A chunk of an operation: arguments in host memory, and the copies around it."""

    def __init__(self, args: Sequence[Any]) -> None:
        self.args = args
        self.loaded: List[Any] = []                                # events
        self.results: List[Tuple[torch.Tensor, torch.Tensor]] = []  # (device, host)


class DeviceWork(Work):
    """Work whose wait() also orders the caller's stream."""

    def __init__(self, job: Job, tensors: Sequence[torch.Tensor], device: Any) -> None:
        super().__init__(job, tensors)
        self._device = device
        self._job = job

    def wait(self, timeout: Any = None) -> bool:
        """As Work.wait; what the caller enqueues afterwards sees the result."""
        super().wait(timeout)
        if self._job.last_copy is not None:
            self._device.lead_caller(self._job.last_copy)
        return True

    def _new_future(self) -> torch.futures.Future:
        return torch.futures.Future(devices=[self._device.device])

    def complete_future(self) -> None:
        """As Work.complete_future; the future's users wait for what the side stream does."""
        with self._device.beside():
            super().complete_future()


class DeviceRunner:
    """Runs a group's operations on device tensors, in order, on one thread of its own."""

    def __init__(self, group: Any, open_device: Callable[[torch.device], Any] = CudaDevice) -> None:
        self._group = group
        self._open_device = open_device
        self._devices: Dict[torch.device, Any] = {}
        self._twin: Any = None
        self._jobs: "queue.Queue[Any]" = queue.Queue()
        self._thread: Optional[threading.Thread] = None

    def run(self, name: str, body: Callable[..., Work], args: Sequence[Any],
            kwargs: Dict[str, Any], device: torch.device) -> Work:
        """Enqueues the operation `body`; the Work of the tensors that it writes."""
        if device.type != "cuda":
            raise errors.Unsupported(f"a tensor on {device}: tensors on the CPU and on CUDA devices "
                                     "can be communicated")
        if kwargs:
            raise errors.InvalidArgument(f"{name} of device tensors takes its arguments by position")
        if device not in self._devices:
            self._devices[device] = self._open_device(device)
        at = self._devices[device]
        at.follow_caller()
        reads, writes = self._moved(name, args[-1])
        job = Job([_piece(at, part, reads, writes) for part in _parts(name, args)])
        self._start_thread()
        self._jobs.put((job, body, at))
        results: List[torch.Tensor] = []
        for index in _memory_of(name)[1]:
            _walk(args[index], results.append)
        work = DeviceWork(job, results, at)
        if getattr(args[-1], "asyncOp", True) is False:
            work.wait()
        return work

    def close(self) -> None:
        """Ends the thread, after what is enqueued."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None
            self._twin._comm.close()

    def abort(self) -> None:
        """Fails what is running."""
        if self._twin is not None:
            self._twin._comm.abort()

    def _moved(self, name: str, opts: Any) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
        """(arguments that this rank reads, arguments that it writes)."""
        reads, writes = _memory_of(name)
        if name in _ROOTED and opts is not None:
            is_root = opts.rootRank == self._group._comm.rank
            if name == "broadcast":
                return (reads, ()) if is_root else ((), writes)
            return (reads, writes) if is_root else (reads, ())
        return reads, writes

    def _start_thread(self) -> None:
        if self._thread is None:
            self._twin = self._group.beside("cuda")
            self._thread = threading.Thread(target=self._serve, name="nezha-cuda", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        while True:
            entry = self._jobs.get()
            if entry is None:
                return
            job, body, at = entry
            try:
                job.end(None, self._process(job, body, at))
            except errors.Error as error:
                job.end(error)
            except Exception as error:  # a failing device; shown to whoever waits
                job.end(errors.Internal(f"copying between device and host failed: {error}"))

    def _process(self, job: Job, body: Callable[..., Work], at: Any) -> Optional[int]:
        works = []
        for piece in job.pieces:
            for event in piece.loaded:
                event.synchronize()
            works.append(body(self._twin, *piece.args))
        source = None
        for piece, work in zip(job.pieces, works):
            work.wait()
            for device_tensor, host_tensor in piece.results:
                with _tensors.writing(device_tensor):  # this thread is in no mode of the caller's
                    job.last_copy = at.copy(device_tensor, host_tensor)
            source = work.source_if_receive()
        return source


def _memory_of(name: str) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
    return _MEMORY.get(name, _READ_SECOND_WRITE_FIRST)


def _parts(name: str, args: Sequence[Any]) -> List[Sequence[Any]]:
    """The arguments, or those of each chunk of an element-wise operation on a large tensor."""
    if name not in _ELEMENTWISE or len(args[0]) != 1:
        return [args]
    tensor = args[0][0]
    step = CHUNK_BYTES // tensor.element_size()
    if tensor.numel() <= step or not tensor.is_contiguous():
        return [args]
    return [([chunk], *args[1:]) for chunk in tensor.detach().view(-1).split(step)]


def _piece(at: Any, args: Sequence[Any], reads: Sequence[int], writes: Sequence[int]) -> Piece:
    twins: Dict[int, torch.Tensor] = {}

    def twin(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device != at.device:
            raise errors.InvalidArgument(f"a tensor on {tensor.device} among tensors on {at.device}: "
                                         "all tensors of one operation must be on one device")
        if id(tensor) not in twins:
            twins[id(tensor)] = at.pinned(tensor)
        return twins[id(tensor)]

    piece = Piece([_walk(value, twin) if index in (*reads, *writes) else value
                   for index, value in enumerate(args)])
    for index in reads:
        _walk(args[index], lambda t: piece.loaded.append(at.copy(twins[id(t)], t.detach())))
    for index in writes:
        _walk(args[index], lambda t: piece.results.append((t.detach(), twins[id(t)])))
    return piece


def _walk(value: Any, visit: Callable[[torch.Tensor], Any]) -> Any:
    """The nested lists of tensors with `visit` done on each."""
    if isinstance(value, torch.Tensor):
        return visit(value)
    return [_walk(item, visit) for item in value]
