"""The devices themselves, and plain libfabric over them: what Nezha's rails are to stand on."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, List

from .network import Failure, Rail, rail
from .processes import Process

SECONDS = 240.0  # hang guards: a loaded host makes the guest ten times slower
DELAY_MS = 5


def check(condition: bool, text: str) -> None:
    """Raises Failure with the text unless the condition holds."""
    if not condition:
        raise Failure(text)


def raw_fabric(over: Rail, *more: str) -> List[str]:
    """Command line of raw_fabric between the two ends of a rail."""
    return [os.environ["RAW_FABRIC"], "--provider", "verbs;ofi_rxm", "--address", over.address(1),
            "--peer-address", over.address(0), "--json", "--timeout", "60", "--size", "64K",
            "--repeats", "1", "--round-trips", "30", *more]


def measure(over: Rail, *more: str) -> Dict[str, Any]:
    """raw_fabric's results. It must have used the wire, and compared every byte."""
    before = over.carried()
    with Process(raw_fabric(over, *more)) as process:
        result = json.loads(process.finish(SECONDS)[-1])
    carried = over.carried() - before
    least = result["verified"] * result["size"] // 4096
    check(carried >= least, f"rail {over.name} carried {carried} packets, less than {least}: "
                            "the writes went elsewhere")
    return result


def verbs_ping_pong() -> str:
    """Reliable connections of plain verbs over both RDMA rails, in both directions."""
    notes = []
    for over in (rail("a"), rail("b")):
        sent = sum(over.rxe(node, "sent_pkts") for node in (0, 1))
        words = ["ibv_rc_pingpong", "-g", "1", "-n", "100", "-d"]
        with Process(["stdbuf", "-oL", *words, over.verbs(0)]) as server:
            server.line(lambda line: "local address" in line, SECONDS)
            with Process([*words, over.verbs(1), "127.0.0.1"]) as client:
                client.finish(SECONDS)
            server.finish(SECONDS)
        sent = sum(over.rxe(node, "sent_pkts") for node in (0, 1)) - sent
        check(sent >= 400, f"{over.verbs(0)} and {over.verbs(1)} sent {sent} packets, not 400")
        notes.append(f"{over.name}: {sent} packets")
    return ", ".join(notes)


def raw_clean() -> str:
    """Both rails as they are."""
    notes = []
    for over in (rail("a"), rail("b")):
        result = measure(over, "--iterations", "50")
        notes.append(f"{over.name}: {result['write_gbit_per_s']['median']:.2f} Gbit/s, "
                     f"{result['write_latency_us']['median']:.0f} us")
    return ", ".join(notes)


def raw_delayed() -> str:
    """netem can delay by more than it was told, never by less."""
    over = rail("a")
    over.impair("delay", f"{DELAY_MS}ms")
    result = measure(over, "--iterations", "20", "--round-trips", "10")
    latency = result["write_latency_us"]["median"]
    check(latency >= DELAY_MS * 1000, f"{latency} us one way in spite of {DELAY_MS} ms of delay")
    return f"{latency / 1000:.1f} ms one way"


def raw_lossy() -> str:
    """1 % lost: the bytes are right, netem counted what it dropped, and rxe what it sent again."""
    over = rail("b")
    over.impair("loss", "1%")
    repairs = over.repairs()
    result = measure(over, "--iterations", "50", "--verify", "100")
    dropped, repairs = over.dropped(), over.repairs() - repairs
    check(dropped > 0, "netem has dropped nothing")
    check(repairs > 0, f"netem dropped {dropped} packets, but rxe has repaired nothing")
    return f"{dropped} packets dropped, {repairs} repairs, {result['verified']} writes compared"


def connection_suite() -> str:
    """The conformance suite of connections, over the two adapters of a rail."""
    over = rail("a")
    sent = over.rxe(0, "sent_pkts")
    adapters = f"verbs;ofi_rxm@{over.address(0)},{over.address(1)}"
    with Process([os.environ["RDMA_SUITE"], "--gtest_filter=*/named", "--gtest_brief=1"],
                 {"FABRIC_UNDER_TEST": adapters}) as process:
        status = process.status(SECONDS)
        check(status == 0, f"ended with {status}: {process.lines[-12:]} {process.complaint()}")
    last = process.lines[-1]
    check("PASSED" in last and over.rxe(0, "sent_pkts") > sent, f"did not run over RDMA: {last}")
    return last.strip()


def raw_cut() -> str:
    """The rail goes away in mid-transfer: an error in words, in time, and the rail works when back."""
    over = rail("a")
    begin = over.carried()
    with Process(raw_fabric(over, "--iterations", "1000000")) as process:
        while over.carried() < begin + 3000:  # far into the writes, of which there are 16 000 000
            check(process.child.poll() is None, f"ended before the cut: {process.complaint()}")
            time.sleep(0.02)
        over.cut()
        status = process.status(SECONDS)
        complaint = process.complaint()
    check(status in (1, 3), f"ended with {status} after the cut: {complaint}")
    check("the path is cut" in complaint, f"the message does not say why: {complaint}")
    over.restore()
    measure(over, "--iterations", "20")
    return complaint.splitlines()[0][len("raw_fabric: "):]
