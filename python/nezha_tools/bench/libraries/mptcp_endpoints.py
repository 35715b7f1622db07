"""Announces addresses of this namespace to MPTCP's peers: `python mptcp_endpoints.py ADDRESS:PORT ...`.

The kernel then listens there, and who has a connection to this namespace adds a subflow to each address.
So a connection that begins on one network uses all of them, although no network reaches another one.
"""

from __future__ import annotations

import sys
from typing import Any, Sequence

from pyroute2 import MPTCP

_SIGNAL = 1  # announce the address
_SUBFLOWS = 8  # the kernel's most


def announce(endpoints: Sequence[str]) -> None:
    """In the namespace of this process; those that are announced already stay. Raises
    pyroute2's NetlinkError."""
    with MPTCP() as mptcp:
        mptcp.limits("set", subflows=_SUBFLOWS, add_addr_accepted=_SUBFLOWS)
        announced = [_address(each) for each in mptcp.endpoint("show")]
        for endpoint in endpoints:
            address, _, port = endpoint.partition(":")
            if address not in announced:
                mptcp.endpoint("add", addr=address, port=int(port), flags=_SIGNAL)


def _address(shown: Any) -> Any:
    return shown.get_attr("MPTCP_PM_ATTR_ADDR").get_attr("MPTCP_PM_ADDR_ATTR_ADDR4")


if __name__ == "__main__":
    announce(sys.argv[1:])
