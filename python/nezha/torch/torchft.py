"""Nezha under torchft 0.2: Manager(pg=ProcessGroupNezha()) where one would say ProcessGroupGloo().

torchft replaces the members of a group after a loss by calling configure(), which aborts the group and
makes a new one in a fresh store. Later versions of torchft need nothing of this: they take a group of
init_process_group("nezha", enable_reconfigure=True).
"""

from __future__ import annotations

import datetime
from typing import Any

import torch.distributed as dist
from torchft.process_group import ProcessGroupWrapper

from ._connect import connect
from ._process_group import NezhaProcessGroup


# For what is still running when the group is left; a dead member must not hold up the others.
_LEAVING = datetime.timedelta(seconds=1)


class ProcessGroupNezha(ProcessGroupWrapper):
    """A group whose members can be replaced; `timeout`, for meeting and for each operation."""

    def _create_pg(self, store: Any, rank: int, world_size: int) -> NezhaProcessGroup:
        comm = connect(store, rank, world_size, self._timeout)
        return NezhaProcessGroup(comm, store, self._timeout, f"torchft_quorum_{self._quorum_id}")

    def _opts_hook(self, opts: Any) -> Any:
        if not isinstance(opts, (dist.ReduceOp, dist.ReduceOp.RedOpType)):
            return opts
        options = dist.AllreduceOptions()  # torch's own bindings take a bare operator, too
        options.reduceOp = opts
        return options

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Also for operations of the present group that are started from now on."""
        super().set_timeout(timeout)
        if self._pg is not None:
            self._pg.set_timeout(timeout)

    def shutdown(self) -> None:
        """Leaves in order: the other members fail when they need this one again."""
        group, self._pg = self._pg, None
        if group is not None:
            group.set_timeout(_LEAVING)
            group.shutdown()

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        """As torchft's own groups call themselves."""
        return "torchft-nezha"
