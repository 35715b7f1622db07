"""`nezha info`: what Nezha sees of this host, its configuration, and the way to another host."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import typer

from ..cli import console
from ..cli.errors import BenchError
from . import job as jobs
from .memory_probe import try_memory
from .topology import topology
from . import aggregation, distances
from .build import describe_build
from ..cli.conventions import FOUND, WRONG_LINE, App, json_option
from ..explain.command import ranks_text
from ..cli.launched import launched
from .reach import reach

_HELP = """This host, and which rails it has, usable or why not; inside a job, its hosts.

\b
Examples:
  nezha info                          the rails
  nezha info --filter '^docker'       the rails that NEZHA_RAILS='^docker' would leave
  nezha info --config                 every option: default, environment name, meaning
  nezha info --topology               how far adapters, GPUs and NUMA nodes are from each other
  nezha info --peer node7             can each rail reach node7: round trip of a TCP handshake
  nezha info --peer node7 --port 29500
  nezha run -n 4 nezha info           the hosts of a job, which ranks they have, what is between those

Whether processes can share memory is tried with two of them, without the options of jobs that start
here. As a rank of a job it joins the job, and rank 0 prints.

--peer opens one TCP connection from each rail's own address to HOST. "open" and "refused" both
mean that packets travel both ways on that rail (refused: nobody listens on that port); the time is the
round trip of this handshake, and says nothing of the rate. "no answer" means that packets are lost or
filtered: Nezha would not use that pair. "unreachable" means that the kernel has no route from this rail
to HOST. The exit code is 1 where no rail gets an answer.

--topology prints the words of `nvidia-smi topo -m`, from PIX (one PCIe switch between two devices) to SYS
(different NUMA nodes), with a legend, and the processors near each device. A GPU does best with an
adapter at PIX or PXB from it, and a rank on the processors near both. Devices without a place on PCI are
named. A rank of a job prints its own host's.

