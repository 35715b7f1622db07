"""`nezha plan job`: traffic by stage and group, what is hidden, what would hide it, and mistakes in
the question."""

from dataclasses import replace

import pytest

from nezha_study.plan import job as answers
from nezha_study.plan import traffic
from nezha_tools.cli.errors import PlanError
from nezha_study.plan.job_report import report
from nezha_study.plan.job_spec import read_job

BASE = {
    "params": "8B", "nodes": 4, "gpus": 8, "nics": "8x200Gbit/s", "accelerator": "H100",
    "seq": 4096, "batch": 64
}
GROUPS = {
    **BASE, "params": "80B", "nodes": 16, "batch": 512, "tensor": 8, "pipeline": 4, "layers": 80,
    "hidden": 8192
}


def job(**changes):
    return read_job({**BASE, **changes})


def groups(**changes):
    return read_job({**GROUPS, **changes})


def sent(found, name):
    return next(row["bytes"] for row in report(found, {})["traffic"] if name in row["what"])


@pytest.mark.parametrize("zero, volume", [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_what_the_stages_of_zero_send(zero, volume):
    found = job(zero=zero)
    total = sum(row["bytes"] for row in report(found, {})["traffic"])
    assert total == pytest.approx(volume * 8e9 * 2 * 31 / 32)


def test_micro_batches_multiply_what_stages_2_and_3_send():
    for zero, repeats in ((0, [1]), (1, [1, 1]), (2, [2, 1]), (3, [2, 4])):
        found = job(zero=zero, micro_batch=1)
        assert found.micro_batches == 2
        assert [each.repeats for each in traffic.operations(found)] == repeats


@pytest.mark.parametrize("zero, bytes_each", [
    (0, 18), (1, 2 + 4 + 12 / 32), (2, 2 + 16 / 32), (3, 18 / 32)])
def test_memory_by_stage(zero, bytes_each):
    memory = answers.memory(job(zero=zero))
    assert memory.per_parameter == 18 and memory.per_accelerator == pytest.approx(8e9 * bytes_each)
    assert report(job(zero=zero), {})["memory"]["fits"] == (zero > 0)
    assert answers.memory(job(dtype="fp32")).per_parameter == 16


def test_levels_and_buckets():
    found = job(bucket="16G", latency="10us", intra_latency="1us", efficiency=1.0)
    operation, = traffic.operations(found)
    once = traffic.timing(found, operation)
    assert once.buckets == 1 and once.inside.algorithm == once.outside.algorithm == "ring"
    # 8 accelerators: reduce-scatter and all-gather at 450 GB/s; 4 nodes: an eighth each at 25 GB/s.
    assert once.inside.time.transfer_s == pytest.approx(2 * 7 / 8 * 16e9 / 450e9)
    assert once.inside.time.latency_s == pytest.approx(14e-6)
    assert once.outside.time.transfer_s == pytest.approx(1.5 * 2e9 / 25e9)
    assert once.outside.time.latency_s == pytest.approx(6 * 10e-6)
    assert once.time.total_s == pytest.approx(once.inside.time.total_s + once.outside.time.total_s)
    many = traffic.timing(replace(found, bucket_bytes=16 * 10 ** 7), operation)
    assert many.buckets == 100
    slow, quick = many.outside.time.total_s, many.inside.time.total_s
    assert slow > quick and many.time.total_s == pytest.approx(slow + quick / 100)


def test_the_smallest_network_that_hides_everything():
    found = job(nics="1x100Gbit/s", nodes=16, batch=256)
    assert answers.exposed_seconds(found) > 0
    hidden = answers.hidden_with(found)
    assert hidden.nics > 1 and hidden.rate <= hidden.nics * 12.5e9
    assert answers.exposed_seconds(replace(found, nics=(hidden.nics, 12.5e9))) == 0
    assert answers.exposed_seconds(replace(found, nics=(hidden.nics - 1, 12.5e9))) > 0
    assert answers.exposed_seconds(replace(found, nics=(1, hidden.rate))) == 0
    assert answers.exposed_seconds(replace(found, nics=(1, hidden.rate * 0.99))) > 0


def test_where_no_network_is_enough():
    hidden = answers.hidden_with(job(latency="10ms"))
    assert hidden.nics is None and "latency" in hidden.why
    assert "latency" in answers.iteration(job(latency="10ms")).bottleneck
    assert answers.hidden_with(job(nodes=1, batch=16)) is None


def test_gradients_are_hidden_behind_the_backward_pass_only():
    computing = answers.compute_seconds(job())
    assert answers.window_seconds(job()) == pytest.approx(computing * 2 / 3)
    assert answers.window_seconds(job(overlap=0.5)) == pytest.approx(computing / 2)
    assert answers.window_seconds(job(zero=3)) == pytest.approx(computing)
    assert answers.window_seconds(job(micro_batch=1)) == pytest.approx(computing * 2 / 3 / 2)
    again = job(recompute=True)
    assert answers.window_seconds(again) == pytest.approx(answers.compute_seconds(again) * 3 / 4)


def test_tensor_groups():
    found = groups()
    assert (found.replicas, found.replica_nodes, found.micro_batches) == (4, 4, 128)
    # 4 all-reduces for each of 20 layers and 128 micro batches of 1 x 4096 x 8192 x 2 bytes.
    activations = 4096 * 8192 * 2
    assert sent(found, "tensor") == pytest.approx(4 * 20 * 128 * 1.75 * activations)
    assert sent(groups(recompute=True), "tensor") == pytest.approx(6 * 20 * 128 * 1.75 * activations)
    size, time = traffic.tensor_time(found)
    assert time.transfer_s == pytest.approx(size / (450e9 * 0.8))
    # Where pairs have one link, a group of two gets a seventh of the node's rate.
    pair = groups(accelerator="MI300X", tensor=2)
    assert pair.inside(2) == 64e9 * 0.8


def test_pipelines():
    found = groups()
    assert answers.bubble_seconds(found) == pytest.approx(answers.compute_seconds(found) * 3 / 128)
    size, time = traffic.pipeline_time(found)
    assert size == 2 * 128 * 4096 * 8192 * 2
    assert time.transfer_s == pytest.approx(size / (200e9 * 0.8 / 8))
    inside = read_job({**GROUPS, "nodes": 1, "batch": 64, "tensor": 2, "pipeline": 4})
    assert traffic.pipeline_time(inside)[1].transfer_s < traffic.pipeline_time(inside)[0] / 300e9


def test_switches_that_add_up():
    factor, time = answers.in_network(job())
    assert factor == 1.5 and time.total_s < answers.data_time(job()).total_s
    assert answers.in_network(job(zero=1)) is None and answers.in_network(job(nodes=1,
                                                                              batch=16)) is None


def test_every_algorithm_between_nodes_is_compared():
    operation, = traffic.operations(job())
    rows = answers.by_algorithm(job(), operation)
    assert {"ring", "recursive_doubling", "halving_doubling", "bcube"} == {name for name, *_ in rows}
    best = min(time.total_s for _, time, _, left_out in rows if not left_out)
    assert best == pytest.approx(answers.data_time(job()).total_s)
    assert answers.by_algorithm(job(nodes=1, batch=16), operation) == []


def test_a_second_rail():
    alone = job(nics="1x200Gbit/s", latency="10us")
    both = answers.second(replace(alone, second=(12.5e9, 20e-6)))
    assert both.splits and both.ratio == 2 and both.limit is None and both.after < both.before
    assert both.before == pytest.approx(answers.data_time(alone).total_s)
    # The same rail beside one that loses so much to it that a rail twice slower is of no use.
    useless = answers.second(replace(alone, second=(12.5e9, 20e-6), rate_lost=(0.5, 0.1)))
    assert not useless.splits and useless.limit == pytest.approx(1.8)
    assert useless.threshold_bytes is None and useless.after == pytest.approx(useless.before)
    assert answers.second(alone) is None


def test_the_bottleneck_has_a_name():
    assert "accelerators" in answers.iteration(job()).bottleneck
    assert "network between nodes, its bandwidth" in answers.iteration(
        job(nics="1x10Gbit/s")).bottleneck
    assert "inside the node" in answers.iteration(job(intra="1GB/s")).bottleneck
    assert "bubble" in answers.iteration(groups(batch=16, nics="8x4000Gbit/s")).bottleneck
    assert "tensor" in answers.iteration(groups(intra="20GB/s")).bottleneck


def test_processors_that_add_take_their_time():
    def outside(**changes):
        found = job(bucket="16G", **changes)
        return traffic.timing(found, traffic.operations(found)[0], "ring").outside.time
    # A ring's rank adds all blocks of its 2 GB but one, of four.
    assert outside(adds="4GB/s").adds_s == pytest.approx(0.75 * 2e9 / 4e9)
    assert outside().adds_s == 0
    assert outside(adds="4GB/s").total_s == pytest.approx(outside().total_s + 0.75 * 2e9 / 4e9)
    assert "processors that add" in answers.iteration(job(adds="100MB/s")).bottleneck
    document = report(job(adds="4GB/s"), {**BASE, "adds": "4GB/s"})
    row = document["traffic"][0]
    assert row["seconds"] == pytest.approx(row["latency_s"] + row["transfer_s"] + row["adds_s"])
    assert not any("adding costs nothing" in text for text in document["assumptions"])


def test_parts_add_up_and_assumptions_are_named():
    document = report(groups(), GROUPS)
    assert sum(document["iteration"]["parts"].values()) == pytest.approx(document["iteration"]["total"])
    assumed = " ".join(document["assumptions"])
    for word in ("mfu 0.5", "0.8 of advertised", "14 us", "3.4 us", "buckets of 26.21 MB", "1F1B"):
        assert word in assumed
    given = {**GROUPS, "mfu": 0.4, "latency": "5us", "efficiency": 0.9, "bucket": "64M"}
    assumed = " ".join(report(read_job(given), given)["assumptions"])
    for word in ("mfu", "14 us", "advertised", "buckets of"):
        assert word not in assumed


@pytest.mark.parametrize("changes, words", [
    ({"params": "-8B"}, "params '-8B': it must be a count"),
    ({"nodes": 0}, "nodes 0: it must be a whole number from 1 to"),
    ({"gpus": -1}, "gpus -1: it must be"),
    ({"nics": "4x200"}, "nics '4x200': it must be .* rate with its unit"),
    ({"nics": "4x-200Gbit/s"}, "nics '4x-200Gbit/s'"),
    ({"accelerator": "H1000"}, "accelerator 'H1000': it must be one of .*H100"),
    ({"accelerator": "V100"}, "peak is missing"),
    ({"dtype": "fp64"}, "dtype 'fp64': it must be one of bf16, fp16, fp32"),
    ({"zero": 4}, "zero 4: it must be a whole number from 0 to 3"),
    ({"mfu": 0}, "mfu 0: it must be a number above 0 to 1"),
    ({"efficiency": 1.5}, "efficiency 1.5"),
    ({"latency": "14"}, "latency '14': it must be a time"),
    ({"bucket": "many"}, "bucket: size 'many'"),
    ({"bucket": "1"}, "bucket 1: it must be"),
    ({"overlap": -0.1}, "overlap -0.1: it must be"),
    ({"recompute": "yes"}, "recompute 'yes': it must be true or false"),
    ({"second": "100Gbit/s"}, "second '100Gbit/s': it must be RATE:LATENCY"),
    ({"second": "1G:1us,1G:1us"}, "second .*: it must be one RATE:LATENCY"),
    ({"interference": "0.27"}, "interference '0.27': it must be two numbers"),
    ({"interference": "0.27,1"}, "interference '0.27,1': it must be two numbers"),
    ({"tensor": 3}, "tensor 3: it must be a divisor of gpus, 8"),
    ({"tensor": 8}, "layers and hidden are missing"),
    ({"pipeline": 3, "layers": 9, "hidden": 9}, "pipeline 3: it must be a divisor of 32"),
    ({"batch": 33}, "batch 33: it must be a multiple of 32"),
    ({"batch": 96, "micro_batch": 2}, "batch 96: it must be a multiple of 64"),
    ({"pipeline": 2, "layers": 9, "hidden": 9}, "layers 9: it must be a multiple of pipeline, 2"),
])
def test_questions_that_make_no_sense(changes, words):
    with pytest.raises(PlanError, match=words) as caught:
        job(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("missing, words", [
    ("params", "params is missing"), ("nodes", "nodes is missing"), ("seq", "seq is missing"),
    ("batch", "batch is missing"), ("nics", "nics is missing"), ("accelerator", "peak is missing")])
def test_questions_without_an_end(missing, words):
    given = {name: value for name, value in BASE.items() if name != missing}
    with pytest.raises(PlanError, match=words):
        read_job(given)
    if missing == "accelerator":
        with pytest.raises(PlanError, match="intra is missing"):
            read_job({**given, "peak": "989TFLOPS"})
        assert read_job({**given, "peak": "989TFLOPS", "intra": "450GB/s"}).inside(8) == 360e9
