"""`nezha info --topology`: distances of devices, from a sysfs that the test makes."""

import json

import pytest
from typer.testing import CliRunner

from nezha_tools.commands import app
from nezha_tools.info import command, distances
from nezha_tools.info.distances import NODE, PHB, PIX, PXB, SELF, SYS, Device, distance

ROOT, OTHER_ROOT, THIRD_ROOT = "pci0000:00", "pci0000:40", "pci0000:80"
# A switch has an upstream port and a downstream port for each device; another switch hangs below it.
UP = f"{ROOT}/0000:00:01.0/0000:01:00.0"


class Sysfs:
    """A tree as the kernel has it, below `path`."""

    def __init__(self, path):
        self.path = path

    def write(self, name, text):
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def node(self, number, processors, distance_text):
        self.write(f"devices/system/node/node{number}/cpulist", processors)
        self.write(f"devices/system/node/node{number}/distance", distance_text)

    def function(self, place, numa_node, **files):
        """A PCI function at `place` below devices/, in bus/pci/devices, too."""
        for name, text in {"numa_node": numa_node, **files}.items():
            self.write(f"devices/{place}/{name}", text)
        self.link(f"bus/pci/devices/{place.rpartition('/')[2]}", place)

    def link(self, name, place):
        link = self.path / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(self.path / "devices" / place)

    def adapter(self, name, place, numa_node=0, below="", kind="net", **files):
        self.function(place, numa_node, **files)
        own = f"{place}{below}/{kind}/{name}"
        (self.path / "devices" / own).mkdir(parents=True)
        self.link(f"devices/{own}/device", f"{place}{below}")
        self.link(f"class/{kind}/{name}", own)

    def virtual(self, name):
        (self.path / f"devices/virtual/net/{name}").mkdir(parents=True)
        self.link(f"class/net/{name}", f"virtual/net/{name}")


@pytest.fixture
def sysfs(tmp_path):
    """Two NUMA nodes, a GPU and an adapter below one switch, and others further and further away."""
    tree = Sysfs(tmp_path)
    tree.node(0, "0-7,16-23", "10 21")
    tree.node(1, "8-15,24-31", "21 10")
    nvidia = {"class": "0x030200", "vendor": "0x10de"}
    tree.function(f"{UP}/0000:02:00.0/0000:03:00.0", 0, **nvidia)
    tree.adapter("eth2", f"{UP}/0000:02:01.0/0000:04:00.0", local_cpulist="0-7")
    tree.adapter("eth10", f"{UP}/0000:02:02.0/0000:05:00.0/0000:06:00.0/0000:07:00.0")
    tree.adapter("eth3", f"{ROOT}/0000:00:02.0/0000:08:00.0")
    tree.adapter("eth4", f"{OTHER_ROOT}/0000:40:01.0/0000:41:00.0")
    tree.adapter("eth5", f"{THIRD_ROOT}/0000:80:01.0/0000:81:00.0", 1)
    tree.virtual("lo")
    tree.write("class/net/bonding_masters", "")
    return tree


def word(found, one, other):
    return found["distances"][one][found["columns"].index(other)]


def test_the_words_of_nvidia_smi(sysfs):
    found = distances.find(sysfs.path)
    assert found["columns"] == ["eth2", "eth3", "eth4", "eth5", "eth10", "GPU0 NVIDIA", "node0", "node1"]
    expected = {"eth2": PIX, "eth10": PXB, "eth3": PHB, "eth4": NODE, "eth5": SYS, "GPU0 NVIDIA": SELF,
                "node0": PHB, "node1": SYS}
    for other, name in expected.items():
        assert word(found, "GPU0 NVIDIA", other) == name, other
    devices = [device["name"] for device in found["devices"]]
    assert all(word(found, one, other) == word(found, other, one) for one in devices for other in devices)
    assert set(found["legend"]) == {SELF, PIX, PXB, PHB, NODE, SYS}


def test_processors_and_numa_nodes(sysfs):
    found = distances.find(sysfs.path)
    by_name = {device["name"]: device for device in found["devices"]}
    assert by_name["eth2"]["processors"] == "0-7"  # the device's own word comes before its node's
    assert by_name["eth5"]["processors"] == "8-15,24-31" and by_name["eth5"]["numa_node"] == 1
    assert by_name["GPU0 NVIDIA"]["pci"] == "0000:03:00.0" and by_name["GPU0 NVIDIA"]["kind"] == "gpu"
    assert found["numa_nodes"][1] == {"node": 1, "processors": "8-15,24-31", "distances": [21, 10]}


