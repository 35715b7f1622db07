"""What a cluster can do, computed before it is bought or cabled: `nezha plan`.

Pure functions over the hardware's published numbers (data/, each file names its source), the
library's own catalog of algorithms and its own balancer (through the native module).
docs/planning.md has the formulas.

Units in names: `_s` seconds, `_us` microseconds, `_bytes` bytes; a rate is bytes per second unless
its name ends in `_gbps`, which is 1e9 bits per second; GB is 1e9 bytes. Rates are of one direction.
"""
