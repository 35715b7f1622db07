"""Replacing the members of a group: how torchft goes on after a replica was lost.

A handle names a small store that its rank serves. The ranks of the new group meet in the store of the
first handle, so nothing of the old group is needed.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from typing import Any, List, Optional, Tuple
from uuid import uuid4

import torch.distributed as dist
from torch.distributed import PrefixStore, TCPStore

from .. import errors
from . import _connect
from ._work import Done, Work


class ReconfigureStore:
    """A store that this rank serves, and the handle that names it.

    It answers on the address in the handle, and on all addresses of the host only where the handle
    names several: torch's store takes one listening socket.
    """

    def __init__(self) -> None:
        hosts = _own_hosts()
        listener = _listener(hosts)
        host, port = listener.getsockname()[:2]
        own = hosts[0] if host in ("::", "0.0.0.0") else host
        self._store: Optional[TCPStore] = TCPStore(own, port, is_master=True, wait_for_workers=False,
                                                   master_listen_fd=listener.detach())
        self.handle = json.dumps({"id": uuid4().hex, "hosts": hosts, "port": port})

    def close(self) -> None:
        """Ends the store."""
        self._store = None


def reconfigure(group: Any, opts: Any) -> Work:
    """The group's members become the ranks whose handles are in `opts`; returns a completed Work.

    A list of handles gives each rank its position; of a set, the order of the texts decides.
    Works after abort() and before any operation.
    """
    own = group.get_reconfigure_handle()
    handles = list(opts.handles) if isinstance(opts.handles, (list, tuple)) else sorted(opts.handles)
    if own not in handles:
        raise errors.InvalidArgument("reconfigure: this rank's handle is not among the handles; "
                                     "members pass get_reconfigure_handle() of each")
    rank, world = handles.index(own), len(handles)
    _check_fixed(group, rank, world)
    timeout = opts.timeout if opts.timeout is not None else group.options._timeout
    group.abort()
    group._leave(timeout=1.0)
    store = PrefixStore(f"reconfigure/{opts.uuid}", _join(handles[0], own, group, timeout))
    group._begin(_connect.connect(store, rank, world, timeout), store)
    group.options.global_ranks_in_group = list(range(world))
    return Done([])


def _check_fixed(group: Any, rank: int, world: int) -> None:
    """torch keeps rank and size where only the compiled part can change them."""
    from . import _native

    if (rank, world) != (group.rank(), group.size()) and not _native.available():
        raise errors.Unsupported(
            f"reconfigure from rank {group.rank()} of {group.size()} to rank {rank} of {world}: a "
            "change of either needs the compiled part; call nezha.torch.build_native() once")


def _join(handle: str, own: str, group: Any, timeout: Any) -> Any:
    if handle == own:
        return group._reconfigure_store._store
    place = json.loads(handle)
    failures: List[str] = []
    for host in place["hosts"]:
        try:
            return TCPStore(host, place["port"], is_master=False, timeout=timeout)
        except dist.DistError as error:
            failures.append(f"{host}: {error}")
    raise errors.TimedOut("reconfigure: the first member's store could not be reached: "
                          + "; ".join(failures))


def _own_hosts() -> List[str]:
    """Addresses of this host's name by which others may reach it; loopback ones only if all are."""
    name = socket.gethostname()
    try:
        found: List[Tuple[Any, ...]] = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return ["127.0.0.1"]
    hosts = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    return [host for host in hosts if not _is_loopback(host)] or hosts or ["127.0.0.1"]


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def _listener(hosts: List[str]) -> socket.socket:
    """A listening socket on a port of the system's choice, where all of `hosts` reach it."""
    if len(hosts) == 1:
        family = socket.AF_INET6 if ":" in hosts[0] else socket.AF_INET
        try:
            return socket.create_server((hosts[0], 0), family=family)
        except OSError:  # the name's address is not this host's own: a translated one, for example
            pass
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))