def test_virtual_devices_have_no_place(sysfs):
    sysfs.write("devices/LNXSYSTM:00/VMBUS:00/net/eth9/device/x", "")  # on a bus of a hypervisor
    sysfs.link("class/net/eth9", "LNXSYSTM:00/VMBUS:00/net/eth9")
    found = distances.find(sysfs.path)
    assert found["placeless"] == [{"name": "eth9", "reason": "it is on another bus than PCI"},
                                  {"name": "lo", "reason": "it is virtual"}]
    assert "lo has no place on PCI: it is virtual." in distances.sentences(found)


def test_what_hangs_below_a_pci_function_is_where_that_is(tmp_path):
    """A virtio device, and an InfiniBand adapter beside its network device."""
    tree = Sysfs(tmp_path)
    tree.node(0, "0-1", "10")
    tree.adapter("eth0", f"{ROOT}/0000:00:03.0", -1, below="/virtio2")
    tree.adapter("ib0", f"{ROOT}/0000:00:04.0/0000:05:00.0")
    tree.adapter("mlx5_0", f"{ROOT}/0000:00:05.0/0000:06:00.0", kind="infiniband")
    found = distances.find(tmp_path)
    assert found["columns"] == ["eth0", "ib0", "mlx5_0", "node0"]
    assert found["devices"][0]["pci"] == "0000:00:03.0"
    assert found["devices"][0]["numa_node"] == 0  # of the one that there is
    assert word(found, "eth0", "ib0") == PHB and word(found, "eth0", "node0") == PHB


def device(path, node=0):
    return Device("a", "adapter", tuple(path.split("/")), node, "")


@pytest.mark.parametrize("one, other, name", [
    ("0000:00:1f.0", "0000:00:1f.6", PIX),  # functions of one chip
    ("0000:00:01.0/0000:01:00.0", "0000:00:01.0/0000:01:00.1", PIX),
    ("0000:00:01.0/0000:01:00.0", "0000:00:01.1/0000:02:00.0", PHB),  # root ports, functions of one chip
    ("0000:00:01.0/0000:01:00.0", "0000:00:02.0/0000:02:00.0", PHB)])
def test_distances_of_paths(one, other, name):
    assert distance(device(f"{ROOT}/{one}"), device(f"{ROOT}/{other}")) == name


def test_an_unknown_numa_node_is_far():
    far = device(f"{OTHER_ROOT}/0000:40:01.0", None)
    assert distance(device(f"{ROOT}/0000:00:01.0", None), far) == SYS
    assert distances.distance_to_node(far, 0) == SYS


@pytest.mark.parametrize("kind, vendor, is_gpu", [
    ("0x030000", "0x10de", True), ("0x030000", "0x1a03", False),  # a management controller's
    ("0x120000", "0x1da3", True), ("0x038000", "0x1002", True), ("0x020000", "0x15b3", False)])
def test_what_is_a_gpu(tmp_path, kind, vendor, is_gpu):
    tree = Sysfs(tmp_path)
    tree.function(f"{ROOT}/0000:00:01.0", 0, **{"class": kind, "vendor": vendor})
    assert len(distances.find(tmp_path)["devices"]) == is_gpu


def test_a_host_without_sysfs(tmp_path):
    found = distances.find(tmp_path / "none")
    assert found["devices"] == found["numa_nodes"] == found["placeless"] == []
    (sentence,) = distances.sentences(found)
    assert sentence == "No network adapter and no GPU of this host has a place on PCI."


# ---- the command

def info(monkeypatch, sysfs, *words):
    found = distances.find(sysfs.path)
    monkeypatch.setattr(command.distances, "find", lambda: found)
    return CliRunner().invoke(app, ["info", "--topology", *words])


def test_the_command_prints_the_matrix_and_a_legend(monkeypatch, sysfs):
    done = info(monkeypatch, sysfs)
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["eth2", "X", "PHB", "NODE", "SYS", "PXB", "PIX", "PHB", "SYS", "0-7", "0",
            "0000:04:00.0"] in lines
    assert ["node1", "8-15,24-31", "21", "10"] in lines
    assert "PIX  = over at most one PCIe switch or bridge" in done.stdout
    assert "NVLink" in done.stdout and "lo has no place on PCI" in done.stdout


def test_the_command_as_json(monkeypatch, sysfs):
    expected = distances.find(sysfs.path)
    assert json.loads(info(monkeypatch, sysfs, "--json").stdout) == expected


@pytest.mark.parametrize("other", [["--config"], ["--peer", "node7"], ["--filter", "eth"]])
def test_it_stands_alone(monkeypatch, sysfs, other):
    done = info(monkeypatch, sysfs, *other)
    assert done.exit_code == 2 and done.stdout == ""
    assert "leave out --config, --peer and --filter" in done.stderr


def test_this_host_is_read():
    found = distances.find()
    assert all(len(row) == len(found["columns"]) for row in found["distances"].values())
    assert all(found["distances"][name][at] == SELF for at, name in enumerate(found["distances"]))
