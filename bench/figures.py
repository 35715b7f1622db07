#!/usr/bin/env python3
"""Measures the figures of the documents and writes their tables, between the marks that name them.

    bench/figures.py                    measure all (half an hour), then write the tables
    bench/figures.py NAME...            only these: equal, unequal, slow ... (see RUNS below)
    bench/figures.py --write            only write the tables, from what was measured before

Runs `nezha` of this Python's environment; the JSON goes to out/figures/NAME.json. Peers come from
bench/install_peers.sh; one that is missing is left out. Nothing else should run on the machine
meanwhile.
"""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out" / "figures"
SWITCH_DATA = ROOT / "python/nezha_study/sim/switch/data/software.json"
NEZHA = str(Path(sys.executable).with_name("nezha"))

_SHORT = "-b 4 -e 4K -f 32"
_LONG = "-b 64K -e 64M -f 4"
_FEW = "-b 64K -e 16M -f 16"  # with all settings of all peers
_MIDDLE = "-b 64K -e 16M -f 4"  # of slow rails, where longer ones take seconds each
_PEERS = "--compare gloo,openmpi,mpich,intelmpi,mlx"  # each with all of its settings
_LIBRARIES = {"gloo": "Gloo", "openmpi": "Open MPI", "mpich": "MPICH", "intelmpi": "Intel MPI",
              "mlx": "MLX"}
_PEER_TITLES = {"openmpi": "Open MPI, its choice", "openmpi-ring": "Open MPI, ring",
                "mpich": "MPICH, its choice", "mpich-ring": "MPICH, ring"}


def _all_reduce(rates: str, sizes: str, more: str = "", launches: int = 3, nodes: int = 4) -> str:
    return (f"bench all_reduce --nodes {nodes} --rates {rates} {sizes} --launches {launches} --no-gain "
            f"{more}")


