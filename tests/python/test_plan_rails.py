"""`nezha plan rails`: the bound, the assignment that reaches it, and what a cabling can do."""

from math import comb

import pytest

from nezha_tools.bench import static_rails as rails
from nezha_study.plan.cabling import explain, read_cabling
from nezha_tools.cli.errors import PlanError
from nezha_study.plan.rails_report import for_hosts, for_rails


def receivers(sends, count):
    return [~mask & ((1 << count) - 1) for mask in sends]


def pairs_without(sends, receives):
    """Every ordered pair, one by one: what the program computes in bulk."""
    return [(i, j) for i in range(len(sends)) for j in range(len(sends))
            if i != j and not sends[i] & receives[j]]


@pytest.mark.parametrize("count, hosts", [(2, 2), (3, 3), (4, 6), (5, 10), (6, 20), (7, 35),
                                          (8, 70), (9, 126), (10, 252), (11, 462), (12, 924),
                                          (13, 1716)])
def test_the_bound(count, hosts):
    assert rails.most_hosts(count) == hosts == comb(count, count // 2)
    assert rails.fewest_rails(hosts) == count and rails.fewest_rails(hosts + 1) == count + 1
    assert for_rails(count)["most_hosts"] == hosts


@pytest.mark.parametrize("hosts", [*range(2, 72), 126, 253, 384])
def test_every_ordered_pair_has_a_rail(hosts):
    sends = rails.assign(hosts)
    count = rails.fewest_rails(hosts)
    assert len(set(sends)) == hosts and max(sends) < 1 << count
    assert pairs_without(sends, receivers(sends, count)) == []
    plain = rails.assign_naive(hosts)
    assert pairs_without(plain, receivers(plain, rails.naive_rails(hosts))) == []


@pytest.mark.parametrize("hosts, fewest, plain", [(32, 7, 10), (384, 11, 18), (2048, 14, 22)])
def test_the_known_clusters(hosts, fewest, plain):
    document = for_hosts(hosts)
    assert (document["rails"], document["naive_rails"]) == (fewest, plain)
    assert document["cut_off"] == 0 and document["pairs"] == hosts * (hosts - 1)
    assert document["one_rail_less_connects"] < hosts <= document["most_hosts"]
    assert len(document["assignment"]) == hosts
    for row in document["assignment"]:
        assert sorted(row["sends"] + row["receives"]) == list(range(fewest))
        assert [letter == "S"
                for letter in row["directions"]] == [r in row["sends"] for r in range(fewest)]


@pytest.mark.parametrize("hosts", [3, 12, 32, 100, 384])
def test_rails_are_loaded_alike(hosts):
    count = rails.fewest_rails(hosts)
    load = rails.loads(rails.assign(hosts), count)
    assert sum(load) == hosts * (count // 2)
    assert max(load) - min(
        load) <= count // 2  # no more than one group of rotations that is not complete


@pytest.mark.parametrize("spoil", [
    lambda sends: [*sends[:-1], sends[0]],  # the same twice
    lambda sends: [*sends[:-1], sends[0] | sends[1]],  # one contains another
    lambda sends: [*sends[:-1], 0]])  # one never sends
def test_the_check_finds_what_is_wrong(spoil):
    sends = spoil(rails.assign(20))
    receives = receivers(sends, 6)
    count, examples = rails.cut_off(sends, receives, 1000)
    assert count == len(examples) > 0 and examples == pairs_without(sends, receives)
    assert rails.cut_off(sends, receives, 2) == (count, examples[:2])


def test_rails_of_an_average_pair():
    sends = rails.assign(35)
    receives = receivers(sends, 7)
    ways = [bin(sends[i] & receives[j]).count("1") for i in range(35) for j in range(35) if i != j]
    assert rails.mean_pair_rails(sends, receives, 7) == pytest.approx(sum(ways) / len(ways))


@pytest.mark.parametrize("hosts", [0, 1, -3, 20001, 2.5])
def test_hosts_that_cannot_be(hosts):
    with pytest.raises(PlanError, match=r"^nodes .*: it must be a whole number from 2 to 20000"):
        for_hosts(hosts)
    with pytest.raises(PlanError, match="^rails 1: it must be"):
        for_rails(1)


CABLING = """
rails: [eth0, eth1, eth2]
hosts:
  node0: {sends: [eth0], receives: [eth1, eth2]}
  node1: {sends: [eth1], receives: [eth0]}
  node2: {sends: [eth1, eth2], receives: [eth0, eth2]}
"""


def test_a_cabling_is_explained(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(CABLING)
    answer = explain(read_cabling(path))
    assert answer["pairs"] == 6 and answer["ports_that_do_both"] == 1 and answer["fewest_rails"] == 3
    # node1 and node2 both send on eth1, on which neither receives; node2 has eth2, but node1 does not.
    assert answer["examples"] == [{"from": "node1", "to": "node2"}, {"from": "node2", "to": "node1"}]
    assert answer["cut_off"] == 2
    assert answer["loads"][0] == {"rail": "eth0", "senders": 1, "receivers": 2}


@pytest.mark.parametrize("old, new, words", [
    ("[eth0, eth1, eth2]", "[]", "rails must be 1 to"),
    ("[eth0, eth1, eth2]", "[eth0, eth0]", "different names"),
    ("sends: [eth0]", "sends: [eth9]", "hosts.node0.sends 'eth9': it must be one of"),
    ("sends: [eth0]", "sends: eth0", "hosts.node0.sends must be a list"),
    ("sends: [eth0]", "talks: [eth0]", "hosts.node0 must have lists"),
    ("hosts:", "nodes:", "'nodes' is no field"),
    ("rails:", "rails: [", "is no YAML"),
])
def test_a_cabling_with_mistakes(tmp_path, old, new, words):
    path = tmp_path / "cluster.yaml"
    path.write_text(CABLING.replace(old, new, 1))
    with pytest.raises(PlanError, match=words) as caught:
        read_cabling(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_cabling_that_is_not_there(tmp_path):
    with pytest.raises(PlanError, match="cannot read .*cluster.yaml"):
        read_cabling(tmp_path / "cluster.yaml")


# The same numbers are in tests/property/message_policy_test.cc, about what message_policy=static does.
@pytest.mark.parametrize("hosts, expected", [
    (2, 0x00000000000f4245), (3, 0x000000e8d51f2213), (4, 0x29a2421e672372f4),
    (6, 0x8e52b34af3c473ed), (7, 0xe36dc23242f6c903), (20, 0x977d388eae2f9982),
    (35, 0x217d626ad55d84c9), (384, 0xccbbc24d4079b8a6), (2048, 0xa63d18ee7d10099a),
    (12870, 0x78cb7c020c9c88a9)])
def test_the_library_assigns_the_same(hosts, expected):
    value = 0
    for mask in rails.assign(hosts):
        value = (value * 1_000_003 + mask) % (1 << 64)
    assert value == expected
