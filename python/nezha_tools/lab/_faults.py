"""Faults that a kernel makes on one port: packets dropped without a notice, and packets delayed.

Drops are one nftables table in the bridge family of the switch's namespace. It is made anew from the
lab's state at every change, so that state and kernel cannot differ. Every rule counts what it drops, and
keeps its count when the table is made anew. Delays are netem behind the token bucket of a device; their
functions run in the namespace of the device, on an open pyroute2 IPRoute, and shaping.shape() ends them.
"""

from __future__ import annotations

import errno
import struct
from typing import Any, Dict, List, Tuple

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.nfnetlink.nftsocket import NFPROTO_BRIDGE, Cmp, Meta, Regs
from pyroute2.nftables.expressions import genex, verdict
from pyroute2.nftables.main import NFTables

from . import _kernel
from ..cli.errors import LabError
from ._state import LabState, PortState

# What a rule matches, and the name under which its count is kept.
_Rule = Tuple[str, List[Dict[str, Any]]]

_TABLE = "nezha"
_CHAIN = "forward"
_DROP = 0
_ACCEPT = 1
_ETHERTYPE_IPV4 = struct.pack(">H", 0x0800)
_ROOT = 0xFFFFFFFF
_LOOPBACK = 1
_DELAYED_MAX = 100_000  # 50 ms of more than 10 gbit
_L4_NUMBERS = {"tcp": b"\x06", "udp": b"\x11"}


def _equals(value: bytes) -> Dict[str, Any]:
    return genex("cmp", {"sreg": Regs.NFT_REG_1, "op": Cmp.NFT_CMP_EQ,
                         "data": {"attrs": [("NFTA_DATA_VALUE", value)]}})


def _meta(key: Meta, value: bytes) -> List[Dict[str, Any]]:
    return [genex("meta", {"key": key, "dreg": Regs.NFT_REG_1}), _equals(value)]


def _destination_port(number: int) -> List[Dict[str, Any]]:
    # base 2 is the transport header; bytes 2 and 3 of TCP and UDP are the destination port.
    load = {"dreg": Regs.NFT_REG_1, "base": 2, "offset": 2, "len": 2}
    return [genex("payload", load), _equals(struct.pack(">H", number))]


def _rules_of(port: PortState) -> List[_Rule]:
    name = port.switch_port.encode().ljust(16, b"\0")
    out, into = _meta(Meta.NFT_META_IIFNAME, name), _meta(Meta.NFT_META_OIFNAME, name)
    rules = []
    if port.cut in ("both", "out"):
        rules.append((f"{port.switch_port} out", out))
    if port.cut in ("both", "in"):
        rules.append((f"{port.switch_port} in", into))
    for block in port.blocks:
        match = _meta(Meta.NFT_META_PROTOCOL, _ETHERTYPE_IPV4)
        match = match + _meta(Meta.NFT_META_L4PROTO, _L4_NUMBERS[block["protocol"]])
        if block["port"]:
            match = match + _destination_port(block["port"])
        what = f"{block['protocol']} {block['port'] or 'all'}"
        rules += [(f"{port.switch_port} out {what}", out + match),
                  (f"{port.switch_port} in {what}", into + match)]
    return rules


def _counts(nft: NFTables) -> List[int]:
    """Packets that each rule in force has dropped, in the rules' order."""
    found = []
    for rule in nft.get_rules():
        for expression in rule.get_attr("NFTA_RULE_EXPRESSIONS") or ():
            if expression.get_attr("NFTA_EXPR_NAME") == "counter":
                data = expression.get_attr("NFTA_EXPR_DATA")
                found.append(int(data.get_attr("NFTA_COUNTER_PACKETS")))
    return found


def _replace(nft: NFTables, rules: List[_Rule], counts: Dict[str, int]) -> None:
    nft.table("add", name=_TABLE)
    nft.table("del", name=_TABLE)
    if not rules:
        return
    nft.table("add", name=_TABLE)
    nft.chain("add", table=_TABLE, name=_CHAIN, type="filter", policy=_ACCEPT, hook="forward")
    for name, match in rules:
        counter = genex("counter", {"bytes": 0, "packets": counts.get(name, 0)})
        nft.rule("add", table=_TABLE, chain=_CHAIN, expressions=[match, [counter], verdict(_DROP)])


def apply_drops(lab: LabState) -> None:
    """Makes the switch drop exactly what the lab's ports say, and notes the rules in lab.filters.

    Raises LabError without nftables.
    """
    rules = [rule for n in lab.nodes for p in n.ports for rule in _rules_of(p)]

    def run() -> None:
        with NFTables(nfgen_family=NFPROTO_BRIDGE) as nft:
            _replace(nft, rules, dict(zip(lab.filters, _counts(nft))))

    try:
        _kernel.in_netns(lab.switch, run)
    except Exception as error:  # pyroute2 raises NetlinkError, OSError and its own
        raise LabError(f"silent faults need nftables with the bridge family: {error}") from error
    lab.filters = [name for name, _ in rules]


def dropped(lab: LabState, port: PortState) -> int:
    """Packets of one port that the rules in force have dropped since each came into force."""

    def run() -> List[int]:
        with NFTables(nfgen_family=NFPROTO_BRIDGE) as nft:
            return _counts(nft)

    if not lab.filters:
        return 0
    counts = zip(lab.filters, _kernel.in_netns(lab.switch, run))
    return sum(count for name, count in counts if name.split()[0] == port.switch_port)


def delay(ip: Any, device: str, ms: int) -> None:
    """Holds back what one device sends. Raises NetlinkError without netem."""
    index = ip.link_lookup(ifname=device)[0]
    buckets = [q["handle"] for q in ip.get_qdiscs(index=index) if q.get_attr("TCA_KIND") == "tbf"]
    where = {"parent": buckets[0] | 1} if buckets else {}
    ip.tc("replace", "netem", index, delay=1000 * ms, limit=_DELAYED_MAX, **where)


def can_delay(ip: Any) -> bool:
    """Whether the kernel has netem, tried on the loopback device of this namespace."""
    try:
        ip.tc("add", "netem", _LOOPBACK, delay=1000)
    except NetlinkError as error:
        if error.code not in (errno.ENOENT, errno.EOPNOTSUPP):
            raise
        return False
    ip.tc("del", index=_LOOPBACK, parent=_ROOT)
    return True
