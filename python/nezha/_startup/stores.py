"""The caller's own store as a meeting point: torch.distributed's, or any object like it.

The module calls four methods: set(key, value, timeout), get(key, timeout) -> bytes,
set_if_absent(key, value, timeout) -> bytes and remove(key, timeout); `adapt` makes an object with
them out of what the caller has. Timeouts are seconds.
"""

from __future__ import annotations

import datetime
import sys
import time
from typing import Any, Mapping, Optional, Tuple

from ..errors import InvalidArgument, PeerLost, TimedOut

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.05
_SHORTEST_WAIT_S = 0.001
_LONGEST_WAIT_S = 0.5


def adapt(store: Any) -> Any:
    """The store in the module's form. Raises InvalidArgument naming the methods that it lacks."""
    if hasattr(store, "set_if_absent"):
        needed: Tuple[str, ...] = ("set", "get", "set_if_absent", "remove")
        adapted = store
    else:
        needed = ("set", "get", "compare_set")
        adapted = KeyValueStore(store)
    missing = [name for name in needed if not callable(getattr(store, name, None))]
    if missing:
        raise InvalidArgument(
            f"store is {type(store).__name__}, without {', '.join(missing)}(): pass an address "
            "such as tcp://HOST:PORT, or an object with set(key, value), get(key), "
            "compare_set(key, expected, desired) and delete_key(key), such as a "
            "torch.distributed store")
    return adapted


class KeyValueStore:
    """A torch-like store: set, get, compare_set, and where they exist check, wait and delete_key.

    A `get` of an absent key may wait, raise KeyError, or return None.
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    def set(self, key: str, value: bytes, timeout: float) -> None:
        """Writes, replacing what was there."""
        del timeout
        self._store.set(key, value)

    def get(self, key: str, timeout: float) -> bytes:
        """Waits until the key exists. Raises TimedOut."""
        deadline = time.monotonic() + timeout
        pause = _FIRST_PAUSE_S
        while True:
            value = self._look(key, deadline - time.monotonic())
            if value is not None:
                return _to_bytes(value)
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut(f"the key {key!r} did not appear in the "
                               f"{type(self._store).__name__} within {timeout:g} s")
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def set_if_absent(self, key: str, value: bytes, timeout: float) -> bytes:
        """Writes only when absent; the value that the key has afterwards."""
        del timeout
        return _to_bytes(self._store.compare_set(key, "", value))

    def remove(self, key: str, timeout: float) -> None:
        """Removes, where the store can."""
        del timeout
        delete = getattr(self._store, "delete_key", None)
        if delete is not None:
            delete(key)

    def _look(self, key: str, left: float) -> Any:
        """The value, or None when it is not there. `left` may be negative."""
        # torch's stores have check() and wait(); a wait() that times out is a warning on stderr, and
        # keeps signals waiting.
        if hasattr(self._store, "check"):
            if not self._store.check([key]):
                return None
        elif hasattr(self._store, "wait"):
            # Zero is "for ever" in some stores.
            moment = min(max(left, _SHORTEST_WAIT_S), _LONGEST_WAIT_S)
            try:
                self._store.wait([key], datetime.timedelta(seconds=moment))
            except Exception as error:
                # torch has no class of its own for this; its texts say "timeout" or "timed out".
                text = str(error).lower()
                if "timeout" in text or "timed out" in text:
                    return None
                raise
        try:
            return self._store.get(key)
        except KeyError:
            return None


def _to_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def torchrun_store(env: Mapping[str, str], timeout: Optional[float]) -> Any:
    """A client of the store that torchrun's agent serves at MASTER_ADDR:MASTER_PORT.

    None when torch cannot be imported. The keys of Nezha carry their own prefix. `timeout`: seconds
    for connecting, None: torch's own. Raises PeerLost when the agent does not answer.
    """
    try:
        from torch.distributed import PrefixStore, TCPStore
    except ImportError:
        return None
    host, port = env["MASTER_ADDR"], int(env["MASTER_PORT"])
    limits = {} if timeout is None else {"timeout": datetime.timedelta(seconds=timeout)}
    try:
        store = TCPStore(host, port, is_master=False, **limits)
    except RuntimeError as error:
        raise PeerLost(f"torchrun's own store at {host}:{port} does not answer: {error}") from error
    return PrefixStore("nezha", store)


def process_group_store(rank: int, world_size: int) -> Any:
    """The store in which the ranks of torch's process group have met, where this process is that rank of
    one: its rank 0 serves it at MASTER_ADDR:MASTER_PORT, so that nobody else can. None otherwise."""
    torch = sys.modules.get("torch")
    group = None if torch is None else getattr(torch, "distributed", None)
    if group is None or not group.is_available() or not group.is_initialized():
        return None
    if (group.get_rank(), group.get_world_size()) != (rank, world_size):
        return None
    return group.PrefixStore("nezha", group.distributed_c10d._get_default_store())