COLLECTIVES = ("all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "all_reduce")
RAILS = {"one-rail": "1gbit", "equal": "1gbit,1gbit", "unequal": "1gbit,500mbit",
         "tenth": "1gbit,100mbit", "slow": "200mbit,200mbit", "slow-unequal": "200mbit,100mbit"}
SLOW = ("tenth", "slow", "slow-unequal")
POLICIES = ("pull", "table")
OFI = {"ofi": "ofi:1gbit", "tcp-ofi": "tcp:1gbit,ofi:1gbit", "tcp-ofi-unequal": "tcp:1gbit,ofi:500mbit",
       "ofi-tcp-unequal": "ofi:1gbit,tcp:500mbit"}
# Hosts against an aggregation node on the same rail; name -> options.
SWITCH = {"agg-slow": "--nodes 4,6 --rates agg:250mbit --sizes 8M,64M",
          "agg-slow-tree": "--nodes 6 --agg-tree 2x3 --rates agg:250mbit --sizes 64M",
          "agg-middle": "--nodes 4 --rates agg:500mbit --sizes 8M,64M",
          "agg-fast": "--nodes 4 --rates agg:1gbit --sizes 8M,64M",
          "agg-short": "--nodes 4,16 --rates agg:1gbit --sizes 8,1K"}
# Several ranks on a host: 4 hosts of 4 ranks, by host and as if every rank were one. Without the hosts
# the library may choose badly, so long ones are measured with the flat ring, too, where there is one.
_BY_HOST = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
_FORMS = {"": "", "-flat": "--flat", "-flat-ring": "--flat --algorithm ring"}
HOSTS = {f"hosts-{name}-{sizes}{form}":
         f"bench {name} --nodes 4 --ranks-per-node 4 --rates 200mbit,100mbit --launches 3 --no-gain "
         f"{'-b 64 -e 4K -f 64' if sizes == 'short' else '-b 1M -e 16M -f 4'} {options}"
         for name in _BY_HOST for sizes in ("short", "long") for form, options in _FORMS.items()
         if form != "-flat-ring" or sizes == "long" and name != "all_to_all"}
# Ranks of one host, in memory and over the loopback. Four of MPICH on two processors give no result.
_PEERS_OF_A_HOST = {2: "--compare openmpi-default,openmpi-ring,mpich-default,mpich-ring",
                    4: "--compare openmpi-default,openmpi-ring"}
SHARED = {f"shared-{ranks}-{shm}":
          f"bench all_reduce --nodes 1 --ranks-per-node {ranks} --rates 1gbit -b 4 -e 64M -f 16 "
          f"--launches 3 --no-gain --config shm={shm} {_PEERS_OF_A_HOST[ranks] if shm == 'on' else ''}"
          for ranks in (2, 4) for shm in ("on", "off")}
RUNS: Dict[str, str] = {
    **{name: _all_reduce(rates, _MIDDLE if name in SLOW else _LONG) for name, rates in RAILS.items()},
    **{f"{name}-short": _all_reduce(RAILS[name], _SHORT) for name in ("one-rail", "equal", "unequal")},
    **{name: _all_reduce(rates, "-b 64K -e 64M -f 32") for name, rates in OFI.items()},
    "peers-two-short": _all_reduce(RAILS["equal"], _SHORT, _PEERS, 2, nodes=2),
    "peers-short": _all_reduce(RAILS["equal"], _SHORT, _PEERS, 2),
    "peers": _all_reduce(RAILS["equal"], _FEW, _PEERS, 2),
    "peers-unequal": _all_reduce(RAILS["unequal"], _FEW, _PEERS, 1),
    **{f"collective-{name}-{where}":
       f"bench {name} --nodes 4 --rates {rates} -b {size} -e {size} --launches 3 --no-gain"
       for name in COLLECTIVES for where, rates, size in (
           ("equal", RAILS["equal"], "64M"), ("slow", RAILS["slow"], "16M"))},
    **{f"nodes-{nodes}": f"bench all_reduce --nodes {nodes} --rates {RAILS['unequal']} -d int8 "
       "-b 10000003 -e 10000003 --launches 3 --no-gain" for nodes in (2, 3, 5, 6)},
    **{name: f"bench switch {options} --seconds 5" for name, options in SWITCH.items()},
    "table1": "bench table1",
    **{f"policy-{policy}": f"bench all_reduce --nodes 4 --rates {RAILS['slow-unequal']} -b 1M -e 16M "
       f"-f 16 -w 60 --iters 40 --launches 2 --no-gain --policy {policy}" for policy in POLICIES},
    **HOSTS,
    **SHARED,
    "matvec": "bench matvec",
    "training-hosts": "bench train --model resnet50 --replay --batch 1 --steps 3 --nodes 2 --flat "
                      "--ranks-per-node 2 --rates 200mbit,100mbit --compute-scale 0.05",
    "training": "bench train --model resnet50 --replay --batch 1 --steps 3 --compute-scale 0.05",
}


def measure(names: List[str]) -> int:
    """Runs the named ones; how many failed."""
    OUT.mkdir(parents=True, exist_ok=True)
    failed = 0
    for number, name in enumerate(names, 1):
        print(f"== {number}/{len(names)} {name}: nezha {RUNS[name]}", flush=True)
        done = subprocess.run([NEZHA, *RUNS[name].split(), f"--json={OUT / name}.json"],
                              stdout=subprocess.DEVNULL, check=False)
        failed += done.returncode != 0
    return failed


def _document(name: str) -> Dict[str, Any]:
    document: Dict[str, Any] = json.loads((OUT / f"{name}.json").read_text(encoding="utf-8"))
    return document


def _size(size: int) -> str:
    for unit, bytes_ in (("MB", 1 << 20), ("KB", 1 << 10)):
        if size % bytes_ == 0:
            return f"{size // bytes_} {unit}"
    return f"{size:,} B".replace(",", " ")


def _time(us: float) -> str:
    if us < 10:
        return f"{us:.1f} us"
    return f"{us:.0f} us" if us < 1000 else f"{us / 1000:.2f} ms" if us < 1e4 else f"{us / 1000:.1f} ms"


def _of_limit(row: Dict[str, Any]) -> str:
    holds = row.get("flattery") is not None and row["flattery"] <= 0.1
    return f"{100 * row['of_limit']:.1f} %" if row["of_limit"] and holds else "-"


def _rates(rates: str) -> str:
    def short(rate: str) -> str:
        kind, colon, value = rate.rpartition(":")
        text = f"{int(value[:-4]) / 1000:g}G" if value.endswith("mbit") else value.replace("gbit", "G")
        return f"{'TCP' if kind == 'tcp' else kind} {text}" if colon else text
    return " + ".join(map(short, rates.split(",")))


def _markdown(headings: List[str], lines: List[List[str]]) -> str:
    rows = [headings, ["---"] * len(headings), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _spread(document: Dict[str, Any], row: Dict[str, Any]) -> str:
    between = next(each for each in document["spread"] if each["size"] == row["size"])
    return f"{_time(between['min_us'])} to {_time(between['max_us'])}"


def _rails_table(names: Dict[str, str]) -> str:
    lines = []
    for name, rates in names.items():
        parts = [f"{name}-short"] if f"{name}-short" in RUNS else []
        for document in map(_document, [*parts, name]):
            for row in document["rows"]:
                cost = f"{row['cpu_s_per_gb']:.1f}" if row["size"] >= 65536 else "-"
                lines.append([_rates(rates), _size(row["size"]), _time(row["time_us"]),
                              _spread(document, row), _of_limit(row), row["shaping"], cost, _shares(row)])
    return _markdown(["rails", "size", "time", "launches", "of limit", "wires", "CPU s/GB", "shares"],
                     lines)


def _shares(row: Dict[str, Any]) -> str:
    return " : ".join(f"{100 * rail['share']:.0f}" for rail in row["rails"])


def _with_shares(row: Dict[str, Any]) -> str:
    """A time, and from 64 KB on what each rail carried of it; of shorter ones headers are the most."""
    return _time(row["time_us"]) + (f" ({_shares(row)})" if row["size"] >= 65536 else "")


def _peer_cell(document: Dict[str, Any], peer: str, size: int,
               cell: Callable[[Dict[str, Any]], str]) -> str:
    rows = document.get("peers", {}).get(peer, {}).get("rows", [])
    return next((cell(row) for row in rows if row["size"] == size), "-")


def _peers_of(documents: List[Dict[str, Any]]) -> List[str]:
    return [peer for peer in _PEER_TITLES
            if any(peer in document.get("peers", {}) for document in documents)]


def _best_cell(document: Dict[str, Any], library: str, row: Dict[str, Any]) -> str:
    """The library's fastest setting at the row's size, in bold where it is faster than Nezha."""
    rows = document.get("best", {}).get(library, {}).get("rows", [])
    found = next((each for each in rows if each["size"] == row["size"]), None)
    if found is None:
        return "-"
    cell = f"{_with_shares(found)} {found['setting'].partition('-')[2] or 'default'}"
    return f"**{cell}**" if found["time_us"] < row["time_us"] else cell


def _peers_table() -> str:
    documents = list(map(_document, ("peers-two-short", "peers-short", "peers", "peers-unequal")))
    libraries = [each for each in _LIBRARIES if any(each in document["best"] for document in documents)]
    lines = [[str(document["config"]["ranks"]), _rates(",".join(document["config"]["rails"])),
              _size(row["size"]), _with_shares(row),
              *[_best_cell(document, library, row) for library in libraries]]
             for document in documents for row in document["rows"]]
    titles = [_LIBRARIES[each] for each in libraries]
    return _markdown(["nodes", "rails", "size", "Nezha", *titles], lines)


def _collectives_table() -> str:
    lines = []
    for name in COLLECTIVES:
        slow, equal = (_document(f"collective-{name}-{where}")["rows"][0]
                       for where in ("slow", "equal"))
        lines.append([f"`{name}`", _of_limit(slow), _of_limit(equal), f"{equal['cpu_s_per_gb']:.1f}"])
    return _markdown(["collective", "0.2G + 0.2G, 16 MB", "1G + 1G, 64 MB", "CPU s/GB of the latter"],
                     lines)


def _policies_table() -> str:
    lines = []
    for policy in POLICIES:
        document = _document(f"policy-{policy}")
        lines += [[policy, _size(row["size"]), _of_limit(row), _spread(document, row)]
                  for row in document["rows"]]
    return _markdown(["policy", "size", "of limit", "launches"], lines)


def _nodes_table() -> str:
    lines = [[str(nodes), _rates(RAILS["unequal"]), "10 000 003 B of int8",
              _of_limit(_document(f"nodes-{nodes}")["rows"][0])] for nodes in (2, 3, 5, 6)]
    return _markdown(["nodes", "rails", "size", "of limit"], lines)


def _switch_table() -> str:
    lines = []
    for document in map(_document, SWITCH):
        config = document["config"]
        for each in document["results"]:
            tree = f", tree {config['agg_tree']}" if config["agg_tree"] else ""
            cells = [cell for way in ("hosts", "switch") for cell in (
                _time(each[way]["time_us"]),
                f"{100 * each[way]['of_limit']:.1f} %" if each["size"] >= 1 << 20 else "-")]
            lines.append([",".join(config["rails"]) + tree, str(each["nodes"]), _size(each["size"]),
                          *cells, f"{each['ratio']:.2f}"])
    return _markdown(["rail", "nodes", "size", "hosts", "of limit", "node", "of limit",
                      "times its speed"], lines)


def _switch_data() -> str:
    """What `nezha sim switch` shows beside its chips: of which machine and when, too."""
    rows = [{"rails": ",".join(document["config"]["rails"]), "nodes": each["nodes"],
             "bytes": each["size"], "hosts_us": round(each["hosts"]["time_us"], 1),
             "node_us": round(each["switch"]["time_us"], 1)}
            for document in map(_document, SWITCH) if not document["config"]["agg_tree"]
            for each in document["results"]]
    lines = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    source = ("docs/aggregation.md: an aggregation node in software in the lab, two cores shared by all "
              "ranks, the node and the wires")
    host = _document("equal")["config"]["host"]
    machine = f"{_processor()}, {host['cpus']} cores, Linux {host['kernel']}"
    date = datetime.date.fromtimestamp((OUT / f"{next(iter(SWITCH))}.json").stat().st_mtime).isoformat()
    return (f'{{\n  "source": {json.dumps(source)},\n  "machine": {json.dumps(machine)},\n'
            f'  "date": "{date}",\n  "rows": [\n{lines}\n  ]\n}}\n')


def _paper_table() -> str:
    document = _document("table1")
    runs = list(dict.fromkeys(each["what"] for each in document["results"]))
    lines = []
    for size in document["config"]["sizes"]:
        found = {each["what"]: each for each in document["results"] if each["size"] == size}
        lines += [[_size(size), name, *[f"{found[run][key]:,.0f}" for run in runs]]
                  for name, key in (("min", "min_us"), ("avg", "avg_us"), ("max", "max_us"))]
    return _markdown(["size", "us", *[f"`{run}`" if "bit" in run else run for run in runs]], lines)


def _hosts_table() -> str:
    lines = []
    for name in (name for name in HOSTS if "-flat" not in name):
        by_host, flat = _document(name), _document(f"{name}-flat")
        ring = _document(f"{name}-flat-ring")["rows"] if f"{name}-flat-ring" in HOSTS else flat["rows"]
        for row, chosen, other in zip(by_host["rows"], flat["rows"], ring):
            best = min(chosen["time_us"], other["time_us"])
            forced = _time(other["time_us"]) if other is not chosen else "-"
            lines.append([f"`{by_host['config']['collective']}`", _size(row["size"]),
                          _time(chosen["time_us"]), forced, _time(row["time_us"]),
                          f"{best / row['time_us']:.2f}", _of_limit(row)])
    return _markdown(["collective", "size", "flat, by cost", "flat, `ring`", "by host",
                      "times as fast as the better flat one", "of limit"], lines)


def _shared_table() -> str:
    documents = {ranks: [_document(f"shared-{ranks}-{shm}") for shm in ("on", "off")] for ranks in (2, 4)}
    peers = _peers_of([memory for memory, _ in documents.values()])
    lines = []
    for ranks, (memory, loopback) in documents.items():
        for row, other in zip(memory["rows"], loopback["rows"]):
            lines.append([str(ranks), _size(row["size"]), _time(row["time_us"]), _time(other["time_us"]),
                          *[_peer_cell(memory, peer, row["size"], lambda each: _time(each["time_us"]))
                            for peer in peers]])
    titles = [_PEER_TITLES[peer] for peer in peers]
    return _markdown(["ranks", "size", "memory", "loopback", *titles], lines)


def _matvec_table() -> str:
    rows = _document("matvec")["results"]
    flat = {(row["scaling"], row["nodes"]): row for row in rows if row["form"] == "flat"}
    lines = []
    for row in rows:
        if (other := flat.get((row["scaling"], row["nodes"]))) is not None and row is not other:
            lines.append([row["scaling"], f"{row['nodes']} x 2", f"{row['rows']} x {row['columns']}",
                          ", ".join(other["algorithms"]), *(
                cell for part in ("gather", "iteration") for cell in (
                    _time(other[f"{part}_us"]), _time(row[f"{part}_us"]),
                    f"{other[f'{part}_us'] / row[f'{part}_us']:.2f}"))])
    return _markdown(["scaling", "hosts x ranks", "matrix", "flat", "all_gather flat", "by host",
                      "times as fast", "iteration flat", "by host", "times as fast"], lines)


def _training_table(name: str) -> str:
    lines = [[each["name"], f"{each['communication_ratio']:.2f}"]
             for each in _document(name)["configurations"][1:]]
    return _markdown(["configuration", "time in communication, of Gloo's"], lines)


def _processor() -> str:
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
              if line.startswith("model name")]
    return (models or [platform.machine()])[0]


def _machine() -> str:
    config = _document("equal")["config"]
    capacity = config["lab"]["capacity"].get("bulk", {})
    version = subprocess.run(["c++", "-dumpfullversion"], capture_output=True, text=True, check=False)
    host = config["host"]
    return _markdown(["processor, cores", "kernel", "compiler", "1G + 1G, four nodes"],
                     [[f"{_processor()}, {host['cpus']}",
                       f"Linux {host['kernel']}", f"GCC {version.stdout.strip()}",
                       capacity.get("sentence", "-")]])


Table = Tuple[str, Callable[[], str]]  # file, what stands between its marks
TABLES: Dict[str, Table] = {
    "machine": ("docs/performance.md", _machine),
    "rails": ("docs/performance.md", lambda: _rails_table(RAILS)),
    "peers": ("docs/performance.md", _peers_table),
    "collectives": ("docs/performance.md", _collectives_table),
    "ofi": ("docs/performance.md", lambda: _rails_table(OFI)),
    "nodes": ("docs/performance.md", _nodes_table),
    "policies": ("docs/performance.md", _policies_table),
    "switch": ("docs/aggregation.md", _switch_table),
    "table1": ("docs/aggregation.md", _paper_table),
    "training": ("docs/training.md", lambda: _training_table("training")),
    "hosts": ("docs/hierarchy.md", _hosts_table),
    "shared": ("docs/shared_memory.md", _shared_table),
    "matvec": ("docs/hierarchy.md", _matvec_table),
    "training-hosts": ("docs/hierarchy.md", lambda: _training_table("training-hosts")),
}


def write() -> None:
    """Puts every table into its document that has been measured, and what `nezha sim switch` reads."""
    for name, (file, make) in TABLES.items():
        path = ROOT / file
        text = path.read_text(encoding="utf-8")
        try:
            table = make()
        except FileNotFoundError as error:
            print(f"{name} stays as it is in {file}: {error.filename} has not been measured")
            continue
        begin, end = f"<!-- figures: {name} -->\n", "<!-- end of figures -->"
        start = text.index(begin) + len(begin)
        path.write_text(text[:start] + table + "\n" + text[text.index(end, start):], encoding="utf-8")
        if name == "switch":
            SWITCH_DATA.write_text(_switch_data(), encoding="utf-8")


def main() -> None:
    """What the command line asks for."""
    words = sys.argv[1:]
    unknown = [word for word in words if word not in RUNS and word != "--write"]
    if unknown:
        sys.exit(f"{__doc__}\nunknown: {', '.join(unknown)}; one of {', '.join(RUNS)}")
    failed = 0 if words == ["--write"] else measure(words or list(RUNS))
    write()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
