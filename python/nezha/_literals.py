"""The names that calls take, for type checkers: operators, algorithms of each collective, topics.

docs/algorithms.md says what the algorithms do; "auto", as None, is the choice by cost.
"""

from __future__ import annotations

from typing import Literal

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
