"""What happens in time, computed: collectives by the shipped schedules, on rails measured or named.

Not the simulation of faults, in which the C++ engine runs on a pretended network to look for bugs
(docs/simulation.md); this one asks how long operations take (docs/simulation_study.md).
"""
