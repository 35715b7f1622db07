"""An aggregation node as a program: what `nezha aggregator` does around nezha._native.Aggregator."""
