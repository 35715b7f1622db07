"""Group: the life of one group beside its operations: timeouts, ending, sequence numbers."""

from __future__ import annotations

import datetime
from typing import Any, Optional

import torch.distributed as dist

from ._calls import Asynchronous
from ._collectives import Collectives
from ._cuda import DeviceRunner
from ._monitored_barrier import MonitoredBarrier
from ._reconfigure import ReconfigureStore
from ._work import seconds_of

_DESTROYED = ("the process group has been destroyed: no operation can be started on it; create a new "
              "one")
_ABORTED = ("the process group was aborted: no operation can be started on it; create a new one, or "
            "reconfigure it")


class _Twin(Asynchronous, Collectives):
    """The same group's operations on connections of their own order; for device tensors."""

    def __init__(self, comm: Any, timeout: Optional[float]) -> None:
        self._comm = comm
        self._timeout = timeout


class Group(Collectives):
    """Collectives with a beginning and an end."""

    def __init__(self, comm: Any, store: Any, timeout: Optional[datetime.timedelta],
                 name: str) -> None:
        self._name = name
        self._timeout = seconds_of(timeout)
        self._reconfigure_store: Optional[ReconfigureStore] = None
        self._begin(comm, store)

    def _begin(self, comm: Any, store: Any) -> None:
        """The members are now those of `comm`, which meet in `store`; None: there are none yet.

        All that members must count alike begins with them: a newcomer has counted nothing.
        """
        self._comm = comm
        self._over: Optional[str] = None
        self._sequence = 0
        self._devices = DeviceRunner(self)
        self._barriers = MonitoredBarrier(store)

    def _leave(self, timeout: Optional[float]) -> None:
        """Ends the present membership, if any, after what is running."""
        if self._comm is not None:
            self._devices.close()
            self._comm.close(timeout=timeout)

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        """The name under which the backend is registered."""
        return self._name

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        """A barrier over the store that names the ranks which did not come; blocks."""
        self._check_open()
        # From Python a ProcessGroup gets the bare time. Zero is one here: whoever is late is named.
        given = opts if isinstance(opts, datetime.timedelta) else opts.timeout
        timeout = self._timeout if given.days < 0 else given.total_seconds()
        self._barriers.call(self._comm.rank, self._comm.world_size,
                            1800.0 if timeout is None else timeout, wait_all_ranks)

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """For operations that are started from now on and name none themselves."""
        self._timeout = seconds_of(timeout)

    def shutdown(self) -> None:
        """Leaves in order; nothing happens the second time."""
        self._end(_DESTROYED)
        self._leave(self._timeout)
        if self._reconfigure_store is not None:
            self._reconfigure_store.close()

    def abort(self) -> None:
        """Fails running operations, here and at the other ranks, and refuses new ones."""
        already_over = self._over is not None
        self._end(_ABORTED)
        if self._comm is not None and not already_over and not self._comm.closed:
            self._devices.abort()
            self._comm.abort()

    def get_error(self) -> Any:
        """torch's ErrorType: COMM_ERROR after abort, else SUCCESS."""
        kinds = dist.distributed_c10d.ErrorType if hasattr(
            dist.distributed_c10d, "ErrorType") else _error_types()
        return kinds.COMM_ERROR if self._over is _ABORTED else kinds.SUCCESS

    def supports_tensor_alloc(self, device: int) -> bool:
        """Tensors need no memory of a special kind."""
        del device
        return False

    def eager_connect_single_device(self, device: Any) -> None:
        """Connections exist already."""

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _wait_for_pending_works(self) -> None:
        """Nothing is kept back."""

    def beside(self, name: str) -> _Twin:
        """The same ranks in an order of operations of their own. All ranks call it, with one name."""
        ranks = list(range(self._comm.world_size))
        return _Twin(self._comm.create_group(ranks, name), self._timeout)

    def _end(self, why: str) -> None:
        if self._over is None:
            self._over = why

    def _open_reconfigure_store(self) -> ReconfigureStore:
        if self._reconfigure_store is None:
            self._reconfigure_store = ReconfigureStore()
        return self._reconfigure_store


def _error_types() -> Any:
    from torch._C import _distributed_c10d as c10d

    return c10d.ErrorType
