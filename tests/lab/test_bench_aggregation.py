"""The benches over rails with aggregation nodes, for real and small. Nothing depends on times."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Dict

from conftest import child_env


def bench(*arguments: str) -> Dict[str, Any]:
    """The document of `nezha bench ...`."""
    code = "import sys; sys.argv[0] = 'nezha'; from nezha_tools.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "bench", *arguments, "--json", "-"], text=True,
                          capture_output=True, timeout=280, env=child_env())
    assert done.returncode == 0, done.stderr
    document: Dict[str, Any] = json.loads(done.stdout)
    return document


def test_all_reduce_counts_the_way_to_the_node(namespaces: None) -> None:
    found = bench("all_reduce", "--nodes", "3", "--rates", "200mbit,agg:200mbit", "-b", "256K", "-e",
                  "256K", "--iters", "8", "-w", "8", "--config", "aggregator_share=0.5")
    (row,) = found["rows"]
    assert row["wrong"] == 0
    shares = {(rail["name"], rail["transport"]): rail["share"] for rail in row["rails"]}
    assert shares[("eth1 agg", "agg")] > 0.2, shares
    # A rail alone is alone: the host's without the node, the node's without the host's.
    singles = {name: entry["rows"][0] for name, entry in found["singles"].items()}
    assert {rail["transport"] for rail in singles["eth0"]["rails"]} == {"tcp"}
    assert {rail["name"] for rail in singles["eth1"]["rails"]} == {"eth1", "eth1 agg"}
    assert all(single["wrong"] == 0 for single in singles.values())


def test_the_switch_bench(namespaces: None) -> None:
    found = bench("switch", "--nodes", "2,3", "--rates", "agg:200mbit", "--sizes", "8,256K", "--seconds",
                  "0.05")
    assert found["wrong"] == 0
    assert [(each["nodes"], each["size"]) for each in found["results"]] == [
        (2, 8), (2, 256 << 10), (3, 8), (3, 256 << 10)]
    for each in found["results"]:
        assert each["hosts"]["node_share"] == 0
        if each["size"] > 8:  # the rounds of the ranks outweigh eight bytes
            assert each["switch"]["node_share"] > 0.5, each


def test_table_1(namespaces: None) -> None:
    found = bench("table1", "--nodes", "3", "--rates", "200mbit,agg:200mbit", "--sizes", "256K",
                  "--operations", "20", "--seconds", "1")
    shares = {each["what"]: each["node_share"] for each in found["results"]}
    assert list(shares) == ["200mbit alone", "agg:200mbit alone", "1:1", "99:1", "1:99"]
    assert shares["200mbit alone"] == 0 and shares["agg:200mbit alone"] > 0.5
    assert 0.2 < shares["1:1"] < shares["1:99"]
    assert all(5 <= each["operations"] <= 20 and each["wrong"] == 0 for each in found["results"])
