"""RDMA on a machine that has none: a throw-away guest with Soft-RoCE devices. docs/rdma.md explains."""
