"""`nezha sim rails`: which rail takes a message, and what that does to throughput and latency.

Hosts with four processes each send messages of random sizes to random others over several independent
networks. Each end of a rail is a port on a half-duplex bus. The policies differ in how they choose the
port. Source: S. Coll, E. Frachtenberg, F. Petrini, A. Hoisie, L. Gurvits, Using Multirail Networks in
High-Performance Clusters, Cluster 2001, and the slides of the same title. docs/rail_study.md has the
assumptions, and their numbers beside ours.

Units in names: `_us` microseconds, `_bytes` bytes. Times inside a World are microseconds.
"""
