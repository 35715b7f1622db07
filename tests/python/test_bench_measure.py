"""The measuring loop and its rows, on ranks that are threads and a communicator that is a list."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from nezha_tools.bench import measure as bench_measure
from nezha_tools.bench.driver import Comm
from nezha_tools.bench.measure import measure
from nezha_tools.bench.rows import gains, make_rows, spread, wire_check
from nezha_tools.bench.spec import BenchSpec, RailSample, Sample

GBIT = 1e9 / 8
_STEP = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}


class FakeWorld:
    """Ranks in threads. `corrupt(x)` may spoil a result on rank 1; rails count what is sent."""

    def __init__(self, ranks, corrupt=None, shares=(0.75, 0.25)):
        self.ranks = ranks
        self.corrupt = corrupt
        self.shares = shares
        self.barrier = threading.Barrier(ranks)
        self.slots = [None] * ranks
        self.calls = [0] * ranks
        self.algorithms = []
        self.comm = FakeComm

    def run(self, spec):
        """What `measure` returned on every rank."""
        results, errors = [None] * self.ranks, []

        def body(rank):
            try:
                results[rank] = measure(self.comm(self, rank), spec)
            except Exception as error:  # reported by the main thread
                errors.append(error)
                self.barrier.abort()

        threads = [threading.Thread(target=body, args=(rank,)) for rank in range(self.ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results


class FakeComm(Comm):
    """A communicator of a library that has no more than the bench asks for."""

    def __init__(self, world, rank):
        self.world, self.rank, self.world_size = world, rank, world.ranks
        self._sent = [0, 0]

    def _exchange(self, value):
        self.world.slots[self.rank] = value
        self.world.barrier.wait()
        values = list(self.world.slots)
        self.world.barrier.wait()
        return values

    def all_reduce(self, x, op="sum", out=None, algorithm=None):
        self.world.calls[self.rank] += 1
        arrays = self._exchange(x.copy())
        total = arrays[0]
        with np.errstate(over="ignore", invalid="ignore"):
            for array in arrays[1:]:
                total = _STEP[op](total, array)
        target = x if out is None else out
        target[...] = total
        if x.dtype != np.float64:  # the bench's own exchanges are float64
            self._sent = [sent + int(x.nbytes * share)
                          for sent, share in zip(self._sent, self.world.shares)]
            if self.world.corrupt is not None and self.rank == 1:
                self.world.corrupt(target)

    def broadcast(self, x, root=0, algorithm=None):
        self.world.algorithms.append(algorithm)
        x[...] = self._exchange(x.copy())[root]

    def barrier(self):
        self.world.barrier.wait()

    def rails(self):
        return [{"name": name, "device": f"none-{name}", "transport": "tcp", "bytes_sent": sent}
                for name, sent in zip(("a", "b"), self._sent)]


def _spec(**changes):
    given = {"sizes": [4, 4096], "iterations": 6, "warmup": 2,
             "rates": {"none-a": GBIT, "none-b": GBIT / 2}, **changes}
    return BenchSpec(**given)


def test_every_rank_has_the_same_samples():
    results = FakeWorld(3).run(_spec())
    assert results[0] == results[1] == results[2]
    assert [sample.size for sample in results[0]] == [4, 4096]
    assert [sample.count for sample in results[0]] == [1, 1024]
    assert all(len(sample.times_us) == 6 and min(sample.times_us) > 0 for sample in results[0])
    assert all(sample.wrong == 0 for sample in results[0])


def test_the_time_of_a_size_is_that_of_the_loop(monkeypatch):
    """Ranks that wait for each other in turns: each operation is slow on one of them, the loop is not."""
    times = ([1.0, 3.0] * 3, [3.0, 1.0] * 3)
    monkeypatch.setattr(bench_measure, "_time", lambda comm, case, count: np.array(times[comm.rank]))
    (sample,) = FakeWorld(2).run(_spec(sizes=[4096]))[0]
    assert sample.times_us == [3e6] * 6
    assert sample.mean_us == 2e6


@pytest.mark.parametrize("in_place", [True, False])
def test_a_planted_error_is_counted_over_all_ranks(in_place):
    def corrupt(x):
        x[-1] += 1

    samples = FakeWorld(3, corrupt).run(_spec(in_place=in_place, checks=2))[0]
    # One element on one rank, in each of two checked operations. (The last element is also the
    # first of a one-element tensor.)
    assert [sample.wrong for sample in samples] == [2, 2]


def test_a_result_that_is_not_written_is_wrong():
    class Lazy(FakeComm):
        def all_reduce(self, x, op="sum", out=None, algorithm=None):
            super().all_reduce(x, op, np.empty_like(x) if out is not None else None)

    world = FakeWorld(1)
    samples = measure(Lazy(world, 0), _spec(in_place=False, sizes=[4096]))
    assert samples[0].wrong == 1024


def test_broadcast_and_barrier():
    broadcast = FakeWorld(3).run(_spec(collective="broadcast", root=2))[1]
    assert [sample.wrong for sample in broadcast] == [0, 0]
    barrier = FakeWorld(3).run(_spec(collective="barrier", sizes=[0]))[0]
    assert barrier[0].size == 0 and len(barrier[0].times_us) == 6


def test_a_broadcast_uses_the_algorithm_that_was_asked_for():
    world = FakeWorld(2)
    world.run(_spec(collective="broadcast", algorithm="chain"))
    assert set(world.algorithms) == {"chain"}


@pytest.mark.parametrize("collective, redop", [("all_reduce", "max"), ("reduce", "max"),
                                               ("reduce_scatter", "max"), ("broadcast", "none")])
def test_rows_name_the_operator_of_what_combines_data(collective, redop):
    row = make_rows(_spec(collective=collective, op="max"), [[_sample([1.0])]])[0]
    assert row["redop"] == redop


def test_the_number_of_operations_is_agreed_and_bounded():
    samples = FakeWorld(2).run(_spec(iterations=None, warmup=None, seconds=0.02, sizes=[4]))[0]
    assert 5 <= len(samples[0].times_us) <= 2000


def test_rails_carry_bytes_and_shares():
    spec = _spec(sizes=[4096], checks=0)
    samples = FakeWorld(2).run(spec)[0]
    assert [rail.bytes for rail in samples[0].rails] == [6 * 2 * 3072, 6 * 2 * 1024]
    row = make_rows(spec, [samples])[0]
    assert [rail["share"] for rail in row["rails"]] == [0.75, 0.25]
    assert [rail["bytes"] for rail in row["rails"]] == [2 * 3072, 2 * 1024]
    assert [rail["rate_gbps"] for rail in row["rails"]] == [1.0, 0.5]


def test_bytes_in_shared_memory_are_no_rails_bytes():
    class SharingComm(FakeComm):
        """Half of what the first rail counts goes through memory."""

        def rails(self):
            found = super().rails()
            found[0]["shm_bytes_sent"] = found[0]["bytes_sent"] // 2
            return found

    world = FakeWorld(2)
    world.comm = SharingComm
    spec = _spec(sizes=[4096], checks=0)
    row = make_rows(spec, [world.run(spec)[0]])[0]
    assert [(rail["name"], rail["transport"]) for rail in row["rails"]] == [
        ("a", "tcp"), ("b", "tcp"), ("shm", "shm")]
    assert [rail["share"] for rail in row["rails"]] == [0.375, 0.25, 0.375]
    assert row["rails"][2]["rate_gbps"] is None


def _sample(times, size=1 << 20, rails=None):
    rails = rails if rails is not None else [
        RailSample("eth0", "eth0", 3 << 20, int(1.05 * (3 << 20)), GBIT)]
    return Sample(size, size // 4, 4, times, sum(times) / len(times), 0, 0.5, rails)


def test_rows_have_exactly_the_documented_fields():
    row = make_rows(_spec(sizes=[1 << 20]), [[_sample([20e3, 10e3, 60e3])]])[0]
    assert set(row) == {
        "size", "count", "type", "redop", "time_us", "p50_us", "p99_us", "algbw_gbps",
        "busbw_gbps", "limit_us", "of_limit", "wrong", "cpu_s_per_gb", "cores_given", "cores_used",
        "rails", "library"}
    assert set(row["rails"][0]) == {"name", "transport", "rate_gbps", "bytes", "share"}
    assert (row["time_us"], row["p50_us"], row["p99_us"]) == (30e3, 20e3, 60e3)
    assert row["algbw_gbps"] == pytest.approx(8 * (1 << 20) / 30e-3 / 1e9)
    assert row["busbw_gbps"] == pytest.approx(1.5 * row["algbw_gbps"])
    assert row["limit_us"] == pytest.approx(1.5 * (1 << 20) / GBIT * 1e6)
    assert row["of_limit"] == pytest.approx(row["limit_us"] / row["time_us"])
    assert row["cpu_s_per_gb"] == pytest.approx(0.5 / (3 * (1 << 20) / 1e9))


def test_an_unknown_rate_leaves_the_limit_empty():
    sample = _sample([1e3], rails=[RailSample("lo", "lo", 10, None, None)])
    row = make_rows(_spec(sizes=[1 << 20]), [[sample]])[0]
    assert row["limit_us"] is None and row["of_limit"] is None
    assert row["rails"][0]["rate_gbps"] is None


def test_launches_give_a_median_and_a_spread():
    launches = [[_sample([10.0] * 3)], [_sample([30.0] * 3)], [_sample([20.0] * 3)]]
    assert make_rows(_spec(), launches)[0]["time_us"] == 20.0
    assert spread(launches) == [{"size": 1 << 20, "min_us": 10.0, "max_us": 30.0}]


def test_gain_is_over_the_best_single_rail():
    rows = [{"size": size, "time_us": us} for size, us in ((4, 50.0), (8, 50.0), (16, 1.0))]
    singles = {"fast": [{"size": 4, "time_us": 40.0}, {"size": 8, "time_us": 100.0}],
               "slow": [{"size": 4, "time_us": 60.0}, {"size": 8, "time_us": 150.0}]}
    assert gains(rows, singles) == [0.8, 2.0, None]


@pytest.mark.parametrize("factor, agree", [(1.0, True), (1.06, True), (1.2, False), (0.9, False)])
def test_interface_counters_must_agree_within_headers(factor, agree):
    rail = RailSample("eth0", "eth0", 100 << 20, int(factor * (100 << 20)), GBIT)
    check = wire_check([[_sample([1e3], rails=[rail])]])
    assert check["agree"] is agree
    assert bool(check["disagreements"]) is not agree


def test_small_sizes_are_not_compared_with_the_interfaces():
    rail = RailSample("eth0", "eth0", 100 << 20, 400 << 20, GBIT)
    assert wire_check([[_sample([1e3], size=1024, rails=[rail])]])["agree"] is None


def test_specs_and_samples_survive_the_trip_between_processes(tmp_path):
    from dataclasses import asdict

    spec = _spec(config={"policy": "table"})
    spec.save(tmp_path / "spec.json")
    assert BenchSpec.load(tmp_path / "spec.json") == spec
    sample = _sample([1.0, 2.0])
    assert Sample.from_dict(asdict(sample)) == sample


def test_the_loop_runs_where_nezha_is_not_installed():
    """Peers' drivers import it in an interpreter that may have NumPy and nothing else."""
    subprocess.run([sys.executable, "-c", "import sys; sys.modules.update(dict.fromkeys("
                    "['nezha', 'typer', 'rich', 'pyroute2'])); import nezha_tools.bench.measure"],
                   check=True, cwd="/", timeout=60)
