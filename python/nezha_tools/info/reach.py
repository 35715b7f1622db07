"""The way from each rail of this host to another host, tried with one TCP connection each."""

from __future__ import annotations

import errno
import ipaddress
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Optional, Tuple

from nezha.errors import InvalidArgument

# Linux: only through this device, whatever the routing table prefers.
_SO_BINDTODEVICE = 25


def reach(devices: List[Dict[str, Any]], host: str, port: int,
          timeout: float) -> List[Dict[str, Any]]:
    """One row per usable device; raises InvalidArgument when HOST has no address.

    Row: {"device", "address", "peer", "port", "result": "open" | "refused" | "no answer" |
    "unreachable", "ms": round trip or None, "detail"}. A host answers for all its addresses on every
    port, so the detail says where the peer's address is in no network of the rail's.
    """
    targets = _addresses(host, port)
    usable = [(str(device["device"]), address, device["prefix_length"]) for device in devices
              if device["usable"] for address in [_address(device)] if address]
    if not usable:
        return []
    with ThreadPoolExecutor(len(usable)) as pool:
        return list(pool.map(lambda each: _try(each, targets, timeout), usable))


def _addresses(host: str, port: int) -> List[Tuple[socket.AddressFamily, Any]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise InvalidArgument(f"--peer {host}: {error.strerror}") from None
    return [(family, address) for family, _, _, _, address in found]


def _address(device: Dict[str, Any]) -> Optional[str]:
    text = str(device["address"]).partition("%")[0]  # link-local ones carry their zone
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _try(rail: Tuple[str, str, int], targets: List[Tuple[socket.AddressFamily, Any]],
         timeout: float) -> Dict[str, Any]:
    name, address, prefix_length = rail
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    target = next((where for kind, where in targets if kind == family), None)
    row: Dict[str, Any] = {"device": name, "address": address,
                           "peer": target[0] if target else None,
                           "port": target[1] if target else None, "result": "", "ms": None,
                           "detail": ""}
    if target is None:
        row.update(result="unreachable", detail="the host has no address of this rail's family")
        return row
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(timeout)
        start = time.perf_counter()
        try:
            _bind_to_device(probe, name)
            probe.bind((address, 0))
            start = time.perf_counter()
            probe.connect(target)
            row["result"] = "open"
        except socket.timeout:
            row.update(result="no answer", detail=f"nothing came back within {timeout:g} s")
        except ConnectionRefusedError:
            row.update(result="refused", detail="the host answers; no process listens on the port")
        except OSError as error:
            row.update(result="unreachable", detail=error.strerror or str(error))
        if row["result"] in ("open", "refused"):
            row["ms"] = round((time.perf_counter() - start) * 1e3, 3)
            network = ipaddress.ip_network(f"{address}/{prefix_length}", strict=False)
            peer = ipaddress.ip_address(str(target[0]).partition("%")[0])
            if peer not in network:
                row["detail"] = f"{peer} is not in this rail's network, {network}"
    return row


def _bind_to_device(probe: socket.socket, name: str) -> None:
    try:
        probe.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, name.encode() + b"\0")
    except OSError as error:
        # Older kernels keep this for root; the address alone then decides the way.
        if error.errno != errno.EPERM:
            raise
