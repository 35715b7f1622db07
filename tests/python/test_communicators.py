"""Several communicators: split, parallel ones, tables, descriptions."""

import threading

import json

import numpy
import pytest

import nezha
from nezha import _native


def test_split(world):
    def body(comm):
        part = comm.split(comm.rank % 2, key=-comm.rank)
        total = part.all_reduce(numpy.array([comm.rank]))[0]
        # Ordered by key: the highest old rank is the new rank 0.
        return part.rank, part.world_size, int(total)

    assert world(5, body) == [(2, 3, 6), (1, 2, 4), (1, 3, 6), (0, 2, 4), (0, 3, 6)]


def test_split_without_a_part(world):
    def body(comm):
        part = comm.split(None if comm.rank == 1 else 0)
        if part is None:
            return None
        with part:
            return part.all_reduce(numpy.array([1]))[0]

    assert world(3, body) == [2, None, 2]


def test_the_parent_works_on(world):
    def body(comm):
        with comm.split(comm.rank // 2) as part:
            part.all_reduce(numpy.ones(3))
        return comm.all_reduce(numpy.ones(1))[0]

    assert world(4, body) == [4.0] * 4


def test_two_communicators_in_parallel_threads(world):
    def body(comm):
        other = comm.split(0)
        results = {}

        def work(name, communicator, factor):
            results[name] = [communicator.all_reduce(numpy.full(1000, factor))[0]
                             for _ in range(50)]

        threads = [threading.Thread(target=work, args=("a", comm, 1.0)),
                   threading.Thread(target=work, args=("b", other, 10.0))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return results

    for results in world(2, body):
        assert results == {"a": [2.0] * 50, "b": [20.0] * 50}


def test_two_jobs_in_one_store(world):
    store = "hash://shared-by-two-jobs"
    outcomes = {}

    def job(name, count):
        outcomes[name] = world(count, lambda comm: comm.all_reduce(numpy.ones(1))[0],
                               store=store, job=name)

    threads = [threading.Thread(target=job, args=(name, count))
               for name, count in (("one", 2), ("two", 3))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert outcomes == {"one": [2.0] * 2, "two": [3.0] * 3}


def test_descriptions(world):
    def body(comm):
        comm.all_reduce(numpy.ones(1000))
        table = comm.table()
        comm.load_table(table)
        return comm.rails(), comm.stats(), comm.config()

    for rails, stats, config in world(2, body, config={"policy": "static", "weights": "1"}):
        assert rails and all(rail["name"] for rail in rails)
        assert stats["operations_begun"] == 1 and stats["endpoints_lost"] == 0
        assert stats["memory_bytes_sent"] + sum(rail["bytes_sent"] for rail in rails) >= 8000
        assert config["policy"] == {"value": "static", "origin": "code"}


def test_a_table_that_is_none():
    with nezha.init(policy="table") as comm:
        with pytest.raises(nezha.InvalidArgument):
            comm.load_table("[")
        with pytest.raises(nezha.InvalidArgument):
            comm.describe("the weather")


def test_a_policy_without_a_table_refuses_one():
    with nezha.init(policy="pull") as comm:
        comm.load_table(comm.table())
        with pytest.raises(nezha.InvalidArgument, match="policy 'pull' keeps no table.*policy=table"):
            comm.load_table({"version": 1, "rows": []})


def test_communicators_beside_an_aggregation_node(world, tmp_path, monkeypatch):
    key = tmp_path / "key"
    key.write_text("5a" * 32 + "\n")
    key.chmod(0o600)
    node = _native.Aggregator("127.0.0.1", 0, None, str(key), 1, 0, 0, 0, 0, None, None)
    monkeypatch.setenv("NEZHA_AGGREGATOR", f"127.0.0.1:{node.port}")
    answer = json.loads(_native.query("job_key", json.dumps({"key_file": str(key), "job": "any"})))
    monkeypatch.setenv("NEZHA_AGGREGATOR_JOB_KEY", answer["job_key"])

    def body(comm):
        with comm.create_group([0, 1], "pair") as pair, comm.split(0) as part:
            return [int(each.all_reduce(numpy.array([1]))[0]) for each in (pair, part, comm)]

    assert world(2, body, rails="lo", config={"shm": "off"}) == [[2, 2, 2]] * 2
    node.close()


def test_a_communicator_of_nobody():
    with nezha.init() as comm:
        with pytest.raises(nezha.InvalidArgument, match="create_group: ranks is empty"):
            comm.create_group([])


def test_closing_waits_for_another_thread_s_call_before_it_aborts(world):
    part_of_zero = []
    closing = threading.Event()

    def body(comm):
        part = comm.split(0)
        data = numpy.array([1])
        if comm.rank == 1:
            # Rank 0 is in its call, and its communicator is being closed meanwhile.
            assert closing.wait(20)
            while not part_of_zero[0].closed:
                pass
            return int(part.all_reduce(data)[0])
        sums = []

        def call():
            sums.append(int(part.all_reduce(data)[0]))

        part_of_zero.append(part)
        before = comm.stats()["operations_begun"]
        thread = threading.Thread(target=call)
        thread.start()
        while comm.stats()["operations_begun"] == before:
            pass
        closing.set()
        part.close(timeout=20)
        thread.join(20)
        return sums[0]

    assert world(2, body) == [2, 2]
