"""What an aggregation node is told on its command line, checked before anything starts. Pure except for
looks at files."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass
from typing import Optional, Tuple

from ..cli.errors import AggregatorError
from nezha.files import read_text

DEFAULT_PORT = 7700
_TOPOLOGY_MAX = 64 * 1024


@dataclass
class Options:
    """memory, total_memory: bytes for one job, for all jobs. metrics:
    (address, port) or None. topology: JSON text. Numbers that are 0 leave the library's own."""

    address: str = "0.0.0.0"
    port: int = DEFAULT_PORT
    device: Optional[str] = None
    key_file: Optional[str] = None  # None is refused where the node starts: there is no default key
    threads: int = 0
    jobs_max: int = 0
    groups_max: int = 0
    memory: int = 0
    total_memory: int = 0
    topology: Optional[str] = None
    name: Optional[str] = None
    metrics: Optional[Tuple[str, int]] = None


def parse_endpoint(text: str, default_port: Optional[int] = None) -> Tuple[str, int]:
    """(address, port) of "10.1.0.254:7700", "[::1]:7700", ":7700", or without a port where there is a
    default. Raises AggregatorError."""
    wanted = "want ADDRESS:PORT, such as 10.1.0.254:7700 or [::]:7700"
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or _is_address(text):
        if default_port is None:
            raise AggregatorError(f"{text!r} has no port: {wanted}")
        host, port = text, str(default_port)
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    host = host or "0.0.0.0"
    if not _is_address(host):
        raise AggregatorError(f"{text!r}: {host!r} is no numeric address; {wanted}")
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise AggregatorError(f"{text!r}: {port!r} is no port; {wanted}")
    return host, int(port)


def format_endpoint(address: str, port: int) -> str:
    """What parse_endpoint() reads."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.partition("%")[0])
        return True
    except ValueError:
        return False


def read_topology(path: str, name: Optional[str]) -> Tuple[str, str]:
    """(the text of a topology file, the address of its node `name`). Whether the tree makes sense is for
    the library to say. Raises AggregatorError."""
    try:
        text = read_text(path, _TOPOLOGY_MAX)
        nodes = {node["name"]: node["address"] for node in json.loads(text)["nodes"]}
    except (OSError, UnicodeDecodeError) as error:
        raise AggregatorError(f"--topology {path}: {getattr(error, 'strerror', error)}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise AggregatorError(f"--topology {path}: want {{\"nodes\": [{{\"name\": ..., \"address\": "
                              f"...}}, ...]}} ({error!r})") from None
    if name not in nodes:
        known = ", ".join(map(str, nodes)) or "none"
        raise AggregatorError(f"--name {name}: {path} has the nodes {known}")
    return text, str(nodes[name])
