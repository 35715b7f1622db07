"""`nezha sim switch`: an all_reduce that switches add up on the way, beside the algorithms of hosts.

Source: N. Hu, D. Wang, Z. Cao, X. An, N. Sun, Accelerating Allreduce Operation: A Switch-Based Solution,
ICCCN 2013 (block-allreduce for short messages, burst-allreduce for long ones). Only its abstract could be
had: docs/switch_study.md has what is assumed, and which published numbers the model is held against.

Times are microseconds, rates bytes per microsecond.
"""
