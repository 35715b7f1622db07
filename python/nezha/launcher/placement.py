"""Which rank runs where, with which environment, and how it is started.

Every job gets a secret of its own, unless the user has one (NEZHA_SECRET_FILE, NEZHA_SECRET). It is in
the ranks' environment, which other users cannot read, and on no command line; other hosts hear it through
ssh's standard input.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import shutil
import socket
import subprocess
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from . import hostfile, job_key, ssh
from .errors import LaunchError

Popen = Callable[..., "subprocess.Popen[bytes]"]

# Ports on hosts where we cannot look for a free one: below the range kernels hand out themselves.
_REMOTE_PORT_BASE = 20000
_REMOTE_PORT_COUNT = 10000
_SECRET_BYTES = 32
_SECRET = "NEZHA_SECRET"
_SECRET_NAMES = (_SECRET, "NEZHA_SECRET_FILE")
_kept: List[socket.socket] = []  # on ports that ranks of this process's jobs will listen on


def signal_group(popen: "subprocess.Popen[bytes]", number: int) -> None:
    """Sends a signal to a process of this host that leads a group, and to its children. The group may be
    gone, or keep members after its leader."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, number)


@dataclass
class Rank:
    """One process of the job. `start` takes subprocess.Popen's keyword arguments. `pass_on` sends a
    signal to what `start` returned, and to its children."""

    rank: int
    where: str
    start: Popen
    pass_on: Callable[["subprocess.Popen[bytes]", int], None] = signal_group


def on_this_host(count: int, command: Sequence[str], extra: Mapping[str, str]) -> List[Rank]:
    """`count` ranks here, meeting on a free port of 127.0.0.1."""
    port = free_port()
    extra = with_secret({**extra, **job_key.environment(extra)})
    ranks = []
    for rank in range(count):
        env = {**identity(rank, count, rank, count, "127.0.0.1", port), **extra}
        ranks.append(Rank(rank, "here", _local(command, env)))
    return ranks


def on_hosts(named: List[hostfile.Host], source: str, count: int, command: Sequence[str],
             extra: Mapping[str, str], directory: str,
             master_port: Optional[int] = None) -> List[Rank]:
    """Ranks on the hosts that `source` names; count = 0: every slot. They start in `directory`."""
    places = hostfile.assign(named, count)
    extra = {**extra, **job_key.environment(extra)}
    hosts = [host for host, _ in places]
    first = hosts[0].address
    if is_local(first) and first.startswith(("localhost", "127.")):
        if not all(is_local(host.address) for host in hosts):
            raise LaunchError(f"{source}: rank 0 is on {first}, where other hosts cannot reach "
                              "it: write this host's name")
    port = master_port or (free_port() if is_local(first) else
                           _REMOTE_PORT_BASE + secrets.randbelow(_REMOTE_PORT_COUNT))
    extra = with_secret(extra)
    ranks = []
    for rank, (host, local_rank) in enumerate(places):
        env = {**identity(rank, len(places), local_rank, hosts.count(host), first, port),
               **extra}
        if is_local(host.address):
            ranks.append(Rank(rank, host.name, _local(command, env, cwd=directory)))
        else:
            start = _remote(host.name, directory, command, {**_inherited(), **env})
            ranks.append(Rank(rank, host.name, start, ssh.pass_on))
    return ranks


def is_local(address: str) -> bool:
    """Whether the name or address in a host file is this host's. Other names are not looked up."""
    if address in ("localhost", socket.gethostname(), socket.gethostname().partition(".")[0]):
        return True
    try:
        version = ipaddress.ip_address(address).version
        family = socket.AF_INET if version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))  # works with an address of this host only
    except (ValueError, OSError):
        return False
    return True


def free_port() -> int:
    """A TCP port on which nobody listens, and which the system gives to nobody else while this process
    lives: a rank that asks for it by number, as every server does with SO_REUSEADDR, gets it."""
    kept = socket.socket()
    kept.bind(("127.0.0.1", 0))
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _kept.append(kept)
    return int(kept.getsockname()[1])


def identity(rank: int, count: int, local_rank: int, local_count: int, address: str,
             port: int) -> Dict[str, str]:
    """The variables that tell a rank who it is, and where the ranks meet."""
    return {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(local_rank),
            "LOCAL_WORLD_SIZE": str(local_count), "MASTER_ADDR": address,
            "MASTER_PORT": str(port)}


def with_secret(extra: Mapping[str, str]) -> Dict[str, str]:
    """`extra` and a fresh secret, unless the user has one there or in this process's environment."""
    if any(extra.get(name) or os.environ.get(name) for name in _SECRET_NAMES):
        return dict(extra)
    return {**extra, _SECRET: secrets.token_hex(_SECRET_BYTES)}


def variables(pairs: Sequence[str]) -> Dict[str, str]:
    """The variables of options NAME=VALUE, or NAME for one of this process. Raises LaunchError for one
    without a name or a value."""
    found: Dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            if name not in os.environ:
                raise LaunchError(f"--env {name}: it is not set here; write {name}=VALUE")
            value = os.environ[name]
        if not name:
            raise LaunchError(f"--env {pair!r}: want NAME or NAME=VALUE")
        found[name] = value
    return found


def _inherited() -> Dict[str, str]:
    """What another host gets of this one's environment: what concerns Nezha."""
    return {name: value for name, value in os.environ.items() if name.startswith("NEZHA_")}


def buffering() -> Dict[str, str]:
    """Lines of Python ranks come when they are printed, unless the user has decided otherwise."""
    return {"PYTHONUNBUFFERED": os.environ.get("PYTHONUNBUFFERED", "1")}


def _local(command: Sequence[str], env: Mapping[str, str], cwd: Optional[str] = None) -> Popen:
    def start(**options: Any) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(list(command), env={**os.environ, **buffering(), **env}, cwd=cwd,
                                stdin=subprocess.DEVNULL, **options)

    return start


def _remote(host: str, directory: str, command: Sequence[str], env: Mapping[str, str]) -> Popen:
    folder = "" if "PATH" in env else _folder_of(command[0])

    def start(**options: Any) -> "subprocess.Popen[bytes]":
        return ssh.start(host, directory, command, {**buffering(), **env}, folder, **options)

    return start


def _folder_of(program: str) -> str:
    """Where this host finds a program that is named without a folder, such as `python` of the virtual
    environment in use; "" where there is nothing to find."""
    found = None if "/" in program else shutil.which(program)
    return os.path.dirname(os.path.abspath(found)) if found else ""
