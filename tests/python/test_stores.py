"""Python objects as stores: the adapter alone, and a job that meets through one."""

import threading

import pytest

import nezha
from conftest import run_threads
from nezha._startup import stores
from nezha._startup.init import config_text


class TorchLike:
    """The methods of a torch.distributed store that are used, with its manners."""

    def __init__(self):
        self.data = {}
        self.changed = threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.data[key] = value
            self.changed.notify_all()

    def get(self, key):
        with self.changed:
            return self.data[key]

    def wait(self, keys, timeout):
        with self.changed:
            if not self.changed.wait_for(lambda: all(key in self.data for key in keys),
                                         timeout.total_seconds()):
                raise RuntimeError("Socket Timeout")

    def compare_set(self, key, expected, desired):
        with self.changed:
            if self.data.get(key, "") == expected:
                self.data[key] = desired
                self.changed.notify_all()
            return self.data[key]

    def delete_key(self, key):
        with self.changed:
            return self.data.pop(key, None) is not None


class Checking(TorchLike):
    """Answers at once whether a key is there; its wait must not be needed."""

    def check(self, keys):
        with self.changed:
            return all(key in self.data for key in keys)

    def wait(self, keys, timeout):
        raise AssertionError("wait was called")


class Plain:
    """A store without wait, whose get returns None for an absent key."""

    def __init__(self):
        self.data = {}

    def set(self, key, value):
        self.data[key] = value

    def get(self, key):
        return self.data.get(key)

    def compare_set(self, key, expected, desired):
        return self.data.setdefault(key, desired)


@pytest.mark.parametrize("kind", [TorchLike, Checking, Plain])
def test_adapter(kind):
    store = stores.adapt(kind())
    store.set("a", b"\x00\xff", 1.0)
    assert store.get("a", 1.0) == b"\x00\xff"
    assert store.set_if_absent("b", b"1", 1.0) == b"1"
    assert store.set_if_absent("b", b"2", 1.0) == b"1"
    store.remove("a", 1.0)
    if kind is not Plain:
        with pytest.raises(nezha.TimedOut):
            store.get("a", 0.02)
    with pytest.raises(nezha.TimedOut):
        store.get("never", 0.02)


def test_get_waits_for_the_key():
    plain = Plain()
    threading.Timer(0.05, plain.set, ("late", b"v")).start()
    assert stores.adapt(plain).get("late", 30.0) == b"v"


def test_an_object_that_is_no_store():
    with pytest.raises(nezha.InvalidArgument, match="compare_set"):
        nezha.init(0, 1, store=object())


@pytest.mark.parametrize("kind", [TorchLike, Checking, Plain])
def test_a_job_meets_in_it(kind):
    store = kind()

    def body(rank):
        with nezha.init(rank, 3, store, timeout=30.0) as comm:
            return comm.all_reduce(bytearray([rank, 1]))

    assert run_threads(3, body) == [bytearray([3, 3])] * 3


def test_the_store_s_exception_is_the_cause():
    class Broken(Plain):
        def get(self, key):
            raise PermissionError("no reading today")

    with pytest.raises(nezha.Error) as caught:
        nezha.init(0, 2, Broken(), timeout=2.0)
    assert isinstance(caught.value.__cause__, PermissionError)


def test_config_text():
    text = config_text({"chunk_bytes": "1M", "streams_per_rail": 2}, (("policy", "table"),
                                                                       ("rails", None)))
    assert text.splitlines() == ["chunk_bytes=1M", "streams_per_rail=2", "policy=table"]
    with pytest.raises(nezha.InvalidArgument, match="twice"):
        config_text({"policy": "pull"}, (("policy", "table"),))
    with pytest.raises(nezha.InvalidArgument, match="one line"):
        config_text({"rails": "a\nsecret_file=/etc/shadow"}, ())
