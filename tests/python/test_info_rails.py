"""What `nezha info` says of rails that are there but not as good as they look."""

import json

import pytest

from nezha import _native
from nezha_tools.commands import app
from nezha_tools.info.memory_probe import MemoryProbe

REASON = "sockets cannot be bound to device eth1 (Operation not permitted) and have their address only"


def tcp(number, **changes):
    return {"device": f"eth{number}", "address": f"10.{number}.0.1", "prefix_length": 24, "mtu": 1500,
            "speed_gbps": None, "numa_node": -1, "driver": "", "up": True, "usable": True, "reason": "",
            "unbound": "", **changes}


def adapter(number):
    return {"rail": f"ofi:mlx5_{number}", "provider": "verbs;ofi_rxm", "device": f"eth{number}",
            "address": f"10.{number}.0.1", "mtu": 4096, "numa_node": 0, "speed_gbps": 100.0,
            "adapter": True}


@pytest.fixture
def info(monkeypatch, capsys):
    """info(devices, adapters): what is shown of such a host."""
    def run(devices, adapters):
        fabric = {"library": "1.17", "missing": "", "rails_max": 16, "devices": adapters}
        answers = {"launch": None, "devices": devices, "fabric": fabric, "build": {"version": "0"},
                   "aggregator": {"configured": ""}, "host": {"identity": "a", "origin": ""},
                   "authentication": {"secret": "", "origin": "", "option": "auto", "reason": ""}}
        monkeypatch.setattr("nezha_tools.info.command.try_memory", lambda: MemoryProbe(""))
        monkeypatch.setattr(_native, "query", lambda what, _: json.dumps(answers[what]))
        with pytest.raises(SystemExit):
            app(["info"])
        return " ".join(capsys.readouterr().out.split())

    return run


def test_a_rail_that_is_not_bound_to_its_device(info):
    shown = info([tcp(0), tcp(1, unbound=REASON)], [])
    assert "yes, by its address only" in shown and REASON[1:] + "." in shown
    assert "No device is usable" not in shown
    assert "by its address only" not in info([tcp(0), tcp(1)], [])


def test_rails_that_are_too_many_are_named(info):
    shown = info([tcp(number) for number in range(15)], [adapter(number) for number in range(14, 17)])
    assert "would leave out ofi:mlx5_16: a rank has at most 16 rails" in shown
    shown = info([tcp(number) for number in range(14)], [adapter(number) for number in range(13, 16)])
    assert "uses ofi:mlx5_13, ofi:mlx5_14, ofi:mlx5_15 and every other device" in shown
