"""Host files, one host a line as `HOST` or `HOST slots=N`, where `#` begins a comment; and lists of
hosts, as `HOST,HOST:N`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Tuple

from .errors import LaunchError


@dataclass(frozen=True)
class Host:
    """A host and how many ranks it takes. `name` is what ssh is given: HOST or USER@HOST."""

    name: str
    slots: int = 1

    @property
    def address(self) -> str:
        """The name without the user."""
        return self.name.rpartition("@")[2]


def parse(text: str, source: str = "host file") -> List[Host]:
    """The hosts in order. Raises LaunchError naming the line that cannot be read."""
    hosts: List[Host] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{source}, line {number}"
        if words[0].startswith("-"):
            raise LaunchError(f"{where}: {words[0]!r} is no host name")
        if any(host.name == words[0] for host in hosts):
            raise LaunchError(f"{where}: {words[0]} stands there twice; use slots=N")
        hosts.append(Host(words[0], _slots(words[1:], where)))
    if not hosts:
        raise LaunchError(f"{source}: there is no host in it")
    return hosts


def listed(text: str, source: str = "-H") -> List[Host]:
    """The hosts of a list with commas, in order. Raises LaunchError naming what cannot be read."""
    items = [item.strip() for item in text.split(",")]
    lines = []
    for item in items:
        name, colon, slots = item.rpartition(":")
        # With more colons it is an IPv6 address.
        has_slots = bool(colon) and (":" not in name or name.endswith("]"))
        name = name if has_slots else item
        if not name or (has_slots and not slots):
            raise LaunchError(f"{source} {text}: {item!r} is no host; write HOST,HOST:N")
        lines.append(f"{name.strip('[]')} slots={slots}" if has_slots else name.strip("[]"))
    return parse("\n".join(lines), f"{source} {text}")


def _slots(words: List[str], where: str) -> int:
    slots = 1
    for word in words:
        name, equals, value = word.partition("=")
        if name != "slots" or not equals or not value.isdecimal() or not 1 <= int(value) <= 4096:
            raise LaunchError(f"{where}: {word!r} is not understood; write HOST slots=N, "
                              "N from 1 to 4096")
        slots = int(value)
    return slots


def assign(hosts: List[Host], count: int) -> List[Tuple[Host, int]]:
    """(host, local rank) of ranks 0 .. count-1: the slots of one host after those of another.

    count = 0 takes every slot. Raises LaunchError when there are fewer slots than ranks.
    """
    places = [(host, slot) for host in hosts for slot in range(host.slots)]
    if count > len(places):
        raise LaunchError(f"{count} ranks, but the hosts have {len(places)} slots: add hosts or "
                          "raise slots=")
    return places[:count] if count else places
