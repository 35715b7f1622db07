"""What calls take, for type checkers: operators, algorithms of each collective, topics, keywords.

docs/algorithms.md says what the algorithms do; "auto", as None, is the choice by cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, Optional, TypedDict

Op = Literal["sum", "avg", "prod", "min", "max", "band", "bor", "bxor", "premul_sum"]

AllReduceAlgorithm = Literal["auto", "ring", "recursive_doubling", "halving_doubling", "bcube",
                             "hierarchical", "leaders"]
BroadcastAlgorithm = Literal["auto", "tree", "chain", "hierarchical", "leaders"]
AllGatherAlgorithm = Literal["auto", "ring", "direct", "recursive_doubling", "bruck", "hierarchical",
                             "leaders"]
ReduceScatterAlgorithm = Literal["auto", "ring", "direct", "halving_doubling", "hierarchical", "leaders"]
ReduceAlgorithm = Literal["auto", "tree", "chain", "hierarchical", "leaders"]
GatherAlgorithm = Literal["auto", "direct", "tree"]
ScatterAlgorithm = Literal["auto", "direct", "tree"]
AllToAllAlgorithm = Literal["auto", "pairwise", "hierarchical", "columns", "leaders"]

# Of Communicator.describe().
Topic = Literal["rails", "table", "config", "stats", "flight", "stragglers"]

if TYPE_CHECKING:  # Python 3.9 has no dictionaries with a type parameter
    from typing_extensions import TypeVar

    Array = TypeVar("Array")
    New = TypeVar("New", default=Any)  # the type of out, or that of an array which nobody has described
    Algorithm = TypeVar("Algorithm")

    # Keywords that all overloads of a collective share.
    class Moving(TypedDict, Generic[Algorithm], total=False):
        algorithm: Optional[Algorithm]
        timeout: Optional[float]

    class Combining(Moving[Algorithm], total=False):
        factor: Optional[float]
