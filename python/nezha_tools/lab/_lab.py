"""Lab: a multi-rail cluster on one machine, from up() to down().

Owner: whoever called up(). A lab used as a context manager, or brought up without `persist`,
ends with its process, however that dies: leaving the with block, exit, SIGINT, SIGTERM, or
kill -9 (the guardian process). Not thread-safe; other processes may change the same lab at the
same time through Lab.attach(). Every error is a LabError, or OSError from starting a command.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from . import _aggregator_processes, _aggregators, _build, _layout, _lifetime, _process, _state, _userns
from ._capability import MODES, capabilities
from ._capacity import Capacity, measure as measure_capacity
from ..cli.errors import LabError
from .shaping import BULK, KINDS
from ._spec import (MAX_RANKS_PER_NODE, Node, Rail, RateLike, format_rail, normal_nodes, normal_rails,
                    parse_rate)

_counter = iter(range(1 << 30))


def _exit_on_signal(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


class Lab:
    """A cluster of `nodes` hosts joined by one switched network per rail.

    nodes: a number, or a list of Node for hosts that differ. rails: rates, "ofi:" and a rate for one
    that ranks use through libfabric, "agg:" for one with an aggregation node at its switch, "ofi:shm", or
    Rail objects. agg_tree: "2x3" for a tree of them, two leaves for three nodes each.
    mtu: of every port that says nothing else. congestion_control: None = the host's default.
    shaping: "bulk", for little processor time, or "exact", for operations under a few MB; see
    shaping.py. queue_ms: how long a full port queue takes to drain. burst: bytes of bucket, None =
    chosen from each rate. mode: None = the best of root, userns, loopback that is allowed here.
    ranks_per_node: of a world that fills the lab. persist: the lab stays when this process ends.
    """

    def __init__(self, nodes: Union[int, Sequence[Node]] = 4,
                 rails: Sequence[Union[Rail, RateLike]] = ("1gbit", "500mbit"), *,
                 name: Optional[str] = None, mtu: int = 1500,
                 congestion_control: Optional[str] = "cubic", shaping: str = BULK,
                 queue_ms: float = 10.0,
                 burst: Optional[int] = None, mode: Optional[str] = None,
                 agg_tree: Optional[str] = None, persist: bool = False,
                 ranks_per_node: int = 1) -> None:
        if mode is not None and mode not in MODES:
            raise LabError(f"mode {mode!r}: want one of {', '.join(MODES)}")
        if shaping not in KINDS:
            raise LabError(f"shaping {shaping!r}: want one of {', '.join(KINDS)}")
        if not 0.1 <= queue_ms <= 10_000:
            raise LabError(f"queue of {queue_ms} ms: want 0.1 to 10000")
        if burst is not None and not 2000 <= burst <= 1 << 30:
            raise LabError(f"burst of {burst} bytes: want 2000 to 2^30, or none to choose it")
        if not 1 <= ranks_per_node <= MAX_RANKS_PER_NODE:
            raise LabError(f"{ranks_per_node} ranks on a node: want 1 to {MAX_RANKS_PER_NODE}")
        self._ranks_per_node = ranks_per_node
        self._rails = normal_rails(rails)
        self._nodes = normal_nodes(nodes, len(self._rails))
        self.name = _state.check_name(name or f"p{os.getpid()}-{next(_counter)}")
        self._mtu = mtu
        self._cc = congestion_control
        self._queue_ms = queue_ms
        self._shaping = shaping
        self._burst = burst or 0
        self._agg_tree = _aggregators.parse_tree(agg_tree) if agg_tree else None
        self._wanted_mode = mode
        self._persist = persist
        self._state: Optional[_state.LabState] = None
        self._owner = 0
        self._holder_child = 0
        self._guardian: Optional["subprocess.Popen[bytes]"] = None
        self._daemons: List["subprocess.Popen[bytes]"] = []

    # ---- life ------------------------------------------------------------------------------

    @classmethod
    def attach(cls, name: str) -> "Lab":
        """A lab that is already up, built by any process. Raises LabError when there is none."""
        lab = cls.__new__(cls)
        lab.name = name
        lab._state = _state.load(name)
        lab._owner = 0
        lab._guardian = None
        lab._daemons = []
        return lab

    def up(self) -> "Lab":
        """Builds everything, or nothing: a failure takes back what was made. Raises LabError."""
        if self._state is not None:
            raise LabError(f"lab {self.name!r} is already up")
        plan = self._plan(self._choose_mode())
        _state.reserve(plan)
        self._state = plan
        self._owner = os.getpid()
        try:
            if not self._persist:
                self._guard()
            if plan.mode == "userns":
                self._holder_child = _userns.hold(lambda: self._build_held(plan))
                self._state = _state.load(self.name)
            elif plan.mode == "root":
                _build.network(plan, self._cc)
                _state.save(plan)
            if plan.aggregators:
                self.start_aggregators()
        except BaseException as error:
            self.down()
            if not isinstance(error, Exception):
                raise  # Ctrl-C and exit stay what they are
            raise LabError(f"lab {self.name!r} could not be built and was removed: "
                           f"{error}") from error
        return self

    def _build_held(self, plan: _state.LabState) -> None:
        """In the holder: announces it, so that whoever ends the lab finds it, then builds."""
        plan.holder = os.getpid()
        _state.save(plan)
        _build.network(plan, self._cc)
        _state.save(plan)

    def _choose_mode(self) -> str:
        best = capabilities()
        if any(rail.kind == "shm" for rail in self._rails):
            if self._wanted_mode not in (None, "loopback"):
                raise LabError(f"an ofi:shm rail is the memory of one host: no {self._wanted_mode} lab")
            return "loopback"
        mode = self._wanted_mode or best.mode
        if mode == "root" and best.mode != "root" or mode == "userns" and not best.namespaces:
            raise LabError(f"a {mode} lab is not possible here: {best.reason}")
        if mode == "loopback" and self._wanted_mode is None:
            print(f"nezha lab: {best.reason}; using loopback addresses, rates are NOT applied",
                  file=sys.stderr)
        return mode

    def _plan(self, mode: str) -> _state.LabState:
        loopback = mode == "loopback"
        specs, rails = self._nodes, self._rails
        nodes = (_layout.loopback_nodes(len(specs), rails) if loopback
                 else _layout.nodes(self.name, specs, rails, self._mtu))
        return _state.LabState(
            name=self.name, mode=mode, owner=0 if self._persist else os.getpid(), holder=0,
            switch="" if loopback else _layout.netns_path(self.name, "sw"),
            rail_rates=[0 if loopback else parse_rate(rail.rate) for rail in rails],
            rail_kinds=[rail.kind for rail in rails],
            congestion_control="", shaping=self._shaping, queue_ms=self._queue_ms, burst=self._burst,
            master_port=_layout.master_port(mode),
            nodes=nodes, aggregators=_aggregators.plan(
                rails, nodes, self._agg_tree, loopback,
                lambda role: _layout.netns_path(self.name, role)),
            ranks_per_node=self._ranks_per_node)

    def _guard(self) -> None:
        self._guardian = _lifetime.start_guardian(self.name)
        atexit.register(self.down)
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) == signal.SIG_DFL:
                    signal.signal(number, _exit_on_signal)

    def down(self) -> None:
        """Ends the lab and every process in it. Any number of times, from any process."""
        if self._owner and self._owner != os.getpid():
            return  # a forked child's exit is not the end of its parent's lab
        if self._state is not None:
            _lifetime.tear_down(self.name)
            if self._owner and self._holder_child:
                with contextlib.suppress(ChildProcessError):  # somebody else waited for it
                    os.waitpid(self._holder_child, 0)
            for child in self._daemons:
                child.wait()
            self._daemons = []
            self._state = None
        if self._guardian is not None:
            self._guardian.kill()
            self._guardian.wait()
            self._guardian = None
        atexit.unregister(self.down)

    def __enter__(self) -> "Lab":
        return self if self._state is not None else self.up()

    def __exit__(self, *_: object) -> None:
        self.down()

    # ---- facts -----------------------------------------------------------------------------

    @property
    def state(self) -> _state.LabState:
        """What the lab is made of. Raises LabError when it is not up."""
        if self._state is None:
            raise LabError(f"lab {self.name!r} is not up")
        return self._state

    @property
    def mode(self) -> str:
        """root, userns or loopback."""
        return self.state.mode

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self.state.nodes)

    def rates(self) -> List[int]:
        """Rate of each rail as it was asked for, bits per second, 0 = unshaped."""
        return list(self.state.rail_rates)

    def rails(self) -> List[str]:
        """Each rail as it was asked for: "1gbit", "ofi:500mbit", "agg:1gbit", "ofi:shm"."""
        return [format_rail(kind, rate)
                for kind, rate in zip(self.state.rail_kinds, self.state.rail_rates)]

    @property
    def ranks(self) -> int:
        """Number of ranks of a world that fills the lab."""
        return len(self) * self.state.ranks_per_node

    def node_of(self, rank: int) -> int:
        """The node of rank `rank` of such a world."""
        return rank // self.state.ranks_per_node

    def rank_env(self, rank: int) -> Dict[str, str]:
        """Environment of rank `rank` of such a world; see _process.rank_env."""
        self._node(self.node_of(rank))
        return _process.rank_env(self.state, rank)

    def status(self) -> Dict[str, Any]:
        """Rates, queues, buckets, counters and faults of every port, for people and programs."""
        from . import _status

        self._state = _state.load(self.name)
        return self._inside(lambda: _status.status(self.state))

    # ---- commands on nodes -----------------------------------------------------------------

    def popen(self, node: int, command: Sequence[str], *, env: Optional[Mapping[str, str]] = None,
              **options: Any) -> "subprocess.Popen[Any]":
        """Starts command on a node. env: added to this process's environment, not instead of it."""
        lab = self.state
        self._node(node)
        merged = {**os.environ, **_process.node_env(lab, node), **(env or {})}
        if lab.mode == "loopback":
            return subprocess.Popen(list(command), env=merged, **options)
        netns = lab.nodes[node].netns
        if not os.path.exists(netns):
            raise LabError(f"lab {self.name!r} was taken down meanwhile")
        try:
            return subprocess.Popen(list(command), env=merged, preexec_fn=_process.entry(
                netns, lab.holder, lab.own_sysfs), **options)
        except subprocess.SubprocessError as error:
            raise LabError(f"node {node} of lab {self.name!r} cannot be entered: {error}. Is the "
                           "lab still up, and was it built by this user?") from error

    def exec(self, node: int, command: Sequence[str], *, timeout: Optional[float] = None,
             check: bool = False, **options: Any) -> "subprocess.CompletedProcess[Any]":
        """Runs command on a node to its end. Options: popen()'s, and those of subprocess.run.

        Raises subprocess.TimeoutExpired (the command is killed) and, with check,
        subprocess.CalledProcessError.
        """
        if options.pop("capture_output", False):
            options.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with self.popen(node, command, **options) as child:
            try:
                out, err = child.communicate(timeout=timeout)
            except BaseException:
                child.kill()
                raise
        result = subprocess.CompletedProcess(child.args, child.returncode, out, err)
        if check:
            result.check_returncode()
        return result

    # ---- aggregation nodes -----------------------------------------------------------------

    def start_aggregators(self) -> None:
        """Starts those aggregation nodes that do not run; returns when they can be dialled."""
        with _state.locked():
            lab = _state.load(self.name)
            try:
                self._daemons += _aggregator_processes.start(lab)
            finally:
                _state.save(lab)
        self._state = lab

    def kill_aggregator(self, name: str = "root", number: int = signal.SIGKILL) -> None:
        """Sends a signal to the process of one aggregation node: "root", "leaf0", ..."""
        _aggregator_processes.kill(_state.load(self.name), name, number)
        self._daemons = [child for child in self._daemons if child.poll() is None]

    # ---- rates and faults ------------------------------------------------------------------

    def shape(self, rates: Sequence[RateLike]) -> None:
        """New rates of all rails, on every port; the last one repeats for the rails after it."""
        values = [parse_rate(rate) for rate in rates]
        if not values:
            raise LabError("no rates given")

        def change(lab: _state.LabState) -> None:
            lab.rail_rates = [values[min(r, len(values) - 1)] for r in range(len(lab.rail_rates))]
            for node in lab.nodes:
                for port in node.ports:
                    port.rate = port.home_rate = lab.rail_rates[port.rail]
                    self._reshape(lab, node, port)

        self._update(change)

    def set_shaping(self, kind: str) -> None:
        """Shapes all ports in this way ("bulk" or "exact"). Sockets that are open keep their segments."""
        from . import _ports

        if kind not in KINDS:
            raise LabError(f"shaping {kind!r}: want one of {', '.join(KINDS)}")

        def change(lab: _state.LabState) -> None:
            lab.shaping = kind
            _ports.shape_all(lab)

        if kind != self.state.shaping:
            self._update(change)

    def capacity(self) -> Optional[Capacity]:
        """Whether the wires or this machine's processors are the limit here, measured in about a second
        in which nothing else should run; None where nothing is shaped."""
        return measure_capacity(self)

    def slow(self, node: int, rail: Union[int, str], rate: RateLike) -> None:
        """New rate, both ways, of one node's ports on one rail: a degraded device."""
        value = parse_rate(rate)

        def change(lab: _state.LabState, host: _state.NodeState, port: _state.PortState) -> None:
            port.rate = value
            self._reshape(lab, host, port)

        self._change(node, rail, change)

    def cut(self, node: int, rail: Union[int, str], *, silent: bool = False,
            direction: str = "both") -> None:
        """Cuts one node off one rail.

        Loud: the switch port goes down and the node loses its carrier. Silent: the switch drops
        what the node sends ("out"), what it should get ("in"), or both; the carrier stays.
        """
        if direction not in ("both", "out", "in"):
            raise LabError(f"direction {direction!r}: want both, out or in")
        if not silent and direction != "both":
            raise LabError("a cut of one direction only is always silent: ask for silent")
        self._fault(node, rail, direction if silent else "link")

    def block_port(self, node: int, rail: Union[int, str], *, port: Optional[int] = None,
                   tcp: bool = True, udp: bool = False) -> None:
        """Drops IPv4 TCP and/or UDP of one node on one rail, both ways, while ping still works.

        port: only packets to this destination port, None = all.
        """
        if port is not None and not 1 <= port <= 65535:
            raise LabError(f"port {port}: want 1 to 65535")
        protocols = [name for name, on in (("tcp", tcp), ("udp", udp)) if on]

        def change(_lab: _state.LabState, _host: _state.NodeState, end: _state.PortState) -> None:
            end.blocks += [{"protocol": name, "port": port} for name in protocols]

        self._change(node, rail, change, filters=True)

    def restore(self, node: int, rail: Union[int, str]) -> None:
        """Undoes slow, cut and block_port of one node on one rail."""

        def change(lab: _state.LabState, host: _state.NodeState, port: _state.PortState) -> None:
            port.blocks = []
            port.rate = port.home_rate
            self._reshape(lab, host, port)

        self._change(node, rail, change)
        self._fault(node, rail, "no")

    def flap(self, node: int, rail: Union[int, str], up: bool) -> None:
        """Raises or lowers the carrier of one node on one rail and nothing else: cheap enough for
        ten times a second. The lab's state does not say so: end with restore()."""
        from . import _ports

        self._look(node, rail, lambda lab, _host, port: _ports.set_carrier(lab, port, up))

    def reset(self, node: int, rail: Union[int, str]) -> int:
        """Destroys the TCP connections of one node on one rail; how many. Both ends see a reset."""
        from . import _kernel, _sockets

        def work(_lab: _state.LabState, host: _state.NodeState, port: _state.PortState) -> int:
            address = port.address.partition("/")[0]
            return _kernel.in_netns(host.netns, lambda: _sockets.destroy(address))

        return int(sum(self._look(node, rail, work)))

    def delay(self, node: int, rail: Union[int, str], milliseconds: int) -> None:
        """Holds every packet of one node on one rail back, both ways, until restore().

        Raises LabError where can_delay() is false.
        """
        from . import _ports

        if not self.can_delay():
            raise LabError("a delay needs netem, which this kernel does not have "
                           "(CONFIG_NET_SCH_NETEM, module sch_netem)")
        self._look(node, rail, lambda lab, host, port: _ports.delay(lab, host, port, milliseconds))

    def can_delay(self) -> bool:
        """Whether this kernel has netem, which delay() needs."""
        from . import _ports

        return self.mode != "loopback" and bool(self._inside(
            lambda: _ports.can_delay(self.state.switch)))

    def facts(self, node: int, rail: Union[int, str]) -> List[Dict[str, int]]:
        """What the kernel says about the ports of one node on one rail: see evidence.facts()."""
        from . import _ports

        found: List[Dict[str, int]] = self._look(node, rail, _ports.facts)
        return found

    # ---- inside ----------------------------------------------------------------------------

    def _node(self, number: int) -> _state.NodeState:
        nodes = self.state.nodes
        if not 0 <= number < len(nodes):
            raise LabError(f"no node {number}: lab {self.name!r} has 0 to {len(nodes) - 1}")
        return nodes[number]

    def _inside(self, work: Callable[[], Any]) -> Any:
        """JSON-ready result of work done where the lab's namespaces are. Raises LabError."""
        if self.state.holder:
            return _userns.call_inside(self.state.holder, work)
        try:
            return work()
        except LabError:
            raise
        except Exception as error:  # OSError, or one of pyroute2's many
            raise LabError(f"lab {self.name!r}: {error}") from error

    def _update(self, change: Callable[[_state.LabState], None]) -> None:
        """Applies change to the lab's freshest state and saves it; other processes wait."""
        if self.mode == "loopback":
            raise LabError(f"lab {self.name!r} is a loopback lab: it has no wires to shape or cut")

        def work() -> None:
            with _state.locked():
                lab = _state.load(self.name)
                change(lab)
                _state.save(lab)

        self._inside(work)
        self._state = _state.load(self.name)

    def _change(self, node: int, rail: Union[int, str],
                change: Callable[[_state.LabState, _state.NodeState, _state.PortState], None],
                filters: bool = False) -> None:
        def change_ports(lab: _state.LabState) -> None:
            host = lab.nodes[node]
            for port in self._ports(host, node, rail):
                change(lab, host, port)
            if filters:
                from . import _faults

                _faults.apply_drops(lab)

        self._node(node)
        self._update(change_ports)

    @staticmethod
    def _ports(host: _state.NodeState, node: int, rail: Union[int, str]) -> List[_state.PortState]:
        ports = [p for p in host.ports if rail in (p.rail, str(p.rail), p.device)]
        if not ports:
            known = ", ".join(f"{p.rail} ({p.device})" for p in host.ports) or "none"
            raise LabError(f"node {node} has no rail {rail!r}: it has {known}")
        return ports

    def _look(self, node: int, rail: Union[int, str],
              work: Callable[[_state.LabState, _state.NodeState, _state.PortState], Any]) -> List[Any]:
        """JSON-ready results of work on one node's ports on one rail; the state stays as it is."""
        self._node(node)
        if self.mode == "loopback":
            raise LabError(f"lab {self.name!r} is a loopback lab: its rails have no ports")

        def look() -> List[Any]:
            # Somebody else's change, half done, is neither the old state nor the new one.
            with _state.locked():
                lab = _state.load(self.name)
                host = lab.nodes[node]
                return [work(lab, host, port) for port in self._ports(host, node, rail)]

        found: List[Any] = self._inside(look)
        return found

    def _fault(self, node: int, rail: Union[int, str], cut: str) -> None:
        from . import _ports

        def change(lab: _state.LabState, _host: _state.NodeState, port: _state.PortState) -> None:
            _ports.set_carrier(lab, port, cut != "link")
            port.cut = cut

        self._change(node, rail, change, filters=True)

    @staticmethod
    def _reshape(lab: _state.LabState, host: _state.NodeState, port: _state.PortState) -> None:
        from . import _ports

        _ports.reshape(lab, host, port)
