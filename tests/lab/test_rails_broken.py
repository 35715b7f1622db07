"""Rails that look fine and are not: jobs form on the others and say what is wrong."""

from __future__ import annotations

import pytest
from rails_job import Job
from test_rails import formed, sentences, used

from nezha.lab import Lab, Rail

pytestmark = pytest.mark.usefixtures("namespaces")

MB = 1 << 20


def test_a_rail_with_a_blocked_port_is_left_out_and_explained() -> None:
    with Lab(3, ["100mbit", "100mbit"]) as lab:
        lab.block_port(1, 0)
        with Job(lab) as job:
            told = sentences(formed(job))
            assert any("rail eth0 of rank 0 is not used towards rank 1: eth0 to 10.1.0.2" in each
                       and "firewall" in each for each in told), told
            assert any("rail eth0 of rank 1 is not used towards rank 2: eth0 to 10.1.0.3" in each
                       and "firewall" in each for each in told), told
            assert len(told) == 2
            bytes_sent = used(job)
            assert bytes_sent[1]["eth0"] == 0 and bytes_sent[1]["eth1"] > MB


def test_a_path_that_swallows_big_packets_is_left_out() -> None:
    rails = [Rail("100mbit", mtu=9000, path_mtu=1500), Rail("100mbit")]
    with Lab(2, rails) as lab, Job(lab) as job:
        told = sentences(formed(job))
        if told:  # path MTU discovery by probing may save the rail
            assert len(told) == 1 and "rail eth0 of rank 0" in told[0], told
            assert "full-size packets do not get through" in told[0], told
        assert used(job)[0]["eth1"] > MB
