"""Rendezvous over MPI: rank 0's store at an address that every rank has just reached.

MPI carries the addresses and, unless one is configured, the job's secret; it is used for nothing else.
Only its Allgather and Bcast of buffers are needed, with records of fixed lengths: nothing that a rank
sends is unpickled. All functions are collective over the communicator, and what fails on one rank fails
on all.
"""

from __future__ import annotations

import json
import secrets
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Tuple

from ..errors import InvalidArgument
from ..queries import ask

_REACH_S = 3.0
_ADDRESSES_MAX = 16
_SECRET_BYTES = 32
_OFFER_BYTES = 2048  # of rank 0's addresses, as JSON
_YES, _NO = b"\1", b"\0"

Address = Tuple[str, int]


@dataclass(frozen=True)
class Rendezvous:
    """What nezha.init needs. `secret` is None where the configuration has its own."""

    rank: int
    world_size: int
    store: str
    secret: Optional[str]


def meet(comm: Any, env: Mapping[str, str], config: Mapping[str, Any]) -> Rendezvous:
    """Agrees on a meeting point. `comm`: an mpi4py communicator, or an object like it.

    Raises InvalidArgument when it lacks a method, or no address of rank 0 can be reached by all.
    """
    missing = [name for name in ("Get_rank", "Get_size", "Allgather", "Bcast")
               if not callable(getattr(comm, name, None))]
    if missing:
        raise InvalidArgument(f"mpi is {type(comm).__name__}, without {', '.join(missing)}(): pass "
                              "an mpi4py communicator such as MPI.COMM_WORLD")
    rank, size = comm.Get_rank(), comm.Get_size()
    if size == 1:
        return Rendezvous(rank, size, "hash://single", None)
    listeners = _listen() if rank == 0 else []
    try:
        offer = json.dumps([each.getsockname()[:2] for each in listeners]).encode()
        addresses = _addresses(_broadcast(comm, offer.ljust(_OFFER_BYTES)))
        reached = _gather(comm, [True] * len(addresses) if rank == 0 else _reach(addresses))
    finally:
        for each in listeners:
            each.close()
    configured = any(config.get(name) or env.get(f"NEZHA_{name.upper()}")
                     for name in ("secret", "secret_file"))
    key = _broadcast(comm, _NO * (1 + _SECRET_BYTES) if configured
                     else _YES + secrets.token_bytes(_SECRET_BYTES))
    secret = key[1:].hex() if key[:1] == _YES else None
    for index, (host, port) in enumerate(addresses):
        if all(flags[index] for flags in reached):
            shown = f"[{host}]" if ":" in host else host
            return Rendezvous(rank, size, f"tcp://{shown}:{port}", secret)
    raise InvalidArgument(_nowhere(addresses, reached))


def _broadcast(comm: Any, record: bytes) -> bytes:
    """Rank 0's record, of the same length on all ranks."""
    buffer = bytearray(record)
    comm.Bcast(buffer, root=0)
    return bytes(buffer)


def _gather(comm: Any, flags: List[bool]) -> List[List[bool]]:
    """The flags of all ranks, of the same number on all."""
    mine = bytes(flags).ljust(_ADDRESSES_MAX, _NO)
    everybody = bytearray(comm.Get_size() * _ADDRESSES_MAX)
    comm.Allgather(mine, everybody)
    return [[flag == 1 for flag in everybody[begin:begin + len(flags)]]
            for begin in range(0, len(everybody), _ADDRESSES_MAX)]


def _addresses(offer: bytes) -> List[Address]:
    """What rank 0 offers. Raises InvalidArgument for what it would not say."""
    try:
        found = [(str(host), int(port)) for host, port in json.loads(offer)]
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArgument("rank 0 of the mpi communicator sent no addresses: install the same "
                              "version of Nezha everywhere") from error
    return found[:_ADDRESSES_MAX]


def _listen() -> List[socket.socket]:
    """A socket on a free port of each address of this host, the likeliest first."""
    devices = ask("devices")
    devices.sort(key=lambda each: (not each["usable"], each["device"] == "lo"))
    listeners: List[socket.socket] = []
    for device in devices:
        address = device["address"]
        if address.startswith("fe80") or len(listeners) == _ADDRESSES_MAX:
            continue  # link-local addresses mean something else on every host
        family = socket.AF_INET6 if device["family"] == "ipv6" else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.bind((address, 0))
            listener.listen(socket.SOMAXCONN)
        except OSError:  # the address has gone, or is not ours to use
            listener.close()
            continue
        listeners.append(listener)
    return listeners


def _reach(addresses: List[Address]) -> List[bool]:
    """Which of them accept a connection from here, all tried at once."""
    def accepts(address: Address) -> bool:
        try:
            socket.create_connection(address, _REACH_S).close()
        except OSError:
            return False
        return True

    if not addresses:
        return []
    with ThreadPoolExecutor(len(addresses)) as pool:
        return list(pool.map(accepts, addresses))


def _nowhere(addresses: List[Address], reached: List[List[bool]]) -> str:
    ways = "; ".join(
        f"{host} not from rank " + ", ".join(str(rank) for rank, flags in enumerate(reached)
                                             if not flags[index])
        for index, (host, _) in enumerate(addresses)) or "it has none"
    return (f"no address of rank 0's host can be reached by all ranks: {ways}. Open a port between "
            "the hosts, or pass rank=, world_size= and store=")
