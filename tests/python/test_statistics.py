"""docs/statistics.md names every key that the library returns, and no other."""

import json
import re
import threading
import typing
from pathlib import Path

import numpy
import pytest

import nezha
from nezha import _native, _statistics

pytestmark = pytest.mark.usefixtures("loopback")

PAGE = Path(__file__).resolve().parents[2] / "docs/statistics.md"


def documented():
    """{heading or first word before a table: the keys of the table}"""
    tables, title = {}, ""
    for line in PAGE.read_text().split("\n"):
        heading = re.match(r"## (\w+)$|`(\w+)`:$", line)
        if heading:
            title = heading[1] or heading[2]
        row = re.match(r"\| `([\w.\[\]]+)` \|", line)
        if row:
            tables.setdefault(title, set()).add(row[1])
    return tables


def keys_of(value, prefix="", depth=9):
    """The keys of nested dictionaries and of lists of them, as the page writes them."""
    found = set()
    if isinstance(value, list):
        for item in value:
            found |= keys_of(item, prefix + "[]", depth)
    elif isinstance(value, dict):
        for name, inner in value.items():
            path = f"{prefix}.{name}" if prefix else name
            found.add(path)
            if depth > 1:
                found |= keys_of(inner, path, depth - 1)
    return found


def without(keys, *parts):
    """The keys that lie in none of the parts."""
    return {key for key in keys if not any(key.startswith(part) for part in parts)}


@pytest.fixture
def asked(world):
    """What a rank of two returns while the other has not come to an operation."""
    come = threading.Event()

    def body(comm):
        comm.all_reduce(numpy.ones(1 << 16))
        if comm.rank == 1:
            assert come.wait(30)
            comm.barrier()
            return None
        work = comm.barrier(async_op=True)
        try:
            return {topic: comm.describe(topic)
                    for topic in ("stats", "rails", "stragglers", "table", "config")}
        finally:
            come.set()
            work.wait()

    return world(2, body, policy="table")[0]


def declared(kind):
    """The keys of a typed dictionary and of those in it, as the page writes them."""
    found = set()
    for name, type_ in typing.get_type_hints(kind).items():
        found.add(name)
        inner = typing.get_args(type_)[0] if typing.get_origin(type_) is list else type_
        mark = "[]" if inner is not type_ else ""
        if typing.is_typeddict(inner) if hasattr(typing, "is_typeddict") else hasattr(inner, "__total__"):
            found |= {f"{name}{mark}.{key}" for key in declared(inner)}
    return found


def test_what_type_checkers_see():
    pages = documented()
    inside = pages["aggregation"]
    assert declared(_statistics.Stats) == pages["stats"] | {f"aggregation.{key}" for key in inside}
    assert {f"rails[].{key}" for key in declared(_statistics.Rail)} == pages["rails"] - {"left_out"}
    assert declared(_statistics.Stragglers) == without(pages["stragglers"], "operation.")


def test_stats(asked):
    assert keys_of(asked["stats"]) == documented()["stats"] - {"aggregation"}


def test_rails(asked):
    top = {"rails"}
    assert keys_of(asked["rails"]) - top == documented()["rails"]


def by_rule(world, **options):
    """The transfers of rank 0 by rule and rail, after short and long operations over two rails."""
    def body(comm):
        for _ in range(50):
            comm.all_reduce(numpy.ones(2048, dtype=numpy.float32))  # 8 KiB
        for _ in range(3):
            comm.all_reduce(numpy.ones(1 << 20, dtype=numpy.float32))
        sent = comm.stats()["frames_sent"] - comm.stats()["retransmitted"]
        return [rail["transfers"] for rail in comm.rails()], sent

    rails, sent = world(2, body, rails="127.1.0.1,127.2.0.1",
                        config={"shm": "off", **options})[0]
    assert sum(count for rail in rails for count in rail.values()) == sent
    return {rule: [rail[rule] for rail in rails] for rule in rails[0]}


def test_transfers_are_counted_by_the_rule_that_chose_their_rail(world):
    # Whether pull divides depends on the rates that a busy loopback seems to have: the unit tests of
    # RailChoice say which rule applies when. With two rails there is always a choice.
    assert sum(by_rule(world)["only"]) == 0
    divided = by_rule(world, policy="static", weights="3:1")
    assert sum(divided["share"]) == sum(sum(counts) for counts in divided.values())
    first, second = divided["share"]
    assert first / (first + second) == pytest.approx(0.75, abs=0.03)


def test_stragglers(asked):
    assert without(keys_of(asked["stragglers"]), "ranks[].last.") == documented()["stragglers"]


def test_table_and_config(asked):
    assert set(asked["table"]) == documented()["table"]
    assert {key for option in asked["config"].values() for key in option} == documented()["config"]


def test_aggregation(world, tmp_path):
    key = tmp_path / "key"
    key.write_text("5a" * 32)
    key.chmod(0o600)
    node = _native.Aggregator("127.0.0.1", 0, None, str(key), 1, 0, 0, 0, 0, None, None)
    job_key = json.loads(_native.query("job_key", json.dumps({"key_file": str(key)})))["job_key"]

    def body(comm):
        for _ in range(40):
            comm.all_reduce(numpy.ones(1 << 16))
            comm.barrier()
        return comm.stats()

    try:
        for stats in world(2, body, config={"aggregator": f"127.0.0.1:{node.port}", "shm": "off",
                                           "aggregator_share": "0.5", "aggregator_job_key": job_key}):
            assert keys_of(stats["aggregation"]) == documented()["aggregation"]
            assert "aggregation" in documented()["stats"]
            (used,) = stats["aggregation"]["communicators"]
            assert used["operations_cut"] > 0 and used["coordination_rounds"] > 0
            # Each call once and as a whole; nothing of what the ranks agree on about the node.
            assert {(each["collective"], each["bytes_max"], each["count"], each["bytes"])
                    for each in stats["operations"]} == {
                        ("all_reduce", 1 << 19, 40, 40 << 19), ("barrier", 0, 40, 0)}
    finally:
        node.close()


def test_the_page_is_linked():
    assert "statistics.md" in nezha.Communicator.stats.__doc__


def test_operations_by_kind_and_size(world):
    def body(comm):
        for _ in range(3):
            comm.all_reduce(numpy.ones(1000, numpy.float32))
        comm.broadcast(numpy.ones(1 << 18, numpy.float32), 0)
        if comm.rank == 0:
            comm.send(numpy.ones(5, numpy.uint8), 1)
        else:
            comm.recv(numpy.empty(5, numpy.uint8), 0)
        return comm.stats()["operations"]

    for operations in world(2, body):
        found = {(row["collective"], row["bytes_max"]): row for row in operations}
        assert found["all_reduce", 4096]["count"] == 3 and found["all_reduce", 4096]["bytes"] == 12000
        assert found["broadcast", 1 << 20]["count"] == 1
        assert found["send_recv", 8]["bytes"] == 5
        assert all(row["seconds"] > 0 for row in operations)
