"""What a lab is, written to a file so that other commands, and its cleanup, can find it.

One JSON file a lab in /run/nezha-lab (or $XDG_RUNTIME_DIR/nezha-lab when not root). Creating it
exclusively is what reserves the name. Beside it is the key of the lab's jobs. Rates are bits per second,
0 = unshaped. A file says what `lab down` stops and removes, so only a folder that nobody else can write
to is believed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import secrets
import tempfile
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional

from nezha.files import distrusted
from . import shaping
from ..cli.errors import LabError

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")


@dataclass
class PortState:
    """One device of one node and the switch port at its other end."""

    rail: int
    device: str
    switch_port: str
    address: str  # with prefix length
    mtu: int
    path_mtu: int
    rate: int  # now
    home_rate: int  # what restore() goes back to
    cut: str = "no"  # no | link | both | out | in  (the last three are silent)
    blocks: List[Dict[str, Any]] = field(default_factory=list)


@dataclass
class NodeState:
    """One host: its network namespace (a path; empty in a loopback lab) and its ports."""

    netns: str
    ctl: str  # address without prefix length
    ports: List[PortState] = field(default_factory=list)


@dataclass
class AggregatorState:
    """An aggregation node: its namespace (empty in a loopback lab), its device and the switch port at the
    other end (empty: it is in the switch itself)."""

    name: str
    rail: int
    netns: str
    device: str
    switch_port: str
    address: str  # with prefix length
    port: int
    parent: str  # name; empty for the root
    serves: List[str]  # addresses of nodes with prefix length; empty: everybody
    pid: int = 0  # of its process; 0 = not started

    @property
    def endpoint(self) -> str:
        """Where it listens, as ADDRESS:PORT."""
        return f"{self.address.partition('/')[0]}:{self.port}"


@dataclass
class LabState:
    """All of a lab."""

    name: str
    mode: str  # root | userns | loopback
    owner: int  # pid whose death ends the lab; 0 = lives until `down`
    holder: int  # pid that keeps the user namespace of a lasting unprivileged lab; 0 = none
    switch: str
    rail_rates: List[int]
    rail_kinds: List[str]  # one of spec.KINDS each
    congestion_control: str
    queue_ms: float
    shaping: str  # one of shaping.KINDS
    burst: int  # bytes; 0 = chosen from each rate
    master_port: int
    own_sysfs: bool = True
    nodes: List[NodeState] = field(default_factory=list)
    aggregators: List[AggregatorState] = field(default_factory=list)  # the root first
    filters: List[str] = field(default_factory=list)  # the switch's rules, in order: see filters.py
    ranks_per_node: int = 1

    @staticmethod
    def from_json(data: Dict[str, Any]) -> "LabState":
        """Inverse of dataclasses.asdict(). Raises TypeError or KeyError on a foreign layout."""
        nodes = [
            NodeState(n["netns"], n["ctl"], [PortState(**p) for p in n["ports"]])
            for n in data["nodes"]
        ]
        aggregators = [AggregatorState(**a) for a in data["aggregators"]]
        return LabState(**{**data, "nodes": nodes, "aggregators": aggregators})

    def burst_of(self, rate: int) -> int:
        """Bytes of the bucket of a port with this rate; 0 for none."""
        return shaping.bucket(rate, self.shaping, self.burst)

    def namespaces(self) -> List[str]:
        """Paths of every network namespace of the lab, the switch first."""
        if self.mode == "loopback":
            return []
        return ([self.switch] + [node.netns for node in self.nodes]
                + [each.netns for each in self.aggregators if each.switch_port])


def check_name(name: str) -> str:
    """The name itself. Raises LabError when it could not be a file and namespace name."""
    if not _NAME.match(name):
        raise LabError(f"lab name {name!r}: want letters, digits, - _ . (at most 63)")
    return name


def directory() -> str:
    """Where state files live, or will. Raises LabError when that is another user's, or open to others."""
    # An unprivileged user is uid 0 in the lab's user namespace: ask who may write, not who one is.
    base = "/run" if os.access("/run", os.W_OK) else os.environ.get("XDG_RUNTIME_DIR")
    made = []
    if not base or not os.access(base, os.W_OK):
        base = os.path.join(tempfile.gettempdir(), f"nezha-{os.getuid()}")
        made.append(base)
    made.append(os.path.join(base, "nezha-lab"))
    for folder in made:
        reason = distrusted(folder)
        if reason is not None:
            raise LabError(f"{folder} {reason}: what is in it says which processes are stopped and "
                           "which files are removed, so it is not believed; remove it, or set "
                           "XDG_RUNTIME_DIR to a folder of your own")
    return made[-1]


def _make_directory() -> None:
    folder = directory()
    with contextlib.suppress(FileExistsError):
        os.makedirs(os.path.dirname(folder), mode=0o700)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    directory()  # somebody may have been quicker


def path_of(name: str) -> str:
    """The state file of a lab."""
    return os.path.join(directory(), check_name(name) + ".json")


def key_path(name: str) -> str:
    """The file with the secret of a lab's jobs, and the key of its aggregation nodes."""
    return path_of(name)[:-len("json")] + "key"


def names() -> List[str]:
    """Names of all labs with a state file, sorted."""
    try:
        entries = os.listdir(directory())
    except FileNotFoundError:
        return []
    return sorted(e[: -len(".json")] for e in entries if e.endswith(".json"))


def reserve(state: LabState) -> None:
    """Takes the lab's name by creating its file. Raises LabError when the name is taken."""
    _make_directory()
    try:
        fd = os.open(path_of(state.name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise LabError(
            f"lab {state.name!r} is already up: choose another --name, or run "
            f"`nezha lab down --name {state.name}` first"
        ) from None
    os.close(fd)
    _make_key(key_path(state.name))
    save(state)


def _make_key(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # of a lab that had the name and was not taken down
        os.unlink(path)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32) + "\n")


def save(state: LabState) -> None:
    """Replaces the lab's file in one step."""
    path = path_of(state.name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(dataclasses.asdict(state), file, indent=1)
    os.replace(path + ".new", path)


def load(name: str) -> LabState:
    """State of a lab. Raises LabError when there is none or its file is not readable."""
    path = path_of(name)
    try:
        with open(path, encoding="utf-8") as file:
            return LabState.from_json(json.load(file))
    except FileNotFoundError:
        known = ", ".join(names()) or "none"
        raise LabError(f"no lab {name!r} is up (up now: {known})") from None
    except (ValueError, TypeError, KeyError) as error:
        raise LabError(f"{path} is not a lab of this version ({error}): remove it") from None


def remove(name: str) -> None:
    """Forgets a lab; nothing happens when it is not known."""
    for path in (key_path(name), path_of(name)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Serialises read-change-write of state files between processes."""
    _make_directory()
    fd = os.open(os.path.join(directory(), "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def owner_alive(state: LabState) -> Optional[bool]:
    """Whether the owning process lives; None for a lab without an owner."""
    if state.owner == 0:
        return None
    return os.path.exists(f"/proc/{state.owner}")
