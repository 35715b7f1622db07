"""What happens in time, computed.

Collectives by the shipped schedules, on rails measured or named; messages by seven policies of choosing
a rail (`rails`); sums made by switch chips (`switch`).

Not the simulation of faults, in which the C++ engine runs on a pretended network to look for bugs
(docs/simulation.md); this one asks how long operations take (docs/simulation_study.md).
"""
