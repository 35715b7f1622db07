"""Whether a fault happened, by what the kernel counted.

Pure. Facts are those of lab.evidence, of all ports hit: `before` the fault, and `during`, read at
its end before it is undone.
"""

from __future__ import annotations

from typing import Dict, List, Tuple

from .faults import SLOWER

Facts = List[Dict[str, int]]
Verdict = Tuple[bool, str]

_SILENT = ("blackhole", "oneway-out", "oneway-in")
_RATE_SLACK = 0.01  # the kernel keeps rates in whole bytes


def _more(before: Facts, during: Facts, key: str) -> int:
    return sum(port[key] for port in during) - sum(port[key] for port in before)


def of_port(kind: str, before: Facts, during: Facts, *, acts: int = 0, delay_ms: int = 0) -> Verdict:
    """Whether `kind` happened on a port, and the sentence that proves it.

    acts: what the nemesis did: connections it destroyed, times it lowered the carrier.
    """
    if kind in _SILENT:
        dropped = sum(port["dropped"] for port in during)
        return dropped > 0, (f"{dropped} packets dropped" if dropped
                             else "no packet came its way: the program did not use this rail then")
    if kind == "cut":
        lost = _more(before, during, "carrier_losses")
        gone = not any(port["carrier"] for port in during)
        return lost > 0 and gone, f"carrier lost {_times(lost)}" + ("" if gone else ", but it is back")
    if kind == "flap":
        lost = _more(before, during, "carrier_losses")
        return lost >= acts > 0, f"carrier lost {_times(lost)}"
    if kind == "reset":
        counted = _more(before[:1], during[:1], "resets")
        if not acts:
            return False, "there was no connection to destroy on this rail"
        return counted >= 1, f"{acts} connections destroyed, the kernel counts {counted} resets"
    if kind in SLOWER:
        return _slowed(SLOWER[kind], before, during)
    assert kind == "delay", kind
    found = min(port["delay_ms"] for port in during)
    return found == delay_ms, f"{found} ms read back"


def _slowed(factor: int, before: Facts, during: Facts) -> Verdict:
    rates = [port[key] for port in during for key in ("rate_out_bps", "rate_in_bps")]
    wanted = [port[key] / factor for port in before for key in ("rate_out_bps", "rate_in_bps")]
    right = all(abs(rate - want) <= _RATE_SLACK * want for rate, want in zip(rates, wanted))
    megabytes = _more(before, during, "bytes") / 1e6
    return right, (f"{rates[0] / 1e6:g} Mbit/s read back on both ends, "
                   f"{megabytes:.1f} MB passed meanwhile")


def of_pause(stopped: bool, lasted_s: float, ticks: int, still_stopped: bool) -> Verdict:
    """stopped: seen in state T at the beginning; ticks: processor time used between, clock ticks."""
    if not stopped:
        return False, "the rank was not seen stopped"
    return ticks == 0 and still_stopped, (
        f"stopped for {lasted_s:.2f} s, used {ticks} ticks of processor time")


def of_kill(dead: bool) -> Verdict:
    """dead: the kernel says that the process has ended."""
    return dead, "the process is gone" if dead else "the process still runs"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
