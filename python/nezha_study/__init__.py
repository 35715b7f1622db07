"""Planning and simulation of clusters, and the studies of the papers: nezha plan, sim and calibrate.

    plan   what follows from formulas and published tables
    sim    what follows from simulation, with the library's own plans

Libraries that these need, such as SimPy, come with the extra `study`. nezha_tools has the command lines,
tables and measurements that these build on.
"""