RDMA rails are asked for: NEZHA_RAILS=ofi:mlx5_0 takes that adapter, ofi: all adapters, and tcp:,ofi:
everything this host has, each device once.
"""

_TITLES = {"host": "This host", "job": "Hosts of this job", "devices": "Devices of this host",
           "fabric": "RDMA rails through libfabric", "peer": "The way to the peer",
           "config": "Options", "build": "Build"}

app = App()


@app.command(help=_HELP)
def info(rail_filter: str = typer.Option("", "--filter", help="As in NEZHA_RAILS."),
         config: bool = typer.Option(False, "--config", help="The options instead."),
         topology_only: bool = typer.Option(False, "--topology", help="Distances of this host's "
                                            "adapters, GPUs and NUMA nodes instead."),
         peer: Optional[str] = typer.Option(None, "--peer", metavar="HOST",
                                            help="Try the way to HOST from each rail."),
         port: int = typer.Option(22, "--port", min=1, max=65535, help="For --peer."),
         timeout: float = typer.Option(2.0, "--timeout", min=0.01,
                                       help="For --peer: seconds for an answer."),
         json_to: Optional[str] = json_option()) -> None:
    from nezha import errors
    from nezha.queries import ask

    if topology_only:
        if config or peer is not None or rail_filter:
            console.complain("info", "--topology stands alone: leave out --config, --peer and --filter")
            raise typer.Exit(WRONG_LINE)
        console.answer(distances.find(), json_to, _show_distances)
        return
    with console.one_line("info", errors.Error, code=WRONG_LINE):
        answer: Dict[str, Any] = {}
        if config:
            answer = {"config": ask("config")}
        else:
            if peer is None and _is_rank():
                job = _job()
                if job is None:
                    return
                answer["job"] = job
            host = topology()
            trial = try_memory()
            host["shared_memory"] = {"works": trial.works, "reason": trial.reason}
            answer["host"] = host
            answer |= {"devices": ask("devices", {"filter": rail_filter} if rail_filter else {}),
                       "fabric": ask("fabric"), "aggregation": aggregation.describe(),
                       "authentication": ask("authentication")}
    with console.one_line("info", errors.Error, code=FOUND):
        answer["build"] = describe_build()
        if peer is not None and not config:
            answer["peer"] = reach(answer["devices"], peer, port, timeout)
        console.answer(answer, json_to, _show)
    if "peer" in answer and not any(row["ms"] is not None for row in answer["peer"]):
        console.complain("info", f"no rail of this host gets an answer from {peer}")
        raise typer.Exit(FOUND)


def _is_rank() -> bool:
    """Whether a launcher made this process one rank of several. Half of such an
    environment, a WORLD_SIZE without RANK, is no error here."""
    try:
        world = launched()
    except BenchError:
        return False
    return world is not None and world.world_size > 1


def _job() -> Optional[Dict[str, Any]]:
    """The hosts of the job that this process is a rank of; None on all ranks but 0. Collective."""
    import nezha

    with nezha.init() as comm:
        found = jobs.hosts_of(comm)
        return found if comm.rank == 0 else None


def _show_host(host: Dict[str, Any]) -> None:
    """The host, without what is empty."""
    memory = host["shared_memory"]
    allowed = host["processors_allowed"]
    of_all = "" if allowed == host["processors"] else f", of which this process may use {allowed}"
    values = {
        "name": host["name"], "boot id": host["boot_id"],
        "host id": f"{host['identity']} ({host['origin']})" if host["origin"] else "",
        "processors": f"{host['processors']}{of_all}",
        "NUMA nodes": "; ".join(f"{node['node']}: {node['processors']}" for node in host["numa_nodes"]),
        "caches": ", ".join(f"L{cache['level']} {cache['count']} x {cache['size']}"
                            for cache in host["caches"]),
        "shared memory": "works between two processes (tried)" if memory["works"] else
                         f"does not work: {memory['reason']}"}
    console.fields(_TITLES["host"], {name: value for name, value in values.items() if value})
    console.sentences([""])


def _show_distances(found: Dict[str, Any]) -> None:
    if found["devices"]:
        console.table(distances.headings(found), distances.cells(found), "Distances on this host")
        print()
    if found["numa_nodes"]:
        console.table(["NUMA node", "processors", "distances (kernel's)"], distances.node_cells(found))
        print()
    console.sentences(distances.sentences(found))


def _show_job(job: Dict[str, Any]) -> None:
    console.section(_TITLES["job"], [{**host, "ranks": ranks_text(host["ranks"])}
                                      for host in job["hosts"]])
    console.sentences([*jobs.sentences(job), ""])


def _show(answer: Dict[str, Any]) -> None:
    for name, value in answer.items():
        if name == "host":
            _show_host(value)
        elif name == "job":
            _show_job(value)
        elif name == "devices":
            console.section(_TITLES[name], [_row(device) for device in value], keys=2)
            console.sentences(sentence + "\n" for sentence in _unbound(value))
        elif name == "fabric":
            console.section(_TITLES[name], [_fabric_row(device) for device in value["devices"]])
            console.sentences([_fabric_sentence(value, answer["devices"]) + "\n"])
        elif name == "aggregation":
            console.sentences([*aggregation.sentences(value), ""])
        elif name == "authentication":
            console.sentences([*_who_can_join(value), ""])
        else:
            if name == "peer":
                print()
            console.section(_TITLES[name], value)
    if not any(device["usable"] for device in answer.get("devices", [{"usable": True}])):
        console.sentences(["No device is usable as a rail: name one with NEZHA_RAILS, or look at the "
                           "reasons."])


def _who_can_join(found: Dict[str, Any]) -> List[str]:
    """Who could join a job that is started here, in sentences of at most 80 columns."""
    if found["reason"]:
        return [f"No job can start here: {found['reason']}."]
    if found["secret"]:
        return ["Whoever has the secret can join a job that starts here.",
                f"The secret is {found['secret']}, from {found['origin']}."]
    if found["option"] == "required":
        return ["No job starts here without a secret (authentication=required).",
                "Set NEZHA_SECRET_FILE, or use `nezha run`."]
    return ["Only its own ranks can join a job of `nezha run` or with mpi=.",
            "Everybody who can reach its store can join any other job (authentication=off)."
            if found["option"] == "off" else
            "Any other job starts on one host only, and takes all who can reach its store.",
            "NEZHA_SECRET_FILE gives such a job a secret."]


def _row(device: Dict[str, Any]) -> Dict[str, Any]:
    speed = device["speed_gbps"]
    return {
        "device": device["device"],
        "address": f"{device['address']}/{device['prefix_length']}" if device["address"] else "",
        "speed": "unknown" if speed is None else f"{speed:g} Gbit/s",
        "MTU": device["mtu"],
        "NUMA node": device["numa_node"] if device["numa_node"] >= 0 else "",
        "driver": device["driver"],
        "usable as a rail": (f"no: {device['reason']}" if not device["usable"] else
                             "yes, by its address only" if device["unbound"] else "yes"),
    }


def _unbound(devices: List[Dict[str, Any]]) -> List[str]:
    """What follows where sockets cannot be bound to a device, a sentence each."""
    return [device["unbound"][0].upper() + device["unbound"][1:] + "." for device in devices
            if device["unbound"]]


def _fabric_row(device: Dict[str, Any]) -> Dict[str, Any]:
    speed = device["speed_gbps"]
    return {
        "rail": device["rail"],
        "provider": device["provider"],
        "device": device["device"],
        "address": device["address"],
        "speed": "unknown" if speed is None else f"{speed:g} Gbit/s",
        "NUMA node": device["numa_node"] if device["numa_node"] >= 0 else "",
        "kind": "RDMA adapter" if device["adapter"] else "software",
    }


def _fabric_sentence(fabric: Dict[str, Any], devices: List[Dict[str, Any]]) -> str:
    """What can be done with what libfabric has, or with what is missing. devices: those of the host."""
    if fabric["missing"]:
        return fabric["missing"]
    adapters = [device["rail"] for device in fabric["devices"] if device["adapter"]]
    served = {device[key] for device in fabric["devices"] if device["adapter"]
              for key in ("device", "address")}
    tcp = [device for device in devices
           if device["usable"] and not {device["device"], device["address"]} & served]
    surplus = adapters[max(0, fabric["rails_max"] - len(tcp)):]
    if not adapters:
        return f"libfabric {fabric['library']} has no RDMA adapter here; TCP serves the devices above."
    if surplus:
        return (f"libfabric {fabric['library']}: NEZHA_RAILS=tcp:,ofi: would leave out "
                f"{', '.join(surplus)}: a rank has at most {fabric['rails_max']} rails, those of TCP "
                "first. Name the ones to use.")
    return (f"libfabric {fabric['library']}: NEZHA_RAILS=tcp:,ofi: uses {', '.join(adapters)} and every "
            "other device.")
