"""Python objects between ranks: as JSON, or as the caller's codec has them, their sizes first."""

from __future__ import annotations

import json
from typing import Any, List, Optional, Protocol, Sequence, Union

from ._movements import Movements
from .errors import InvalidArgument

_HEADER = "int64"  # of a size


class Codec(Protocol):
    """What turns objects into bytes or text, and back: a module such as pickle, or an object like one."""

    def dumps(self, value: Any, /) -> Union[bytes, str]: ...
    def loads(self, data: bytes, /) -> Any: ...


class Objects(Movements):
    """Communicator's calls for small Python objects: settings, counts, names.

    Without a codec: None, bool, int, float, str, and lists and dictionaries of those with keys that are
    str; anything else is InvalidArgument. codec, equal on all ranks: a module or an object with dumps
    and loads. With codec=pickle any object is taken, and every rank can run code on every other one:
    Nezha itself never unpickles what another rank sends (docs/security.md).

    timeout in seconds (None: the communicator's) is for each of the two operations of a call.
    """

    def broadcast_object(self, value: Any = None, root: int = 0, *, codec: Optional[Codec] = None,
                         timeout: Optional[float] = None) -> Any:
        """The `value` of rank `root`, on every rank; that of the others is not looked at.

        The root gets its own object back, the others a copy.
        """
        import numpy

        packed = _pack(value, codec) if self.rank == root else None
        size = numpy.array([0 if packed is None else len(packed)], _HEADER)
        self.broadcast(size, root, timeout=timeout)
        if packed is None:
            packed = numpy.empty(int(size[0]), numpy.uint8)
        self.broadcast(packed, root, timeout=timeout)
        return value if self.rank == root else _unpack(codec, packed)

    def all_gather_object(self, value: Any, *, codec: Optional[Codec] = None,
                          timeout: Optional[float] = None) -> List[Any]:
        """The values of all ranks, in the order of ranks, on every rank."""
        packed = _pack(value, codec)
        counts = self._sizes(packed, timeout)
        return _unpack_all(codec, self.all_gather_v(packed, counts, timeout=timeout), counts)

    def gather_object(self, value: Any, root: int = 0, *, codec: Optional[Codec] = None,
                      timeout: Optional[float] = None) -> Optional[List[Any]]:
        """The values of all ranks, in the order of ranks, on rank `root`; None elsewhere."""
        packed = _pack(value, codec)
        counts = self._sizes(packed, timeout)
        is_root = self.rank == root
        send, receive = [0] * self.world_size, counts if is_root else [0] * self.world_size
        send[root] = len(packed)
        together = self.all_to_all_v(packed, send, receive, timeout=timeout)
        return _unpack_all(codec, together, counts) if is_root else None

    def scatter_object(self, values: Optional[Sequence[Any]] = None, root: int = 0, *,
                       codec: Optional[Codec] = None,
                       timeout: Optional[float] = None) -> Any:
        """The r-th of the world_size `values` of rank `root`, on rank r.

        The values of other ranks are not looked at. Raises InvalidArgument on the root where there are
        not as many values as ranks.
        """
        import numpy

        packed: List[Any] = []
        if self.rank == root:
            if values is None or len(values) != self.world_size:
                had = "None" if values is None else f"{len(values)} values"
                raise InvalidArgument(f"scatter_object: rank {root} passed {had} for {self.world_size} "
                                      "ranks: pass one for each")
            packed = [_pack(value, codec) for value in values]
        send = [len(each) for each in packed] or [0] * self.world_size
        sizes = self.broadcast(numpy.array(send, _HEADER), root, timeout=timeout)
        receive = [0] * self.world_size
        receive[root] = int(sizes[self.rank])
        together = numpy.concatenate(packed) if packed else numpy.empty(0, numpy.uint8)
        return _unpack(codec, self.all_to_all_v(together, send, receive, timeout=timeout))

    def send_object(self, value: Any, destination: int, tag: int = 0, *,
                    codec: Optional[Codec] = None, timeout: Optional[float] = None) -> None:
        """Sends `value` to rank `destination`, which calls recv_object with the same tag."""
        import numpy

        packed = _pack(value, codec)
        self.send(numpy.array([len(packed)], _HEADER), destination, tag, timeout=timeout)
        self.send(packed, destination, tag, timeout=timeout)

    def recv_object(self, source: Optional[int] = None, tag: int = 0, *,
                    codec: Optional[Codec] = None, timeout: Optional[float] = None) -> Any:
        """The object that rank `source` (None: any rank) sends with send_object and this tag.

        One thread at a time receives objects of a tag.
        """
        import numpy

        size = numpy.empty(1, _HEADER)
        work = self.recv(size, source, tag, timeout=timeout, async_op=True)
        work.wait()
        packed = numpy.empty(int(size[0]), numpy.uint8)
        self.recv(packed, work.source, tag, timeout=timeout)
        return _unpack(codec, packed)

    def _sizes(self, packed: Any, timeout: Optional[float]) -> List[int]:
        import numpy

        sizes = self.all_gather(numpy.array([len(packed)], _HEADER), timeout=timeout)
        return [int(size) for size in sizes.ravel()]


def _pack(value: Any, codec: Optional[Codec]) -> Any:
    import numpy

    if codec is None:
        _check(value)
    data = (json if codec is None else codec).dumps(value)
    return numpy.frombuffer(bytearray(data.encode() if isinstance(data, str) else data), numpy.uint8)


def _unpack(codec: Optional[Codec], packed: Any) -> Any:
    return (json if codec is None else codec).loads(packed.tobytes())


def _unpack_all(codec: Optional[Codec], together: Any, counts: Sequence[int]) -> List[Any]:
    values, begin = [], 0
    for count in counts:
        values.append(_unpack(codec, together[begin:begin + count]))
        begin += count
    return values


def _check(value: Any) -> None:
    """Raises InvalidArgument for what JSON has not, or would change on the way."""
    if type(value) is list:
        for each in value:
            _check(each)
    elif type(value) is dict:
        for key, each in value.items():
            if type(key) is not str:
                raise InvalidArgument(f"a key of the object is {key!r}: want str, or pass a codec such "
                                      "as pickle, with which ranks can run code on each other")
            _check(each)
    elif value is not None and type(value) not in (bool, int, float, str):
        raise InvalidArgument(f"the object has a {type(value).__name__} in it: want None, bool, int, "
                              "float, str, lists and dictionaries, or pass a codec such as pickle, with "
                              "which ranks can run code on each other")
